"""Which of a template's arguments turn reasoning on and off or set its effort, found by trying.

A template ignores arguments that it does not know without a word, so each candidate is rendered and compared.
Candidates are the words of the template's text that speak of thinking.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grammars.values.format import EffortSwitch
from grammars.formats.probe.renderings import Asking, Renderings
from grammars.formats.probe.text_units import Units

__all__ = [
    "LEVELS",
    "Effects",
    "Tried",
    "compared_words",
    "effort_switch",
    "is_about_history",
    "on_and_off",
    "says_no",
    "speaks_of_thinking",
    "try_switches",
]

#: Arguments that a template may read; a word after a dot or in quotes is a field or a text.
_WORD = re.compile(r"(?<![\w.'\"\[])[a-z_]*(?:think|reason|effort|cot|budget)[a-z_]*\b(?!\s*\()")
#: Arguments that a template asks about; whether they switch reasoning, only what they do can tell.
_TAG = re.compile(r"\{[%{]-?\s*(.*?)\s*-?[%}]\}", re.DOTALL)
_ASKED = re.compile(r"\b(?:if|elif|and|or|not)\s+\(*([a-z_]\w*)\b(?!\s*[.(\[])")
_GIVEN = re.compile(r"^(?:set|for|macro)\s+([a-z_]\w*)(?:\s*,\s*([a-z_]\w*))?")
_SET = re.compile(r"\{%-?\s*set\s+((?:\w+\.)?\w+)\s*=\s*(.*?)-?%\}", re.DOTALL)
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_WORDS = r"(?:\s*\|\s*\w+)*\s*(?:==|!=|not\s+in|in)\s*(\[[^\]]*\]|\([^)]*\)|'[^']*'|\"[^\"]*\")"
_NO_ARGUMENTS = {"messages", "tools", "documents", "add_generation_prompt", "loop", "message", "defined", "string"}
_NO_ARGUMENTS |= {"in", "is", "not", "and", "or", "true", "false", "none", "mapping"}
#: Known to every engine, tried first and in this order.
_USUAL = ("thinking", "enable_thinking", "reasoning", "reasoning_effort", "thinking_effort", "thinking_budget")
#: These words tell what becomes of older reasoning, not whether there is any.
_HISTORY = re.compile(r"preserve|clear|truncate|drop|keep|retain|history|past|include|skip")

_NEGATION = re.compile(r"(?:^|_)(?:no|not|non|disable[ds]?|skip|without|hide|suppress|off)(?:_|$)|^no(?=think|reason)")

_MOST_ASKED = 12
_MOST_WORDS = 8

LEVELS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_NONSENSE = "zzqx"


@dataclass(frozen=True, slots=True)
class Tried:
    """One argument with one value: the text after the user's message, and the whole prompt."""

    name: str
    value: Any
    turn: str
    prompt: str


@dataclass(frozen=True, slots=True)
class Effects:
    """What the generation prompt became.  ``default`` is the prompt when nothing is said.

    ``tried`` is every argument with every value that the template takes, with or without effect.
    """

    default: Tried
    tried: tuple[Tried, ...]

    @property
    def changes(self) -> tuple[Tried, ...]:
        """What changed the prompt."""
        return tuple(tried for tried in self.tried if tried.prompt != self.default.prompt)

    def of(self, name: str) -> dict[Any, Tried]:
        """Value -> effect of one argument; a value without effect is not among them."""
        return {change.value: change for change in self.changes if change.name == name}

    def values(self, name: str) -> tuple[Any, ...]:
        """The values of one argument that the template takes, among those that were tried."""
        return tuple(tried.value for tried in self.tried if tried.name == name)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(change.name for change in self.changes))


def try_switches(renderings: Renderings, asking: Asking, template: str) -> Effects:
    """Renders the generation prompt with every candidate and keeps what made a difference."""
    default = _tried(renderings, asking, "", None)
    assert default is not None, "a plain prompt renders by now"
    found = (
        _tried(renderings, asking, name, value) for name in _candidates(template) for value in _values(name, template)
    )
    return Effects(default, tuple(tried for tried in found if tried is not None))


def _candidates(template: str) -> list[str]:
    found = set(_WORD.findall(template))
    asked = sorted(_asked(template) - found - _NO_ARGUMENTS)
    return [name for name in _USUAL if name in found] + sorted(found - set(_USUAL)) + asked[:_MOST_ASKED]


def _asked(template: str) -> set[str]:
    """Names in conditions that the template does not give values to itself."""
    tags = [_QUOTED.sub("", tag) for tag in _TAG.findall(template)]
    given = {name for tag in tags for found in _GIVEN.findall(tag) for name in found}
    return {name for tag in tags for name in _ASKED.findall(tag)} - given


def _values(name: str, template: str) -> tuple[Any, ...]:
    if "budget" in name:
        return (-1, 0, 512)
    words = compared_words(name, template)
    if "effort" in name or name == "reasoning":
        words = list(dict.fromkeys(["none", "high", *words] if "effort" in name else ["none", *words]))
    return (True, False, *words[:_MOST_WORDS])


def compared_words(name: str, template: str) -> list[str]:
    """The words that the template compares an argument with (``mode == "deep"``, ``mode in ["deep", "fast"]``).

    Also under the names that it gives the argument: ``{% set m = mode | default("deep") %}{% if m == "fast" %}``.
    """
    names = "|".join(map(re.escape, _also_called(name, template)))
    found = re.findall(rf"(?<![\w.])(?:{names}){_WORDS}", template)
    return list(dict.fromkeys(word for text in found for word in re.findall(r"['\"]([\w-]+)['\"]", text)))


def _also_called(name: str, template: str) -> list[str]:
    """The argument's own name, and those of variables that are set to something made of it."""
    names = [name]
    for given, value in _SET.findall(template):
        own = re.compile(rf"(?<![\w.'\"\[])(?:{'|'.join(map(re.escape, names))})\b(?!\s*\()")
        if given not in names and own.search(value):
            names.append(given)
    return names


def _tried(renderings: Renderings, asking: Asking, name: str, value: Any) -> Tried | None:
    kwargs = {name: value} if name else {}
    turn, prompt = renderings.turn(asking, **kwargs), renderings.prompt(asking, **kwargs)
    return Tried(name, value, turn, prompt) if turn is not None and prompt is not None else None


def speaks_of_thinking(name: str) -> bool:
    """Does the name itself say that the argument is about thinking?"""
    return _WORD.fullmatch(name) is not None


def is_about_history(name: str) -> bool:
    """Does the argument only say what becomes of older reasoning?"""
    return _HISTORY.search(name) is not None


def on_and_off(name: str) -> tuple[Any, Any]:
    """The values that a switch of this name takes, in the sense that names have unless they say no."""
    return (-1, 0) if "budget" in name else (True, False)


def says_no(name: str) -> bool:
    """Is the argument's name a negation?  Only asked where nothing but the name can tell."""
    return _NEGATION.search(name) is not None


# -- effort


def effort_switch(
    renderings: Renderings, asking: Asking, template: str, units: Units, on: Mapping[str, Any], off: Any
) -> EffortSwitch | None:
    """The argument that takes a level of effort, with its legal values; ``on`` turns reasoning on, ``off`` does not.

    Legal is a level whose text differs from what a word without meaning gives.  Where the template just prints
    what it is given, the three levels that every model with levels knows are taken.  Words of the template's own
    stand in its own order.
    """
    for name in _candidates(template):
        if "effort" in name:
            own = [word for word in compared_words(name, template) if word not in ("none", off)]
            values = _levels(renderings, asking, units, name, on, own)
            if values:
                return EffortSwitch(name, values)
    return None


def _levels(
    renderings: Renderings, asking: Asking, units: Units, name: str, on: Mapping[str, Any], own: Sequence[str]
) -> tuple[str, ...]:
    def prompt(value: str) -> str | None:
        return renderings.prompt(asking, **{**on, name: value})

    nonsense = prompt(_NONSENSE)
    if nonsense is not None and _NONSENSE in nonsense:
        return ("low", "medium", "high")
    words = LEVELS if set(own) <= set(LEVELS) else own
    texts = {level: text for level in words if (text := prompt(level)) is not None}
    if nonsense is None:  # a template that refuses what it does not know
        return tuple(texts)
    different = [level for level in texts if level != "none" and texts[level] != nonsense]
    if not different:
        return ()
    spoken = _levels_spoken(units, nonsense, texts[different[0]])
    return tuple(level for level in words if level in different or level in spoken)


def _levels_spoken(units: Units, text: str, other: str) -> set[str]:
    """Levels that ``text`` names where it differs from ``other``: what the template falls back to."""
    before = len(units.common_prefix(text, other))
    after = len(units.common_suffix(text[before:], other[before:]))
    words = {word.lower() for word in re.findall(r"\w+", text[before : len(text) - after])}
    return words & set(LEVELS)
