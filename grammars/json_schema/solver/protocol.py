"""The solver as a protocol, for the modules that it calls and that call it back: so imports go one way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from grammars.json_schema.document.documents import Documents
from grammars.json_schema.document.places import Place
from grammars.json_schema.shapes.shapes import Conj, Shape
from grammars.limits.schema_limits import Limits

__all__ = ["Solver"]


class Solver(Protocol):
    """Shapes of conjunctions over one set of documents; `MemoisedSolver` implements and documents each method."""

    documents: Documents
    limits: Limits
    coarse: bool

    def child(self, place: Place, schema: Any, *steps: str | int) -> Conj | None: ...

    def target(self, place: Place, schema: Any, keyword: str) -> Conj | None: ...

    def targets(self) -> Iterable[tuple[tuple[int, str], Place]]: ...

    def spend(self, steps: int, place: Place | None = None) -> None: ...

    def shape(self, conj: Conj) -> Shape: ...

    def intersect(self, one: Shape, two: Shape, place: Place, keyword: str = "") -> Shape: ...

    def literal(self, literal: int, *, tracked: bool = False) -> Shape: ...

    def is_empty(self, conj: Conj, *, for_all: bool = False) -> bool: ...

    def may_be_wider(self, conj: Conj | None) -> bool: ...
