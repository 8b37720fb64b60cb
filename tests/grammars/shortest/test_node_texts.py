"""The shortest text of a grammar: against a search by brute force, and of schemas that earlier found none."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammars.json_schema.build import build
from grammars.shortest.node_texts import shortest_text
from grammars.tree.nodes import Alt, Group, Node, Ref, Repeat, RuleDef, Seq, Text

_NAMES = ("a", "b", "c", "d")
_LONGEST = 12

_leaves = st.one_of(
    st.text("xyz", max_size=3).map(Text),
    st.sampled_from(_NAMES).map(Ref),
)
_nodes: st.SearchStrategy[Node] = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda parts: Seq(tuple(parts))),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: Alt(tuple(parts))),
        st.tuples(inner, st.integers(0, 2)).map(lambda both: Repeat(both[0], both[1])),
    ),
    max_leaves=6,
)


def _sizes(node: Node, rules: dict[str, set[int]]) -> set[int]:
    """The sizes, up to a limit, of all that a node writes, by what its rules are known to write."""
    match node:
        case Text(text=word):
            found = {len(word)}
        case Ref(name=name):
            found = rules[name]
        case Seq(parts=parts):
            found = {0}
            for part in parts:
                found = {one + other for one in found for other in _sizes(part, rules)}
        case Alt(options=options):
            found = set().union(*(_sizes(option, rules) for option in options))
        case Repeat(body=body, least=least):
            found = {0}
            for _ in range(least):
                found = {one + other for one in found for other in _sizes(body, rules)}
        case _:
            raise AssertionError(node)
    return {size for size in found if size <= _LONGEST}


@given(st.fixed_dictionaries(dict.fromkeys(_NAMES, _nodes)))
def test_the_shortest_text_of_rules_is_that_of_a_search(bodies: dict[str, Node]) -> None:
    rules: dict[str, set[int]] = {name: set() for name in _NAMES}
    before = None
    while before != rules:
        before = dict(rules)
        rules = {name: _sizes(body, before) for name, body in bodies.items()}
    found = shortest_text(Group("g", Ref("a"), {name: RuleDef(body) for name, body in bodies.items()}))
    if found is None or len(found) > _LONGEST:
        assert not rules["a"]
    else:
        assert len(found) == min(rules["a"])


@pytest.mark.parametrize(
    ("schema", "size"),
    [
        (
            {"type": "array", "uniqueItems": True, "minItems": 3, "items": {"enum": ["aaa", 1, 22, "b"]}},
            len('[1, 22, "b"]'),
        ),
        (
            {
                "type": "array",
                "uniqueItems": True,
                "minItems": 2,
                "maxItems": 3,
                "items": {"type": "boolean"},
                "not": {"const": []},
            },
            len("[true, false]"),
        ),
        (
            {
                "$defs": {
                    f"n{i}": {"oneOf": [{"$ref": f"#/$defs/n{i + 1}"}, {"type": "array", "minItems": 9}]}
                    for i in range(40)
                }
                | {"n40": {"not": {"type": ["null", "boolean", "number", "string", "array"]}}},
                "$ref": "#/$defs/n0",
            },
            len("{}"),
        ),
    ],
    ids=["values out of a set", "both booleans", "a chain of references"],
)
def test_a_schema_with_rules_that_count_has_one(schema: dict[str, Any], size: int) -> None:
    built = build(schema, watch=True)
    found = shortest_text(built.node, built.watchers)
    assert found is not None
    jsonschema.validators.validator_for(schema)(schema).validate(json.loads(found))
    assert len(found) == size
