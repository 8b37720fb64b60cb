"""The copy of a schema document for the engine's own compiler: the walk, references, and notes for the report."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import unquote

from grammars.json_schema.document.dialects import Dialect, dialect_of
from grammars.json_schema.document.reader_differences import has_later_formats, ignored_dialect_reason, means_the_same
from grammars.json_schema.grammar.key_bounds import KeyBounds
from grammars.json_schema.passes.dialect import ignored_ref_siblings, nullable
from grammars.json_schema.passes.kinds import CHECKS, TYPES_OF, are_kinds_right
from grammars.json_schema.passthrough.definitions import is_productive, merged_size
from grammars.json_schema.passthrough.patterns import EnginePattern, pattern_language
from grammars.json_schema.passthrough.refusal import NotPassedThrough
from grammars.json_schema.report.document_rows import KEY_ORDER, document_rows
from grammars.regular.languages import matches
from grammars.tree.nodes import Json
from grammars.values.json_pointer import pointer_of, unescaped
from grammars.values.report import Outcome, ReportRow
from grammars.values.spelling import Spelling
from special_tokens.errors import GrammarError

__all__ = ["ENGINE_KEYWORDS", "KeywordReader", "Passthrough", "SchemaCopy", "has_siblings"]

_MAX_DEPTH = 90  # levels of JSON: the engine refuses 125, and its merges add some
_MAX_NODES = 20_000
_MAX_TARGETS = 2_000  # the engine follows chains of references on the stack
_MAX_MERGED = 10_000  # schemas, once the engine has merged them: it ends at 50,000


#: Reads one keyword of a schema into its copy: (copy, value, schema, out).
KeywordReader: TypeAlias = Callable[["SchemaCopy", Any, Mapping[str, Any], dict[str, Any]], None]


@dataclass(slots=True)
class Passthrough:
    """A schema for the engine: ``node``, the report rows, and what must be watched at run time.

    ``has_numbers``: numbers of any length may be written; ``has_free_keys``: some objects accept keys that no schema
    lists, which could be written twice; ``key_bounds`` say how soon such keys run out.
    """

    node: Json
    rows: tuple[ReportRow, ...]
    has_numbers: bool
    has_free_keys: bool
    key_bounds: KeyBounds


@dataclass(slots=True)
class SchemaCopy:
    """One copy of a document: ``targets`` are the names under ``$defs``, by the id of the schema that is referred to.

    The flags say what the readers found: unbounded ``numbers``, ``integers``, ``free_keys`` that no schema lists,
    ``open_keys`` in addition to listed ones, ``has_long_escapes`` in constants and patterns, and whether keys are
    ``ordered``.  ``read``: schemas whose keywords have values of the right type, by id, kept alive so that ids stay
    valid.
    """

    root: Any
    readers: Mapping[str, KeywordReader]
    keys: AbstractSet[str] | None = None
    dialect: Dialect = field(init=False)
    ref_ignores_siblings: bool = field(init=False)
    targets: dict[Hashable, str] = field(default_factory=dict)
    todo: list[tuple[str, Any, list[str]]] = field(default_factory=list)
    rows: list[ReportRow] = field(default_factory=list)
    path: list[str] = field(default_factory=list)
    read: dict[int, dict[str, Any]] = field(default_factory=dict)
    nodes: int = 0
    inside: int = 0
    has_merges: bool = False
    compared: int = 0
    constants: int = 0
    numbers: bool = False
    integers: bool = False
    open_keys: bool = False
    has_long_escapes: bool = False
    free_keys: bool = False
    key_bounds: KeyBounds = KeyBounds()
    ordered: bool = False

    def __post_init__(self) -> None:
        self.dialect = dialect_of(self.root)
        self.ref_ignores_siblings = self.dialect.ref_ignores_siblings

    def result(self, spelling: Spelling) -> Passthrough:
        if isinstance(self.root, dict):
            named = self.root.get("$schema")
            if named is not None and not isinstance(named, str):
                raise NotPassedThrough
        out = self.schema(self.root)
        defs: dict[str, Any] = {}
        while self.todo:
            name, target, self.path = self.todo.pop()
            defs[name] = self.schema(target)
        if out is False or (defs and not is_productive(out, defs)):
            raise NotPassedThrough
        if self.has_merges and (merged_size(out, defs) or _MAX_MERGED + 1) > _MAX_MERGED:
            raise NotPassedThrough  # the engine refuses these, or multiplies their schemas
        body: dict[str, Any] = {} if out is True else out
        if defs:
            body = {**body, "$defs": defs}
        options = dict(spelling.engine_options())
        if self.open_keys:
            if self.has_long_escapes:
                raise NotPassedThrough  # the engine would write a value without its last characters
            note = "control characters without a short escape are not written"
            self.rows.append(ReportRow("", "type", Outcome.NARROWED, note))
        else:
            del options["json_allowed_escapes"]  # without open keys any escape of a control character is safe
        if self.ordered:
            self.rows.append(KEY_ORDER)
        general = document_rows(
            self.root, self.dialect, has_numbers=self.numbers, has_integers=self.integers, keys=self.keys
        )
        return Passthrough(Json(body, options), (*self.rows, *general), self.numbers, self.free_keys, self.key_bounds)

    # -- the walk

    def schema(self, schema: Any) -> Any:
        """Return the copy of one subschema."""
        if schema is True:
            self.free_keys = self.numbers = True
        if schema is True or schema is False:
            return schema
        if not isinstance(schema, dict):
            raise NotPassedThrough
        self.nodes += 1
        if len(self.path) > _MAX_DEPTH or self.nodes > _MAX_NODES:
            raise NotPassedThrough
        if "$schema" in schema and dialect_of(schema, self.dialect) != self.dialect:
            self.other_dialect(schema, dialect_of(schema, self.dialect))
        if self.path and ("$id" in schema or "id" in schema) and self.is_identified(schema):
            self.inside += 1
            out = self.copy(schema)
            self.inside -= 1
            return out
        return self.copy(schema)

    def copy(self, schema: dict[str, Any]) -> Any:
        named = schema.get("type")
        if named.__class__ is str and named in _PLAIN_TYPES and schema.keys().isdisjoint(_CONSTRAINING):
            if named == "integer" or named == "number":
                self.numbers = True
                self.integers = self.integers or named == "integer"
            return {"type": named}
        out: dict[str, Any] = {}
        self.check(schema)
        if "$ref" in schema:
            if not self.ref_ignores_siblings and has_siblings(schema, "$ref"):
                rest = {k: v for k, v in schema.items() if k != "$ref"}
                return self.schema({**rest, "allOf": [*rest.get("allOf", ()), {"$ref": schema["$ref"]}]})
            if len(schema) > 1 and self.ref_ignores_siblings:
                for keyword, reason in ignored_ref_siblings(schema, self.dialect):
                    self.note(keyword, Outcome.EXACT, reason)
            self.reference(schema, out)
            return out
        if "nullable" in schema:
            schema = _with_null(schema)
        readers = self.readers
        for keyword, value in schema.items():
            read = readers.get(keyword)
            if read is not None:
                read(self, value, schema, out)
        return self.finished(schema, out)

    def check(self, schema: dict[str, Any]) -> None:
        """Leave a schema with a keyword value of the wrong type to our own compiler, which reports it.

        Must be called before any keyword of a schema is read, since readers also read sibling keywords.
        """
        if id(schema) not in self.read:
            if not are_kinds_right(schema):
                raise NotPassedThrough
            self.read[id(schema)] = schema

    def other_dialect(self, schema: dict[str, Any], named: Dialect) -> None:
        """Note a ``$schema`` of another dialect; it may affect only formats."""
        if not means_the_same(schema, named, self.dialect):
            raise NotPassedThrough
        if has_later_formats(schema):
            if self.is_identified(schema):
                raise NotPassedThrough
            self.note("$schema", Outcome.NARROWED, ignored_dialect_reason(self.dialect))

    def is_identified(self, schema: Mapping[str, Any]) -> bool:
        """Whether references below the schema resolve against its own root."""
        named = schema.get(self.dialect.id_keyword)
        if "$schema" in schema:
            named = named or schema.get("$id", schema.get("id"))
        return isinstance(named, str) and not named.startswith("#")

    def below(self, schema: Any, *steps: str) -> Any:
        """Return the copy of a subschema, with its steps on the path meanwhile."""
        self.path += steps
        out = self.schema(schema)
        del self.path[-len(steps) :]
        return out

    def note(self, keyword: str, outcome: Outcome, reason: str) -> None:
        self.rows.append(ReportRow(pointer_of(self.path), keyword, outcome, reason))

    def patterned(self, keyword: str, pattern: EnginePattern) -> str:
        """Return the regex of a pattern and note in the report what it excludes."""
        self.has_long_escapes = self.has_long_escapes or pattern.needs_long_escapes
        if pattern.without_nul:
            self.note(keyword, Outcome.NARROWED, _NO_NUL)
        return pattern.regex

    def finished(self, schema: Mapping[str, Any], out: dict[str, Any]) -> Any:
        """Return the copy after noting what its types leave open: unbounded numbers, unlisted keys.

        Contradictions are left to our own compiler, which reports them; False if no value is left.
        """
        if not out.keys() <= ENGINE_KEYWORDS:
            unknown = min(out.keys() - ENGINE_KEYWORDS)
            raise GrammarError(
                f"the engine would ignore {unknown!r}", place="a schema for it", expected="a keyword that it enforces"
            )
        kinds = schema.get("type", _ANY_TYPE)
        if isinstance(kinds, str):
            kinds = (kinds,)
        if not _COUNTED.isdisjoint(out):
            for least, most in _PAIRS:
                touch = operator.ge if "exclusive" in least + most else operator.gt
                gap = 1 if "exclusive" in least and "exclusive" in most and "number" not in kinds else 0
                if least in out and most in out and touch(out[least] + gap, out[most]):
                    raise NotPassedThrough
        if "enum" in out:
            fits = "type" not in schema or any(k in kinds for v in out["enum"] for k in TYPES_OF[type(v)])
            return out if fits else False
        if out.get("items") is False and out.get("minItems"):
            raise NotPassedThrough
        if "type" not in schema and _is_only_branches(out):
            return out
        self.integers = self.integers or ("integer" in kinds and "number" not in kinds)
        if ("integer" in kinds or "number" in kinds) and not _is_bounded(out):
            self.numbers = True
        if "array" in kinds and "items" not in out:
            self.free_keys = self.numbers = True
        if "object" in kinds:
            extra = out.get("additionalProperties", True)
            if extra is not False:
                self.free_keys = self.numbers = True
                if "properties" in out or "patternProperties" in out or "required" in out:
                    self.open_keys = self.ordered = True
            if "required" in out:
                listed = out.get("properties", {})
                for key in out["required"]:
                    if listed.get(key, extra is not False or _is_matched(key, schema)) is False:
                        raise NotPassedThrough
        return out or True

    # -- references

    def reference(self, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
        if self.inside:
            raise NotPassedThrough  # a "#" below an identifier may mean something else
        target, steps = self.target(schema["$ref"])
        out |= self.named(id(target), target, steps)

    def named(self, key: Hashable, target: dict[str, Any], steps: list[str]) -> dict[str, Any]:
        """Return a reference to ``target``, which is copied once under ``$defs`` for each ``key``."""
        name = self.targets.get(key)
        if name is None:
            if len(self.targets) >= _MAX_TARGETS:
                raise NotPassedThrough
            name = self.targets[key] = str(len(self.targets))
            self.todo.append((name, target, steps))
        return {"$ref": f"#/$defs/{name}"}

    def target(self, ref: Any) -> tuple[Any, list[str]]:
        """Return the target of a reference and the steps to it."""
        if not isinstance(ref, str) or not (ref == "#" or ref.startswith("#/")):
            raise NotPassedThrough
        target: Any = self.root
        steps = ref.split("/")[1:]
        if "%" in ref or "~" in ref:
            steps = [unescaped(unquote(raw)) for raw in steps]
        for step in steps:
            if not isinstance(target, dict) or step not in target:
                raise NotPassedThrough
            target = target[step]
        if not isinstance(target, dict) or ("$ref" in target and target["$ref"] == ref):
            raise NotPassedThrough
        return target, steps

    def resolved(self, schema: Any) -> Any:
        """Return the schema, or its target if it is a reference, with its keywords checked."""
        for _ in range(8):
            if not isinstance(schema, dict):
                return schema
            self.check(schema)
            if "$ref" not in schema:
                return schema
            schema = self.target(schema["$ref"])[0]
        raise NotPassedThrough


#: Keywords that the engine's own compiler enforces.  It ignores any other, so a reader must not write one.
ENGINE_KEYWORDS = frozenset(
    (
        "type", "enum", "allOf", "anyOf",
        "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
        "minLength", "maxLength", "pattern",
        "properties", "required", "additionalProperties", "patternProperties", "minProperties", "maxProperties",
        "items", "minItems", "maxItems",
    )
)  # fmt: skip

_NO_NUL = "NUL is not written by classes of all control characters without the quote or the backslash"
_ANY_TYPE = ("integer", "array", "object")
_PLAIN_TYPES = frozenset({"null", "boolean", "integer", "number", "string"})
_CONSTRAINING = frozenset(CHECKS) - {"type"}  #: keywords that constrain more than a type
_PAIRS = (
    ("minLength", "maxLength"),
    ("minItems", "maxItems"),
    ("minProperties", "maxProperties"),
    ("minimum", "maximum"),
    ("exclusiveMinimum", "maximum"),
    ("minimum", "exclusiveMaximum"),
    ("exclusiveMinimum", "exclusiveMaximum"),
)
_COUNTED = frozenset(least for least, _ in _PAIRS)


def has_siblings(schema: Mapping[str, Any], keyword: str) -> bool:
    """Whether other keywords than annotations accompany an applicator."""
    return any(k in CHECKS for k in schema if k != keyword)


def _with_null(schema: dict[str, Any]) -> dict[str, Any]:
    """OpenAPI's ``nullable`` as a type, where there is a type to add it to."""
    if "const" in schema:
        raise NotPassedThrough
    if schema["nullable"] and "type" not in schema and has_siblings(schema, "nullable"):
        raise NotPassedThrough
    return nullable(schema, None, [])


def _is_matched(key: str, schema: Mapping[str, Any]) -> bool:
    """Whether a pattern with a schema other than false matches the key."""
    patterns = schema.get("patternProperties", {})
    return any(sub is not False and matches(pattern_language(pattern), key) for pattern, sub in patterns.items())


def _is_only_branches(out: Mapping[str, Any]) -> bool:
    """Whether a copy consists of branches only, each of which has noted what it leaves open."""
    return out.keys() <= {"anyOf", "allOf"} and any(out.values())


def _is_bounded(out: Mapping[str, Any]) -> bool:
    low = "minimum" in out or "exclusiveMinimum" in out
    return low and ("maximum" in out or "exclusiveMaximum" in out) and out.get("type") == "integer"
