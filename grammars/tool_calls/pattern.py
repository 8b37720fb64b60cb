"""Patterns: text with holes (placeholders), which describe how a model family writes one call.

For example ``{"name": "$name", "arguments": $arguments}``; grammar, rendering and parser use the same one.  A hole is
``$word``, or ``${word}`` if a letter follows; ``$$`` is a dollar sign.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

__all__ = ["CallPattern", "Hole", "escape_literal", "fill", "parse_pattern", "pattern_text"]

_HOLE = re.compile(r"\$(?:(\$)|([a-z_]+)|\{([a-z_]+)\})")


@dataclass(frozen=True, slots=True)
class Hole:
    """A placeholder for a value: ``name``, ``arguments``, ``key``, ``value``, ``id``, ``index`` ..."""

    name: str


CallPattern: TypeAlias = tuple[str | Hole, ...]


@lru_cache(maxsize=512)
def parse_pattern(text: str) -> CallPattern:
    """Parse a pattern into literals and holes in order; no two literals are adjacent."""
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
    """Escape ``text`` for use as a literal in a pattern."""
    return text.replace("$", "$$")


def pattern_text(parts: Iterable[str | Hole]) -> str:
    """The text of a pattern with these parts; the inverse of `parse_pattern`."""
    out = ""
    follower = ""  # the text of the parts that follow
    for part in reversed(tuple(parts)):
        if isinstance(part, Hole):
            written = f"${{{part.name}}}" if re.match("[a-z_]", follower) else f"${part.name}"
        else:
            written = escape_literal(part)
        out = written + out
        follower = out
    return out


def fill(pattern: str | CallPattern, values: Mapping[str, str]) -> str:
    """The pattern's text with every hole filled; raises `KeyError` for a hole without a value."""
    parts = parse_pattern(pattern) if isinstance(pattern, str) else pattern
    return "".join(values[part.name] if isinstance(part, Hole) else part for part in parts)
