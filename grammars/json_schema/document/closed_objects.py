"""Objects that list their properties, closed against other keys.

JSON Schema leaves objects open: any further key is valid.  A model under such a schema invents keys, small models
without end.  Python types and tool arguments never mean that, so their schemas are closed before they become
grammar; a JSON schema that a caller wrote as such is taken at its word.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["closed"]

#: Where subschemas describe whole values, so that closing them cannot contradict a sibling.
_MAPS = ("properties", "$defs", "definitions", "patternProperties")
_LISTS = ("anyOf", "oneOf", "prefixItems")
_SINGLES = ("items", "additionalProperties")

#: Keywords through which other schemas may add keys to the same object.
_OPENERS = (
    "additionalProperties",
    "unevaluatedProperties",
    "patternProperties",
    "propertyNames",
    "allOf",
    "$ref",
    "anyOf",
    "oneOf",
    "if",
    "dependentSchemas",
    "dependencies",
    "not",
)


def closed(schema: Any) -> Any:
    """``schema`` with ``additionalProperties: false`` in every object that lists its properties and says nothing
    else about keys.  The argument is not changed."""
    if not isinstance(schema, Mapping):
        return schema
    out = dict(schema)
    for key in _MAPS:
        if isinstance(out.get(key), Mapping):
            out[key] = {name: closed(sub) for name, sub in out[key].items()}
    for key in _LISTS:
        if isinstance(out.get(key), list):
            out[key] = [closed(sub) for sub in out[key]]
    for key in _SINGLES:
        if isinstance(out.get(key), Mapping):
            out[key] = closed(out[key])
    if "properties" in out and not any(key in out for key in _OPENERS):
        out["additionalProperties"] = False
    return out
