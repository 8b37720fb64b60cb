"""Free text inside structural tags: which formats end with it, what ends it, and merging of adjacent lexemes."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from typing import Any

from grammars.tree.nodes import Lexeme, Node, Pattern, Seq, Text, alt, is_terminal, seq
from special_tokens.errors import GrammarError, shown

__all__ = [
    "alternatives",
    "check_triggers",
    "end_text",
    "ends_with_free_text",
    "literal_prefix",
    "merge_lexemes",
    "without_prefix",
]  # fmt: skip


def ends_with_free_text(spec: Any) -> bool:
    """Whether this format ends with text that continues until something else begins."""
    kind = spec.get("type") if isinstance(spec, Mapping) else None
    if kind in ("any_text", "triggered_tags", "dispatch"):
        return not (isinstance(spec, Mapping) and spec.get("stop_after_first") and spec.get("at_least_one"))
    if kind in ("sequence", "or"):
        elements = spec.get("elements") or [None]
        return any(map(ends_with_free_text, elements if kind == "or" else elements[-1:]))
    return False


def literal_prefix(spec: Any, place: str) -> str:
    """Return the literal that a format begins with, which ends the free text before it."""
    kind = spec.get("type") if isinstance(spec, Mapping) else None
    text = spec.get("value") if kind == "const_string" else spec.get("begin") if kind == "tag" else None
    if not isinstance(text, str) or not text:
        raise GrammarError(
            "free text can only be followed by a literal or a tag", place=place, hint="put it into a tag of its own"
        )
    return text


def without_prefix(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a literal or tag without its `literal_prefix`."""
    return {**spec, "value" if spec["type"] == "const_string" else "begin": ""}


def end_text(end: Sequence[str], place: str) -> Text | Pattern:
    """Return any of the ends; raises `GrammarError` if one is never complete, as another ends inside it."""
    for outer in end:
        inner = next((text for text in end if text in outer[:-1]), None)
        if inner is not None:
            raise _contained(inner, outer, place)
    return Text(end[0]) if len(end) == 1 else Pattern("|".join(map(re.escape, end)))


def check_triggers(triggers: Collection[str], ends: Collection[str], place: str) -> None:
    """Raise `GrammarError` if of a trigger and another one, or an end of the free text, only the shorter can act."""
    for trigger in triggers:
        for other in (*(t for t in triggers if t != trigger), *ends):
            if trigger in other or other in trigger:
                inner, outer = sorted((trigger, other), key=len)
                raise _contained(inner, outer, place)


def _contained(inner: str, outer: str, place: str) -> GrammarError:
    return GrammarError(f"{shown(inner)} is contained in {shown(outer)}", place=place,
                        hint="free text ends at whichever is complete first")  # fmt: skip


def merge_lexemes(parts: Sequence[Node]) -> Node:
    """Return the sequence of parts; adjacent regular parts become one lexeme, so that no part is greedy."""
    out: list[Node] = []
    flat = seq(*parts)
    for is_regular, run in groupby(flat.parts if isinstance(flat, Seq) else (flat,), is_terminal):
        whole = seq(*run)
        out.append(Lexeme("PART", whole) if is_regular and not isinstance(whole, Text | Pattern | Lexeme) else whole)
    return seq(*out)


def alternatives(options: Sequence[Node]) -> Node:
    """Return the alternatives; regular options become one lexeme, so that none hides another."""
    regular = [option for option in options if is_terminal(option)]
    others = [option for option in options if not is_terminal(option)]
    return alt(*([Lexeme("PART", alt(*regular))] if regular and others else regular), *others)
