"""The arguments of a tool, for syntaxes that write arguments one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from grammars.regular.terms import Regular
from grammars.tool_calls.arguments.schema_types import is_whole, part, resolve, strings, type_of, types
from grammars.tools.parameters import arguments_schema, pointer
from grammars.tree.nodes import EMPTY, Node, Rule, alt, is_empty, opt, repeat, seq
from grammars.values.tool import Tool
from special_tokens.errors import ModelError

__all__ = ["Parameter", "Signature", "arrange", "signature"]


@dataclass(frozen=True)
class Parameter:
    """An argument: its key, its schema inside ``root``, and ``place``, the JSON pointer used in reports."""

    key: str
    schema: Any
    root: Mapping[str, Any]
    required: bool = False
    place: str = ""
    is_extra: bool = False  #: represents any argument that the tool does not name

    @cached_property
    def types(self) -> frozenset[str]:
        """The JSON types that its values may have."""
        return types(self.schema, self.root)

    @cached_property
    def strings(self) -> Regular:
        """The language of the strings that it may be."""
        return strings(self.schema, self.root)

    @cached_property
    def whole_schema(self) -> Any:
        """Its schema with the definitions of ``root`` that it refers to."""
        return part(self.root, self.schema)

    def only(self, kept: frozenset[str]) -> Parameter:
        """The same argument, restricted to these JSON types."""
        if self.types <= kept:
            return self
        return replace(self, schema=_narrowed(self.schema, self.root, kept))

    @cached_property
    def is_whole(self) -> bool:
        """Whether all numbers that it may be are integers; False if that is not evident."""
        return is_whole(self.schema, self.root)

    def whole(self) -> Parameter:
        """The same argument, restricted to integers."""
        return self if self.is_whole else replace(self, schema={"allOf": [self.schema, {"type": "integer"}]})

    def inside(self, schema: Any, *path: str) -> Parameter:
        """The value at ``path`` inside this argument, with schema ``schema``."""
        return Parameter(path[-1] if path else "", schema, self.root, True, self.place + "".join(f"/{p}" for p in path))


def _narrowed(schema: Any, root: Mapping[str, Any], kept: frozenset[str]) -> Any:
    schema = resolve(schema, root)
    if not isinstance(schema, Mapping):
        return {"type": sorted(kept)} if schema is True else schema
    out = dict(schema)
    if "enum" in out:
        out["enum"] = [value for value in out["enum"] if type_of(value) in kept]
    for key in ("anyOf", "oneOf"):
        if out.get(key):
            options = [option for option in out[key] if types(option, root) & kept]
            out[key] = [_narrowed(option, root, kept) for option in options]
    if isinstance(out.get("type"), list):
        named = [name for name in out["type"] if ("number" if name == "integer" else name) in kept]
        out["type"] = named[0] if len(named) == 1 else named
    elif not {"type", "enum", "const", "anyOf", "oneOf"} & out.keys():
        out["type"] = sorted(kept)
    return out


@dataclass(frozen=True)
class Signature:
    """The arguments of a tool in the schema's order; ``extra`` describes any others, None if none are allowed."""

    parameters: tuple[Parameter, ...]
    extra: Parameter | None

    def get(self, key: str) -> Parameter:
        """The argument called ``key``; for an unknown key ``extra``, or an argument that accepts any value."""
        for parameter in self.parameters:
            if parameter.key == key:
                return parameter
        return self.extra or Parameter(key, True, {})

    def in_order(self, arguments: Mapping[str, Any]) -> list[str]:
        """The keys of ``arguments``: first those that the tool names, in the tool's order, then the others."""
        in_signature = [parameter.key for parameter in self.parameters if parameter.key in arguments]
        return in_signature + [key for key in arguments if key not in in_signature]


ANYTHING = Signature((), Parameter("", True, {}, is_extra=True))


def signature(tool: Tool | None) -> Signature:
    """The signature of ``tool``; for None one that accepts any arguments."""
    if tool is None:
        return ANYTHING
    root = arguments_schema(tool)
    schema = _merged(resolve(root, root), root)
    required = set(schema.get("required", ()))
    properties: Mapping[str, Any] = schema.get("properties", {})
    listed = tuple(
        Parameter(key, inner, root, key in required, pointer(tool, "properties", key))
        for key, inner in properties.items()
    )
    listed += tuple(
        Parameter(key, True, root, True, pointer(tool, "required"))
        for key in schema.get("required", ())
        if key not in properties
    )
    extra = schema.get("additionalProperties", True)
    if extra is False:
        return Signature(listed, None)
    return Signature(listed, Parameter("", extra, root, False, pointer(tool, "additionalProperties"), is_extra=True))


def _merged(schema: Any, root: Mapping[str, Any]) -> dict[str, Any]:
    """The object schema merged with the properties of its ``allOf`` subschemas."""
    out = dict(schema) if isinstance(schema, Mapping) else {}
    for inner in out.get("allOf", ()):
        other = _merged(resolve(inner, root), root)
        out["properties"] = {**out.get("properties", {}), **other.get("properties", {})}
        out["required"] = [*out.get("required", ()), *other.get("required", ())]
        if other.get("additionalProperties") is False:
            out["additionalProperties"] = False
    return out


def arrange(named: Sequence[tuple[str, bool, Node]], extra: Node | None, separator: Node, order: str) -> Node:
    """The grammar of an argument list.

    ``named`` holds key, required and node of each argument; ``extra`` is the node of an argument of any other name,
    which may follow the named ones any number of times.  ``order``: ``schema`` keeps the given order, ``sorted`` sorts
    by key.
    """
    if order == "sorted":
        named = sorted(named, key=lambda item: item[0])
    elif order != "schema":
        raise ModelError(f"unknown order {order!r}", place="tool_calls.options", expected="schema or sorted")
    later = EMPTY if extra is None else repeat(seq(separator, extra))  # the rest of the list after an argument
    first = EMPTY if extra is None else opt(extra, later)  # the rest of the list if nothing precedes it
    for _, required, node in reversed(named):
        written = seq(node, later)
        if is_empty(separator):
            first = later = seq(node if required else opt(node), later)
            continue
        first = written if required else alt(written, first)
        follow = seq(separator, node)
        later = Rule("more_arguments", seq(follow if required else opt(follow), later))
    return first
