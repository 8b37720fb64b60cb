"""Choose the entry of a plan by the last tokens of the prompt: fresh, inside the reasoning block, or after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from grammars.plan.plan import Plan
from guided.engine.engine import Engine
from guided.tracking.regions import FIRST_MARKER, symbols_of

__all__ = ["FRESH", "Begin", "begin_of"]

#: The number of last prompt tokens that are examined; a generation prompt is far shorter.
MAX_TAIL_TOKENS = 64
_NOT_IN_VALUE = frozenset(b"<>[]{}\n")


@dataclass(frozen=True, slots=True)
class Begin:
    """The place at which a plan's grammar begins after a prompt.

    ``ends_at_marker``: True if the prompt ends right after the opening marker; the answer then begins with the marker's
    white space.  ``reader``: for a row without a plan, the plan whose regions its answer is read with; the place is one
    of that plan.
    """

    entry: str = "fresh"
    ends_at_marker: bool = False
    reader: Plan | None = field(default=None, repr=False, compare=False)


FRESH = Begin()


def begin_of(plan: Plan, prompt_ids: Sequence[int], engine: Engine) -> Begin:
    """Return where ``plan`` begins after a prompt that ends with ``prompt_ids`` (the last tokens are enough).

    The later of the two reasoning markers wins, provided that no other special token occurs after it: a marker
    in an earlier message does not count.
    """
    if len(plan.entries) == 1:
        return FRESH
    markers = engine.tokens.marker_ids
    symbols: list[int] = []
    for token in prompt_ids[-MAX_TAIL_TOKENS:]:
        if token in markers:
            symbols.append(FIRST_MARKER + token)
        else:
            symbols.extend(engine.token_bytes(token))
    end = symbols_of(plan.reasoning.end)
    opening, closing = _find_last(symbols, symbols_of(plan.reasoning.start)), _find_last(symbols, end)
    if plan.reasoning.opened_by:
        opening = max(opening, _find_last_opening(symbols, [symbols_of(part) for part in plan.reasoning.opened_by]))
    is_closed = closing[0] >= opening[0]
    begin, after = closing if is_closed else opening
    if begin < 0 or any(symbol >= FIRST_MARKER for symbol in symbols[after:]):
        return FRESH
    if is_closed:
        return Begin("after") if _closes(symbols, opening, end, closing[0]) else FRESH
    return Begin("inside", ends_at_marker=len(symbols) == after)


def _closes(symbols: Sequence[int], opening: tuple[int, int], end: Sequence[int], closed_at: int) -> bool:
    """Whether the end marker at ``closed_at`` ends a reasoning block, not some other message.

    An end marker with at most one special token always closes a block.  One with more (``<|end|><|start|>assistant``)
    ends every message, so it counts only if the block began in the same message.
    """
    if sum(symbol >= FIRST_MARKER for symbol in end) < 2:
        return True
    between = symbols[opening[1] : closed_at]
    return opening[0] >= 0 and not any(symbol >= FIRST_MARKER for symbol in between)


def _find_last_opening(symbols: Sequence[int], parts: Sequence[Sequence[int]]) -> tuple[int, int]:
    """Return begin and end of the last opening that consists of ``parts`` with a value between them; else (-1, -1).

    A value is ordinary text without brackets and line breaks.
    """
    begin, at = _find_last(symbols, parts[0])
    if begin < 0:
        return -1, -1
    for part in parts[1:]:
        start = next((i for i in range(at, len(symbols)) if tuple(symbols[i : i + len(part)]) == tuple(part)), -1)
        if start < 0 or any(symbol >= FIRST_MARKER or symbol in _NOT_IN_VALUE for symbol in symbols[at:start]):
            return -1, -1
        at = start + len(part)
    return begin, at


def _find_last(symbols: Sequence[int], pattern: Sequence[int]) -> tuple[int, int]:
    """Return begin and end of the last ``pattern`` in ``symbols``; else (-1, -1)."""
    for at in range(len(symbols) - len(pattern), -1, -1):
        if tuple(symbols[at : at + len(pattern)]) == tuple(pattern):
            return at, at + len(pattern)
    return -1, -1
