"""Locates the cause of an unsatisfiable schema: the innermost place that must have a value and has none."""

from __future__ import annotations

from grammars.json_schema.shapes.shapes import Conj, Shape
from grammars.json_schema.solver.solver import Solver

__all__ = ["locate_unsatisfiable"]


def locate_unsatisfiable(solver: Solver, start: Conj) -> str:
    """The JSON pointer of that place; that of ``start`` if nothing below it is surely the cause."""
    conj, visited = start, {start}
    while True:
        below = _needed_and_empty(solver, solver.shape(conj))
        if below is None or below in visited:
            place = next((literal for literal in conj if literal > 0), None)
            return solver.documents.root.pointer if place is None else solver.documents[place].pointer
        conj = below
        visited.add(conj)


def _needed_and_empty(solver: Solver, shape: Shape) -> Conj | None:
    """A value that the only form requires and that nothing satisfies."""
    if len(shape.objects) + len(shape.arrays) != 1:
        return None
    for form in shape.objects:
        for key, value in form.props.items():
            if key in form.required and value is not None and solver.is_empty(value):
                return value
    for array in shape.arrays:
        for i in range(min(array.least, len(array.prefix) + 1)):
            value = array.item(i)
            if value is not None and solver.is_empty(value):
                return value
    return None
