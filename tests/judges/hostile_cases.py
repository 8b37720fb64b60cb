"""Hostile schemas, each with the outcome that the tests require."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.judges.hostile_more import MORE
from tests.judges.hostile_shapes import (
    array_of,
    chain,
    doubling,
    keys,
    nested,
    object_of,
    product,
    two_trees,
)

__all__ = ["CASES", "Case"]


@dataclass(frozen=True)
class Case:
    """``says``: empty for a schema that compiles, otherwise a part of the error's message.

    ``relaxed``: keywords that the report must list as not enforced; nothing else may be relaxed.
    """

    name: str
    make: Callable[[], Any]
    says: str = ""
    relaxed: frozenset[str] = frozenset()


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
    Case("an empty enum", lambda: {"enum": []}, "no value satisfies"),
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
    Case("allOf itself", lambda: {"allOf": [{"$ref": "#"}]}, "no value satisfies"),
    Case("not itself", lambda: {"not": {"$ref": "#"}}, "no value satisfies"),
    Case("anyOf itself and an integer", lambda: {"anyOf": [{"$ref": "#"}, {"type": "integer"}]}),
    Case(
        "an object that requires itself",
        lambda: {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
        "no value satisfies",
    ),
    Case("two trees at once", two_trees),
    Case("a chain of 20 with two references each", lambda: chain(20, 2, {"type": "integer"})),
    Case("a chain of 200 with three references each", lambda: chain(200, 3, {"type": "integer"})),
    Case("a chain of 400", lambda: chain(400, 1, {"type": "integer"})),
    Case("a chain of 3,000", lambda: chain(3_000, 1, {"type": "integer"}), ""),
    Case("allOf that doubles 24 times", lambda: doubling(24)),
    # depth
    Case("arrays 60 deep", lambda: nested(array_of, 60, {"type": "integer"})),
    Case("arrays 130 deep", lambda: nested(array_of, 130, {"type": "integer"})),
    Case("arrays 10,000 deep", lambda: nested(array_of, 10_000, {"type": "integer"}), "depth"),
    Case("objects 62 deep", lambda: nested(object_of, 62, {"type": "integer"})),
    Case("objects 240 deep", lambda: nested(object_of, 240, {"type": "integer"})),
    Case("not 200 deep", lambda: nested(lambda s: {"not": s}, 200, {"type": "integer"}), "nested too deeply"),
    Case(
        "anyOf 200 deep",
        lambda: nested(lambda s: {"anyOf": [s, {"type": "null"}]}, 200, {"type": "integer"}),
        "nested too deeply",
    ),
    Case("oneOf 100 deep", lambda: nested(lambda s: {"oneOf": [s, {"type": "null"}]}, 100, {"type": "integer"})),
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
    Case("an enum of 100,000 texts", lambda: {"enum": [f"word {i}" for i in range(100_000)]}, ""),
    Case("an enum of 20,000 integers", lambda: {"enum": list(range(20_000))}),
    Case("2,000 equal arrays in an enum", lambda: {"enum": [[1, [2, [3]]]] * 2_000}),
    Case("399,000 empty arrays in an enum", lambda: {"enum": [[] for _ in range(399_000)]}),
    Case("9,000 arrays in an enum", lambda: {"enum": [[i] for i in range(9_000)]}, "'edges'"),
    Case(
        "oneOf of 2,000 constants",
        lambda: {"oneOf": [{"const": f"c{i}"} for i in range(2_000)]},
        relaxed=frozenset({"oneOf"}),
    ),
    Case(
        "oneOf of 60 overlapping patterns",
        lambda: {"oneOf": [{"type": "string", "pattern": f"a.*{i}"} for i in range(60)]},
        relaxed=frozenset({"oneOf"}),
    ),
    Case(
        "300 disjoint patternProperties",
        lambda: {"type": "object", "patternProperties": {f"^k{i}_": {"type": "integer"} for i in range(300)}},
    ),
    Case(
        "40 overlapping patternProperties",
        lambda: {"type": "object", "patternProperties": {f"x{i}": {"minimum": i} for i in range(40)}},
        "'cuts'",
    ),
    # products
    Case("allOf of anyOf, 4 x 6", lambda: product(4, 6), relaxed=frozenset({"allOf"})),
    Case("allOf of anyOf, 10 x 10", lambda: product(10, 10), relaxed=frozenset({"allOf"})),
    Case("allOf of anyOf, 30 x 2", lambda: product(30, 2), relaxed=frozenset({"allOf"})),
    Case(
        "40 conditions",
        lambda: {
            "type": "object",
            "allOf": [
                {"if": {"properties": {f"a{i}": {"const": 1}}}, "then": {"required": [f"b{i}"]}} for i in range(40)
            ],
        },
        relaxed=frozenset({"allOf"}),
    ),
    Case(
        "60 dependentSchemas",
        lambda: {
            "type": "object",
            "dependentSchemas": {f"a{i}": {"properties": {f"b{i}": {"type": "null"}}} for i in range(60)},
        },
        relaxed=frozenset({"dependentSchemas"}),
    ),
    Case(
        "40 contains in one array",
        lambda: {"type": "array", "allOf": [{"contains": {"const": i}} for i in range(40)]},
        relaxed=frozenset({"allOf"}),
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
        lambda: {"type": "array", "items": {"enum": [1, 2]}, "minItems": 3, "uniqueItems": True},
        "than there are values",
    ),
    # texts
    Case("a constant of 40 kB", lambda: {"const": "x" * 40_000}),
    Case("a constant of 1 MB", lambda: {"const": "x" * 1_000_000}, "'literal'"),
    Case("a key of 100 kB", lambda: {"type": "object", "properties": {"k" * 100_000: {}}}),
    Case("5 MB of descriptions", lambda: {"description": "x" * 5_000_000}, "characters"),
    # patterns
    Case("^(a+)+$", lambda: {"type": "string", "pattern": "^(a+)+$"}),
    Case("a.{20}$", lambda: {"type": "string", "pattern": "a.{20}$"}),
    Case("^.*a.{30}b.{30}$", lambda: {"type": "string", "pattern": "^.*a.{30}b.{30}$"}),
    Case("^(x{1000}){1000}$", lambda: {"type": "string", "pattern": "^(x{1000}){1000}$"}, "'regex'"),
    Case("^x{60000}$", lambda: {"type": "string", "pattern": "^x{60000}$"}, "'regex'"),
    Case("^((((a{9}){9}){9}){9}){9}$", lambda: {"type": "string", "pattern": "^((((a{9}){9}){9}){9}){9}$"}, "'regex'"),
    Case(
        "a pattern and maxLength 5000",
        lambda: {"type": "string", "pattern": "^(?:\\S+\\s+){0,99}\\S+$", "maxLength": 5000},
    ),
    Case(
        "allOf of 12 patterns", lambda: {"type": "string", "allOf": [{"pattern": f".*{c}.*"} for c in "abcdefghijkl"]}
    ),
    Case(
        "allOf of two patterns without a common word",
        lambda: {"type": "string", "allOf": [{"pattern": "^a"}, {"pattern": "^b"}]},
        "no value satisfies",
    ),
    Case(
        "an alternation of 15,000 words",
        lambda: {"type": "string", "pattern": "^(?:" + "|".join(f"w{i}" for i in range(15_000)) + ")$"},
        "'regex'",
    ),
    Case("a back-reference", lambda: {"type": "string", "pattern": "^(a+)b\\1$"}, relaxed=frozenset({"pattern"})),
    Case("60 look-aheads", lambda: {"type": "string", "pattern": "^" + "(?!.*ab)" * 60 + ".*$"}),
    # languages that meet only far away, or never: found by trial in a process that can be ended
    Case(
        "allOf of five prime repeats",
        lambda: {"allOf": [{"type": "string", "pattern": f"^(?:a{{{p}}})+$"} for p in (101, 103, 107, 109, 113)]},
        "use fewer or simpler",
    ),
    Case(
        "three look-aheads at the same distance from the end",
        lambda: {"type": "string", "pattern": "^(?=.*a.{20}$)(?=.*b.{20}$)(?!.*c.{20}$).*$"},
        "use fewer or simpler",
    ),
    Case(
        "patterns distinguished only near the end",
        lambda: {
            "allOf": [{"type": "string", "pattern": "a.{40}$"}, {"pattern": "b.{41}$"}],
            "not": {"pattern": "c.{42}$"},
        },
        "use fewer or simpler",
    ),
    Case(
        "six patternProperties distinguished only near the end",
        lambda: {"type": "object", "patternProperties": {f"a.{{{i}}}$": {"type": "integer"} for i in range(10, 16)}},
        "use fewer or simpler",
    ),
    Case(
        "thirty patternProperties distinguished only near the end",
        lambda: {
            "type": "object",
            "patternProperties": {f"{'abc'[i % 3]}.{{{i}}}$": {"type": "integer"} for i in range(10, 40)},
        },
        "the limit 'cuts'",
    ),
    Case("look-ahead in look-ahead", lambda: {"type": "string", "pattern": "^" + "(?!a" * 30 + ")" * 30 + ".*$"}),
    Case(
        "200 nested groups",
        lambda: {"type": "string", "pattern": "(" * 200 + "a" + ")" * 200},
        relaxed=frozenset({"pattern"}),
    ),
    Case(
        "40 choices at word borders",
        lambda: {"type": "string", "pattern": "(?:\\ba|b)" * 40},
        relaxed=frozenset({"pattern"}),
    ),
    # numbers
    Case("multipleOf 99,991", lambda: {"type": "integer", "multipleOf": 99_991}, relaxed=frozenset({"multipleOf"})),
    Case(
        "multipleOf 16,777,213",
        lambda: {"type": "integer", "multipleOf": 16_777_213},
        relaxed=frozenset({"multipleOf"}),
    ),
    Case("multipleOf 1e-320", lambda: {"type": "number", "multipleOf": 1e-320}, relaxed=frozenset({"multipleOf"})),
    Case(
        "two multipleOf beyond 32 bits",
        lambda: {"type": "integer", "allOf": [{"multipleOf": 65_521}, {"multipleOf": 65_537}]},
        relaxed=frozenset({"multipleOf"}),
    ),
    Case(
        "not a multiple of 7",
        lambda: {"type": "integer", "not": {"multipleOf": 7}},
        relaxed=frozenset({"multipleOf", "not"}),
    ),
    Case("bounds at the ends of 64 bits", lambda: {"type": "integer", "minimum": -(2**63), "maximum": 2**64}),
    Case("a bound of 1e300", lambda: {"type": "number", "maximum": 1e300}),
    Case("a bound of 1e-300", lambda: {"type": "number", "minimum": 1e-300}),
    Case("a bound of 5,000 digits", lambda: {"type": "integer", "minimum": 10**4_999}, "'digits'"),
    Case("no integer between", lambda: {"type": "integer", "minimum": 1.2, "maximum": 1.8}, "no value satisfies"),
    # the engine's own options, and false
    Case(
        "x-guidance with a separator of anything",
        lambda: {"type": "object", "x-guidance": {"key_separator": ".*"}, "properties": {"a": {"type": "integer"}}},
    ),
    Case("x-guidance, lenient", lambda: {"not": {"type": "string"}, "x-guidance": {"lenient": True}}),
    Case("false", lambda: False, "no value satisfies"),
    Case("minimum above maximum", lambda: {"type": "integer", "minimum": 1, "maximum": 0}, "no value satisfies"),
    Case(
        "a required key that is forbidden",
        lambda: {"type": "object", "properties": {"a": False}, "required": ["a"]},
        "no value satisfies",
    ),
    *(Case(*row) for row in MORE),
)
