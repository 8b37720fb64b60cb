"""Case split of forms with many clauses by the value of one key, until few clauses are left in each part.

Sixty ``if``s over one ``type`` are about a hundred clauses; once the type is fixed, hardly any are left.  Splitting by
it gives one form for each type, each as simple as its branch.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from grammars.json_schema.keywords.objects import cell_value
from grammars.json_schema.shapes.shapes import Conj, ObjectForm, conjoin
from grammars.json_schema.solver.propagation import propagate_object
from grammars.json_schema.solver.protocol import Solver

__all__ = ["split_cases"]

_FEW = 4  # clauses that `object_order` decides key by key
_MAX_CASES = 250
_MAX_ATOMS = 200
_MAX_SPLITS = 3
_MAX_TRIED = 3  # keys that are tried for one split


def split_cases(form: ObjectForm, solver: Solver) -> tuple[list[ObjectForm], bool]:
    """Forms whose union is ``form``; True when some were left out as too many."""
    if len(form.clauses) < _FEW:
        return [form], False
    done: list[ObjectForm] = []
    hard: list[ObjectForm] = []
    todo = [(form, 0)]
    while todo:
        one, depth = todo.pop()
        if len(one.clauses) < _FEW:
            done.append(one)
            continue
        parts = _split(one, solver) if depth < _MAX_SPLITS and len(done) + len(todo) < _MAX_CASES else None
        if parts is None:
            hard.append(one)
        else:
            todo += [(part, depth + 1) for part in reversed(parts)]
    if not done:
        return [form], False
    if len(hard) <= 2 and all(len(one.clauses) <= 2 * _FEW for one in hard):
        return done + hard, False
    return done, bool(hard)


def _split(form: ObjectForm, solver: Solver) -> list[ObjectForm] | None:
    """The form split by the values of one key, so that at least half of the parts have half of the clauses or fewer."""
    votes = Counter(f.what for clause in form.clauses for f in clause if f.kind in ("has", "lacks"))
    candidates = sorted(votes, key=lambda key: (-_is_tag(form, key, solver), -votes[key], key))
    for key in candidates[:_MAX_TRIED]:
        if votes[key] < 2:
            continue
        parts = _by_value(form, key, solver)
        if parts is not None and sum(2 * len(p.clauses) <= len(form.clauses) for p in parts) * 2 >= len(parts):
            return parts
    return None


def _is_tag(form: ObjectForm, key: str, solver: Solver) -> bool:
    """Whether the clauses constrain the key to scalars only, as they do for a tag that names the branch."""
    wanted = {f.value[0] for clause in form.clauses for f in clause if f.kind == "has" and f.what == key and f.value}
    shapes = [solver.shape((abs(literal),)) for literal in wanted]
    return bool(shapes) and not any(shape.arrays or shape.objects for shape in shapes)


def _by_value(form: ObjectForm, key: str, solver: Solver) -> list[ObjectForm] | None:
    value = form.props[key] if key in form.props else cell_value(form.cells, key)
    if value is None:
        return None
    wanted = {f.value for clause in form.clauses for f in clause if f.kind == "has" and f.what == key}
    atoms = _atoms(value, sorted(conj for conj in wanted if len(conj) == 1), solver)
    if atoms is None:
        return None
    parts = [replace(form, props={**form.props, key: atom}, required=form.required | {key}) for atom in atoms]
    if key not in form.required:
        parts.append(replace(form, props={**form.props, key: None}))
    settled = [propagate_object(part, solver.is_empty) for part in parts]
    solver.spend(len(parts))
    return [part for part in settled if part is not None]


def _atoms(value: Conj, wanted: list[Conj], solver: Solver) -> list[Conj] | None:
    """Conjunctions that cut ``value`` into parts, each of which decides every one of ``wanted``; None if there are too
    many.
    """
    cells = [value]
    for (literal,) in wanted:
        cut: list[Conj] = []
        for cell in cells:
            inside, outside = conjoin(cell, (literal,)), conjoin(cell, (-literal,))
            inside = None if inside is None or solver.is_empty(inside) else inside
            outside = None if outside is None or solver.is_empty(outside) else outside
            if inside is None or outside is None:
                cut.append(cell)  # decided already
            else:
                cut += [inside, outside]
        solver.spend(len(cells))
        cells = cut
        if len(cells) > _MAX_ATOMS:
            return None
    return cells
