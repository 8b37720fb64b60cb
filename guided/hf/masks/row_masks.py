"""From rows to what is done to their scores, and back to what that did."""

from __future__ import annotations

from collections.abc import Sequence

from guided.bitmask import from_ids
from guided.hf.masks.apply import RowMask
from guided.hf.masks.logits_check import not_numbers
from guided.rows.beams import Row
from guided.rows.sequence import RowSequence

__all__ = ["count", "masks_of"]


def masks_of(rows: Sequence[Row | None], filler: int, vocab_size: int, *, are_copied: bool) -> list[RowMask]:
    """What is to be done to the scores of the next token; rows that are free are left out.

    ``filler`` is what a failed row writes; ``are_copied``: several rows continue each prompt, as in a search.
    """
    out: list[RowMask] = []
    for r, row in enumerate(rows):
        if row is None:
            continue
        mask = row.token_mask() if isinstance(row, RowSequence) else None
        if mask is not None:
            out.append(RowMask(r, mask.words, mask.end_ids, only=mask.forced))
        elif row.has_failed:
            out.append(RowMask(r, from_ids([filler], vocab_size), is_imposed=True))
        elif row.is_done and (are_copied or isinstance(row, RowSequence)):
            # A row that has ended writes its end again: beam search may go on with it, and sampling fails for
            # the whole batch where others leave it no score.
            end = row.state.open_end_ids() if isinstance(row, RowSequence) else ()
            out.append(RowMask(r, from_ids(end or [filler], vocab_size), has_ended=True))
    return out


def count(rows: Sequence[Row | None], masks: Sequence[RowMask]) -> None:
    """Note in the rows what their masks did to the scores."""
    for mask in masks:
        row = rows[mask.row]
        if row is None or mask.is_imposed or mask.has_ended:
            continue
        if mask.unsound and isinstance(row, RowSequence):
            row.fail(not_numbers(f"row {row.row}"))
        else:
            row.overridden += mask.overridden
            row.rescued += mask.rescued
