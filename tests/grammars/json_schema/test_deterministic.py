"""The grammar of a schema is the same in every process, whatever order its sets of strings come in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

SCHEMAS: list[Any] = [
    {
        "oneOf": [
            {"properties": {"bar": {"type": "integer"}}, "required": ["bar"]},
            {"properties": {"foo": {"type": "string"}}, "required": ["foo"]},
        ]
    },
    {
        "type": "object",
        "properties": {"a": {}, "b": {}, "c": {}},
        "dependentRequired": {"a": ["b", "c"], "c": ["a"]},
        "not": {"required": ["a", "d"]},
        "anyOf": [{"properties": {"a": {"const": 1}}}, {"properties": {"b": {"const": 2}}}, {"required": ["c"]}],
    },
    {
        "type": "object",
        "allOf": [{"not": {"propertyNames": {"not": {"pattern": letter}}}} for letter in "abcd"],
        "propertyNames": {"pattern": "^..$"},
        "minProperties": 1,
        "maxProperties": 2,
    },
    {
        "type": "object",
        "not": {"anyOf": [{"propertyNames": {"not": {"enum": list(keys)}}} for keys in ("13", "279", "23x", "245")]},
        "maxProperties": 3,
    },
    {
        "type": "object",
        "anyOf": [{"properties": {key: {"const": i}}, "required": [key]} for i, key in enumerate("abcab")],
        "not": {"anyOf": [{"required": ["a", "d"]}, {"required": ["b", "e"]}, {"required": ["c", "a"]}]},
    },
    {
        "type": "object",
        "required": ["a", "b"],
        "properties": {
            "a": {"$ref": "#/$defs/A"},
            "b": {"$ref": "#/$defs/B"},
            "c": {"allOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}]},
        },
        "allOf": [{"properties": {"a": {"maxProperties": 5}, "b": {"maxProperties": 5}}}],
        "$defs": {
            key: {
                "type": "object",
                "if": {"properties": {"x": asked}, "required": ["x"]},
                "then": {"required": [then]},
            }
            for key, asked, then in (("A", {"const": 1}, "p"), ("B", {"minimum": 5}, "q"))
        },
    },
    {"type": "array", "items": {"enum": ["x", "y", "z", 1, None]}, "uniqueItems": True, "minItems": 2},
]
BUILD = """
import json, sys
from grammars.json_schema.build import build
from grammars.tree.render import render
for schema in json.loads(sys.stdin.read()):
    built = build(schema, watch=True)
    print(render(built.node).engine_text(), built.report, built.watchers)
"""


def test_every_process_writes_the_same_grammar() -> None:
    written = {
        subprocess.run(
            [sys.executable, "-c", BUILD],
            env={**os.environ, "PYTHONHASHSEED": seed},
            input=json.dumps(SCHEMAS),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3", "4")
    }
    assert len(written) == 1
