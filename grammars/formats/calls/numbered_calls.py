"""Find consecutive calls in a rendering: the text between them, and the numbers that count them.

A number that increases by one from call to call becomes a hole; all other text must be the same in every call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from grammars.tool_calls.pattern import CallPattern, Hole

__all__ = ["CallSeries", "read_series"]

_NUMBER = re.compile(r"(?<![0-9.])([0-9]+)(?![0-9])")
_INDEX = Hole("index")


@dataclass(frozen=True, slots=True)
class CallSeries:
    """Consecutive calls in one rendering.

    ``left`` and ``right`` are the parts by which the pattern grows so that it includes the outermost numbers around it;
    ``between`` is the text between two calls, ``after`` the text after the last.  ``base`` is the number of the first
    call, None if calls are not numbered.
    """

    pattern: CallPattern
    left: CallPattern
    right: CallPattern
    between: str
    after: str
    base: int | None


def read_series(text: str, pattern: CallPattern, values: Sequence[dict[str, str]], before: str) -> CallSeries | None:
    """The calls in ``text``, each written by ``pattern`` with its own ``values`` of holes.

    ``before`` is the text before a single call.  None if the text has other calls or differing texts between them.
    """
    parts = tuple(_cut(pattern))
    spans: list[tuple[int, int]] = []
    numbers: list[tuple[str, ...]] = []
    for of_call in values:
        match = re.compile("".join(_regex(part, of_call) for part in parts)).search(text, spans[-1][1] if spans else 0)
        if match is None:
            return None
        spans.append(match.span())
        numbers.append(match.groups())
    counted = _counted(numbers)
    if counted is None:
        return None
    read, base = _with_holes(parts, counted), next((base for base in counted if base is not None), None)
    gaps = [text[one[1] : other[0]] for one, other in pairwise(spans)]
    last = text[spans[-1][1] :]
    left, base = _grown([before[::-1], *(gap[::-1] for gap in gaps)], base, backwards=True)
    right, base = _grown([*gaps, last], base)
    begins = [_written(right, base, i) for i in range(len(spans))]
    ends = [len(gap) - _written(left, base, i + 1) for i, gap in enumerate(gaps)]
    between = {gap[begin:end] for gap, begin, end in zip(gaps, begins, ends, strict=False)}
    if len(between) > 1:
        return None
    return CallSeries(read, left, right, between.pop(), last[begins[-1] :], base)


def _cut(pattern: CallPattern) -> Iterator[str | Hole]:
    """The pattern split so that each number, which may count calls, is a part of its own."""
    for part in pattern:
        if isinstance(part, Hole):
            yield part
        else:
            yield from (piece for piece in _NUMBER.split(part) if piece)


def _regex(part: str | Hole, values: dict[str, str]) -> str:
    if isinstance(part, Hole):
        return re.escape(values[part.name])
    return "([0-9]+)" if part.isdigit() else re.escape(part)


def _counted(numbers: Sequence[tuple[str, ...]]) -> list[int | None] | None:
    """For each number of the pattern its value in the first call, or None if it is the same in all calls.

    None altogether if a number neither counts nor stays the same, or if two of them count from different values.
    """
    out: list[int | None] = []
    for column in zip(*numbers, strict=True):
        if len(set(column)) == 1:
            out.append(None)
        elif _counts(column):
            out.append(int(column[0]))
        else:
            return None
    return out if len({base for base in out if base is not None}) <= 1 else None


def _counts(column: Sequence[str]) -> bool:
    """Whether the first number is 0 or 1 and each other one is greater by one than the previous."""
    return column[0] in ("0", "1") and all(number == str(int(column[0]) + i) for i, number in enumerate(column))


def _with_holes(parts: Sequence[str | Hole], counted: Sequence[int | None]) -> CallPattern:
    out: list[str | Hole] = []
    bases = iter(counted)
    for part in parts:
        is_number = not isinstance(part, Hole) and part.isdigit()
        out.append(_INDEX if is_number and next(bases) is not None else part)
    return tuple(out)


def _grown(texts: Sequence[str], base: int | None, *, backwards: bool = False) -> tuple[CallPattern, int | None]:
    """The common prefix of all texts up to the last number that counts, as a pattern; and the base of the numbers."""
    units = [re.findall(r"[0-9]+|[^0-9]", text) for text in texts]
    out: list[str | Hole] = []
    kept = 0
    for column in zip(*units, strict=False):
        column = tuple(unit[::-1] for unit in column) if backwards else column
        if len(set(column)) == 1:
            out.append(column[0])
        elif column[0].isdigit() and _counts(column) and base in (None, int(column[0])):
            base = int(column[0])
            out.append(_INDEX)
            kept = len(out)
        else:
            break
    out = out[:kept]
    return tuple(reversed(out) if backwards else out), base


def _written(pattern: CallPattern, base: int | None, call: int) -> int:
    """The length of the pattern's text in the ``call``-th call, counted from 0."""
    return sum(len(str((base or 0) + call)) if isinstance(part, Hole) else len(part) for part in pattern)
