"""An upper bound on the bytes by which tokens can lengthen the path to the end of an answer.

A token that begins a value, or chooses an alternative, commits the answer to at least the shortest text of that value.
The bound is the longest of these texts, counted once for each value that a token opens, and once for the innermost
value that was open before and still is: its remaining text may have become longer.  The texts are estimated from
schemas and patterns without solving them, and rounded up where a keyword does not show the length.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from grammars.plan.plan import Plan
from grammars.text_grammars.lark.graph import reach
from grammars.values.json_pointer import unescaped
from guided.landing.known_texts import grammars_in, listed, mapping, objects_in, patterns_in, schemas_of

__all__ = ["Growth", "growth_bound"]

#: Bytes of the frame of a value (a marker, brackets, separators), and of a string format.
_FRAME, _FORMAT = 16, 40
_MAX_LENGTH = 1 << 16
#: A piece of a regex: an escape or a class (one character), a parenthesis, a repeat with its least count, a character.
_ESCAPE = r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[xupP]\{[^}]*\}|.)"
_PIECE = re.compile(_ESCAPE + r"|\[(?:\\.|[^\]\\])*\]|[()]|\{([0-9]+)[0-9,]*\}|.", re.DOTALL)
_CHARACTER = 6  # at most, in bytes: JSON may have to write an escape
_REPEATS = ("*", "+", "?")
_BRANCHES = ("anyOf", "oneOf")
_CONDITIONS = ("then", "else", "not", "if")
_DEPENDENT = ("dependentRequired", "dependentSchemas", "dependencies")
_LIMITS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_SCALARS = ("null", "boolean", "integer", "number", "string")


class Growth(NamedTuple):
    """The bound of one plan."""

    most: int  #: bytes by which one opened value, or all tokens that open no value together, lengthen the path
    is_seen: bool = True  #: whether a bracket opens each value that nests; else every token may open a value
    is_sure: bool = True  #: whether the bound always holds; else each token is tried, from the beginning

    def of(self, token: bytes) -> int:
        """Return the bytes by which one more token can lengthen the path."""
        opened = token.count(b"{") + token.count(b"[")
        return self.most * (opened if self.is_seen else max(1, opened + token.count(b",")))


def growth_bound(plan: Plan, first: int) -> Growth:
    """Return the bound of a plan; ``first`` is the length in bytes of the whole answer's shortest text."""
    response, schemas, patterns = plan.response, [*schemas_of(plan)], [*patterns_in(plan)]
    # In these a token may decide what many values need, or a search may not find what is needed: clients' grammars,
    # patterns that go on after a repeat, and schemas that recur through a choice made late.
    if any(grammars_in(plan)) or any(map(_goes_on, patterns)) or any(map(_has_no_bound, schemas)):
        return Growth(0, is_sure=False)
    is_tag = response is not None and response.kind == "structural_tag"
    sizes = [_FRAME, *map(_of_pattern, patterns)]
    try:
        refers_out = response is not None and bool(response.documents)
        sizes += [_Schema(schema).longest(everywhere=refers_out) for schema in schemas]
        for tool in plan.tools:  # a call is chosen, and then what is optional in it
            schema = _Schema(tool.parameters)
            sizes.append(schema.least(tool.parameters) + schema.longest() + len(tool.name) + 4 * _FRAME)
    except RecursionError:  # a schema that is nested too deeply to be measured
        sizes.append(_MAX_LENGTH)
    if response is not None:
        sizes += [len(text.encode()) for text in (*response.choices, response.source if is_tag else "")]
    most = max(sizes) + (first if plan.reasoning.applied and plan.reasoning.preset != "native" else 0)
    return Growth(min(_MAX_LENGTH, most + 8), not is_tag and all(tool.kind != "custom" for tool in plan.tools))


def _of_pattern(pattern: str) -> int:
    """Return the bytes of all characters of a regex, each as often as repeats ask for it at least."""
    groups, last = [0], 0
    for piece in _PIECE.finditer(pattern):
        text, least = piece[0], piece[1]
        if text == "(":
            groups.append(0)
        elif text == ")" and len(groups) > 1:
            last = groups.pop()
            groups[-1] += last
        elif least is not None:
            groups[-1] += last * (max(1, int(least[:6])) - 1)
            last *= max(1, int(least[:6]))
        else:
            last = len(text.encode()) if len(text) == 1 and text != "." else _CHARACTER
            groups[-1] += last
    return min(_MAX_LENGTH, sum(groups))


def _has_no_bound(schema: Any) -> bool:
    """Whether one token may decide what many open values need: a schema recurs, and a choice in it is made late.

    For example an expression of numbers and of two kinds of objects that contain expressions.  Also whether the bytes
    allowed at a place may not show what is needed there: in patterns that go on after a repeat, or before which any
    text may come, where items must be contained, and in keys that must match several patterns at once.
    """
    nodes = list(objects_in(schema))
    patterns = (key for node in nodes for key in (node.get("pattern"), *mapping(node, "patternProperties")))
    if any("contains" in node or "propertyNames" in mapping(node, "not") or _chooses_twice(node) for node in nodes):
        return True
    for pattern in patterns:  # without an anchor, any text may come before one, or before an alternative of it
        if isinstance(pattern, str) and (pattern[:1] != "^" or "|" in pattern or _goes_on(pattern)):
            return True
    names = set(_references(nodes))
    if not names or not any(map(_decides_late, nodes)):
        return False
    document = _Schema(schema)
    after = {name: set(_references(objects_in(document.target(name)))) for name in names}
    return any(name in reach(after[name], after.__getitem__) for name in names)


def _goes_on(pattern: str) -> bool:
    """Whether a regex goes on after a repeat, whose characters may hide what must follow."""
    pieces = [piece[0] for piece in _PIECE.finditer(pattern.rstrip("$)"))]
    return any(piece in _REPEATS or (piece[0] == "{" and "," in piece) for piece in pieces[:-1])


def _references(nodes: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for node in nodes:
        yield from (node[key] for key in ("$ref", "$dynamicRef") if isinstance(node.get(key), str))


def _decides_late(node: Mapping[str, Any]) -> bool:
    """Whether a value may be one of several, or must be several at once, of which the first byte tells nothing."""
    if "if" in node or "not" in node or len(listed(node, "allOf")) > 1:
        return True
    branches = [branch for key in _BRANCHES for branch in listed(node, key) if isinstance(branch, Mapping)]
    return sum(not ({"const", "enum"} & branch.keys() or branch.get("type") in _SCALARS) for branch in branches) > 1


def _chooses_twice(node: Mapping[str, Any]) -> bool:
    """Whether one token may make several choices of a value at once, so that what they ask for adds up."""
    parts = [node, *(part for part in listed(node, "allOf") if isinstance(part, Mapping))]
    return sum(key in part for part in parts for key in ("if", *_BRANCHES, *_DEPENDENT)) > 1


class _Schema:
    """One schema document; subschemas are followed by local references, each once at a time."""

    def __init__(self, schema: Any) -> None:
        self._document = schema
        self._least_by_id: dict[int, int] = {}
        self._named: defaultdict[str, list[Any]] = defaultdict(list)
        for node in objects_in(schema):
            for name, member in mapping(node, "properties").items():
                self._named[name].append(member)

    def longest(self, *, everywhere: bool = False) -> int:
        """Return a bound of the texts that a token can make necessary: a value anywhere, and its name or a constant.

        A value that every answer needs is on the path from the beginning, and is left out unless ``everywhere``.
        """
        nodes, needed = list(objects_in(self._document)), set()
        everywhere = everywhere or any(not reference.startswith("#/") for reference in _references(nodes))
        todo = [] if everywhere else [self._document]
        while todo:
            node = todo.pop()
            if isinstance(node, Mapping) and id(node) not in needed and not any(key in node for key in _DEPENDENT):
                needed.add(id(node))
                members, names = mapping(node, "properties"), listed(node, "required")
                todo += [*listed(node, "allOf"), *(members[name] for name in names if name in members)]
        texts = [_size(value) for node in nodes for value in listed(node, "enum")]
        texts += [_size(name) + 4 for name in self._named]
        keys = [self._key(node) for node in nodes]
        values = [self._scalar(node) if id(node) in needed else self.least(node) for node in nodes]
        return max(values, default=0) + max(_FRAME, *texts, *keys, 0)

    def least(self, node: Any) -> int:
        """Return a bound of the shortest text of a subschema."""
        if not isinstance(node, Mapping):
            return 1
        least = self._least_by_id.get(id(node))
        if least is None:
            self._least_by_id[id(node)] = 0  # a recursive value has an alternative without itself
            least = self._least_by_id[id(node)] = min(_MAX_LENGTH, self._worked_out(node))
        return least

    def _worked_out(self, node: Mapping[str, Any]) -> int:
        if "const" in node:
            return _size(node["const"])
        if isinstance(node.get("enum"), Sequence):
            return min(map(_size, node["enum"]), default=1)
        size = self._scalar(node) + self._object(node) + self._array(node)
        parts = [*listed(node, "allOf"), *map(node.get, _CONDITIONS), *mapping(node, "dependentSchemas").values()]
        if isinstance(node.get("$ref"), str):
            parts.append(self.target(node["$ref"]))
        size += sum(map(self.least, parts))
        return size + sum(max(map(self.least, listed(node, key)), default=0) for key in _BRANCHES)

    def _scalar(self, node: Mapping[str, Any]) -> int:
        """Return what the keywords of texts and numbers alone may ask for."""
        size = 1 + _number(node, "minLength") + _of_pattern(str(node.get("pattern", "")))
        return size + _FORMAT * ("format" in node) + sum(len(str(node[key])) for key in _LIMITS if key in node)

    def _object(self, node: Mapping[str, Any]) -> int:
        members, names = mapping(node, "properties"), dict.fromkeys(_needed(node))
        size = 0
        for name in names:
            values = [members[name]] if name in members else self._named.get(name, ())
            size += _size(name) + 4 + max(map(self.least, values), default=1)
        others = [node.get(key) for key in ("additionalProperties", "unevaluatedProperties")]
        others += [*mapping(node, "patternProperties").values(), *members.values()]
        more = _FRAME + self._key(node) + max(map(self.least, others))
        return size + max(0, _number(node, "minProperties") - len(names)) * more

    def _key(self, node: Mapping[str, Any]) -> int:
        """Return the size of a key that the schema does not list."""
        size = max((_of_pattern(pattern) for pattern in mapping(node, "patternProperties")), default=0)
        return max(size, self.least(node["propertyNames"])) if "propertyNames" in node else size

    def _array(self, node: Mapping[str, Any]) -> int:
        count, first = _number(node, "minItems"), [*listed(node, "prefixItems"), *listed(node, "items")]
        size = sum(2 + self.least(item) for item in first[:count])
        return size + max(0, count - len(first)) * (2 + self.least(node.get("items")))

    def target(self, reference: str) -> Any:
        """Return the subschema of a local reference; the document itself for any other reference."""
        value = self._document
        for step in reference[2:].split("/") if reference.startswith("#/") else ():
            try:
                value = value[int(step) if isinstance(value, list | tuple) else unescaped(step)]
            except (KeyError, IndexError, TypeError, ValueError):
                return None
        return value


def _needed(node: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names that an object must have, or may have to have."""
    for key in ("required", "dependentRequired", "dependencies"):
        value = node.get(key)
        for names in value.values() if isinstance(value, Mapping) else (value,):
            yield from (name for name in names if isinstance(name, str)) if isinstance(names, list | tuple) else ()


def _number(node: Mapping[str, Any], key: str) -> int:
    value = node.get(key)
    return min(_MAX_LENGTH, int(value)) if isinstance(value, int | float) and value > 0 else 0


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode())
