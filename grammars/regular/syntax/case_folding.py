"""Case folding for the ``i`` flag of patterns.

Characters count as equal that ECMA-262, Python's ``re`` and Rust's ``regex`` all fold into one (the tests check it over
all of Unicode): ``s``, ``S`` and the long s, the three sigmas, ``k`` and the Kelvin sign.  They differ on a few: ``re``
folds the Turkish letters I, with and without dot, with ``i``, and newer tables contain newer letters: left out here.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from grammars.regular.terms import Ranges, chars

__all__ = ["case_folded", "cased_text"]

#: Where letters with case are.
_CASED = (range(0x2E00), range(0xA640, 0xAC00), range(0xFB00, 0x10000), range(0x10000, 0x1EA00))
_TURKISH = "\u0130\u0131"


def case_folded(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Return the characters and all that fold to the same for every reader."""
    ranges = tuple(ranges)
    return _folded(chars(ranges).args) if ranges else ()


@lru_cache(maxsize=1_024)
def _folded(merged: Ranges) -> Ranges:
    alike = _classes()
    if sum(high - low for low, high in merged) < len(alike):
        held = (code for low, high in merged for code in range(low, high + 1) if code in alike)
    else:
        held = (code for code in alike if any(low <= code <= high for low, high in merged))
    codes = {other for code in held for other in alike[code]}
    more: Ranges = chars((*merged, *((code, code) for code in codes))).args
    return more


@lru_cache(maxsize=1)
def cased_text() -> str:
    """All characters that have another case."""
    return "".join(char for codes in _CASED for char in map(chr, codes) if char.lower() != char or char.upper() != char)


@lru_cache(maxsize=1)
def _classes() -> dict[int, tuple[int, ...]]:
    """For each character that folds to the same as another: all of them."""
    by_code: dict[int, set[int]] = {}

    def join(one: int, two: int) -> None:
        both = by_code.get(one, {one}) | by_code.get(two, {two})
        by_code.update(dict.fromkeys(both, both))

    unfolded: dict[str, int] = {}
    for char in cased_text():
        if char in _TURKISH:
            continue
        for other in (char.lower(), char.upper()):
            if len(other) == 1 and other != char:
                join(ord(char), ord(other))
        if len(char.casefold()) > 1:  # two letters that fold to the same pair, such as the two ligatures of st
            join(ord(char), unfolded.setdefault(char.casefold(), ord(char)))
    return {code: tuple(sorted(alike)) for code, alike in by_code.items() if len(alike) > 1}
