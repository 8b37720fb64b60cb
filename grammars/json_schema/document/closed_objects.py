"""Close objects that list their properties against other keys.

JSON Schema leaves objects open: any further key is valid.  Under such a schema a model invents keys, small models
endlessly.  Python types and tool arguments never mean that, so their schemas are closed before they become a grammar;
a JSON Schema that a caller wrote is taken literally.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

__all__ = ["close_objects", "map_subschemas"]

#: Keywords whose subschemas describe whole values, so that closing them cannot contradict a sibling.
_OF_VALUES = ("properties", "$defs", "definitions", "patternProperties", "anyOf", "oneOf", "prefixItems", "items",
              "additionalProperties")  # fmt: skip
#: Keywords with an object of subschemas.
_MAPS = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")

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
    out = map_subschemas(schema, _OF_VALUES, close_objects)
    if "properties" in out and not any(key in out for key in _OPENERS):
        out["additionalProperties"] = False
    return out


def map_subschemas(schema: Mapping[str, Any], keywords: Iterable[str], change: Callable[[Any], Any]) -> dict[str, Any]:
    """Return ``schema`` with ``change`` applied to the subschemas under these keywords."""
    out = dict(schema)
    for key in keywords:
        match out.get(key):
            case list(subschemas):
                out[key] = [change(sub) for sub in subschemas]
            case Mapping() as value:
                out[key] = {name: change(sub) for name, sub in value.items()} if key in _MAPS else change(value)
    return out
