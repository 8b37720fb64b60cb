"""Close objects that list their properties against other keys.

JSON Schema leaves objects open: any further key is valid.  Under such a schema a model invents keys, small models
endlessly.  Python types and tool arguments never mean that, so their schemas are closed before they become a grammar;
a JSON Schema that a caller wrote is taken literally.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["close_objects"]

#: Keywords whose subschemas describe whole values, so that closing them cannot contradict a sibling.
_MAPS = ("properties", "$defs", "definitions", "patternProperties")
_LISTS = ("anyOf", "oneOf", "prefixItems")
_SINGLES = ("items", "additionalProperties")

#: Keywords by which other schemas may add keys to the same object.
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


def close_objects(schema: Any) -> Any:
    """Return ``schema`` with ``additionalProperties: false`` in every object that has ``properties`` and no other
    keyword for keys.  The argument is not changed.
    """
    if not isinstance(schema, Mapping):
        return schema
    out = dict(schema)
    for key in _MAPS:
        if isinstance(out.get(key), Mapping):
            out[key] = {name: close_objects(sub) for name, sub in out[key].items()}
    for key in _LISTS:
        if isinstance(out.get(key), list):
            out[key] = [close_objects(sub) for sub in out[key]]
    for key in _SINGLES:
        if isinstance(out.get(key), Mapping):
            out[key] = close_objects(out[key])
    if "properties" in out and not any(key in out for key in _OPENERS):
        out["additionalProperties"] = False
    return out
