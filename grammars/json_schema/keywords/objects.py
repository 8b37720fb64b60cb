"""The keywords of objects: ``properties`` and the like, ``required``, ``propertyNames``, dependencies and counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any, TypeAlias

from grammars.json_schema.document.documents import Documents
from grammars.json_schema.document.places import Place
from grammars.json_schema.keywords.arrays import Child, countable, upper_bound
from grammars.json_schema.keywords.text import pattern_language, pattern_reading_rows
from grammars.json_schema.shapes.shapes import (
    TRUE,
    Clause,
    Conj,
    Evaluated,
    Fact,
    ObjectForm,
    conjoin,
    has,
    lacks,
    negation,
    some,
)
from grammars.regular.json_strings import may_hold_text
from grammars.regular.languages import disjoint
from grammars.regular.terms import NONE, Regular, alt, inter, matches, neg, words
from grammars.values.report import Outcome, ReportRow
from special_tokens.errors import SchemaError

__all__ = ["KEYWORDS", "allow", "cut_into_cells", "deny"]

KEYWORDS = (
    "properties",
    "patternProperties",
    "additionalProperties",
    "propertyNames",
    "required",
    "dependentRequired",
    "minProperties",
    "maxProperties",
)

_MAX_CUTS = 150  # overlaps of patterns that are computed; each is a search
_FEW_NAMES = 64  # at most this many names are listed one by one, so that none can be written twice
_MAX_PAIRS = 6  # pairs of dependentRequired whose negation is expanded
_ADDITIONAL = "additionalProperties"
_NOT_ADDITIONAL = "not enforced: a sibling pattern is not understood, and its keys are not additional"

#: The strings that a conjunction allows.
StringsOf = Callable[[Conj], Regular]

ObjectCells = tuple[tuple[Regular, Conj], ...]

#: The keys that match a pattern, and the condition on their values.
KeyPattern: TypeAlias = tuple[Regular, Conj | None]


def allow(
    schema: Mapping[str, Any],
    place: Place,
    documents: Documents,
    child: Child,
    strings_of: StringsOf,
    notes: list[ReportRow],
) -> ObjectForm:
    """The objects that satisfy the keywords."""
    props: dict[str, Conj | None] = {
        key: child(place, s, "properties", key) for key, s in schema.get("properties", {}).items()
    }
    patterns = _patterns(schema, place, documents, child, notes)
    extra = child(place, schema["additionalProperties"], "additionalProperties") if _ADDITIONAL in schema else TRUE
    readable = [pattern for pattern in patterns if pattern is not None]
    if len(readable) < len(patterns):
        if extra != TRUE:
            notes.append(ReportRow(place.pointer, _ADDITIONAL, Outcome.RELAXED, _NOT_ADDITIONAL))
        extra = TRUE  # a key that matches the unknown pattern is not additional
    cells = cut_into_cells(readable, extra)
    for key, conj in props.items():
        for language, value in readable:
            if matches(language, key):
                conj = conjoin(conj, value)
        props[key] = conj
    if "propertyNames" in schema:
        legal = child(place, schema["propertyNames"], "propertyNames")
        names = NONE if legal is None else strings_of(legal)
        props = {k: v if matches(names, k) else None for k, v in props.items()}
        if names.op == "words" and len(names.args) <= _FEW_NAMES:
            props.update({key: cell_value(cells, key) for key in _ordered(names, legal, documents) if key not in props})
            cells = ()
        else:
            cells = _restrict(cells, names)
    evaluated = Evaluated(
        frozenset(schema.get("properties", ())),
        tuple(language for language, _ in readable),
        _ADDITIONAL in schema,
        unknown_keys=len(readable) < len(patterns),
    )
    return ObjectForm(
        props,
        cells,
        frozenset(schema.get("required", ())),
        tuple(_dependencies(schema)),
        schema.get("minProperties", 0),
        upper_bound(schema, "maxProperties"),
        late=_late_keys(schema),
        evaluated=evaluated,
    )


def _ordered(language: Regular, legal: Conj | None, documents: Documents) -> list[str]:
    """A few names, in the order of the ``enum`` that lists them, if any."""
    given = documents[legal[0]].schema.get("enum", ()) if legal else ()
    rank = {name: i for i, name in enumerate(given) if isinstance(name, str)}
    return sorted(language.args, key=lambda name: (rank.get(name, len(rank)), name))


def _late_keys(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """Keys named outside ``properties``: required ones, then each dependent key after those that it depends on."""
    keys = dict.fromkeys(schema.get("required", ()))
    for key, others in schema.get("dependentRequired", {}).items():
        keys.update(dict.fromkeys((*others, key)))
    return tuple(keys)


def _dependencies(schema: Mapping[str, Any]) -> list[Clause]:
    return [
        frozenset((lacks(key), has(other)))
        for key, others in schema.get("dependentRequired", {}).items()
        for other in dict.fromkeys(others)
        if other != key
    ]


def _patterns(
    schema: Mapping[str, Any], place: Place, documents: Documents, child: Child, notes: list[ReportRow]
) -> list[KeyPattern | None]:
    """The patterns of ``patternProperties`` with the condition on their values; None for one that is not understood."""
    out: list[KeyPattern | None] = []
    for pattern, sub in schema.get("patternProperties", {}).items():
        language = pattern_language(pattern, "patternProperties", place, documents, notes)
        value = child(place, sub, "patternProperties", pattern)
        out.append(None if language is None else (language, value))
        if language is not None:  # a key may match here and be additional for others, or the other way round
            words_for_keys = [w for w in (_ADDITIONAL, "unevaluatedProperties", "patternProperties") if w in schema]
            notes += [row for w in words_for_keys for row in pattern_reading_rows(pattern, w, place, negated=True)]
    return out


def cut_into_cells(patterns: list[KeyPattern], extra: Conj | None) -> ObjectCells:
    """All keys cut into cells by the patterns that they match; keys that match none get ``extra``."""
    cells: list[tuple[Regular, Conj | None]] = []
    cuts = 0
    for language, value in patterns:
        key_set, cut = language, []
        for cell, conj in cells:
            if disjoint(cell, language):
                cut.append((cell, conj))
                continue
            cuts += 1
            if cuts > _MAX_CUTS:
                raise SchemaError(
                    f"patternProperties overlap more than {_MAX_CUTS} times, the limit 'cuts'",
                    keyword="patternProperties",
                    hint="use patterns that exclude each other",
                )
            inside, outside = inter(cell, language), inter(cell, neg(language))
            cut += [(inside, conjoin(conj, value))] if may_hold_text(inside) else []
            cut += [(outside, conj)] if may_hold_text(outside) else []
            key_set = inter(key_set, neg(cell))
        cells = [*cut, (key_set, value)] if may_hold_text(key_set) else cut
    other_keys = neg(alt(*(language for language, _ in patterns)))
    if extra is not None and may_hold_text(other_keys):
        cells.append((other_keys, extra))
    return tuple((cell, conj) for cell, conj in cells if conj is not None)


def _restrict(cells: ObjectCells, language: Regular) -> ObjectCells:
    """The cells cut down to the keys of ``language``."""
    cut = ((inter(cell, language), conj) for cell, conj in cells)
    return tuple((cell, conj) for cell, conj in cut if may_hold_text(cell))


def cell_value(cells: ObjectCells, key: str) -> Conj | None:
    """The condition on the value of a key that is not listed; None when the key is forbidden."""
    for language, conj in cells:
        if matches(language, key):
            return conj
    return None


def deny(
    schema: Mapping[str, Any],
    place: Place,
    documents: Documents,
    child: Child,
    strings_of: StringsOf,
    notes: list[ReportRow],
) -> ObjectForm | None:
    """Objects that break at least one keyword: one form with one clause; None when no keyword can be broken."""
    facts: list[Fact] = []
    properties = schema.get("properties", {})
    for key, sub in properties.items():
        broken = negation(child(place, sub, "properties", key))
        facts += [has(key, broken)] if broken is not None else []
    patterns = _patterns(schema, place, documents, child, notes)
    readable = [pattern for pattern in patterns if pattern is not None]
    if len(readable) < len(patterns):
        return ObjectForm()  # any object may break a pattern that is not understood
    for language, value in readable:
        broken = negation(value)
        facts += [some(language, broken)] if broken is not None else []
    if _ADDITIONAL in schema:
        broken = negation(child(place, schema[_ADDITIONAL], _ADDITIONAL))
        if broken is not None:
            others = (language for language, _ in readable)
            facts.append(some(neg(alt(words(properties), *others)), broken))
    if "propertyNames" in schema:
        broken = negation(child(place, schema["propertyNames"], "propertyNames"))
        if broken is not None:
            facts.append(some(strings_of(broken), TRUE))
    facts += [lacks(key) for key in schema.get("required", ())]
    if schema.get("minProperties"):
        if countable(schema["minProperties"] - 1) is None:
            return ObjectForm()  # every object has fewer keys
        facts.append(Fact("most", schema["minProperties"] - 1))
    if upper_bound(schema, "maxProperties") is not None:
        facts.append(Fact("least", schema["maxProperties"] + 1))
    broken_dependencies = _broken_dependencies(schema)
    if broken_dependencies is None:
        return ObjectForm()
    return _broken_form(facts, broken_dependencies, _late_keys(schema))


def _broken_dependencies(schema: Mapping[str, Any]) -> list[tuple[Fact, Fact]] | None:
    """Pairs of facts that together break ``dependentRequired``; None when there are too many of them."""
    pairs = [
        (has(key), lacks(other)) for key, others in schema.get("dependentRequired", {}).items() for other in others
    ]
    return pairs if len(pairs) <= _MAX_PAIRS else None


def _broken_form(facts: list[Fact], pairs: list[tuple[Fact, Fact]], late: tuple[str, ...]) -> ObjectForm | None:
    if not facts and not pairs:
        return None
    # any of the facts, or both facts of any pair, in conjunctive form: one clause for each choice of a fact per pair
    clauses = [frozenset((*facts, *choice)) for choice in product(*pairs)]
    return ObjectForm(clauses=tuple(dict.fromkeys(clauses)), late=late)
