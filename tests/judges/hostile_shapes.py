"""Shapes of hostile schemas: depth, breadth, references that multiply."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["array_of", "below", "chain", "doubling", "keys", "nested", "object_of", "product", "two_trees"]


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
