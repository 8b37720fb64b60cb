"""Which of an argument's values opens the reasoning block and which closes it: read off the prompts, not off names.

Only where an argument does nothing but tell the model, in a text further up, its name has to say what it means.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from grammars.values.format import Switch
from grammars.formats.reasoning.switches import LEVELS, is_about_history, on_and_off, says_no, speaks_of_thinking
from grammars.formats.reasoning.prompt_suffixes import Framing, State, Tails

__all__ = ["is_hinted", "read_switch"]

#: How far a prompt goes towards reasoning.
_RANK: Mapping[State, int] = {"closed": 0, "fresh": 1, "open": 2}


def read_switch(tails: Tails, framing: Framing) -> Switch | None:
    """The argument that opens or closes the block, or that at least tells the model to; None where there is none."""
    for name in tails.effects.names:
        found = _by_prompts(name, tails.states(name, framing))
        if found is not None:
            return found
    if tails.state(tails.default, framing) != "fresh":
        return None  # the block is open or closed whatever the model is told
    return next((switch for name in tails.effects.names if (switch := _by_name(name, tails, framing))), None)


def is_hinted(tails: Tails) -> bool:
    """Does some argument that is about thinking by its name change the prompt at all?"""
    return any(_may_tell(name) for name in tails.effects.names)


def _by_prompts(name: str, states: Mapping[Any, State]) -> Switch | None:
    """The switch that shows in how prompts end: one value leads further towards reasoning than another."""
    ranks = {value: _RANK[state] for value, state in states.items()}
    if len(set(ranks.values())) == 1:
        return None
    if "effort" in name:  # levels are words; true and false are what a template makes of anything
        return _by_word(name, ranks, str) or _pair(name, ranks)
    return _pair(name, ranks) or _by_word(name, ranks, object)


def _pair(name: str, ranks: Mapping[Any, int]) -> Switch | None:
    """The two usual values, whichever of them is the one that opens."""
    first, second = on_and_off(name)
    if first not in ranks or second not in ranks or ranks[first] == ranks[second]:
        return None
    return Switch(name, first, second) if ranks[first] > ranks[second] else Switch(name, second, first)


def _by_word(name: str, ranks: Mapping[Any, int], kind: type) -> Switch | None:
    """One of the values that go furthest and one that goes least far; leaving the argument out is the first choice."""
    given = {value: rank for value, rank in ranks.items() if isinstance(value, kind) or value is None}
    least, most = min(given.values()), max(given.values())
    if least == most:
        return None
    on = _one(value for value, rank in given.items() if rank == most and value != "none")
    off = _one((value for value, rank in given.items() if rank == least), weakest=True)
    return Switch(name, on[0], off[0]) if on and off else None


def _one(values: Iterable[Any], *, weakest: bool = False) -> list[Any]:
    """The value to take, in a list; an empty list where there is none."""
    found = list(values)
    if None in found:
        return [None]
    ordered = sorted(found, key=_strength)
    return ordered[:1] if weakest else ordered[-1:]


def _strength(value: Any) -> int:
    return LEVELS.index(value) if value in LEVELS else len(LEVELS)


def _by_name(name: str, tails: Tails, framing: Framing) -> Switch | None:
    """A switch that only tells the model: its name says in which sense."""
    if not _may_tell(name) or "effort" in name:
        return None
    values = on_and_off(name)
    if not set(values) <= set(tails.effects.values(name)):
        return None
    on, off = reversed(values) if says_no(name) else values
    return Switch(name, on, off)


def _may_tell(name: str) -> bool:
    return speaks_of_thinking(name) and not is_about_history(name)
