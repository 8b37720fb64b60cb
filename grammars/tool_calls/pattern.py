"""Patterns: the inside of a call as text with holes.

``{"name": "$name", "arguments": $arguments}`` says how a family spells one call; the grammar, the rendering and the
parser all read the same pattern.  A hole is ``$`` and a word, ``${word}`` where a letter follows, ``$$`` a dollar
sign.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

__all__ = ["Hole", "Pattern", "escape_literal", "fill", "holes", "parse_pattern", "pattern_text"]

_HOLE = re.compile(r"\$(?:(\$)|([a-z_]+)|\{([a-z_]+)\})")


@dataclass(frozen=True, slots=True)
class Hole:
    """A place for a value: ``name``, ``arguments``, ``key``, ``value``, ``id``, ``index`` ..."""

    name: str


Pattern: TypeAlias = tuple[str | Hole, ...]


@lru_cache(maxsize=512)
def parse_pattern(text: str) -> Pattern:
    """The pattern's literal texts and holes in order; no two literals touch."""
    out: list[str | Hole] = []
    literal, at = "", 0
    for match in _HOLE.finditer(text):
        literal += text[at : match.start()] + ("$" if match[1] else "")
        at = match.end()
        name = match[2] or match[3]
        if name:
            if literal:
                out.append(literal)
            out.append(Hole(name))
            literal = ""
    literal += text[at:]
    return (*out, literal) if literal else tuple(out)


def escape_literal(text: str) -> str:
    """``text`` as it is written in a pattern."""
    return text.replace("$", "$$")


def pattern_text(parts: Iterable[str | Hole]) -> str:
    """Literal texts and holes as one pattern: what `parse_pattern` takes apart."""
    out = ""
    follower = ""  # of what comes next in the pattern
    for part in reversed(tuple(parts)):
        if isinstance(part, Hole):
            written = f"${{{part.name}}}" if re.match("[a-z_]", follower) else f"${part.name}"
        else:
            written = escape_literal(part)
        out = written + out
        follower = out
    return out


def fill(text: str, values: Mapping[str, str]) -> str:
    """The pattern with every hole filled; a hole without a value raises `KeyError`."""
    return "".join(values[part.name] if isinstance(part, Hole) else part for part in parse_pattern(text))


def holes(text: str) -> tuple[str, ...]:
    """The names of the holes in order, repetitions included."""
    return tuple(part.name for part in parse_pattern(text) if isinstance(part, Hole))
