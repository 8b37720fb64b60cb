"""A shortest text of a grammar's nodes, where it is found without a search: what an answer costs at the least.

`shortest_text` answers None where it is not sure of a text (parametric rules, tokens, grammars of their own, schemas
whose keywords meet).  What it answers is legal; that nothing shorter is, holds but for the choice of numbers, and of
words so intricate that only those without a backslash are searched.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from json.encoder import encode_basestring
from typing import Any

from grammars.json_schema.keywords.numeric import allow
from grammars.json_schema.numbers import Numbers, meet, shortest_number
from grammars.json_schema.regular import (
    ALL,
    ANY,
    MAX_CODE_POINT,
    UNKNOWN,
    Regular,
    alt,
    cat,
    chars,
    inter,
    matches,
    neg,
    rep,
    shortest,
    text,
    within,
)
from grammars.json_schema.watchers import UniqueWatch, Watcher
from grammars.rust_regex import InvalidRegex, NotTranslated, language
from grammars.tree import (
    Alt,
    And,
    Group,
    Json,
    Lexeme,
    Node,
    Not,
    Pattern,
    Ref,
    Repeat,
    Rule,
    RuleDef,
    Seq,
    Text,
    is_terminal,
)

__all__ = ["shortest_text"]

_MOST = 20_000  # characters of an answer
_MOST_VISITS = 20_000  # nodes and schemas looked at
_BUDGET = 300  # states of one search for a word
_MOST_SEARCHED = 200_000  # parts of languages in all searches together: some 20 ms
_PATIENT = 20_000, 8_000_000  # the same where there is time: some 0.5 s


def shortest_text(node: Node, watchers: tuple[Watcher, ...] = (), *, patient: bool = False) -> str | None:
    """A shortest JSON text that ``node`` writes and ``watchers`` let pass; None where none was found.

    ``patient`` searches longer for words: half a second at the worst, and not a few hundredths.
    """
    try:
        with within(_PATIENT[1] if patient else _MOST_SEARCHED):
            found = _Nodes(patient=patient).of(node, {})
    except (_TooLarge, RecursionError):
        return None
    return found if found is None or not _repeats(found, watchers) else None


def _repeats(found: str, watchers: tuple[Watcher, ...]) -> bool:
    """May a watcher take something from the text: a key, or an item where items are watched, that comes twice?"""
    unique = [watcher for watcher in watchers if isinstance(watcher, UniqueWatch)]
    if not unique:
        return False
    try:
        value = json.loads(found, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError):
        return True
    todo = [value] if isinstance(value, list) else []
    while todo:
        one = todo.pop()
        own = [key for key, _ in one] if isinstance(one, _Pairs) else [json.dumps(item) for item in one]
        is_watched = isinstance(one, _Pairs) or any(watcher.nodes for watcher in unique)
        if is_watched and len(set(own)) < len(own):
            return True
        inner = [item for _, item in one] if isinstance(one, _Pairs) else one
        todo += [item for item in inner if isinstance(item, list)]
    return False


class _Pairs(list[tuple[str, Any]]):
    """An object as it was written."""


class _TooLarge(Exception):
    """More to look at than is worth it."""


class _Visits:
    def __init__(self, *, patient: bool = False) -> None:
        self.left = _MOST_VISITS
        self.patient = patient

    def word(self, term: Regular) -> str | None:
        """A shortest word of a language, or of many that are searched in vain one that is spelled as it is."""
        found = shortest(term, _BUDGET)
        if found is UNKNOWN and self.patient:
            found = shortest(inter(term, _SPELLED), _PATIENT[0])
        return found if isinstance(found, str) else None

    def count(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise _TooLarge


#: Texts without a backslash: states of a search within escapes are most of all where languages meet.
_SPELLED = rep(chars(((0x20, 0x5B), (0x5D, 0x7E), (0x80, MAX_CODE_POINT))), 0, None)
#: Strings that JSON writes without ``\u``.
_WRITTEN = rep(chars(((0x08, 0x0A), (0x0C, 0x0D), (0x20, 0x7E), (0x80, MAX_CODE_POINT))), 0, None)


class _Nodes(_Visits):
    def of(self, node: Node, known: Mapping[str, str | None]) -> str | None:
        """The shortest text of a node; ``known`` are those of the rules around it."""
        self.count()
        match node:
            case Text(text=word):
                return word
            case Seq(parts=parts):
                return _joined([self.of(part, known) for part in parts])
            case Alt(options=options):
                return _least([self.of(option, known) for option in options])
            case Repeat(body=body, least=least):
                return _repeated(self.of(body, known), least) if least else ""
            case Rule(body=body):
                return self.of(body, known)
            case Group(start=start, rules=rules):
                return self.of(start, self.rules(rules, known))
            case Ref(name=name, argument=None):
                return known.get(name)
            case Json(schema=schema, options=options):
                return _Schemas(schema, options, patient=self.patient).text()
        if is_terminal(node):
            term = _term(node)
            return self.word(term) if term is not None else None
        return None

    def rules(self, rules: Mapping[str, RuleDef], outside: Mapping[str, str | None]) -> Mapping[str, str | None]:
        """The least fixed point of rules that name each other."""
        known = {**outside, **dict.fromkeys(rules)}
        changed = True
        while changed:
            changed = False
            for name, rule in reversed(list(rules.items())):
                found = None if rule.parametric else self.of(rule.body, known)
                before = known[name]
                if found is not None and (before is None or len(found) < len(before)):
                    known[name], changed = found, True
        return known


def _term(node: Node) -> Regular | None:
    """The language of a terminal node."""
    parts: list[Regular | None]
    match node:
        case Text(text=word, ignore_case=False):
            return text(word)
        case Pattern(regex=regex):
            try:
                return language(regex)
            except (InvalidRegex, NotTranslated):
                return None
        case Lexeme(body=body):
            return _term(body)
        case Not(body=body):
            inner = _term(body)
            return None if inner is None else neg(inner)
        case Repeat(body=body, least=least, most=most):
            inner = _term(body)
            return None if inner is None else rep(inner, least, most)
        case And(parts=nodes) | Seq(parts=nodes) | Alt(options=nodes):
            parts = [_term(part) for part in nodes]
            whole = [part for part in parts if part is not None]
            if len(whole) < len(parts):
                return None
            return {And: inter, Seq: cat, Alt: alt}[type(node)](*whole)
    return None


def _joined(parts: list[str | None]) -> str | None:
    found = [part for part in parts if part is not None]
    return "".join(found) if len(found) == len(parts) and sum(map(len, found)) <= _MOST else None


def _repeated(body: str | None, times: int) -> str | None:
    return body * times if body is not None and len(body) * times <= _MOST else None


def _least(options: list[str | None]) -> str | None:
    return min((option for option in options if option is not None), key=lambda t: (len(t.encode()), t), default=None)


_NAMED = ("null", "boolean", "integer", "number", "string", "array", "object")
#: Keywords beside which an ``anyOf`` or ``allOf`` says all.
_SILENT = {"$defs", "definitions"}


#: Keywords that bound numbers, see `grammars.json_schema.keywords.numeric.allow`.
_BOUNDS = frozenset(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"))
_LITERAL = frozenset(",: \n")


class _Schemas(_Visits):
    """Shortest instances of a schema that the engine compiles itself."""

    def __init__(self, schema: Any, options: Mapping[str, Any], *, patient: bool) -> None:
        super().__init__(patient=patient)
        self.root = schema
        self.item = str(options.get("item_separator", ","))
        self.colon = str(options.get("key_separator", ":"))
        self.known: dict[str, str | None] = {}

    def text(self) -> str | None:
        if not _LITERAL.issuperset(self.item + self.colon):
            return None  # separators are regular expressions
        defs = self.root.get("$defs", {}) if isinstance(self.root, dict) else {}
        self.known = dict.fromkeys(defs)
        changed = True
        while changed:
            changed = False
            for name, schema in reversed(list(defs.items())):
                found, before = self.of(schema), self.known[name]
                if found is not None and (before is None or len(found) < len(before)):
                    self.known[name], changed = found, True
        return self.of(self.root)

    def of(self, schema: Any) -> str | None:
        """The shortest text of a subschema; None where there is none, or none that is sure."""
        self.count()
        if schema is True or schema == {}:
            return "0"
        if not isinstance(schema, dict):
            return None
        if "$ref" in schema:
            return self.known.get(str(schema["$ref"]).removeprefix("#/$defs/"))
        if "enum" in schema or "const" in schema:
            return self.listed(schema.get("enum", [schema.get("const")]), schema)
        for keyword in ("anyOf", "allOf"):
            if keyword in schema:
                alone = not schema.keys() - {keyword} - _SILENT and (keyword == "anyOf" or len(schema[keyword]) == 1)
                return _least([self.of(option) for option in schema[keyword]]) if alone else None
        kinds = schema.get("type", _NAMED)
        kinds = (kinds,) if isinstance(kinds, str) else kinds
        return _least([self.of_type(kind, schema) for kind in kinds])

    def listed(self, values: list[Any], schema: Mapping[str, Any]) -> str | None:
        if schema.keys() & {"anyOf", "allOf", "pattern", "minLength", "maxLength", "minimum", "maximum", "multipleOf"}:
            return None
        kinds = schema.get("type", _NAMED)
        kinds = (kinds,) if isinstance(kinds, str) else kinds
        apart = (self.item, self.colon)
        return _least([json.dumps(v, ensure_ascii=False, separators=apart) for v in values if _kind(v) in kinds])

    def of_type(self, kind: str, schema: Mapping[str, Any]) -> str | None:
        match kind:
            case "null":
                return "null"
            case "boolean":
                return "true"
            case "integer" | "number":
                if schema.keys().isdisjoint(_BOUNDS):
                    return "0"
                numbers = allow(schema)
                return shortest_number(meet(numbers, Numbers(integer=True)) if kind == "integer" else numbers)
            case "string":
                return self.string(schema)
            case "array":
                return self.array(schema)
        return self.object(schema)

    def string(self, schema: Mapping[str, Any]) -> str | None:
        least, most = schema.get("minLength", 0), schema.get("maxLength")
        if "pattern" not in schema:
            return _repeated("a", least) and f'"{"a" * least}"' if least else '""'
        try:
            term = _searched(schema["pattern"])
        except (InvalidRegex, NotTranslated):
            return None
        wanted = _WRITTEN if not least and most is None else inter(_WRITTEN, rep(ANY, least, most))
        word = self.word(term)
        if word is not None and not matches(wanted, word):
            word = self.word(inter(term, wanted))
        return None if word is None else json.dumps(word, ensure_ascii=False)

    def array(self, schema: Mapping[str, Any]) -> str | None:
        least = schema.get("minItems", 0)
        if not least:
            return "[]"
        item = self.of(schema.get("items", True))
        body = None if item is None else _repeated(self.item + item, least)
        return None if body is None else f"[{body[len(self.item) :]}]"

    def object(self, schema: Mapping[str, Any]) -> str | None:
        required = dict.fromkeys(schema.get("required", ()))
        if schema.get("minProperties", 0) > len(required):
            return None
        listed = schema.get("properties", {})
        keys = [key for key in listed if key in required] + [key for key in required if key not in listed]
        if any(key not in listed for key in keys) and schema.get("patternProperties"):
            return None
        parts: list[str | None] = []
        for key in keys:
            value = self.of(listed.get(key, schema.get("additionalProperties", True)))
            parts += [self.item, encode_basestring(key) + self.colon, value]
        body = _joined(parts[1:])
        return None if body is None else "{" + body + "}"


def _searched(pattern: str) -> Regular:
    """The strings in which the engine finds a pattern of ours: anchors stand only around all of it."""
    begins = pattern.startswith("^")
    ends = pattern.endswith("$") and (len(pattern) - len(pattern[:-1].rstrip("\\"))) % 2 == 1
    return cat(*(() if begins else (ALL,)), language(pattern), *(() if ends else (ALL,)))


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
    return "array" if isinstance(value, list) else "object"
