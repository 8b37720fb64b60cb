"""Choose the entry of a plan by the last tokens of the prompt: fresh, inside the reasoning block, or after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from grammars.plan.plan import Plan
from guided.engine.engine import Engine
from guided.tracking.regions import symbols_of

__all__ = ["FRESH", "Begin", "begin_of"]

#: The number of last prompt tokens that are examined; a generation prompt is far shorter.
TAIL = 64
_TOKEN = 256


@dataclass(frozen=True, slots=True)
class Begin:
    """The place at which a plan's grammar begins after a prompt.

    ``opened`` is False if the prompt ends exactly with the opening marker, so that the white space that follows the
    marker is still to be written.  For a row without a plan, ``reader`` is the plan whose regions are used to read its
    answer, and the place is one of that plan.
    """

    entry: str = "fresh"
    opened: bool = True
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
    for token in prompt_ids[-TAIL:]:
        if token in markers:
            symbols.append(_TOKEN + token)
        else:
            symbols.extend(engine.token_bytes(token))
    start, end = symbols_of(plan.reasoning.start), symbols_of(plan.reasoning.end)
    opened_at, closed_at = _find_last(symbols, start), _find_last(symbols, end)
    opening = (opened_at, opened_at + len(start))
    if plan.reasoning.opened_by:
        opening = max(opening, _find_last_opening(symbols, [symbols_of(part) for part in plan.reasoning.opened_by]))
    opened_at = opening[0]
    at, after = (closed_at, closed_at + len(end)) if closed_at >= opened_at else opening
    if at < 0 or any(symbol >= _TOKEN for symbol in symbols[after:]):
        return FRESH
    if closed_at >= opened_at:
        return Begin("after") if _closes(symbols, opening, end, closed_at) else FRESH
    return Begin("inside", opened=len(symbols) > after)


def _closes(symbols: Sequence[int], opening: tuple[int, int], end: Sequence[int], closed_at: int) -> bool:
    """Whether the end marker at ``closed_at`` closes a block, rather than another message.

    An end marker of one token always closes a block.  A longer one (``<|end|><|start|>assistant``) ends every message,
    so it counts only if the block began in the same message.
    """
    if sum(symbol >= _TOKEN for symbol in end) < 2:
        return True
    between = symbols[opening[1] : closed_at]
    return opening[0] >= 0 and not any(symbol >= _TOKEN for symbol in between)


def _find_last_opening(symbols: Sequence[int], parts: Sequence[Sequence[int]]) -> tuple[int, int]:
    """Return begin and end of the last opening that consists of ``parts`` with a value between them; else (-1, -1).

    A value is ordinary text without the characters that open and close tags.
    """
    begin = _find_last(symbols, parts[0])
    if begin < 0:
        return -1, -1
    at = begin + len(parts[0])
    for part in parts[1:]:
        start = next((i for i in range(at, len(symbols)) if tuple(symbols[i : i + len(part)]) == tuple(part)), -1)
        if start < 0 or any(symbol >= _TOKEN or symbol in _BRACKETS for symbol in symbols[at:start]):
            return -1, -1
        at = start + len(part)
    return begin, at


_BRACKETS = frozenset(b"<>[]{}\n")


def _find_last(symbols: Sequence[int], pattern: Sequence[int]) -> int:
    for at in range(len(symbols) - len(pattern), -1, -1):
        if tuple(symbols[at : at + len(pattern)]) == tuple(pattern):
            return at
    return -1
