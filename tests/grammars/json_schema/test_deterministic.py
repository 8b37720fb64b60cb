"""The grammar of a schema is the same in every process, whatever order its sets of strings come in."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from typing import Any

from tests.grammars.json_schema.document.test_reader_differences import dialect_schema
from tests.grammars.json_schema.report.test_dependent_keywords import schema_of

SCHEMAS: list[Any] = [
    *(dialect_schema(random.Random(seed), 2, is_root=True, may_refer=False) for seed in range(30)),
    *({"type": "object", **schema_of(random.Random(seed), 2)} for seed in range(30)),
    {
        "type": "object",
        "allOf": [{"not": {"propertyNames": {"not": {"pattern": letter}}}} for letter in "abcd"],
        "propertyNames": {"pattern": "^..$"},
        "minProperties": 1,
        "maxProperties": 2,
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
from special_tokens.errors import GuidedError
for schema in json.loads(sys.stdin.read()):
    try:
        built = build(schema, watch=True)
        print(render(built.node).engine_text(), built.report, built.watchers)
    except GuidedError as error:
        print(error)
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
