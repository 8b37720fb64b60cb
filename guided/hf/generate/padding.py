"""Rows that others ended: what ``generate`` filled them with is no part of the answer, and no failure of the row.

``generate`` fills rows that end before others with one id, and says neither which id that is nor why a row ended.
Where guidance ended a row nothing after its end is read; where a stop string or criterion of the call did, the grammar
refuses the filling, as it refuses a token chosen against the mask.  Rows without a grammar read all they are shown.
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
    """Take what ``output`` was filled with off its rows: ``generated``, and the error that it left in ``rows``.

    Errors stay that mean something: of tokens chosen against the mask, and of beams that a search has left over.
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
    """``tokens`` of a row without a grammar as far as they are its own.

    Ends, ordinary text and what the row's stops name may have been chosen: they stay.
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
    """The ids that rows may be filled with: that of the model's config, and one named in the call, as rows show it."""
    config = context.model.generation_config
    # without a pad token ``generate`` takes the first end
    known = eos_ids(getattr(config, "pad_token_id", None)) or eos_ids(getattr(config, "eos_token_id", None))
    pads = {context.pad_id, *known[:1]}
    for row, tokens in zip(rows, generated, strict=True):
        tail = tokens[row.num_tokens :] if row is not None else ()
        if row is not None and tail and tail.count(tail[0]) == len(tail) and _is_filling(context, session, row, tail):
            pads.add(tail[0])
    return pads


def _is_filling(context: ModelContext, session: Session, row: Row, tail: Sequence[int]) -> bool:
    """Whether ``tail``, one id repeated after what the row has read, can be nothing but filling."""
    if _has_ended(row):  # a search may repeat the end after an end
        return not session.candidates or not isinstance(row, RowSequence) or tail[0] not in row.plan.end_ids()
    if session.candidates or not isinstance(row.error, TokenRefused) or len(tail) == 1:
        return False
    # Whatever was refused first, the rest is filling, unless the row went on without guidance.
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
    found: set[int] = set()
    count = len(candidates) // num_prompts
    for p in range(num_prompts):
        if not all(candidates[p * count : (p + 1) * count]):
            continue  # the search had ways on: it ended because it had answers enough
        first = p * expand
        ended = [r for r in range(first, first + expand) if _has_ended(rows[r])]
        if ended and ended[0] == first:
            found.update(range(ended[-1] + 1, first + expand))
    return found


def _has_ended(row: Row | None) -> bool:
    return row is not None and row.is_done and not row.has_failed
