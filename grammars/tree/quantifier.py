"""Quantifiers of regular expressions and Lark."""

from __future__ import annotations

__all__ = ["quantifier"]


def quantifier(least: int, most: int | None) -> str:
    """Return the quantifier for ``least`` to ``most`` times."""
    if most is None and least < 2:
        return "+" if least else "*"
    if (least, most) == (0, 1):
        return "?"
    return f"{{{least}}}" if least == most else f"{{{least},{'' if most is None else most}}}"
