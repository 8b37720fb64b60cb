"""An upper bound on the bytes by which one token can lengthen the way to the end of an answer.

A token that opens a value, or chooses an alternative, makes it necessary to write the shortest text of that value.  So
the bound is the longest of the shortest texts of all parts of a plan.  It is estimated from schemas and grammar texts
without solving them, and rounded up where a keyword does not show the length.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from grammars.plan.plan import Plan

__all__ = ["growth_bound"]

#: Bytes of the frame of a value (a marker, brackets, separators), and of a string format.
_FRAME, _FORMAT = 16, 40
_MOST = 1 << 16
_NUMBER = re.compile("[0-9]+")
_BRANCHES = ("anyOf", "oneOf")
_CONDITIONS = ("then", "else", "not", "if")


def growth_bound(plan: Plan, first: int) -> int:
    """Return the bound in bytes; ``first`` is the length of the whole answer's shortest text."""
    try:
        return min(_MOST, _bound(plan, first) + 8)
    except RecursionError:  # a schema that is nested too deeply to be measured
        return _MOST


def _bound(plan: Plan, first: int) -> int:
    found = [_FRAME, *(_Schema(tool.parameters).longest() + len(tool.name) + 4 * _FRAME for tool in plan.tools)]
    response = plan.response
    if response is not None and response.kind == "json":
        schema = _Schema(response.schema)
        found += [schema.longest(), *(_Schema(document).longest() for document in response.documents.values())]
    elif response is not None and response.kind == "choice":
        found.append(max(len(text.encode()) for text in response.choices))
    elif response is not None:
        found.append(_of_source(response.pattern or response.source))
    if plan.reasoning.applied and plan.reasoning.preset != "native":
        found.append(first)
    return max(found)


def _of_source(source: str) -> int:
    """Return a source's length times the largest number in it, which may be the count of a repeat."""
    largest = max((int(number) for number in _NUMBER.findall(source) if len(number) < 7), default=1)
    return len(source.encode()) * max(1, largest)


class _Schema:
    """One schema document; subschemas are followed by local references, each once at a time."""

    def __init__(self, schema: Any) -> None:
        self._document = schema
        self._known: dict[int, int] = {}

    def longest(self) -> int:
        """Return the longest of the shortest texts of all subschemas, and of the texts written in them."""
        return max((max(self._least(node), *_texts(node), 0) for node in _nodes(self._document)), default=0)

    def _least(self, node: Any) -> int:
        if not isinstance(node, Mapping):
            return 1
        found = self._known.get(id(node))
        if found is None:
            self._known[id(node)] = 0  # a recursive value has an alternative without itself
            found = self._known[id(node)] = min(_MOST, self._worked_out(node))
        return found

    def _worked_out(self, node: Mapping[str, Any]) -> int:
        if "const" in node:
            return _size(node["const"])
        if isinstance(node.get("enum"), Sequence):
            return min(map(_size, node["enum"]), default=1)
        size = 1 + _number(node, "minLength") + self._object(node) + self._array(node)
        size += len(str(node["pattern"])) if "pattern" in node else 0
        size *= max(map(int, _NUMBER.findall(str(node.get("pattern", ""))[:200])), default=1) or 1
        size += _FORMAT if "format" in node else 0
        for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"):
            size += len(str(node[key])) if key in node else 0
        if isinstance(node.get("$ref"), str):
            size += self._least(self._target(node["$ref"]))
        for key in _BRANCHES:
            size += max(map(self._least, _listed(node, key)), default=0)
        return size + sum(map(self._least, _listed(node, "allOf"))) + sum(self._least(node.get(k)) for k in _CONDITIONS)

    def _object(self, node: Mapping[str, Any]) -> int:
        properties = node.get("properties")
        members = properties if isinstance(properties, Mapping) else {}
        names = [name for name in _listed(node, "required") if isinstance(name, str)]
        size = sum(len(json.dumps(name)) + 4 + self._least(members.get(name)) for name in names)
        return size + max(0, _number(node, "minProperties") - len(names)) * _FRAME

    def _array(self, node: Mapping[str, Any]) -> int:
        count, first = _number(node, "minItems"), [*_listed(node, "prefixItems"), *_listed(node, "items")]
        size = sum(2 + self._least(item) for item in first[:count])
        return size + max(0, count - len(first)) * (2 + self._least(node.get("items")))

    def _target(self, reference: str) -> Any:
        """Return the subschema of a local reference; the document itself for any other reference."""
        value = self._document
        for part in reference.lstrip("#").strip("/").split("/") if reference.startswith("#/") else ():
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(value, Mapping):
                value = value.get(key)
            elif (
                isinstance(value, Sequence) and not isinstance(value, str) and key.isdecimal() and int(key) < len(value)
            ):
                value = value[int(key)]
            else:
                return None
        return value


def _nodes(schema: Any) -> Iterator[Any]:
    """Yield all objects in a schema; without recursion, because schemas may be deep."""
    todo = [schema]
    while todo:
        value = todo.pop()
        if isinstance(value, Mapping):
            yield value
            todo += value.values()
        elif isinstance(value, list | tuple):
            todo += value


def _texts(node: Mapping[str, Any]) -> Iterator[int]:
    """Yield the sizes of the texts that one token may choose: alternatives, and names of members."""
    yield from (_size(value) for value in _listed(node, "enum"))
    properties = node.get("properties")
    yield from (len(name) + 6 for name in (properties if isinstance(properties, Mapping) else ()))


def _listed(node: Mapping[str, Any], key: str) -> Sequence[Any]:
    value = node.get(key)
    return value if isinstance(value, list | tuple) else ()


def _number(node: Mapping[str, Any], key: str) -> int:
    value = node.get(key)
    return min(_MOST, int(value)) if isinstance(value, int | float) and value > 0 else 0


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode())
