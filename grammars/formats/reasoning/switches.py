"""Find by trial the template arguments that turn reasoning on and off or set its effort.

A template silently ignores unknown arguments, so a prompt is rendered with each candidate and compared.  Candidates are
the names in the template's text that suggest reasoning, and names that it tests in conditions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grammars.formats.probe.renderings import Probe, Renderings
from grammars.formats.probe.text_units import Units
from grammars.values.format import EffortSwitch

__all__ = [
    "LEVELS",
    "SwitchEffects",
    "TriedArgument",
    "compared_words",
    "effort_switch",
    "is_about_history",
    "is_negated",
    "on_and_off",
    "suggests_reasoning",
    "try_switches",
]

#: Names that suggest reasoning; a word after a dot or in quotes is a field or a string, not an argument.
_WORD = re.compile(r"(?<![\w.'\"\[])[a-z_]*(?:think|reason|effort|cot|budget)[a-z_]*\b(?!\s*\()")
#: Names in conditions: arguments that may switch reasoning, whatever they are called.
_TAG = re.compile(r"\{[%{]-?\s*(.*?)\s*-?[%}]\}", re.DOTALL)
_ASKED = re.compile(r"\b(?:if|elif|and|or|not)\s+\(*([a-z_]\w*)\b(?!\s*[.(\[])")
_GIVEN = re.compile(r"^(?:set|for|macro)\s+([a-z_]\w*)(?:\s*,\s*([a-z_]\w*))?")
_SET = re.compile(r"\{%-?\s*set\s+((?:\w+\.)?\w+)\s*=\s*(.*?)-?%\}", re.DOTALL)
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_WORDS = r"(?:\s*\|\s*\w+)*\s*(?:==|!=|not\s+in|in)\s*(\[[^\]]*\]|\([^)]*\)|'[^']*'|\"[^\"]*\")"
_NO_ARGUMENTS = {"messages", "tools", "documents", "add_generation_prompt", "loop", "message", "defined", "string"}
_NO_ARGUMENTS |= {"in", "is", "not", "and", "or", "true", "false", "none", "mapping"}
#: The usual names, tried first and in this order.
_USUAL = ("thinking", "enable_thinking", "reasoning", "reasoning_effort", "thinking_effort", "thinking_budget")
#: Words in names of arguments that only control the reasoning of earlier turns.
_HISTORY = re.compile(r"preserve|clear|truncate|drop|keep|retain|history|past|include|skip")

_NEGATION = re.compile(r"(?:^|_)(?:no|not|non|disable[ds]?|skip|without|hide|suppress|off)(?:_|$)|^no(?=think|reason)")

_MAX_ASKED = 12
_MAX_WORDS = 8

LEVELS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_NONSENSE = "zzqx"


@dataclass(frozen=True, slots=True)
class TriedArgument:
    """The rendering with one argument set to one value: the text after the user's message, and the whole prompt."""

    name: str
    value: Any
    turn: str
    prompt: str


@dataclass(frozen=True, slots=True)
class SwitchEffects:
    """The generation prompts with all candidate arguments; ``default`` is the prompt without any.

    ``tried`` has every argument with every value that the template accepts, with or without effect.
    """

    default: TriedArgument
    tried: tuple[TriedArgument, ...]

    @property
    def changes(self) -> tuple[TriedArgument, ...]:
        """The tried arguments that changed the prompt."""
        return tuple(tried for tried in self.tried if tried.prompt != self.default.prompt)

    def of(self, name: str) -> dict[Any, TriedArgument]:
        """Value -> rendering of one argument, for the values that changed the prompt."""
        return {change.value: change for change in self.changes if change.name == name}

    def values(self, name: str) -> tuple[Any, ...]:
        """The tried values of one argument that the template accepts."""
        return tuple(tried.value for tried in self.tried if tried.name == name)

    @property
    def names(self) -> tuple[str, ...]:
        """The arguments that changed the prompt."""
        return tuple(dict.fromkeys(change.name for change in self.changes))


def try_switches(renderings: Renderings, probe: Probe, template: str) -> SwitchEffects:
    """Render the generation prompt with every value of every candidate argument."""
    default = _tried(renderings, probe, "", None)
    assert default is not None, "a plain prompt renders by now"
    switches = (
        _tried(renderings, probe, name, value) for name in _candidates(template) for value in _values(name, template)
    )
    return SwitchEffects(default, tuple(tried for tried in switches if tried is not None))


def _candidates(template: str) -> list[str]:
    words = set(_WORD.findall(template))
    asked = sorted(_asked(template) - words - _NO_ARGUMENTS)
    return [name for name in _USUAL if name in words] + sorted(words - set(_USUAL)) + asked[:_MAX_ASKED]


def _asked(template: str) -> set[str]:
    """The names in conditions to which the template assigns no value itself."""
    tags = [_QUOTED.sub("", tag) for tag in _TAG.findall(template)]
    given = {name for tag in tags for groups in _GIVEN.findall(tag) for name in groups}
    return {name for tag in tags for name in _ASKED.findall(tag)} - given


def _values(name: str, template: str) -> tuple[Any, ...]:
    if "budget" in name:
        return (-1, 0, 512)
    words = compared_words(name, template)
    if "effort" in name or name == "reasoning":
        words = list(dict.fromkeys(["none", "high", *words] if "effort" in name else ["none", *words]))
    return (True, False, *words[:_MAX_WORDS])


def compared_words(name: str, template: str) -> list[str]:
    """The words with which the template compares an argument (``mode == "deep"``, ``mode in ["deep", "fast"]``).

    Variables made from the argument count too: ``{% set m = mode | default("deep") %}{% if m == "fast" %}``.
    """
    names = "|".join(map(re.escape, _also_called(name, template)))
    comparisons = re.findall(rf"(?<![\w.])(?:{names}){_WORDS}", template)
    return list(dict.fromkeys(word for text in comparisons for word in re.findall(r"['\"]([\w-]+)['\"]", text)))


def _also_called(name: str, template: str) -> list[str]:
    """The argument's name and the names of variables computed from it."""
    names = [name]
    for given, value in _SET.findall(template):
        called = re.compile(rf"(?<![\w.'\"\[])(?:{'|'.join(map(re.escape, names))})\b(?!\s*\()")
        if given not in names and called.search(value):
            names.append(given)
    return names


def _tried(renderings: Renderings, probe: Probe, name: str, value: Any) -> TriedArgument | None:
    kwargs = {name: value} if name else {}
    turn, prompt = renderings.turn(probe, **kwargs), renderings.prompt(probe, **kwargs)
    return TriedArgument(name, value, turn, prompt) if turn is not None and prompt is not None else None


def suggests_reasoning(name: str) -> bool:
    """Whether the argument's name suggests reasoning."""
    return _WORD.fullmatch(name) is not None


def is_about_history(name: str) -> bool:
    """Whether the argument's name suggests that it only controls the reasoning of earlier turns."""
    return _HISTORY.search(name) is not None


def on_and_off(name: str) -> tuple[Any, Any]:
    """The values that turn on and off a switch of this name, unless the name is a negation."""
    return (-1, 0) if "budget" in name else (True, False)


def is_negated(name: str) -> bool:
    """Whether the argument's name is a negation."""
    return _NEGATION.search(name) is not None


# -- effort


def effort_switch(
    renderings: Renderings, probe: Probe, template: str, units: Units, on: Mapping[str, Any], off: Any
) -> EffortSwitch | None:
    """The argument that takes a level of effort, with its legal values, or None.

    ``on`` holds the arguments that turn reasoning on, ``off`` is the value that turns it off.  A level is legal if its
    prompt differs from that of a meaningless word.  If the template just prints its value, the levels are the usual
    low, medium and high.  Levels that only this template knows keep its order.
    """
    for name in _candidates(template):
        if "effort" in name:
            levels = [word for word in compared_words(name, template) if word not in ("none", off)]
            values = _levels(renderings, probe, units, name, on, levels)
            if values:
                return EffortSwitch(name, values)
    return None


def _levels(
    renderings: Renderings, probe: Probe, units: Units, name: str, on: Mapping[str, Any], compared: Sequence[str]
) -> tuple[str, ...]:
    def prompt(value: str) -> str | None:
        return renderings.prompt(probe, **{**on, name: value})

    nonsense = prompt(_NONSENSE)
    if nonsense is not None and _NONSENSE in nonsense:
        return ("low", "medium", "high")
    words = LEVELS if set(compared) <= set(LEVELS) else compared
    texts = {level: text for level in words if (text := prompt(level)) is not None}
    if nonsense is None:  # the template refuses unknown values
        return tuple(texts)
    different = [level for level in texts if level != "none" and texts[level] != nonsense]
    if not different:
        return ()
    spoken = _levels_spoken(units, nonsense, texts[different[0]])
    return tuple(level for level in words if level in different or level in spoken)


def _levels_spoken(units: Units, text: str, other: str) -> set[str]:
    """The levels named in the part of ``text`` that differs from ``other``: the template's default level."""
    before = len(units.common_prefix(text, other))
    after = len(units.common_suffix(text[before:], other[before:]))
    words = {word.lower() for word in re.findall(r"\w+", text[before : len(text) - after])}
    return words & set(LEVELS)
