"""Apply the key order and the separators of a response format to its schema and to the JSON formatting."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from grammars.compose.response_format import RESPONSE_FORMAT
from grammars.values.constraints import JsonSchema
from grammars.values.spelling import Spelling
from special_tokens.errors import RequestError, shown

__all__ = ["in_order"]

#: Keywords whose value is an object of subschemas, a list of subschemas, or one subschema.
_MAPS = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLES = ("items", "additionalProperties", "if", "then", "else")


def in_order(schema: Any, spelling: Spelling, constraint: JsonSchema) -> tuple[Any, Spelling]:
    """Return the schema with its keys reordered, and ``spelling`` (the JSON formatting) with other separators.

    ``constraint`` asks for both.  The separators "family" are those of ``spelling``, as the model's family writes.
    With ``any_order`` the model may write the keys of each object in any order.  Raises `RequestError` for a wrong
    order, for wrong separators, and for a key that no object of the schema lists.
    """
    if constraint.separators == "compact":
        spelling = replace(spelling, item_separator=",", key_separator=":", max_whitespace=0)
    elif constraint.separators != "family":
        raise RequestError(
            f"{shown(constraint.separators)} is not a choice", place=f"{RESPONSE_FORMAT}.separators",
            expected="family or compact",
        )  # fmt: skip
    order = constraint.key_order
    if isinstance(order, str) and order in ("schema", "any"):
        return schema, replace(spelling, any_order=order == "any")
    if isinstance(order, str) or not isinstance(order, Sequence) or not all(isinstance(key, str) for key in order):
        raise RequestError(
            f"{shown(order)} is not an order of keys", place=f"{RESPONSE_FORMAT}.key_order",
            expected="schema, any, or a list of the keys that come first",
        )  # fmt: skip
    listed: set[str] = set()
    ordered = _ordered(schema, tuple(dict.fromkeys(order)), listed)
    for i, key in enumerate(order):
        if key not in listed:
            near = difflib.get_close_matches(key, listed, 1)
            raise RequestError(
                f"no object lists the key {shown(key)}", place=f"{RESPONSE_FORMAT}.key_order[{i}]",
                expected="a key of the schema", hint=f"is it {shown(near[0])}?" if near else "",
            )  # fmt: skip
    return ordered, spelling


def _ordered(schema: Any, first: tuple[str, ...], listed: set[str]) -> Any:
    """The schema with the keys ``first`` before the other properties of each object; adds all keys to ``listed``."""
    if not isinstance(schema, Mapping):
        return schema
    out = dict(schema)
    for name in _MAPS:
        if isinstance(out.get(name), Mapping):
            out[name] = {key: _ordered(sub, first, listed) for key, sub in out[name].items()}
    for name in _LISTS:
        if isinstance(out.get(name), list):
            out[name] = [_ordered(sub, first, listed) for sub in out[name]]
    for name in _SINGLES:
        out |= {name: _ordered(out[name], first, listed)} if name in out else {}
    if isinstance(out.get("properties"), dict):
        properties = out["properties"]
        listed.update(properties)
        out["properties"] = {key: properties[key] for key in (*(k for k in first if k in properties), *properties)}
    return out
