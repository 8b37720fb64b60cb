"""How a prompt's tail makes a plan begin: fresh, inside the reasoning block, or after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grammars.plan import Plan
from guided.compile import Engine
from guided.regions import symbols_of

__all__ = ["FRESH", "Begin", "begin_of"]

#: Tokens of the prompt that are looked at; a generation prompt is far shorter.
TAIL = 64
_TOKEN = 256


@dataclass(frozen=True, slots=True)
class Begin:
    """Where a plan's grammar begins.

    ``opened`` is false when the prompt ended right at the opening marker, so that the white space which frames it
    is still to come.
    """

    entry: str = "fresh"
    opened: bool = True


FRESH = Begin()


def begin_of(plan: Plan, prompt_ids: Sequence[int], engine: Engine) -> Begin:
    """The beginning for a prompt that ends with ``prompt_ids`` (the last tokens are enough).

    The later of the two reasoning markers wins, provided that no other special token stands behind it: a marker
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
    at, length = (closed_at, len(end)) if closed_at >= opened_at else (opened_at, len(start))
    if at < 0 or any(symbol >= _TOKEN for symbol in symbols[at + length :]):
        return FRESH
    if closed_at >= opened_at:
        return Begin("after") if _closes(symbols, start, end, opened_at, closed_at) else FRESH
    return Begin("inside", opened=len(symbols) > at + length)


def _closes(symbols: Sequence[int], start: Sequence[int], end: Sequence[int], opened_at: int, closed_at: int) -> bool:
    """Does the end marker at ``closed_at`` close a block, rather than another message?

    An end of one token is only ever written there.  A longer one (``<|end|><|start|>assistant``) is what ends every
    message: it counts where the block began in the very same message.
    """
    if sum(symbol >= _TOKEN for symbol in end) < 2:
        return True
    between = symbols[opened_at + len(start) : closed_at]
    return opened_at >= 0 and not any(symbol >= _TOKEN for symbol in between)


def _find_last(symbols: Sequence[int], pattern: Sequence[int]) -> int:
    for at in range(len(symbols) - len(pattern), -1, -1):
        if tuple(symbols[at : at + len(pattern)]) == tuple(pattern):
            return at
    return -1
