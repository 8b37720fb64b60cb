"""Arrays of distinct items with few possible values: whether they suffice."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeAlias

from grammars.json_schema.shapes.shapes import ArrayForm, Conj, Shape
from grammars.regular.finite import finite_words
from grammars.regular.languages import NONE

__all__ = ["Values", "has_too_few_values", "values_of"]

#: The values of a conjunction; None unless they are few scalars.
Values: TypeAlias = Callable[[Conj], frozenset[Hashable] | None]

_MAX_VALUES = 1_000  # more different items in one array do not occur


def values_of(shape: Shape) -> frozenset[Hashable] | None:
    """The values of a shape; None unless they are few scalars."""
    if shape.arrays or shape.objects:
        return None
    values: set[Hashable] = {("null",)} if shape.null else set()
    values |= {("boolean", bit) for bit in (1, 2) if shape.booleans & bit}
    for numbers in shape.numbers:
        listed = numbers.listed().values
        if listed is None:
            return None
        values |= {("number", value) for value, _ in listed}
    if shape.strings != NONE:
        words = finite_words(shape.strings, _MAX_VALUES)
        if words is None:
            return None
        values |= {("string", word) for word in words}
    return frozenset(values) if len(values) <= _MAX_VALUES else None


def has_too_few_values(form: ArrayForm, values: Values) -> bool:
    """Whether the positions with few values have fewer different ones together than the items that must stand there."""
    if not form.unique:
        return False
    wanted = [(1, form.item(at)) for at in range(min(form.least, len(form.prefix)))]
    wanted.append((max(0, form.least - len(form.prefix)), form.item(len(form.prefix))))
    kinds = [[(count.least, count.item)] for count in form.counts] + [wanted]
    for kind in kinds:
        few = [(least, frozenset() if item is None else values(item)) for least, item in kind if least]
        counted = [(least, of_item) for least, of_item in few if of_item is not None]
        if sum(least for least, _ in counted) > len(frozenset().union(*(of_item for _, of_item in counted))):
            return True
    return False
