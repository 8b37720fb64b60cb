"""The fast path: schemas that the engine's own compiler is known to take at their word.

Most schemas need none of our machinery.  `direct` copies such a schema, annotations left out, patterns and formats
in words that the engine reads as ECMA-262 does, references gathered under ``$defs``; for any other it answers None.
What is let through is what was compared with our own grammars and with validators (``tests``): when in doubt, None.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any
from urllib.parse import unquote

from grammars.json_schema.dialects import dialect_of
from grammars.json_schema.ecma import language
from grammars.json_schema.ecma_parser import Parser
from grammars.json_schema.formats import FORMATS, ignored_format
from grammars.json_schema.general import KEY_ORDER, general_rows
from grammars.json_schema.keywords.numeric import allow
from grammars.json_schema.keywords.text import is_costly, written_out
from grammars.json_schema.numbers import shortest_number
from grammars.json_schema.passes.kinds import CHECKS
from grammars.json_schema.regular import ANY, Ranges, Regular, inter, leading, matches, ranges_minus, rep, shortest
from grammars.json_schema.report import Outcome, ReportRow
from grammars.json_schema.spelling import Spelling
from grammars.json_schema.strings import quantifier
from grammars.tree import Json

__all__ = ["Direct", "direct"]

_MAX_DEPTH = 30  # the engine refuses JSON nested about 125 levels, and a property takes several
_MAX_NODES = 20_000
_MAX_TARGETS = 500  # the engine follows chains of references on the stack
_MAX_MERGES = 64
_MAX_REORDERED = 8
_MAX_LITERAL = 10_000  # characters of one constant: the engine's first mask grows with its square
_MAX_KEYS = 1_000  # the engine's row of items grows with the optional keys of one object
_MAX_COUNTED = 20  # and its rules, where keys are counted
_MAX_COMPARED = 2_000  # schemas looked at to see whether they contradict each other
_MAX_TOGETHER = 2_000  # characters of patterns and formats that meet a length or each other
_SAFE = 2**53


class _NotDirect(Exception):
    """The schema needs more than the engine's own compiler."""


@dataclass(slots=True)
class Direct:
    """A schema for the engine: ``node``, the report's rows, and what has to be watched at run time.

    ``has_numbers``: numbers of any length may be written; ``has_free_keys``: some objects take keys that no schema
    lists, which could be written twice.
    """

    node: Json
    rows: tuple[ReportRow, ...]
    has_numbers: bool
    has_free_keys: bool


def direct(schema: Any, spelling: Spelling) -> Direct | None:
    """The schema for the engine's own compiler, or None when it needs ours."""
    if spelling.max_whitespace:
        return None  # only our own rules bound white space between tokens one by one
    try:
        return _Copy(schema).result(spelling)
    except _NotDirect:
        return None


@dataclass(slots=True)
class _Copy:
    """One copy of a document: ``targets`` maps the id of a referred schema to its name under ``$defs``."""

    root: Any
    targets: dict[int, str] = field(default_factory=dict)
    todo: list[tuple[str, Any, list[str]]] = field(default_factory=list)
    rows: list[ReportRow] = field(default_factory=list)
    alone: bool = False
    path: list[str] = field(default_factory=list)
    nodes: int = 0
    inside: int = 0
    merges: int = 1
    compared: int = 0
    numbers: bool = False
    open_keys: bool = False
    rare_text: bool = False
    free_keys: bool = False
    ordered: bool = False

    def result(self, spelling: Spelling) -> Direct:
        dialect = dialect_of(self.root)
        self.alone = dialect.ref_stands_alone
        if isinstance(self.root, dict):
            named = self.root.get("$schema")
            if named is not None and not isinstance(named, str):
                raise _NotDirect
        out = self.schema(self.root)
        defs: dict[str, Any] = {}
        while self.todo:
            name, target, self.path = self.todo.pop()
            defs[name] = self.schema(target)
        if out is False or (defs and not _productive(out, defs)):
            raise _NotDirect
        if self.merges > 1 and (self.merges > _MAX_MERGES or self.nodes > 3_000 or _has_cycle(out, defs)):
            raise _NotDirect  # the engine refuses or multiplies these
        body: dict[str, Any] = {} if out is True else out
        if defs:
            body = {**body, "$defs": defs}
        options = dict(spelling.engine_options())
        if self.open_keys:
            if self.rare_text:
                raise _NotDirect  # the engine would write a value without its last characters
            note = "control characters without a short escape are not written"
            self.rows.append(ReportRow("", "type", Outcome.NARROWED, note))
        else:
            del options["json_allowed_escapes"]  # nothing to protect: control characters may be spelled
        if self.ordered:
            self.rows.append(KEY_ORDER)
        rows = (*self.rows, *general_rows(self.root, dialect, has_numbers=self.numbers))
        return Direct(Json(body, options), rows, self.numbers, self.free_keys)

    def schema(self, schema: Any) -> Any:
        """The copy of one subschema."""
        if schema is True or schema is False:
            return schema
        if not isinstance(schema, dict):
            raise _NotDirect
        self.nodes += 1
        if len(self.path) > _MAX_DEPTH or self.nodes > _MAX_NODES:
            raise _NotDirect
        if self.path and _is_identified(schema):
            self.inside += 1
            out = self.copy(schema)
            self.inside -= 1
            return out
        return self.copy(schema)

    def copy(self, schema: dict[str, Any]) -> Any:
        out: dict[str, Any] = {}
        if "$ref" in schema:
            if not self.alone and _siblings(schema, "$ref"):
                rest = {k: v for k, v in schema.items() if k != "$ref"}
                return self.schema({**rest, "allOf": [*rest.get("allOf", ()), {"$ref": schema["$ref"]}]})
            self.reference(schema, out)
            return out
        for keyword, value in schema.items():
            read = _READERS.get(keyword)
            if read is not None:
                read(self, value, schema, out)
        return self.finished(schema, out)

    def below(self, schema: Any, *steps: str) -> Any:
        """The copy of a subschema, its steps on the path while it lasts."""
        self.path += steps
        out = self.schema(schema)
        del self.path[-len(steps) :]
        return out

    def note(self, keyword: str, outcome: Outcome, reason: str) -> None:
        pointer = "".join("/" + s.replace("~", "~0").replace("/", "~1") for s in self.path)
        self.rows.append(ReportRow(pointer, keyword, outcome, reason))

    def finished(self, schema: Mapping[str, Any], out: dict[str, Any]) -> Any:
        """The copy, once what a type leaves open is noted: numbers without end, keys without a list.

        What contradicts itself is left to our own compiler, which says so; False where no value is left.
        """
        kinds = schema.get("type", _ANY_TYPE)
        kinds = (kinds,) if isinstance(kinds, str) else kinds
        for least, most in _PAIRS:
            if least in out and most in out and out[least] > out[most]:
                raise _NotDirect
        if "enum" in schema or "const" in schema:
            fits = "type" not in schema or any(k in kinds for v in out["enum"] for k in _TYPES_OF[type(v)])
            return out if fits else False
        if out.get("items") is False and out.get("minItems"):
            raise _NotDirect
        if ("integer" in kinds or "number" in kinds) and not _bounded(out):
            self.numbers = True
        if "object" in kinds and out.get("additionalProperties", True) is not False:
            self.free_keys = self.numbers = True
            if "properties" in out or "patternProperties" in out or "required" in out:
                self.open_keys = self.ordered = True
        if "required" in out and "object" in kinds:
            closed = out.get("additionalProperties") is False
            listed = out.get("properties", {})
            if any(listed.get(key, not closed) is False for key in out["required"]):
                raise _NotDirect
        if "pattern" in out:
            several = ("pattern" in schema) + (schema.get("format") in FORMATS)
            if several + ("minLength" in out or "maxLength" in out) > 1:
                _check_words(schema, out)
        return out or True

    # -- references

    def reference(self, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
        ref = schema["$ref"]
        if self.inside:
            raise _NotDirect  # a "#" below an identifier may mean something else
        target, steps = self.target(ref)
        name = self.targets.get(id(target))
        if name is None:
            if len(self.targets) >= _MAX_TARGETS:
                raise _NotDirect
            name = self.targets[id(target)] = str(len(self.targets))
            self.todo.append((name, target, steps))
        out["$ref"] = f"#/$defs/{name}"

    def target(self, ref: Any) -> tuple[Any, list[str]]:
        if not isinstance(ref, str) or not (ref == "#" or ref.startswith("#/")):
            raise _NotDirect
        target: Any = self.root
        steps = [unquote(raw).replace("~1", "/").replace("~0", "~") for raw in ref.split("/")[1:]]
        for step in steps:
            if not isinstance(target, dict) or step not in target:
                raise _NotDirect
            target = target[step]
        if not isinstance(target, dict) or ("$ref" in target and target["$ref"] == ref):
            raise _NotDirect
        return target, steps

    # -- keywords

    def kept(self, keyword: str, value: Any, out: dict[str, Any]) -> None:
        if not CHECKS[keyword][0](value):
            raise _NotDirect
        out[keyword] = value

    def enum(self, value: Any, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
        if not isinstance(value, list) or not value or "const" in schema or "nullable" in schema:
            raise _NotDirect
        for one in value:
            if isinstance(one, str):
                if len(one) > _MAX_LITERAL:
                    raise _NotDirect
            elif one is not None and not isinstance(one, bool):
                _safe_integer(one)
        self.rare_text |= _has_rare_text(value)
        out["enum"] = value

    def const(self, value: Any, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
        if dialect_of(self.root).order < 6:
            raise _NotDirect
        self.enum([value], {}, out)

    def properties(self, value: Any, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
        if not isinstance(value, dict) or len(value) > _MAX_KEYS:
            raise _NotDirect
        if len(value) > _MAX_COUNTED and ("minProperties" in schema or "maxProperties" in schema):
            raise _NotDirect
        out["properties"] = {key: self.below(sub, "properties", key) for key, sub in value.items()}
        self.ordered = self.ordered or len(value) > 1

    def sub(self, keyword: str, value: Any, out: dict[str, Any]) -> None:
        out[keyword] = self.below(value, keyword)

    def items(self, value: Any, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
        if not isinstance(value, dict | bool):
            raise _NotDirect
        out["items"] = self.below(value, "items")

    def counts(self, keyword: str, value: Any, out: dict[str, Any]) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 1_000:
            raise _NotDirect
        out[keyword] = value

    def length(self, keyword: str, value: Any, out: dict[str, Any]) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _LENGTHS[keyword]:
            raise _NotDirect
        out[keyword] = value

    def bound(self, keyword: str, value: Any, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
        """Whole bounds are exact in the engine; ``integer`` and ``number`` only, as a type says which."""
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        named = schema.get("type")
        kinds = {named} if isinstance(named, str) else set(named) if isinstance(named, list) else set()
        if kinds and not kinds & {"integer", "number"}:
            return  # says nothing about other types
        if not kinds or abs(value) >= 2**63 - 1 or (isinstance(value, float) and "integer" in kinds):
            raise _NotDirect
        if isinstance(value, int) and "number" not in kinds and abs(value) >= _SAFE and int(float(value)) == value:
            self.note(keyword, Outcome.NARROWED, "integers are written up to 64 bits")
        elif not isinstance(value, float) or keyword[0] == "e" or round(value, 6) != value or abs(value) > 10**9:
            _safe_integer(value)  # fractions are exact in the engine where they are inclusive
        other = (
            "exclusive" + keyword[0].upper() + keyword[1:] if keyword[0] == "m" else keyword[9].lower() + keyword[10:]
        )
        if other in schema:
            raise _NotDirect
        out[keyword] = value
        if "number" in kinds:
            self.note(keyword, Outcome.NARROWED, "numbers with bounds are written without exponent")

    def pattern(self, value: Any, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
        if not isinstance(value, str):
            raise _NotDirect
        found = engine_pattern(value)
        if found is None:
            raise _NotDirect
        out["pattern"] = found

    def format(self, value: Any, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
        if not isinstance(value, str):
            raise _NotDirect
        row = FORMATS.get(value)
        if row is None:
            self.note("format", Outcome.EXACT, ignored_format(value))
            return
        found = format_pattern(value)
        if found is None or ("pattern" in schema and "allOf" in schema):
            raise _NotDirect
        if row.reason:
            self.note("format", row.outcome, row.reason)
        if "pattern" in schema:
            out["allOf"] = [{"pattern": found}]
            self.merges *= 2
        else:
            out["pattern"] = found

    def any_of(self, value: Any, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
        if not isinstance(value, list) or not value:
            raise _NotDirect
        if len(value) == 1:
            self.merged("anyOf", value, schema, out)
        else:
            self.branches("anyOf", value, schema, out)

    def one_of(self, value: Any, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
        if not isinstance(value, list) or not value or "anyOf" in schema:
            raise _NotDirect
        if len(value) == 1:
            self.merged("oneOf", value, schema, out)
        elif _exclusive([self.resolved(sub) for sub in value]):
            self.branches("oneOf", value, schema, out)
        else:
            raise _NotDirect

    def branches(self, keyword: str, value: list[Any], schema: Mapping[str, Any], out: dict[str, Any]) -> None:
        if _siblings(schema, keyword):
            rest = {k: v for k, v in schema.items() if k != keyword}
            if not all(_mergeable([rest, self.resolved(sub)], self) for sub in value):
                raise _NotDirect
            self.merges *= len(value)
        out["anyOf"] = [self.below(sub, keyword, str(i)) for i, sub in enumerate(value)]
        out["anyOf"] += self.reordered(value)
        if any(branch is False for branch in out["anyOf"]):
            raise _NotDirect

    def reordered(self, value: list[Any]) -> list[Any]:
        """Branches whose keys come in another order than all branches together name them, in that order."""
        branches = [self.resolved(sub) for sub in value]
        rank: dict[str, int] = {}
        found: list[Any] = []
        for branch in branches:
            keys = branch.get("properties", ()) if isinstance(branch, dict) else ()
            places = [rank.setdefault(key, len(rank)) for key in keys]
            if places != sorted(places):
                found.append(branch)
        if len(found) > _MAX_REORDERED:
            raise _NotDirect
        out = []
        for branch in found:
            listed = branch["properties"]
            out.append(
                self.schema({**branch, "properties": {k: listed[k] for k in sorted(listed, key=rank.__getitem__)}})
            )
        return out

    def all_of(self, value: Any, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
        if not isinstance(value, list) or not value:
            raise _NotDirect
        self.merged("allOf", value, schema, out)

    def merged(self, keyword: str, value: list[Any], schema: Mapping[str, Any], out: dict[str, Any]) -> None:
        """Schemas that all hold: left to the engine where their keys do not meet, so that nothing can contradict."""
        beside = _siblings(schema, keyword)
        if len(value) > 1 or beside:
            rest = [{k: v for k, v in schema.items() if k != keyword}] if beside else []
            if "allOf" in out or not _mergeable([*rest, *map(self.resolved, value)], self):
                raise _NotDirect
            self.merges *= 2
        copies = [self.below(sub, keyword, str(i)) for i, sub in enumerate(value)]
        if any(copy is False for copy in copies):
            raise _NotDirect
        out["allOf"] = [copy for copy in copies if copy is not True]

    def resolved(self, schema: Any) -> Any:
        """The schema, or what it refers to."""
        for _ in range(8):
            if not isinstance(schema, dict) or "$ref" not in schema:
                return schema
            schema = self.target(schema["$ref"])[0]
        raise _NotDirect

    def pattern_properties(self, value: Any, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
        if not isinstance(value, dict) or len(value) > 20:
            raise _NotDirect
        known = [_language(pattern) for pattern in value]
        if len(known) > 1 and not _begin_apart([leading(term) for term in known]):
            raise _NotDirect
        listed = (*schema.get("properties", ()), *schema.get("required", ()))
        if any(matches(term, key) for term in known for key in listed):
            raise _NotDirect
        copied = {}
        for pattern, sub in value.items():
            found = engine_pattern(pattern)
            if found is None:
                raise _NotDirect
            copied[found] = self.below(sub, "patternProperties", pattern)
        if len(copied) < len(value):
            raise _NotDirect
        if copied:
            out["patternProperties"] = copied
            self.free_keys = True

    def properties_count(self, keyword: str, value: Any, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
        """Counts are exact for maps, and for one key out of a closed list."""
        if schema.get("patternProperties"):
            raise _NotDirect
        listed, required = schema.get("properties") or {}, schema.get("required") or ()
        if set(listed) == set(required) and isinstance(value, int) and value >= len(required) and keyword[:3] == "max":
            self.counts(keyword, value, out)
            return
        if keyword == "minProperties" and isinstance(value, int) and value <= len(set(required)):
            return  # met by the required keys
        if listed or required:
            one = value == 1 and schema.get("maxProperties", 1) == 1 and schema.get("minProperties", 1) == 1
            if not one or schema.get("additionalProperties") is not False or schema.get("required"):
                raise _NotDirect
        self.counts(keyword, value, out)

    def multiple_of(self, value: Any, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
        """Whole steps, and powers of ten, are exact up to the zeros that a number may end with."""
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        power = value in (0.1, 0.01, 0.001, 0.0001)
        named = schema.get("type")
        kinds = {named} if isinstance(named, str) else set(named) if isinstance(named, list) else set()
        if not kinds & {"integer", "number"} or isinstance(value, bool):
            raise _NotDirect
        if not (power or (isinstance(value, int) and 1 <= value <= 1_000)):
            raise _NotDirect
        bounds = {k: schema[k] for k in _BOUNDS if k in schema}
        if any(isinstance(v, bool) for v in bounds.values()):
            raise _NotDirect
        if bounds and shortest_number(allow({**bounds, "multipleOf": value})) is None:
            raise _NotDirect  # no multiple between them was found
        out["multipleOf"] = value
        if "number" in kinds:
            self.note("multipleOf", Outcome.NARROWED, "multiples are written without exponent or zeros at the end")


_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_LENGTHS = {"minLength": 10_000, "maxLength": 2**31}
_ANY_TYPE = ("integer", "object")


def _language(pattern: str) -> Regular:
    try:
        return language(pattern)
    except ValueError:
        raise _NotDirect from None


def _begin_apart(prefixes: list[str]) -> bool:
    """Do words with these beginnings surely differ?"""
    ordered = sorted(prefixes)
    return all(a and not b.startswith(a) for a, b in pairwise(ordered))


def _siblings(schema: Mapping[str, Any], keyword: str) -> bool:
    """Is there more than annotations beside an applicator?"""
    return any(k in CHECKS for k in schema if k != keyword)


def _is_identified(schema: Mapping[str, Any]) -> bool:
    named = schema.get("$id", schema.get("id"))
    return isinstance(named, str) and not named.startswith("#")


def _safe_integer(value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not -_SAFE < value < _SAFE:
        raise _NotDirect


def _bounded(out: Mapping[str, Any]) -> bool:
    low = "minimum" in out or "exclusiveMinimum" in out
    return low and ("maximum" in out or "exclusiveMaximum" in out) and out.get("type") == "integer"


_PAIRS = (
    ("minLength", "maxLength"),
    ("minItems", "maxItems"),
    ("minProperties", "maxProperties"),
    ("minimum", "maximum"),
    ("exclusiveMinimum", "maximum"),
    ("minimum", "exclusiveMaximum"),
    ("exclusiveMinimum", "exclusiveMaximum"),
)
_TYPES_OF: Mapping[type, tuple[str, ...]] = {
    str: ("string",),
    bool: ("boolean",),
    int: ("integer", "number"),
    type(None): ("null",),
}


def _check_words(schema: Mapping[str, Any], out: Mapping[str, Any]) -> None:
    """Patterns, formats and lengths that stand together must surely leave a word, or the engine refuses them."""
    terms = [_language(schema["pattern"])] if "pattern" in schema else []
    terms += [FORMATS[schema["format"]].language] if schema.get("format") in FORMATS else []
    if sum(map(written_out, terms)) > _MAX_TOGETHER // len(terms) ** 2 or (
        "format" in schema and written_out(terms[-1]) > 400
    ):
        raise _NotDirect  # the engine gives up on asking whether anything is left
    least, most = out.get("minLength", 0), out.get("maxLength")
    word = shortest(terms[0]) if len(terms) == 1 else None
    if isinstance(word, str) and least <= len(word) <= (len(word) if most is None else most):
        return
    if least > 500 or not isinstance(shortest(inter(rep(ANY, least, most), *terms), 600), str):
        raise _NotDirect


def _productive(root: Any, defs: Mapping[str, Any]) -> bool:
    """Can every definition, and the root, be finished by a finite value?"""
    done: set[str] = set()

    def ends(schema: Any) -> bool:
        if not isinstance(schema, dict):
            return schema is True
        if "$ref" in schema:
            return schema["$ref"][len("#/$defs/") :] in done
        if "anyOf" in schema:
            return any(map(ends, schema["anyOf"]))
        types = schema.get("type")
        if types == "object":
            listed = schema.get("properties", {})
            extra = schema.get("additionalProperties", True)
            return all(ends(listed.get(key, extra)) for key in schema.get("required", ()))
        if types == "array" and schema.get("minItems", 0):
            return ends(schema.get("items", True))
        return True

    while True:
        found = {name for name, schema in defs.items() if name not in done and ends(schema)}
        if not found:
            return len(done) == len(defs) and ends(root)
        done |= found


def _has_cycle(root: Any, defs: Mapping[str, Any]) -> bool:
    """Does a definition lead back to itself?"""
    below = {name: set(_references(schema)) for name, schema in defs.items()}
    while below:
        free = [name for name, names in below.items() if not names & below.keys()]
        if not free:
            return True
        for name in free:
            del below[name]
    return False


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"][len("#/$defs/") :]
        for value in schema.values():
            yield from _references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _references(value)


_SILENT = {"type", "properties", "required", "allOf", "anyOf", "oneOf", "$ref", "additionalProperties"}


def _mergeable(parts: list[Any], copy: _Copy, depth: int = 4) -> bool:
    """May the engine intersect these schemas: one type, and listed keys whose values cannot contradict each other?"""
    listed: dict[str, Any] = {}
    types: list[Any] = []
    required: set[str] = set()
    closed: list[set[str]] = []
    speaking = 0
    todo = list(parts)
    while todo:
        copy.compared += 1
        if copy.compared > _MAX_COMPARED:
            raise _NotDirect
        part = copy.resolved(todo.pop())
        if not isinstance(part, dict):
            return part is True
        for keyword in ("anyOf", "oneOf"):
            if keyword in part:
                rest = {k: v for k, v in part.items() if k != keyword}
                return depth > 0 and all(
                    _mergeable(
                        [*todo, {"properties": listed, "required": sorted(required)}, rest, sub], copy, depth - 1
                    )
                    for sub in part[keyword]
                )
        speaking += any(k in CHECKS and k not in _SILENT for k in part)
        own, extra = part.get("properties", {}), part.get("additionalProperties", True)
        if not isinstance(own, dict) or not isinstance(part.get("required", []), list) or isinstance(extra, dict):
            return False
        for key in own.keys() & listed.keys():
            if not _agree(own[key], listed[key], copy, depth):
                return False
        listed = {**listed, **own}
        required |= set(part.get("required", ()))
        if extra is False:
            closed.append(set(own))
        if "type" in part and part["type"] not in types:
            types.append(part["type"])
        if "allOf" in part:
            todo += part["allOf"]
    if any(not (required | listed.keys()) <= keys for keys in closed):
        return False
    return speaking <= 1 and len(types) <= 1


def _agree(one: Any, two: Any, copy: _Copy, depth: int) -> bool:
    if one == two:
        return True
    if depth == 0 or not isinstance(one, dict) or not isinstance(two, dict):
        return one is True or two is True
    return _mergeable([one, two], copy, depth - 1)


def _exclusive(branches: list[Any]) -> bool:
    """Do the branches surely exclude each other: by type, by constants, or by a key that each requires?"""
    return len(branches) <= 60 and all(_apart(one, two) for i, one in enumerate(branches) for two in branches[i + 1 :])


def _apart(one: Any, two: Any) -> bool:
    if not isinstance(one, dict) or not isinstance(two, dict):
        return False
    a, b = _kinds(one), _kinds(two)
    if a is not None and b is not None and a.isdisjoint(b):
        return True
    x, y = _words(one), _words(two)
    if x is not None and y is not None:
        return x.isdisjoint(y)
    if a != {"object"} or b != {"object"}:
        return False
    return _tagged_apart(one, two) or _tagged_apart(two, one)


def _kinds(schema: Mapping[str, Any]) -> set[str] | None:
    types = schema.get("type")
    if types is None:
        return {"string"} if _words(schema) is not None else None
    found = {types} if isinstance(types, str) else set(types) if isinstance(types, list) else set()
    return {"number" if t == "integer" else t for t in found}


def _words(schema: Mapping[str, Any]) -> set[str] | None:
    """The strings of a constant or list of strings; None for anything else."""
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if isinstance(values, list) and values and all(isinstance(v, str) for v in values):
        return set(values)
    return None


def _tagged_apart(one: Mapping[str, Any], two: Mapping[str, Any]) -> bool:
    """Does ``one`` require a key that ``two`` cannot have, or not with the same value?"""
    required, listed, other = one.get("required"), one.get("properties"), two.get("properties", {})
    if not isinstance(required, list) or not isinstance(listed, dict) or not isinstance(other, dict):
        return False
    closed = two.get("additionalProperties") is False and "patternProperties" not in two
    for key in required:
        if closed and key not in other:
            return True
        mine, its = listed.get(key), other.get(key)
        if isinstance(mine, dict) and isinstance(its, dict) and key in (two.get("required") or ()):
            x, y = _words(mine), _words(its)
            if x is not None and y is not None and x.isdisjoint(y):
                return True
    return False


_TOKEN = re.compile(r"\\(?:[dDwW/.^$*+?()\[\]{}|\\\-tnrfv_@:,#&%!<>=~\"' ])|\\s|\[\^?|\]|\(\?:|\(\?|\(|\)|.", re.DOTALL)
_SPACES = "\\t-\\r \\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}\\x{FEFF}"


def _has_rare_text(value: Any) -> bool:
    """Does a string in it need an escape that is not a short one?"""
    match value:
        case str():
            return re.search(r"[\x00-\x07\x0b\x0e-\x1f\x7f]", value) is not None
        case list():
            return any(map(_has_rare_text, value))
        case dict():
            return any(map(_has_rare_text, (*value, *value.values())))
    return False


@lru_cache(maxsize=4_096)
def engine_pattern(pattern: str) -> str | None:
    """A pattern that the engine reads as ECMA-262 reads this one; None where it has none."""
    found = _same_words(pattern)
    try:
        if found is not None:
            Parser(pattern).parse()  # what is no pattern is refused by our own compiler, at its place
            return found
        term = language(pattern)
    except ValueError:
        return None
    return f"^(?:{_regex(term)})$" if term.plain and written_out(term) < 5_000 and not is_costly(term) else None


def _same_words(pattern: str) -> str | None:
    """The pattern almost as it stands, when all its words mean the same to the engine."""
    if len(pattern) > 500 or not pattern.isascii() or pattern.count("{") > 1:
        return None
    out: list[str] = []
    inside = False
    anchored = pattern[:1] == "^" or pattern[-1:] == "$"
    for found in _TOKEN.finditer(pattern):
        token, at = found.group(), found.start()
        if token == "\\s":
            out.append(_SPACES if inside else f"[{_SPACES}]")
            continue
        if token == "\\" or token == "(?" or (token in "^$" and not _is_edge(token, at, pattern, inside)):
            return None
        if inside:
            if token in ('"', "\\\\", '\\"'):
                return None  # see `_quotable`
            if token[0] == "[" or token in ("&", "~") or (token == "-" and _odd_hyphen(pattern, at)):
                return None
            inside = token != "]"
        elif token in ("[", "[^"):
            if pattern[found.end() : found.end() + 1] == "]":
                return None
            inside = True
        elif (
            (token == "|" and anchored)
            or (token in "*+?}" and pattern[at + 1 : at + 2] in ("+", "*"))
            or (token == "{" and re.match(r"\{\d{1,4}(?:,\d{0,4})?\}", pattern[at:]) is None)
            or (token in "]}" and token == "]")
        ):
            return None
        out.append(_DOT if token == "." and not inside else token)
    return "".join(out) if not inside else None


_DOT = "[^\\n\\r\\x{2028}\\x{2029}]"


def _is_edge(token: str, at: int, pattern: str, inside: bool) -> bool:
    if inside:
        return token == "$"
    return at == 0 if token == "^" else at == len(pattern) - 1


def _odd_hyphen(pattern: str, at: int) -> bool:
    """A hyphen in a class that is not plainly a range of two letters or digits, nor the last character."""
    if pattern[at + 1 : at + 2] == "]" or pattern[at - 1] in "[^":
        return False
    return not (pattern[at - 1].isalnum() and pattern[at + 1].isalnum() and pattern[at - 2] != "\\")


@lru_cache(maxsize=64)
def format_pattern(name: str) -> str | None:
    """The pattern of a format for the engine; None where it needs intersection."""
    found = FORMATS[name].language
    return f"^(?:{_regex(found)})$" if found.plain else None


def _regex(term: Regular) -> str:
    """Rust regex of a plain term, as an atom or a sequence of atoms."""
    args = term.args
    match term.op:
        case "chars":
            return "(?s:.)" if term == ANY else "[" + "".join(map(_range, _quotable(args))) + "]"
        case "words":
            spelled = ["".join(map(_char, map(ord, w))) for w in sorted(args)]
            return spelled[0] if len(spelled) == 1 else f"(?:{'|'.join(spelled)})"
        case "cat":
            return "".join(map(_regex, args))
        case "alt":
            return f"(?:{'|'.join(map(_regex, args))})"
    body, least, most = args
    inner = _regex(body) if body.op in ("chars", "alt") else f"(?:{_regex(body)})"
    return inner + quantifier(least, most)


def _quotable(ranges: Ranges) -> Ranges:
    """The class without NUL, where the engine would quote it wrongly.

    llguidance 1.9.1 lets a class that holds all control characters, but not the quote or the backslash, match those
    two all the same when it is written as JSON text.
    """
    if ranges[0][0] > 0 or ranges[0][1] < 0x1F:
        return ranges
    return ranges if all(any(a <= c <= b for a, b in ranges) for c in (0x22, 0x5C)) else ranges_minus(ranges, ((0, 0),))


def _range(bounds: tuple[int, int]) -> str:
    low, high = bounds
    return _char(low) if low == high else f"{_char(low)}-{_char(high)}"


def _char(code: int) -> str:
    char = chr(code)
    return char if char.isascii() and char.isalnum() else f"\\x{{{code:X}}}"


def _refuse(copy: _Copy, value: Any, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
    raise _NotDirect


def _keep(keyword: str) -> Callable[[_Copy, Any, Mapping[str, Any], dict[str, Any]], None]:
    return lambda copy, value, schema, out: copy.kept(keyword, value, out)


def _named(method: str, keyword: str) -> Callable[[_Copy, Any, Mapping[str, Any], dict[str, Any]], None]:
    run = getattr(_Copy, method)
    return lambda copy, value, schema, out: run(copy, keyword, value, out)


def _named_beside(method: str, keyword: str) -> Callable[[_Copy, Any, Mapping[str, Any], dict[str, Any]], None]:
    run = getattr(_Copy, method)
    return lambda copy, value, schema, out: run(copy, keyword, value, schema, out)


_READERS: dict[str, Callable[[_Copy, Any, Mapping[str, Any], dict[str, Any]], None]] = {
    **dict.fromkeys(CHECKS, _refuse),
    "additionalItems": lambda copy, value, schema, out: None,  # beside a single schema for items it means nothing
    "type": _keep("type"),
    "required": _keep("required"),
    "enum": _Copy.enum,
    "const": _Copy.const,
    "properties": _Copy.properties,
    "additionalProperties": _named("sub", "additionalProperties"),
    "patternProperties": _Copy.pattern_properties,
    "items": _Copy.items,
    "minItems": _named("counts", "minItems"),
    "maxItems": _named("counts", "maxItems"),
    "minProperties": _named_beside("properties_count", "minProperties"),
    "maxProperties": _named_beside("properties_count", "maxProperties"),
    "minLength": _named("length", "minLength"),
    "maxLength": _named("length", "maxLength"),
    "pattern": _Copy.pattern,
    "format": _Copy.format,
    **{keyword: _named_beside("bound", keyword) for keyword in _BOUNDS},
    "multipleOf": _Copy.multiple_of,
    "anyOf": _Copy.any_of,
    "oneOf": _Copy.one_of,
    "allOf": _Copy.all_of,
}
