"""Shortest instances of schemas that the engine compiles itself, and the work limits of searches for them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from json.encoder import encode_basestring
from typing import Any

from grammars.json_schema.keywords.numeric import allow
from grammars.json_schema.passes.kinds import TYPES_OF
from grammars.json_schema.shapes.numbers import Numbers, intersect, shortest_number
from grammars.regular.astar import astar_word, without_counts
from grammars.regular.languages import (
    ALL,
    ANY,
    MAX_CODE_POINT,
    UNKNOWN,
    Regular,
    Unknown,
    cat,
    chars,
    inter,
    matches,
    rep,
    shortest,
    work_budget,
)
from grammars.regular.syntax import ecma
from grammars.regular.syntax.rust import InvalidRegex, NotTranslated, language

__all__ = ["PATIENT", "Instances", "TooLarge", "Visits", "joined", "repeated"]

_MOST = 100_000  # characters of a text
_CHARACTERS = 200  # writing this many costs as much as one visit
_MOST_VISITS = 20_000  # nodes and schemas; ten times as many where there is time
_LAST_ASCII = 0x7E
_BUDGET, _QUICK = 300, 100_000  # states of one search for a word, and parts of languages in it, about 5 ms
PATIENT = 20_000, 8_000_000  #: where there is time: states of one search, and parts of languages in all, about 0.5 s


class TooLarge(Exception):
    """The work limit is used up."""


class _Unsure(Exception):
    """A text may exist that is shorter than any known one."""


class Visits:
    """A count of visited nodes and schemas, with a limit; `word` searches one language."""

    def __init__(self, *, patient: bool = False) -> None:
        self.left = _MOST_VISITS * (10 if patient else 1)
        self.patient = patient
        self.words: dict[Regular, str | None] = {}  # found, by language: a text asks for the same one many times

    def word(self, term: Regular) -> str | None:
        """Return a shortest word of a language, or None if nothing was found.

        Where breadth-first search runs out of budget and there is time, A* follows, first among words that need no JSON
        escape; the result may then not be shortest.
        """
        if term not in self.words:
            found = shortest(term, _BUDGET, _QUICK)
            if found is UNKNOWN and self.patient:
                found = _patient_word(term)
            self.words[term] = found if isinstance(found, str) else None
        return self.words[term]

    def count(self, characters: int = 0) -> None:
        """Count one visit, or a text of that many ``characters``; raises `TooLarge` past the limit."""
        self.left -= 1 + characters // _CHARACTERS
        if self.left < 0:
            raise TooLarge


def _patient_word(term: Regular) -> str | Unknown | None:
    """A shortest word of a language in which breadth-first search gave up, else some word.

    Repeat counts of a pattern are widened at first; a word found that way counts if it is in the language.
    """
    for wider in without_counts(term):
        found = _readable_word(wider, PATIENT[1] // 8)
        if isinstance(found, str) and matches(term, found):
            return found
    found = _readable_word(term, PATIENT[1] // 2)
    return _readable_word(term, PATIENT[1] // 4, hasty=True) if found is UNKNOWN else found


def _readable_word(term: Regular, work: int, *, hasty: bool = False) -> str | Unknown | None:
    """A word without a backslash where there is one, else any; of ASCII letters if possible, else of all."""
    found: str | Unknown | None = UNKNOWN
    for last in (_LAST_ASCII, MAX_CODE_POINT):
        for one in (inter(term, _SPELLED), term):
            with work_budget(work // 2):
                found = astar_word(one, PATIENT[0], any_word=hasty, max_code_point=last)
            if found is not None:
                break
        if found is not UNKNOWN:
            break
    return found


#: Texts without a backslash: in an intersection of languages escapes cause most of the states of a search.
_SPELLED = rep(chars(((0x20, 0x5B), (0x5D, 0x7E), (0x80, MAX_CODE_POINT))), 0, None)
#: Strings that JSON writes without ``\u``.
_WRITTEN = rep(chars(((0x08, 0x0A), (0x0C, 0x0D), (0x20, 0x7E), (0x80, MAX_CODE_POINT))), 0, None)


_NAMED = ("null", "boolean", "integer", "number", "string", "array", "object")
#: Keywords that assert nothing next to an ``anyOf`` or ``allOf``.
_SILENT = {"$defs", "definitions"}


#: Keywords that bound numbers, see `grammars.json_schema.keywords.numeric.allow`.
_BOUNDS = frozenset(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"))
_LITERAL = frozenset(",: \n")


class Instances(Visits):
    """Shortest instances of a schema that the engine compiles itself; with ``loose`` a short one is enough."""

    def __init__(self, schema: Any, options: Mapping[str, Any], *, patient: bool, loose: bool = False) -> None:
        super().__init__(patient=patient)
        self.loose = loose
        self.root = schema
        self.item = str(options.get("item_separator", ","))
        self.colon = str(options.get("key_separator", ":"))
        self.known: dict[str, str | None] = {}
        self.unsure: set[str] = set()

    def text(self) -> str | None:
        if not _LITERAL.issuperset(self.item + self.colon):
            return None  # separators that are regular expressions
        defs = self.root.get("$defs", {}) if isinstance(self.root, dict) else {}
        self.known = dict.fromkeys(defs)
        changed = True
        while changed:
            changed = False
            for name, schema in reversed(list(defs.items())):
                if name in self.unsure:
                    continue
                try:
                    found, before = self.of(schema), self.known[name]
                except _Unsure:
                    self.unsure.add(name)
                    changed = True
                    continue
                if found is not None and (before is None or len(found) < len(before)):
                    self.known[name], changed = found, True
        try:
            return self.of(self.root)
        except _Unsure:
            return None

    def of(self, schema: Any) -> str | None:
        """Return a shortest text of a subschema; None where none exists, or none is known yet of a reference.

        Raises `_Unsure` where a shorter one may exist.
        """
        self.count()
        if schema is True or schema == {}:
            return "0"
        if not isinstance(schema, dict):
            return None
        if "$ref" in schema:
            name = str(schema["$ref"]).removeprefix("#/$defs/")
            if name in self.unsure or name not in self.known:
                raise _Unsure
            return self.known[name]
        if "enum" in schema or "const" in schema:
            return self.listed(schema.get("enum", [schema.get("const")]), schema)
        for keyword in ("anyOf", "allOf"):
            if keyword in schema:
                alone = not schema.keys() - {keyword} - _SILENT and (keyword == "anyOf" or len(schema[keyword]) == 1)
                if not alone:
                    raise _Unsure
                return self.least_of([partial(self.of, option) for option in schema[keyword]])
        kinds = schema.get("type", _NAMED)
        kinds = (kinds,) if isinstance(kinds, str) else kinds
        return self.least_of([partial(self.of_type, kind, schema) for kind in kinds])

    def least_of(self, options: list[Callable[[], str | None]]) -> str | None:
        """The shortest text of some options; next to an unsure option only a text of one character is sure."""
        found: list[str | None] = []
        is_sure = True
        for option in options:
            try:
                found.append(option())
            except _Unsure:
                is_sure = False
        least = _least(found)
        if not is_sure and (least is None or (len(least) > 1 and not self.loose)):
            raise _Unsure
        return least

    def listed(self, values: list[Any], schema: Mapping[str, Any]) -> str | None:
        if schema.keys() - {"enum", "const", "type"} - _SILENT:
            raise _Unsure
        kinds = schema.get("type", _NAMED)
        kinds = {kinds} if isinstance(kinds, str) else set(kinds)
        apart = (self.item, self.colon)
        fitting = [v for v in values if not kinds.isdisjoint(TYPES_OF[type(v)])]
        return _least([json.dumps(v, ensure_ascii=False, separators=apart) for v in fitting])

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
                wanted = intersect(numbers, Numbers(integer=True)) if kind == "integer" else numbers
                return _sure(shortest_number(wanted))
            case "string":
                return self.string(schema)
            case "array":
                return self.array(schema)
        return self.object(schema)

    def string(self, schema: Mapping[str, Any]) -> str | None:
        least, most = schema.get("minLength", 0), schema.get("maxLength")
        if "pattern" not in schema:
            return f'"{_sure(repeated("a", least))}"'
        try:
            term = _searched(schema["pattern"])
        except (InvalidRegex, NotTranslated):
            raise _Unsure from None
        wanted = _WRITTEN if not least and most is None else inter(_WRITTEN, rep(ANY, least, most))
        word = self.word(term)
        if word is not None and not matches(wanted, word):
            word = self.word(inter(term, wanted))
        return json.dumps(_sure(word), ensure_ascii=False)

    def array(self, schema: Mapping[str, Any]) -> str | None:
        least = schema.get("minItems", 0)
        if not least:
            return "[]"
        if schema.get("prefixItems"):
            raise _Unsure
        item = self.of(schema.get("items", True))
        return None if item is None else f"[{_sure(repeated(self.item + item, least))[len(self.item) :]}]"

    def object(self, schema: Mapping[str, Any]) -> str | None:
        required = dict.fromkeys(schema.get("required", ()))
        if schema.get("minProperties", 0) > len(required):
            raise _Unsure
        listed = schema.get("properties", {})
        keys = [key for key in listed if key in required] + [key for key in required if key not in listed]
        if keys and schema.get("patternProperties"):  # they may constrain a listed key as well
            raise _Unsure
        parts: list[str | None] = []
        for key in keys:
            value = self.of(listed.get(key, schema.get("additionalProperties", True)))
            parts += [self.item, encode_basestring(key) + self.colon, value]
        return None if None in parts else "{" + _sure(joined(parts[1:])) + "}"


def _searched(pattern: str) -> Regular:
    """The strings in which the engine finds a pattern of ours, which has anchors only at its ends."""
    begins = pattern.startswith("^")
    ends = pattern.endswith("$") and (len(pattern) - len(pattern[:-1].rstrip("\\"))) % 2 == 1
    return cat(*(() if begins else (ALL,)), language(pattern), *(() if ends else (ALL,)))


def pattern_word(pattern: str) -> str | None:
    """Return a short string that a schema's ``pattern`` accepts; None where none is found in a few ms."""
    try:
        with work_budget(PATIENT[1] // 64, is_repeatable=True):
            found = _readable_word(ecma.language(pattern), PATIENT[1] // 64, hasty=True)
    except (ecma.InvalidPattern, ecma.NotRegular):
        return None
    return found if isinstance(found, str) else None


def joined(parts: list[str | None]) -> str | None:
    found = [part for part in parts if part is not None]
    return "".join(found) if len(found) == len(parts) and sum(map(len, found)) <= _MOST else None


def repeated(body: str | None, times: int) -> str | None:
    return body * times if body is not None and len(body) * times <= _MOST else None


def _sure(text: str | None) -> str:
    if text is None:
        raise _Unsure
    return text


def _least(options: list[str | None]) -> str | None:
    return min((option for option in options if option is not None), key=lambda t: (len(t.encode()), t), default=None)
