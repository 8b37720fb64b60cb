"""Hostile schemas, each with the outcome that the tests require."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

__all__ = ["CASES", "Case"]


@dataclass(frozen=True)
class Case:
    """``says``: empty for a schema that compiles, otherwise a part of the error's message.

    ``relaxed``: the keywords, between blanks, that the report must list as not enforced; nothing else may be relaxed.
    """

    name: str
    make: Callable[[], Any]
    says: str = ""
    relaxed: str = ""


# -- shapes: depth, breadth, references that multiply


def nested(step: Callable[[Any], Any], depth: int, inner: Any) -> Any:
    for _ in range(depth):
        inner = step(inner)
    return inner


def below(keyword: str, depth: int, inner: Any, *keys: str) -> Any:
    """``inner`` below ``depth`` times ``keyword``, which holds a schema, or schemas by ``keys``."""
    return nested(lambda s: {keyword: dict.fromkeys(keys, s) if keys else s}, depth, inner)


def array_of(inner: Any) -> Any:
    return {"type": "array", "items": inner}


def object_of(inner: Any) -> Any:
    return {"type": "object", "properties": {"a": inner}, "required": ["a"]}


def keys(count: int, **more: Any) -> Any:
    return {"type": "object", "properties": {f"k{i}": {"type": "integer"} for i in range(count)}, **more}


def chain(count: int, fan: int, leaf: Any) -> Any:
    defs: dict[str, Any] = {str(count): leaf}
    for i in range(count):
        defs[str(i)] = {"type": "object", "properties": {f"p{j}": {"$ref": f"#/$defs/{i + 1}"} for j in range(fan)}}
    return {"$ref": "#/$defs/0", "$defs": defs}


def doubling(levels: int) -> Any:
    defs: dict[str, Any] = {str(levels): {"type": "object", "properties": {"x": {"type": "integer"}}}}
    for i in range(levels):
        defs[str(i)] = {"allOf": [{"$ref": f"#/$defs/{i + 1}"}, {"$ref": f"#/$defs/{i + 1}"}]}
    return {"$ref": "#/$defs/0", "$defs": defs}


def product(groups: int, options: int) -> Any:
    """allOf of anyOf: ``options ** groups`` alternatives when written out."""
    return {
        "allOf": [
            {"anyOf": [{"properties": {f"g{g}": {"const": o}}, "required": [f"g{g}"]} for o in range(options)]}
            for g in range(groups)
        ]
    }


def two_trees() -> Any:
    def tree(key: str) -> Any:
        return {"type": "object", "properties": {key: {"type": "array", "items": {"$ref": f"#/$defs/{key}"}}}}

    return {"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}], "$defs": {"a": tree("a"), "b": tree("b")}}


def lattice(levels: int, width: int, step: Callable[[list[Any]], Any], leaf: Callable[[int], Any]) -> Any:
    """Every definition of a level leads to every one of the next."""
    defs = {f"{levels}_{j}": leaf(j) for j in range(width)}
    for i in range(levels):
        for j in range(width):
            defs[f"{i}_{j}"] = step([{"$ref": f"#/$defs/{i + 1}_{k}"} for k in range(width)])
    return {"$ref": "#/$defs/0_0", "$defs": defs}


def chains(levels: int, fan: int) -> Any:
    """Two chains of branches that are apart in their last level alone."""
    defs: dict[str, Any] = {}
    for name, first in (("a", 0), ("b", 100)):
        for i in range(levels):
            last = i == levels - 1
            below = [{"const": first + n} if last else {"$ref": f"#/$defs/{name}{i + 1}"} for n in range(fan)]
            defs[f"{name}{i}"] = {"type": "object", "required": ["p"], "properties": {"p": {"anyOf": below}}}
    return {"oneOf": [{"$ref": "#/$defs/a0"}, {"$ref": "#/$defs/b0"}], "$defs": defs}


def holds_itself() -> Any:
    schema: dict[str, Any] = {"type": "object"}
    schema["properties"] = {"a": schema}
    return schema


def string(pattern: str, **more: Any) -> Any:
    return {"type": "string", "pattern": pattern, **more}


EMPTY = "no value satisfies"
INTEGER = {"type": "integer"}
APPLICATORS = ("additionalProperties", "items", "contains", "propertyNames", "not", "if", "then", "else")
TRUE_AND_FALSE = {
    "properties": {"a": True, "b": False}, "patternProperties": {"^c": False, "^d": True}, "propertyNames": True,
    "prefixItems": [True, False], "items": False, "contains": True, "not": False, "if": True, "then": True,
    "else": False, "allOf": [True], "anyOf": [False, True], "oneOf": [False, True, False],
    "dependentSchemas": {"a": True, "e": False}, "unevaluatedProperties": False, "unevaluatedItems": True,
}  # fmt: skip

CASES: tuple[Case, ...] = (
    # not JSON, or no schema
    Case("null", lambda: None, "cannot be null"),
    Case("a number", lambda: 5, "cannot be a number"),
    Case("a text", lambda: "object", "cannot be a string"),
    Case("a list", lambda: [{}], "cannot be an array"),
    Case("NaN in an enum", lambda: {"enum": [float("nan")]}, "is not a JSON number"),
    Case("an infinite bound", lambda: {"maximum": float("inf")}, "is not a JSON number"),
    Case("a set", lambda: {"enum": {1, 2}}, "is not a JSON value"),
    Case("a key that is a number", lambda: {"properties": {1: {}}}, "is not a string"),
    Case("a lone surrogate", lambda: {"const": "\ud800"}, "lone surrogate"),
    Case("a lone surrogate in a key", lambda: {"properties": {"\ud800": {}}}, "lone surrogate"),
    Case("NUL and U+FFFF in a constant", lambda: {"const": "\x00\uffff"}),
    Case("a constant with every control character", lambda: {"const": "".join(map(chr, range(32)))}),
    # keywords of the wrong kind
    Case("properties is a list", lambda: {"properties": []}, "properties"),
    Case("required is true", lambda: {"required": True}, "required"),
    Case("a bound that is a text", lambda: {"minimum": "3"}, "minimum"),
    Case("a length that is a text beyond ASCII", lambda: {"minLength": "é" * 80}, "minLength"),
    Case("a negative length", lambda: {"maxLength": -1}, "maxLength"),
    Case("an unknown type", lambda: {"type": "dict"}, "dict"),
    Case("no type at all", lambda: {"type": []}, "type"),
    Case("an empty enum", lambda: {"enum": []}, EMPTY),
    Case("$ref is a number", lambda: {"$ref": 5}, "'$ref' is 5"),
    Case("multipleOf 0", lambda: {"multipleOf": 0}, "multipleOf"),
    Case("a pattern that is none", lambda: {"pattern": "(a"}, "pattern"),
    Case("$schema is a number", lambda: {"$schema": 5, "type": "integer"}),
    # references
    Case("a reference to nowhere", lambda: {"$ref": "#/nope"}, "leads nowhere"),
    Case("a reference with a broken escape", lambda: {"$ref": "#/$defs/%zz"}, "leads nowhere"),
    Case("a file", lambda: {"$ref": "file:///etc/passwd"}, "was not given"),
    Case("another host", lambda: {"$ref": "http://169.254.169.254/x.json"}, "was not given"),
    Case("an identifier that is not a URI", lambda: {"$id": "::::", "type": "integer"}),
    Case("itself", lambda: {"$ref": "#"}, "leads only to itself"),
    Case(
        "two that are each other",
        lambda: {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        "leads only to itself",
    ),
    Case("allOf itself", lambda: {"allOf": [{"$ref": "#"}]}, EMPTY),
    Case("not itself", lambda: {"not": {"$ref": "#"}}, EMPTY),
    Case("anyOf itself and an integer", lambda: {"anyOf": [{"$ref": "#"}, INTEGER]}),
    Case("an object that requires itself", lambda: object_of({"$ref": "#"}), EMPTY),
    Case("two trees at once", two_trees),
    Case("a chain of 20 with two references each", lambda: chain(20, 2, INTEGER)),
    Case("a chain of 200 with three references each", lambda: chain(200, 3, INTEGER)),
    Case("a chain of 400", lambda: chain(400, 1, INTEGER)),
    Case("a chain of 3,000", lambda: chain(3_000, 1, INTEGER)),
    Case("allOf that doubles 24 times", lambda: doubling(24)),
    # depth
    Case("arrays 60 deep", lambda: nested(array_of, 60, INTEGER)),
    Case("arrays 130 deep", lambda: nested(array_of, 130, INTEGER)),
    Case("arrays 10,000 deep", lambda: nested(array_of, 10_000, INTEGER), "depth"),
    Case("objects 62 deep", lambda: nested(object_of, 62, INTEGER)),
    Case("objects 240 deep", lambda: nested(object_of, 240, INTEGER)),
    Case("not 200 deep", lambda: nested(lambda s: {"not": s}, 200, INTEGER), "nested too deeply"),
    Case(
        "anyOf 200 deep", lambda: nested(lambda s: {"anyOf": [s, {"type": "null"}]}, 200, INTEGER), "nested too deeply"
    ),
    Case("oneOf 100 deep", lambda: nested(lambda s: {"oneOf": [s, {"type": "null"}]}, 100, INTEGER)),
    Case("a constant 400 deep", lambda: {"const": nested(lambda v: [v], 400, 1)}),
    # breadth
    Case("5,000 optional keys", lambda: keys(5_000), "'keys'"),
    Case("20,000 required keys", lambda: keys(20_000, required=[f"k{i}" for i in range(20_000)]), "'keys'"),
    Case("500 optional keys, at least one", lambda: keys(500, minProperties=1, additionalProperties=False)),
    Case("300 optional keys, at most 20", lambda: keys(300, maxProperties=20)),
    Case(
        "anyOf of 300 required keys", lambda: keys(300, anyOf=[{"required": [f"k{i}"]} for i in range(300)]), "'edges'"
    ),
    Case(
        "oneOf of 300 required keys", lambda: keys(300, oneOf=[{"required": [f"k{i}"]} for i in range(300)]), "'edges'"
    ),
    Case("an enum of 10,000 texts", lambda: {"enum": [f"word {i}" for i in range(10_000)]}),
    Case("an enum of 100,000 texts", lambda: {"enum": [f"word {i}" for i in range(100_000)]}),
    Case("an enum of 20,000 integers", lambda: {"enum": list(range(20_000))}),
    Case("2,000 equal arrays in an enum", lambda: {"enum": [[1, [2, [3]]]] * 2_000}),
    Case("399,000 empty arrays in an enum", lambda: {"enum": [[] for _ in range(399_000)]}),
    Case("9,000 arrays in an enum", lambda: {"enum": [[i] for i in range(9_000)]}, "'edges'"),
    Case("oneOf of 2,000 constants", lambda: {"oneOf": [{"const": f"c{i}"} for i in range(2_000)]}, relaxed="oneOf"),
    Case(
        "oneOf of 60 overlapping patterns", lambda: {"oneOf": [string(f"a.*{i}") for i in range(60)]}, relaxed="oneOf"
    ),
    Case(
        "300 disjoint patternProperties",
        lambda: {"type": "object", "patternProperties": {f"^k{i}_": INTEGER for i in range(300)}},
    ),
    Case(
        "40 overlapping patternProperties",
        lambda: {"type": "object", "patternProperties": {f"x{i}": {"minimum": i} for i in range(40)}},
        "'cuts'",
    ),
    # products
    Case("allOf of anyOf, 4 x 6", lambda: product(4, 6), relaxed="allOf"),
    Case("allOf of anyOf, 10 x 10", lambda: product(10, 10), relaxed="allOf"),
    Case("allOf of anyOf, 30 x 2", lambda: product(30, 2), relaxed="allOf"),
    Case(
        "40 conditions",
        lambda: {
            "type": "object",
            "allOf": [
                {"if": {"properties": {f"a{i}": {"const": 1}}}, "then": {"required": [f"b{i}"]}} for i in range(40)
            ],
        },
        relaxed="allOf",
    ),
    Case(
        "60 dependentSchemas",
        lambda: {
            "type": "object",
            "dependentSchemas": {f"a{i}": {"properties": {f"b{i}": {"type": "null"}}} for i in range(60)},
        },
        relaxed="dependentSchemas",
    ),
    Case(
        "40 contains in one array",
        lambda: {"type": "array", "allOf": [{"contains": {"const": i}} for i in range(40)]},
        relaxed="allOf",
    ),
    # counts
    Case("minItems 10^12", lambda: {"type": "array", "minItems": 10**12}, "the limit is"),
    Case("maxItems 10^12", lambda: {"type": "array", "maxItems": 10**12}),
    Case("maxItems 200 in maxItems 200", lambda: nested(lambda s: {**array_of(s), "maxItems": 200}, 2, {})),
    Case("minItems 200 in minItems 200", lambda: nested(lambda s: {**array_of(s), "minItems": 200}, 3, {"const": 1})),
    Case(
        "contains 10^9 times", lambda: {"type": "array", "contains": {"const": 1}, "minContains": 10**9}, "the limit is"
    ),
    Case("minProperties 10^9", lambda: {"type": "object", "minProperties": 10**9}, "the limit is 500000"),
    Case("maxProperties 10^6", lambda: {"type": "object", "maxProperties": 10**6}),
    Case("maxLength 2^32", lambda: {"type": "string", "maxLength": 2**32}),
    Case("minLength 10^5", lambda: {"type": "string", "minLength": 10**5}, "'literal'"),
    Case("minLength 10^4", lambda: {"type": "string", "minLength": 10**4}),
    Case(
        "uniqueItems, at least three of two values",
        lambda: {**array_of({"enum": [1, 2]}), "minItems": 3, "uniqueItems": True},
        "than there are values",
    ),
    # texts
    Case("a constant of 40 kB", lambda: {"const": "x" * 40_000}),
    Case("a constant of 1 MB", lambda: {"const": "x" * 1_000_000}, "'literal'"),
    Case("a key of 100 kB", lambda: {"type": "object", "properties": {"k" * 100_000: {}}}),
    Case("5 MB of descriptions", lambda: {"description": "x" * 5_000_000}, "characters"),
    # patterns
    Case("^(a+)+$", lambda: string("^(a+)+$")),
    Case("a.{20}$", lambda: string("a.{20}$")),
    Case("^.*a.{30}b.{30}$", lambda: string("^.*a.{30}b.{30}$")),
    Case("^(x{1000}){1000}$", lambda: string("^(x{1000}){1000}$"), "'regex'"),
    Case("^x{60000}$", lambda: string("^x{60000}$"), "'regex'"),
    Case("^((((a{9}){9}){9}){9}){9}$", lambda: string("^((((a{9}){9}){9}){9}){9}$"), "'regex'"),
    Case("a pattern and maxLength 5000", lambda: string("^(?:\\S+\\s+){0,99}\\S+$", maxLength=5000)),
    Case(
        "allOf of 12 patterns", lambda: {"type": "string", "allOf": [{"pattern": f".*{c}.*"} for c in "abcdefghijkl"]}
    ),
    Case(
        "allOf of two patterns without a common word",
        lambda: {"type": "string", "allOf": [{"pattern": "^a"}, {"pattern": "^b"}]},
        EMPTY,
    ),
    Case(
        "an alternation of 15,000 words",
        lambda: string("^(?:" + "|".join(f"w{i}" for i in range(15_000)) + ")$"),
        "'regex'",
    ),
    Case("a back-reference", lambda: string("^(a+)b\\1$"), relaxed="pattern"),
    Case("60 look-aheads", lambda: string("^" + "(?!.*ab)" * 60 + ".*$")),
    # languages that meet only far away, or never: found by trial in a process that can be ended
    Case(
        "allOf of five prime repeats",
        lambda: {"allOf": [string(f"^(?:a{{{p}}})+$") for p in (101, 103, 107, 109, 113)]},
        "use fewer or simpler",
    ),
    Case(
        "three look-aheads at the same distance from the end",
        lambda: string("^(?=.*a.{20}$)(?=.*b.{20}$)(?!.*c.{20}$).*$"),
        "use fewer or simpler",
    ),
    Case(
        "patterns distinguished only near the end",
        lambda: {"allOf": [string("a.{40}$"), {"pattern": "b.{41}$"}], "not": {"pattern": "c.{42}$"}},
        "use fewer or simpler",
    ),
    Case(
        "six patternProperties distinguished only near the end",
        lambda: {"type": "object", "patternProperties": {f"a.{{{i}}}$": INTEGER for i in range(10, 16)}},
        "use fewer or simpler",
    ),
    Case(
        "thirty patternProperties distinguished only near the end",
        lambda: {"type": "object", "patternProperties": {f"{'abc'[i % 3]}.{{{i}}}$": INTEGER for i in range(10, 40)}},
        "the limit 'cuts'",
    ),
    Case("look-ahead in look-ahead", lambda: string("^" + "(?!a" * 30 + ")" * 30 + ".*$")),
    Case("200 nested groups", lambda: string("(" * 200 + "a" + ")" * 200), relaxed="pattern"),
    Case("40 choices at word borders", lambda: string("(?:\\ba|b)" * 40), relaxed="pattern"),
    # numbers
    Case("multipleOf 99,991", lambda: {"type": "integer", "multipleOf": 99_991}, relaxed="multipleOf"),
    Case("multipleOf 16,777,213", lambda: {"type": "integer", "multipleOf": 16_777_213}, relaxed="multipleOf"),
    Case("multipleOf 1e-320", lambda: {"type": "number", "multipleOf": 1e-320}, relaxed="multipleOf"),
    Case(
        "two multipleOf beyond 32 bits",
        lambda: {"type": "integer", "allOf": [{"multipleOf": 65_521}, {"multipleOf": 65_537}]},
        relaxed="multipleOf",
    ),
    Case("not a multiple of 7", lambda: {"type": "integer", "not": {"multipleOf": 7}}, relaxed="multipleOf not"),
    Case("bounds at the ends of 64 bits", lambda: {"type": "integer", "minimum": -(2**63), "maximum": 2**64}),
    Case("a bound of 1e300", lambda: {"type": "number", "maximum": 1e300}),
    Case("a bound of 1e-300", lambda: {"type": "number", "minimum": 1e-300}),
    Case("a bound of 5,000 digits", lambda: {"type": "integer", "minimum": 10**4_999}, "'digits'"),
    Case("no integer between", lambda: {"type": "integer", "minimum": 1.2, "maximum": 1.8}, EMPTY),
    # the engine's own options, and false
    Case(
        "x-guidance with a separator of anything",
        lambda: {"type": "object", "x-guidance": {"key_separator": ".*"}, "properties": {"a": INTEGER}},
    ),
    Case("x-guidance, lenient", lambda: {"not": {"type": "string"}, "x-guidance": {"lenient": True}}),
    Case("false", lambda: False, EMPTY),
    Case("minimum above maximum", lambda: {"type": "integer", "minimum": 1, "maximum": 0}, EMPTY),
    Case("a required key that is forbidden", lambda: object_of(False), EMPTY),
    # depth in every applicator
    Case(
        "if 150 deep",
        lambda: nested(lambda s: {"if": s, "then": {"type": "object"}, "else": {"type": "array"}}, 150, INTEGER),
        EMPTY,
    ),
    *(
        Case(f"{keyword} {depth} deep", partial(below, keyword, depth, INTEGER))
        for keyword, depth in (
            ("additionalProperties", 400),
            ("unevaluatedProperties", 100),
            ("propertyNames", 100),
            ("contains", 80),
            ("unevaluatedItems", 100),
            ("items", 120),
        )
    ),
    *(
        Case(f"{keyword} 100 deep", partial(below, keyword, 100, INTEGER, "a"))
        for keyword in ("patternProperties", "dependentSchemas", "properties")
    ),
    Case("prefixItems 200 deep", lambda: nested(lambda s: {"prefixItems": [s], "items": False}, 200, {})),
    Case("30 nots over objects", lambda: nested(lambda s: {"not": object_of(s)}, 30, INTEGER)),
    Case("a schema that holds itself", holds_itself, "'depth'"),
    Case("a part of two equal parts, 60 times", lambda: nested(lambda s: {"allOf": [s, s]}, 60, {}), "'nodes'"),
    Case(
        "counted arrays 12 deep", lambda: nested(lambda s: {**array_of(s), "minItems": 30, "maxItems": 40}, 12, INTEGER)
    ),
    # lattices and cycles of references
    Case("branches of branches, four levels of 25", lambda: chains(4, 25)),
    Case("a lattice of anyOf, 40 x 5", lambda: lattice(40, 5, lambda refs: {"anyOf": refs}, lambda j: {"const": j})),
    Case(
        "a lattice of oneOf, 25 x 4",
        lambda: lattice(25, 4, lambda refs: {"oneOf": refs}, lambda j: {"const": j}),
        EMPTY,
    ),
    Case(
        "a lattice of allOf, 30 x 3",
        lambda: lattice(30, 3, lambda refs: {"properties": {"x": {"allOf": refs}}}, lambda j: {"minimum": j}),
    ),
    *(
        Case(f"{keyword} leads to the root", partial(below, keyword, 1, {"$ref": "#"}))
        for keyword in ("additionalProperties", "items", "contains", "propertyNames", "unevaluatedProperties", "if")
    ),
    Case("every keyword leads to the root", lambda: {k: {"$ref": "#"} for k in APPLICATORS}, EMPTY),
    Case("a loop of $dynamicRef", lambda: {"$id": "http://x/a", "$dynamicAnchor": "n", "$dynamicRef": "#n"}, EMPTY),
    Case(
        "a loop of $recursiveRef",
        lambda: {
            "$schema": "https://json-schema.org/draft/2019-09/schema",
            "$recursiveAnchor": True,
            "$recursiveRef": "#",
        },
        EMPTY,
    ),
    Case(
        "200 documents in one, of one dynamic anchor",
        lambda: {
            "$id": "http://x/r",
            "$ref": "d0",
            "$defs": {
                f"d{i}": {
                    "$id": f"d{i}",
                    "$dynamicAnchor": "n",
                    "properties": {"a": {"$dynamicRef": "#n"}, "b": {"$ref": f"d{(i + 1) % 200}"}},
                }
                for i in range(200)
            },
        },
    ),
    # patterns and texts
    Case("a code point that is not closed", lambda: string("[\\u{411"), "not closed"),
    Case("a class begun 200,000 times in a default", lambda: {"default": {"pattern": "[^" * 200_000}}),
    Case("repeats in repeats of everything", lambda: string("^(([\\s\\S]{0,50}){0,50}x){0,10}$")),
    Case("(.*)* 20 deep", lambda: string("^" + "(" * 20 + ".*" + ")*" * 20 + "$")),
    Case(
        "thirteen stars in a row next to a constant",
        lambda: {"const": "a" * 40, "pattern": "^" + "a*" * 13 + "b$"},
        EMPTY,
    ),
    Case("eight stars in a row next to words", lambda: {"enum": ["a" * 60, "b"], "pattern": "^" + ".*a" * 8 + "b$|^b"}),
    Case(
        "words and stars by turns next to a sentence",
        lambda: {
            "enum": ["the quick brown fox jumps over the lazy dog " * 3, "x"],
            "pattern": r"^.*\w+.*\w+.*\w+.*\w+.*!$|^x",
        },
    ),
    Case(
        "eight stars in a row over keys",
        lambda: {"properties": {"a" * 60: {}}, "patternProperties": {"^" + ".*a" * 8 + "b$": {}}},
    ),
    Case(
        "choices in a row next to a constant",
        lambda: {"const": "a" * 200, "pattern": "^" + "(a|aa)" * 60 + "b$"},
        EMPTY,
    ),
    Case("thirty borders of words between stars", lambda: string("\\ba\\b.*" * 30), relaxed="pattern"),
    Case("50 look-behinds", lambda: string("(?<=a)" * 50 + "b")),
    Case("look-aheads of 500", lambda: string("^(?=.*a.{500}b)(?=.*c.{500}d).*$")),
    Case("40 back-references", lambda: string("^(a|b)" + "\\1(c|d)" * 40 + "$"), relaxed="pattern"),
    Case(
        "a class of 10,000 ranges",
        lambda: string("^[" + "".join(map(chr, range(0x4E00, 0x4E00 + 20_000, 2))) + "]{1,40}$"),
    ),
    Case("a script that is none", lambda: string("\\p{Script=Klingon}"), relaxed="pattern"),
    Case("surrogates out of order", lambda: string("^[\\uD83D\\uDE00-\\uDE4F]+$"), "out of order"),
    Case("a code point too large", lambda: string("^\\u{110000}$"), "is not a code point"),
    Case("10,000 alternatives of nothing", lambda: string("^(" + "|" * 10_000 + ")$")),
    Case("groups 5,000 deep", lambda: string("(" * 5_000 + "a" + ")" * 5_000), relaxed="pattern"),
    Case(
        "no even length between",
        lambda: string("^(ab){0,2000}$", minLength=3_999, maxLength=3_999),
        "no text matches this grammar",
    ),
    Case(
        "twelve patterns for keys",
        lambda: {
            "propertyNames": {"allOf": [{"pattern": f"[{c}].{{3,9}}$"} for c in "abcdefghijkl"]},
            "minProperties": 2,
        },
        "use fewer or simpler",
    ),
    Case(
        "keys of astral letters, quotes and nothing",
        lambda: {
            "type": "object",
            "properties": {'\U0001f600"\\\u2028\x7f': INTEGER, "": {"type": "null"}},
            "required": ["", '\U0001f600"\\\u2028\x7f'],
            "patternProperties": {"^\U0001f600": {"minimum": 3}},
        },
    ),
    Case("bytes for a pattern", lambda: {"pattern": b"^a$"}, "bytes is not a JSON value"),
    # breadth, by keyword
    Case(
        "200 overlapping patternProperties",
        lambda: {"patternProperties": {f"{i:03d}": {"maximum": i} for i in range(200)}},
        "'cuts'",
    ),
    Case(
        "patternProperties over 500 keys",
        lambda: {
            "properties": {f"k{i}": {} for i in range(500)},
            "patternProperties": {f"{i}$": {"minimum": i} for i in range(10)},
        },
    ),
    Case("an enum of 20,000 objects", lambda: {"enum": [{"id": i} for i in range(20_000)]}, "'edges'"),
    Case(
        "two enums of 50,000 that share half",
        lambda: {"allOf": [{"enum": [f"w{i}" for i in range(k, k + 50_000)]} for k in (0, 25_000)]},
    ),
    Case("none of 20,000 texts", lambda: {"type": "string", "not": {"enum": [f"w{i}" for i in range(20_000)]}}),
    Case(
        "oneOf of 300 tagged objects",
        lambda: {
            "oneOf": [
                {"type": "object", "properties": {"t": {"const": f"t{i}"}}, "required": ["t"]} for i in range(300)
            ]
        },
    ),
    Case(
        "dependentRequired of 60 on all",
        lambda: {"type": "object", "dependentRequired": {f"k{i}": [f"k{j}" for j in range(60)] for i in range(60)}},
        relaxed="required",
    ),
    Case(
        "a chain of 80 dependentSchemas",
        lambda: {
            "type": "object",
            "dependentSchemas": {
                f"k{i}": {"required": [f"k{i + 1}"], "properties": {f"k{i + 2}": {}}} for i in range(80)
            },
        },
    ),
    Case(
        "unevaluatedProperties over 50 alternatives",
        lambda: {
            "type": "object",
            "anyOf": [{"properties": {f"a{i}": INTEGER}, "required": [f"a{i}"]} for i in range(50)],
            "unevaluatedProperties": False,
        },
    ),
    Case("oneOf of 500 true", lambda: {"oneOf": [True] * 500}, relaxed="oneOf"),
    Case(
        "contains at least 10,000",
        lambda: {"type": "array", "contains": INTEGER, "minContains": 10_000},
        relaxed="contains minContains",
    ),
    Case(
        "different items out of 64 values",
        lambda: {"type": "array", "items": {"enum": list(range(64))}, "uniqueItems": True, "minItems": 64},
    ),
    Case(
        "1,500 positions",
        lambda: {"type": "array", "prefixItems": [{"const": i} for i in range(1_500)], "minItems": 1_500},
    ),
    Case("5,000 positions", lambda: {"type": "array", "prefixItems": [{"const": i} for i in range(5_000)]}, "'items'"),
    # numbers
    Case(
        "19,900 numbers of a hundred hashes",
        lambda: {"enum": [k * (2**61 - 1) + r for r in range(100) for k in range(10, 209)]},
        "'collisions'",
    ),
    Case("20,000 numbers of one hash", lambda: {"enum": [k * (2**61 - 1) for k in range(20_000)]}, "'collisions'"),
    Case(
        "multiples of 1e-300 and of 1e300",
        lambda: {"type": "number", "allOf": [{"multipleOf": 1e-300}, {"multipleOf": 1e300}]},
        relaxed="multipleOf",
    ),
    Case(
        "multiples of twelve primes",
        lambda: {"type": "integer", "allOf": [{"multipleOf": p} for p in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)]},
        relaxed="multipleOf",
    ),
    Case(
        "multiples of 9,973 between bounds of 250 digits",
        lambda: {"type": "integer", "multipleOf": 9_973, "minimum": -(10**250), "maximum": 10**250},
        relaxed="multipleOf",
    ),
    Case(
        "bounds of 290 digits",
        lambda: {"type": "integer", "minimum": 10**289 + 7, "maximum": 10**290 - 13},
        "with at most 64 digits",
    ),
    Case("-Infinity in a default", lambda: {"type": "integer", "default": float("-inf")}, "not a JSON number"),
    Case(
        "bounds of two drafts",
        lambda: {"type": "number", "minimum": 5, "exclusiveMinimum": True, "maximum": 4, "exclusiveMaximum": 8},
        EMPTY,
    ),
    # drafts mixed
    Case("true and false everywhere", lambda: TRUE_AND_FALSE),
    Case(
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
    ),
    Case(
        "two documents of one identifier",
        lambda: {
            "$id": "http://x/",
            "$ref": "http://x/y",
            "$defs": {"a": {"$id": "http://x/y", "type": "integer"}, "b": {"$id": "http://x/y", "type": "string"}},
        },
    ),
)
