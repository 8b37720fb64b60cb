"""More hostile schemas, by keyword: ``(name, make, part of the error or "", relaxed keywords)``, as `Case` has them.

Depth in every applicator, lattices and cycles of references, patterns, numbers, unevaluated keywords, drafts mixed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from tests.judges.hostile_shapes import below, nested

__all__ = ["MORE"]

HostileRow = tuple[str, Callable[[], Any], str, frozenset[str]]

_NONE: frozenset[str] = frozenset()
_EMPTY = "no value satisfies"
_INTEGER = {"type": "integer"}


def _lattice(levels: int, width: int, step: Callable[[list[Any]], Any], leaf: Callable[[int], Any]) -> Any:
    """Every definition of a level leads to every one of the next."""
    defs = {f"{levels}_{j}": leaf(j) for j in range(width)}
    for i in range(levels):
        for j in range(width):
            defs[f"{i}_{j}"] = step([{"$ref": f"#/$defs/{i + 1}_{k}"} for k in range(width)])
    return {"$ref": "#/$defs/0_0", "$defs": defs}


def _chains(levels: int, fan: int) -> Any:
    """Two chains of branches that are apart in their last level alone."""
    defs: dict[str, Any] = {}
    for name, first in (("a", 0), ("b", 100)):
        for i in range(levels):
            last = i == levels - 1
            below = [{"const": first + n} if last else {"$ref": f"#/$defs/{name}{i + 1}"} for n in range(fan)]
            defs[f"{name}{i}"] = {"type": "object", "required": ["p"], "properties": {"p": {"anyOf": below}}}
    return {"oneOf": [{"$ref": "#/$defs/a0"}, {"$ref": "#/$defs/b0"}], "$defs": defs}


def _holds_itself() -> Any:
    schema: dict[str, Any] = {"type": "object"}
    schema["properties"] = {"a": schema}
    return schema


def _string(pattern: str, **more: Any) -> Any:
    return {"type": "string", "pattern": pattern, **more}


def _depth() -> Iterator[HostileRow]:
    yield ("if 150 deep", lambda: nested(lambda s: {"if": s, "then": {"type": "object"}, "else": {"type": "array"}},
           150, _INTEGER), _EMPTY, _NONE)  # fmt: skip
    for keyword, depth in (
        ("additionalProperties", 400),
        ("unevaluatedProperties", 100),
        ("propertyNames", 100),
        ("contains", 80),
        ("unevaluatedItems", 100),
        ("items", 120),
    ):
        yield f"{keyword} {depth} deep", partial(below, keyword, depth, _INTEGER), "", _NONE
    for keyword in ("patternProperties", "dependentSchemas", "properties"):
        yield f"{keyword} 100 deep", partial(below, keyword, 100, _INTEGER, "a"), "", _NONE
    yield "prefixItems 200 deep", lambda: nested(lambda s: {"prefixItems": [s], "items": False}, 200, {}), "", _NONE
    yield (
        "30 nots over objects",
        lambda: nested(lambda s: {"not": {"type": "object", "properties": {"a": s}, "required": ["a"]}}, 30, _INTEGER),
        "",
        _NONE,
    )
    yield "a schema that holds itself", _holds_itself, "'depth'", _NONE
    yield "a part of two equal parts, 60 times", lambda: nested(lambda s: {"allOf": [s, s]}, 60, {}), "'nodes'", _NONE
    yield (
        "counted arrays 12 deep",
        lambda: nested(lambda s: {"type": "array", "items": s, "minItems": 30, "maxItems": 40}, 12, _INTEGER),
        "",
        _NONE,
    )


def _references() -> Iterator[HostileRow]:
    yield "branches of branches, four levels of 25", lambda: _chains(4, 25), "", _NONE
    yield (
        "a lattice of anyOf, 40 x 5",
        lambda: _lattice(40, 5, lambda refs: {"anyOf": refs}, lambda j: {"const": j}),
        "",
        _NONE,
    )
    yield (
        "a lattice of oneOf, 25 x 4",
        lambda: _lattice(25, 4, lambda refs: {"oneOf": refs}, lambda j: {"const": j}),
        _EMPTY,
        _NONE,
    )
    yield (
        "a lattice of allOf, 30 x 3",
        lambda: _lattice(30, 3, lambda refs: {"properties": {"x": {"allOf": refs}}}, lambda j: {"minimum": j}),
        "",
        _NONE,
    )
    for keyword in ("additionalProperties", "items", "contains", "propertyNames", "unevaluatedProperties", "if"):
        yield f"{keyword} leads to the root", partial(below, keyword, 1, {"$ref": "#"}), "", _NONE
    applicators = ("additionalProperties", "items", "contains", "propertyNames", "not", "if", "then", "else")
    yield "every keyword leads to the root", lambda: {k: {"$ref": "#"} for k in applicators}, _EMPTY, _NONE
    yield "a loop of $dynamicRef", lambda: {
        "$id": "http://x/a", "$dynamicAnchor": "n", "$dynamicRef": "#n"
    }, _EMPTY, _NONE  # fmt: skip
    yield "a loop of $recursiveRef", lambda: {
        "$schema": "https://json-schema.org/draft/2019-09/schema", "$recursiveAnchor": True, "$recursiveRef": "#"
    }, _EMPTY, _NONE  # fmt: skip
    yield "200 documents in one, of one dynamic anchor", lambda: {
        "$id": "http://x/r",
        "$ref": "d0",
        "$defs": {
            f"d{i}": {"$id": f"d{i}", "$dynamicAnchor": "n",
                      "properties": {"a": {"$dynamicRef": "#n"}, "b": {"$ref": f"d{(i + 1) % 200}"}}}
            for i in range(200)
        },
    }, "", _NONE  # fmt: skip


def _texts() -> Iterator[HostileRow]:
    yield "a code point that is not closed", lambda: _string("[\\u{411"), "not closed", _NONE
    endless = "[^" * 200_000
    yield "a class begun 200,000 times in a default", lambda: {"default": {"pattern": endless}}, "", _NONE
    yield "repeats in repeats of everything", lambda: _string("^(([\\s\\S]{0,50}){0,50}x){0,10}$"), "", _NONE
    yield "(.*)* 20 deep", lambda: _string("^" + "(" * 20 + ".*" + ")*" * 20 + "$"), "", _NONE
    yield "thirteen stars in a row next to a constant", lambda: {
        "const": "a" * 40, "pattern": "^" + "a*" * 13 + "b$"
    }, _EMPTY, _NONE  # fmt: skip
    yield "eight stars in a row next to words", lambda: {
        "enum": ["a" * 60, "b"], "pattern": "^" + ".*a" * 8 + "b$|^b"
    }, "", _NONE  # fmt: skip
    yield "words and stars by turns next to a sentence", lambda: {
        "enum": ["the quick brown fox jumps over the lazy dog " * 3, "x"], "pattern": r"^.*\w+.*\w+.*\w+.*\w+.*!$|^x"
    }, "", _NONE  # fmt: skip
    yield "eight stars in a row over keys", lambda: {
        "properties": {"a" * 60: {}}, "patternProperties": {"^" + ".*a" * 8 + "b$": {}}
    }, "", _NONE  # fmt: skip
    yield "choices in a row next to a constant", lambda: {
        "const": "a" * 200, "pattern": "^" + "(a|aa)" * 60 + "b$"
    }, _EMPTY, _NONE  # fmt: skip
    yield "thirty borders of words between stars", lambda: _string("\\ba\\b.*" * 30), "", frozenset({"pattern"})
    yield "50 look-behinds", lambda: _string("(?<=a)" * 50 + "b"), "", _NONE
    yield "look-aheads of 500", lambda: _string("^(?=.*a.{500}b)(?=.*c.{500}d).*$"), "", _NONE
    yield "40 back-references", lambda: _string("^(a|b)" + "\\1(c|d)" * 40 + "$"), "", frozenset({"pattern"})
    yield (
        "a class of 10,000 ranges",
        lambda: _string("^[" + "".join(map(chr, range(0x4E00, 0x4E00 + 20_000, 2))) + "]{1,40}$"),
        "",
        _NONE,
    )
    yield "a script that is none", lambda: _string("\\p{Script=Klingon}"), "", frozenset({"pattern"})
    yield "surrogates out of order", lambda: _string("^[\\uD83D\\uDE00-\\uDE4F]+$"), "out of order", _NONE
    yield "a code point too large", lambda: _string("^\\u{110000}$"), "is not a code point", _NONE
    yield "10,000 alternatives of nothing", lambda: _string("^(" + "|" * 10_000 + ")$"), "", _NONE
    yield "groups 5,000 deep", lambda: _string("(" * 5_000 + "a" + ")" * 5_000), "", frozenset({"pattern"})
    yield (
        "no even length between",
        lambda: _string("^(ab){0,2000}$", minLength=3_999, maxLength=3_999),
        "no text matches this grammar",
        _NONE,
    )
    yield "twelve patterns for keys", lambda: {
        "propertyNames": {"allOf": [{"pattern": f"[{c}].{{3,9}}$"} for c in "abcdefghijkl"]}, "minProperties": 2
    }, "use fewer or simpler", _NONE  # fmt: skip
    yield (
        "keys of astral letters, quotes and nothing",
        lambda: {
            "type": "object",
            "properties": {'\U0001f600"\\\u2028\x7f': _INTEGER, "": {"type": "null"}},
            "required": ["", '\U0001f600"\\\u2028\x7f'],
            "patternProperties": {"^\U0001f600": {"minimum": 3}},
        },
        "",
        _NONE,
    )
    yield "bytes for a pattern", lambda: {"pattern": b"^a$"}, "bytes is not a JSON value", _NONE


def _breadth() -> Iterator[HostileRow]:
    yield (
        "200 overlapping patternProperties",
        lambda: {"patternProperties": {f"{i:03d}": {"maximum": i} for i in range(200)}},
        "'cuts'",
        _NONE,
    )
    yield (
        "patternProperties over 500 keys",
        lambda: {
            "properties": {f"k{i}": {} for i in range(500)},
            "patternProperties": {f"{i}$": {"minimum": i} for i in range(10)},
        },
        "",
        _NONE,
    )
    yield "an enum of 20,000 objects", lambda: {"enum": [{"id": i} for i in range(20_000)]}, "'edges'", _NONE
    yield (
        "two enums of 50,000 that share half",
        lambda: {"allOf": [{"enum": [f"w{i}" for i in range(k, k + 50_000)]} for k in (0, 25_000)]},
        "",
        _NONE,
    )
    yield "none of 20,000 texts", lambda: {
        "type": "string", "not": {"enum": [f"w{i}" for i in range(20_000)]}
    }, "", _NONE  # fmt: skip
    yield (
        "oneOf of 300 tagged objects",
        lambda: {
            "oneOf": [
                {"type": "object", "properties": {"t": {"const": f"t{i}"}}, "required": ["t"]} for i in range(300)
            ]
        },
        "",
        _NONE,
    )
    yield "dependentRequired of 60 on all", lambda: {
        "type": "object", "dependentRequired": {f"k{i}": [f"k{j}" for j in range(60)] for i in range(60)}
    }, "", frozenset({"required"})  # fmt: skip
    yield (
        "a chain of 80 dependentSchemas",
        lambda: {
            "type": "object",
            "dependentSchemas": {
                f"k{i}": {"required": [f"k{i + 1}"], "properties": {f"k{i + 2}": {}}} for i in range(80)
            },
        },
        "",
        _NONE,
    )
    yield (
        "unevaluatedProperties over 50 alternatives",
        lambda: {
            "type": "object",
            "anyOf": [{"properties": {f"a{i}": _INTEGER}, "required": [f"a{i}"]} for i in range(50)],
            "unevaluatedProperties": False,
        },
        "",
        _NONE,
    )
    yield "oneOf of 500 true", lambda: {"oneOf": [True] * 500}, "", frozenset({"oneOf"})
    yield "contains at least 10,000", lambda: {
        "type": "array", "contains": _INTEGER, "minContains": 10_000
    }, "", frozenset({"contains", "minContains"})  # fmt: skip
    yield "different items out of 64 values", lambda: {
        "type": "array", "items": {"enum": list(range(64))}, "uniqueItems": True, "minItems": 64
    }, "", _NONE  # fmt: skip
    yield "1,500 positions", lambda: {
        "type": "array", "prefixItems": [{"const": i} for i in range(1_500)], "minItems": 1_500
    }, "", _NONE  # fmt: skip
    yield "5,000 positions", lambda: {
        "type": "array", "prefixItems": [{"const": i} for i in range(5_000)]
    }, "'items'", _NONE  # fmt: skip


def _numbers() -> Iterator[HostileRow]:
    pairs = [k * (2**61 - 1) + r for r in range(100) for k in range(10, 209)]
    yield "19,900 numbers of a hundred hashes", lambda: {"enum": pairs}, "'collisions'", _NONE
    yield (
        "20,000 numbers of one hash",
        lambda: {"enum": [k * (2**61 - 1) for k in range(20_000)]},
        "'collisions'",
        _NONE,
    )
    yield "multiples of 1e-300 and of 1e300", lambda: {
        "type": "number", "allOf": [{"multipleOf": 1e-300}, {"multipleOf": 1e300}]
    }, "", frozenset({"multipleOf"})  # fmt: skip
    yield "multiples of twelve primes", lambda: {
        "type": "integer", "allOf": [{"multipleOf": p} for p in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)]
    }, "", frozenset({"multipleOf"})  # fmt: skip
    yield "multiples of 9,973 between bounds of 250 digits", lambda: {
        "type": "integer", "multipleOf": 9_973, "minimum": -(10**250), "maximum": 10**250
    }, "", frozenset({"multipleOf"})  # fmt: skip
    yield "bounds of 290 digits", lambda: {
        "type": "integer", "minimum": 10**289 + 7, "maximum": 10**290 - 13
    }, "with at most 64 digits", _NONE  # fmt: skip
    yield "-Infinity in a default", lambda: {"type": "integer", "default": float("-inf")}, "not a JSON number", _NONE
    yield "bounds of two drafts", lambda: {
        "type": "number", "minimum": 5, "exclusiveMinimum": True, "maximum": 4, "exclusiveMaximum": 8
    }, _EMPTY, _NONE  # fmt: skip


def _mixed() -> Iterator[HostileRow]:
    yield "true and false everywhere", lambda: {
        "properties": {"a": True, "b": False}, "patternProperties": {"^c": False, "^d": True}, "propertyNames": True,
        "prefixItems": [True, False], "items": False, "contains": True, "not": False, "if": True, "then": True,
        "else": False, "allOf": [True], "anyOf": [False, True], "oneOf": [False, True, False],
        "dependentSchemas": {"a": True, "e": False}, "unevaluatedProperties": False, "unevaluatedItems": True,
    }, "", _NONE  # fmt: skip
    yield (
        "words of all drafts at once",
        lambda: {
            "$schema": "http://json-schema.org/draft-04/schema#",
            "type": "object",
            "properties": {
                "a": {
                    "$schema": "https://json-schema.org/draft/2020-12/schema",
                    "minimum": 1,
                    "exclusiveMinimum": True,
                },
                "b": {"items": [{"const": 1}], "additionalItems": False},
                "c": {"prefixItems": [{"type": "null"}], "$recursiveRef": "#"},
            },
            "dependencies": {"a": ["b"], "b": {"required": ["c"]}},
            "dependentRequired": {"a": ["z"]},
            "definitions": {"id": {"id": "#q"}},
            "nullable": True,
            "divisibleBy": 3,
            "disallow": "object",
        },
        "",
        _NONE,
    )
    yield "two documents of one identifier", lambda: {
        "$id": "http://x/", "$ref": "http://x/y",
        "$defs": {"a": {"$id": "http://x/y", "type": "integer"}, "b": {"$id": "http://x/y", "type": "string"}},
    }, "", _NONE  # fmt: skip


MORE: tuple[HostileRow, ...] = (*_depth(), *_references(), *_texts(), *_breadth(), *_numbers(), *_mixed())
