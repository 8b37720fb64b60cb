"""Where a schema that no value satisfies goes wrong: the innermost place that must have a value and has none."""

from __future__ import annotations

from grammars.json_schema.shapes.shapes import Conj, Shape
from grammars.json_schema.solver.solver import Space

__all__ = ["culprit"]


def culprit(space: Space, start: Conj) -> str:
    """The JSON pointer of the place; that of ``start`` where nothing below it is surely to blame."""
    conj, found = start, {start}
    while True:
        below = _needed_and_empty(space, space.shape(conj))
        if below is None or below in found:
            place = next((literal for literal in conj if literal > 0), None)
            return space.documents.root.pointer if place is None else space.documents[place].pointer
        conj = below
        found.add(conj)


def _needed_and_empty(space: Space, shape: Shape) -> Conj | None:
    """What a value of the only form must hold and nothing satisfies."""
    if len(shape.objects) + len(shape.arrays) != 1:
        return None
    for form in shape.objects:
        for key, value in form.props.items():
            if key in form.required and value is not None and space.is_empty(value):
                return value
    for array in shape.arrays:
        for i in range(min(array.least, len(array.prefix) + 1)):
            value = array.item(i)
            if value is not None and space.is_empty(value):
                return value
    return None
