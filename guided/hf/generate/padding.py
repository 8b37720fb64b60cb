"""Remove the padding of rows that a stop string or a stopping criterion of the call itself has ended.

``generate`` pads rows that end before others with one id, and says neither which id nor why a row ended.  If guidance
ended the row, nothing after its end is read.  If the call ended it, its grammar refuses the padding, like a token that
was chosen against the mask; and a row without a grammar reads the padding as text.  Neither is a failure of the row,
and the padding is not part of its answer.
"""

from __future__ import annotations

from collections.abc import Collection

from grammars.plan.plan import Stops
from guided.hf.model.context import ModelContext
from guided.hf.model.tokenizer import eos_ids
from guided.rows.beams import Row
from guided.rows.sequence import RowSequence
from guided.rows.unguided import UnguidedSequence

__all__ = ["end_cut_rows"]


def end_cut_rows(context: ModelContext, rows: list[Row | None], generated: list[list[int]]) -> None:
    """Remove the padding from ``generated``, the tokens of each row, and the error that it caused in ``rows``.

    Both lists are changed in place.  Errors of tokens that were chosen against the mask stay.
    """
    config = context.model.generation_config
    # without a pad token ``generate`` takes the first end
    pad_ids = eos_ids(getattr(config, "pad_token_id", None)) or eos_ids(getattr(config, "eos_token_id", None))
    pads = {context.pad_id, *pad_ids[:1]}
    for r, row in enumerate(rows):
        if isinstance(row, RowSequence):
            tail = generated[r][row.num_tokens :]
            # One that only the call names: twice after a row.  Without guidance, text may repeat as well.
            is_named = len(tail) > 1 and (row.on_error == "end" or tail[0] in context.tokens.marker_ids)
            ended = row.before_padding(generated[r], pads.union(tail) if is_named else pads)
            if ended is not None:
                rows[r], generated[r] = ended, generated[r][: ended.num_tokens]
        elif len(rows) > 1:  # a row that is alone is not filled
            generated[r] = _unfilled(context, row, generated[r], pads)


def _unfilled(
    context: ModelContext, row: UnguidedSequence | None, tokens: list[int], pads: Collection[int]
) -> list[int]:
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
