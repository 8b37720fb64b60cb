"""Remove the padding of rows that a stop string or a stopping criterion of the call itself has ended.

``generate`` pads rows that end before others with one id, and says neither which id nor why a row ended.  If guidance
ended the row, nothing after its end is read.  If the call ended it, its grammar refuses the padding, like a token that
was chosen against the mask; and a row without a grammar reads the padding as text.  Neither is a failure of the row,
and the padding is not part of its answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from grammars.plan.plan import Stops
from guided.hf.model.context import ModelContext
from guided.hf.model.tokenizer import eos_ids
from guided.rows.beams import Row
from guided.rows.sequence import RowSequence
from guided.rows.unguided import UnguidedSequence
from special_tokens.errors import TokenRefused

if TYPE_CHECKING:
    from guided.hf.generate.session import Session

__all__ = ["end_cut_rows"]

#: ``generate`` scores the beams that it returns although they never ended with less than this.
_NEVER_ENDED = -1e8


def end_cut_rows(
    context: ModelContext,
    session: Session,
    output: Any,
    rows: list[Row | None],
    generated: list[list[int]],
    num_prompts: int,
) -> None:
    """Remove the padding from ``generated``, the tokens of each row, and the error that it caused in ``rows``.

    Both lists are changed in place.  Errors of tokens that were chosen against the mask stay, and so do those of beams
    that a search returns although they never ended.
    """
    pads = _pads(context, session, rows, generated)
    left_over = _left_over(session, output, rows, num_prompts)
    for r, row in enumerate(rows):
        ended = row.before_padding(generated[r], pads) if isinstance(row, RowSequence) and r not in left_over else None
        if ended is not None:
            rows[r], generated[r] = ended, generated[r][: ended.num_tokens]
        elif len(rows) > 1 and not isinstance(row, RowSequence):  # a row that is alone is not filled
            generated[r] = _unfilled(context, row, generated[r], pads)


def _unfilled(context: ModelContext, row: UnguidedSequence | None, tokens: list[int], pads: set[int]) -> list[int]:
    """Return the tokens of a row without a grammar, without padding.

    End tokens, ordinary text and stops of the row are kept, because the row may have written them.
    """
    pad = tokens[-1] if tokens else -1
    if pad not in pads or pad not in context.tokens.marker_ids or pad in context.tokens.end_ids:
        return tokens
    stops = row.stops.stops if row is not None else Stops()
    if pad in stops.ids or (pad in context.tokens.added and context.tokens.added[pad].text in stops.strings):
        return tokens
    size = len(tokens)
    while size and tokens[size - 1] == pad:
        size -= 1
    return tokens[:size]


def _pads(
    context: ModelContext, session: Session, rows: Sequence[Row | None], generated: Sequence[Sequence[int]]
) -> set[int]:
    """Return the ids that may be padding: those of the guide and the model's config, and the one that rows end with."""
    config = context.model.generation_config
    # without a pad token ``generate`` takes the first end
    pad_ids = eos_ids(getattr(config, "pad_token_id", None)) or eos_ids(getattr(config, "eos_token_id", None))
    pads = {context.pad_id, *pad_ids[:1]}
    for row, tokens in zip(rows, generated, strict=True):
        tail = tokens[row.num_tokens :] if row is not None else ()
        if row is not None and tail and tail.count(tail[0]) == len(tail) and _is_filling(context, session, row, tail):
            pads.add(tail[0])
    return pads


def _is_filling(context: ModelContext, session: Session, row: Row, tail: Sequence[int]) -> bool:
    """Whether ``tail``, one id repeated after the tokens that the row has read, can only be padding."""
    if _has_ended(row):  # a search may repeat the end after an end
        return not session.candidates or not isinstance(row, RowSequence) or tail[0] not in row.plan.end_ids()
    if session.candidates or not isinstance(row.error, TokenRefused) or len(tail) == 1:
        return False
    # All tokens after a refused one are padding, unless the row went on without guidance.
    return row.on_error == "end" or tail[0] in context.tokens.marker_ids


def _left_over(session: Session, output: Any, rows: Sequence[Row | None], num_prompts: int) -> set[int]:
    """The rows that a search returns although they never ended, since there were fewer answers than rows to return.

    They come last among the rows of their prompt.
    """
    candidates, expand = session.candidates, len(rows) // num_prompts
    if not candidates:
        return set()
    scores = getattr(output, "sequences_scores", None)
    if scores is not None:
        return {r for r, score in enumerate(scores.tolist()) if score < _NEVER_ENDED}
    left_over: set[int] = set()
    count = len(candidates) // num_prompts
    for p in range(num_prompts):
        if not all(candidates[p * count : (p + 1) * count]):
            continue  # the search had ways on: it ended because it had answers enough
        first = p * expand
        ended = [r for r in range(first, first + expand) if _has_ended(rows[r])]
        if ended and ended[0] == first:
            left_over.update(range(ended[-1] + 1, first + expand))
    return left_over


def _has_ended(row: Row | None) -> bool:
    return row is not None and row.is_done and not row.has_failed
