"""Find the argument, and its two values, that switch reasoning on and off.

The prompts rendered with each value decide.  The argument's name decides only if the argument merely changes an
instruction to the model earlier in the prompt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from grammars.formats.reasoning.prompt_suffixes import BlockState, PromptSuffixes, ReasoningMarkers
from grammars.formats.reasoning.switches import LEVELS, is_about_history, is_negated, on_and_off, suggests_reasoning
from grammars.values.format import Switch

__all__ = ["is_hinted", "read_switch"]

#: The order of prompt states towards reasoning.
_RANK: Mapping[BlockState, int] = {"closed": 0, "fresh": 1, "open": 2}


def read_switch(suffixes: PromptSuffixes, markers: ReasoningMarkers) -> Switch | None:
    """The argument that opens or closes the block, or at least instructs the model to reason; None if there is none."""
    for name in suffixes.effects.names:
        by_prompts = _by_prompts(name, suffixes.states(name, markers))
        if by_prompts is not None:
            return by_prompts
    if suffixes.state(suffixes.default, markers) != "fresh":
        return None  # the block is open or closed whatever the instructions say
    return next((switch for name in suffixes.effects.names if (switch := _by_name(name, suffixes, markers))), None)


def is_hinted(suffixes: PromptSuffixes) -> bool:
    """Whether an argument whose name suggests reasoning changes the prompt."""
    return any(_may_instruct(name) for name in suffixes.effects.names)


def _by_prompts(name: str, states: Mapping[Any, BlockState]) -> Switch | None:
    """The switch by the states of prompts: one value leads further towards reasoning than another."""
    ranks = {value: _RANK[state] for value, state in states.items()}
    if len(set(ranks.values())) == 1:
        return None
    if "effort" in name:  # levels are words; many templates also accept true and false without meaning them
        return _by_word(name, ranks, str) or _pair(name, ranks)
    return _pair(name, ranks) or _by_word(name, ranks, object)


def _pair(name: str, ranks: Mapping[Any, int]) -> Switch | None:
    """The switch with the two usual values, in either sense."""
    first, second = on_and_off(name)
    if first not in ranks or second not in ranks or ranks[first] == ranks[second]:
        return None
    return Switch(name, first, second) if ranks[first] > ranks[second] else Switch(name, second, first)


def _by_word(name: str, ranks: Mapping[Any, int], kind: type) -> Switch | None:
    """The switch with a value of the highest and one of the lowest rank; leaving the argument out is preferred."""
    given = {value: rank for value, rank in ranks.items() if isinstance(value, kind) or value is None}
    least, most = min(given.values()), max(given.values())
    if least == most:
        return None
    on = _preferred(value for value, rank in given.items() if rank == most and value != "none")
    off = _preferred((value for value, rank in given.items() if rank == least), weakest=True)
    return Switch(name, on[0], off[0]) if on and off else None


def _preferred(values: Iterable[Any], *, weakest: bool = False) -> list[Any]:
    """The value to use, in a list; [] if there is none."""
    distinct = list(values)
    if None in distinct:
        return [None]
    ordered = sorted(distinct, key=_strength)
    return ordered[:1] if weakest else ordered[-1:]


def _strength(value: Any) -> int:
    return LEVELS.index(value) if value in LEVELS else len(LEVELS)


def _by_name(name: str, suffixes: PromptSuffixes, markers: ReasoningMarkers) -> Switch | None:
    """A switch that only instructs the model; its name decides the sense of its values."""
    if not _may_instruct(name) or "effort" in name:
        return None
    values = on_and_off(name)
    if not set(values) <= set(suffixes.effects.values(name)):
        return None
    on, off = reversed(values) if is_negated(name) else values
    return Switch(name, on, off)


def _may_instruct(name: str) -> bool:
    return suggests_reasoning(name) and not is_about_history(name)
