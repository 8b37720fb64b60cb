"""Real schemas and the official suite: what is accepted, what is refused, and whether the report is honest.

The judges are the data's own labels and two validators; all of it is skipped where the shared data are absent.
"""

from __future__ import annotations

import json
import random
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from grammars.json_schema.build import Outcome, Policy, ReportRow
from guided.inspect.shortest import shortest
from special_tokens.errors import GuidedError
from tests.guided.validation.validators import judge as verdicts_on
from tests.judges.schema_causes import unexcused, violated, violations
from tests.judges.schema_laws import Walked, byte_judge, honest, walk
from tests.judges.schema_masks import Compiled, Judge
from tests.judges.schema_scorer import scorer_module


@pytest.fixture(scope="module")
def scorer(shared: Path) -> Any:
    if not (shared / "bench" / "schema_score.py").is_file():
        pytest.skip("needs the scorer of the shared data folder, which is absent")
    return scorer_module()


@pytest.fixture(scope="module")
def documents(scorer: Any) -> Any:
    return scorer.load_remotes(scorer.DATA / "json-schema-test-suite.tar.xz")


@pytest.fixture(scope="module")
def judge(scorer: Any, documents: Any) -> Judge:
    return Judge(scorer.load_tokenizer(None), documents)


@pytest.fixture(scope="module")
def by_bytes(documents: Any) -> Judge:
    return byte_judge(documents)


@cache
def sample(scorer: Any, data: str, size: int) -> list[Any]:
    """``size`` schemas of a data set, evenly spread."""
    if data == "suite":
        records = scorer.load_suite(scorer.DATA / "json-schema-test-suite.tar.xz", list(scorer.DRAFTS))
    else:
        records = scorer.load_bench(scorer.DATA / "jsonschemabench.tar.xz")
    return [records[i * len(records) // size] for i in range(size)]


#: Per data set and policy, at least this much of all: schemas compiled, valid accepted, invalid rejected.
FLOORS: dict[tuple[str, Policy], tuple[float, float, float]] = {
    ("suite", "warn"): (0.98, 0.97, 0.96),
    ("bench", "warn"): (0.98, 0.99, 0.99),
    ("suite", "strict"): (0.94, 0, 1),
    ("bench", "strict"): (0.96, 0, 1),
}


@pytest.mark.parametrize("size", [20, pytest.param(50, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("data", "policy"), FLOORS)
def test_floors_and_honesty_hold_on_a_sample(
    scorer: Any, judge: Judge, by_bytes: Judge, documents: Any, data: str, policy: Policy, size: int
) -> None:
    """Strict accepts nothing invalid."""
    compiled = right_valid = num_valid = right_invalid = num_invalid = 0
    breaches: list[str] = []
    records = sample(scorer, data, size)
    for record in records:
        schema = record["schema"]
        try:
            found = judge.compiled(schema, policy)
        except GuidedError as error:
            compiled += "nsatisfiable" in str(error) and not any(test["valid"] for test in record["tests"])
            num_valid += sum(test["valid"] for test in record["tests"])
            continue
        compiled += 1
        for test in record["tests"]:
            texts = scorer.texts(test["data"], schema, test["valid"] or not scorer.is_draft4(schema))
            accepted = any(found.accepts(text) for text in texts)
            num_valid += test["valid"]
            num_invalid += not test["valid"]
            right_valid += test["valid"] and accepted
            right_invalid += not test["valid"] and not accepted
            if accepted != test["valid"] and policy == "warn":
                more = honest(found, by_bytes.compiled(schema), schema, test, texts, documents)
                breaches += [f"{record['name']}: {b.kind}: {b.detail}" for b in more if b.kind != "doubtful"]
    floors = FLOORS[data, policy]
    assert compiled >= floors[0] * len(records)
    assert right_valid >= floors[1] * num_valid
    assert right_invalid >= floors[2] * num_invalid
    assert not breaches, "\n".join(breaches)


@pytest.mark.parametrize("size", [20, pytest.param(50, marks=pytest.mark.slow)])
@pytest.mark.parametrize("data", ["suite", "bench"])
def test_the_shortest_text_of_a_schema_is_valid(
    scorer: Any, judge: Judge, documents: Any, data: str, size: int
) -> None:
    num_found = 0
    for record in sample(scorer, data, size):
        try:
            compiled = judge.compiled(record["schema"])
        except GuidedError:
            continue
        text = shortest(compiled.plan, compiled.start.engine)
        if text is None:
            continue
        num_found += 1
        verdicts = verdicts_on(record["schema"], json.loads(text), documents=documents)
        assert {verdict.is_valid for verdict in verdicts} <= {True, None}, (record["name"], text, verdicts)
    assert num_found >= 15


def _has_row(one: Walked, schema: Any, found: Compiled, documents: Any) -> bool:
    """Whether each violation has a relaxed row at its place; nothing excuses a row that ended with an error."""
    relaxed = found.plan.schema_report.relaxed
    with suppress(ValueError):  # no JSON at all: nothing excuses it
        return one.ended and bool(relaxed) and not unexcused(schema, json.loads(one.text), documents, relaxed)
    return False


@pytest.mark.parametrize("size", [20, pytest.param(50, marks=pytest.mark.slow)])
@pytest.mark.parametrize("data", ["suite", "bench"])
def test_what_is_written_at_random_is_valid(scorer: Any, judge: Judge, documents: Any, data: str, size: int) -> None:
    faults: list[str] = []
    num_ended = 0
    for record in sample(scorer, data, size)[::2]:
        try:
            found = judge.compiled(record["schema"])
        except GuidedError:
            continue
        rng = random.Random(record["name"])
        for _ in range(2):
            one = walk(found, record["schema"], rng, documents=documents)
            num_ended += one.ended
            if one.faults and not one.doubtful and not _has_row(one, record["schema"], found, documents):
                faults.append(f"{record['name']}: {one.faults[:2]}: {one.text[:200]}")
    assert num_ended >= 0.8 * size
    assert not faults, "\n".join(faults)


def test_a_cause_in_a_document_has_the_pointer_of_that_document() -> None:
    schema = {"type": "string", "$ref": "urn:d"}
    assert violated(schema, "a", {"urn:d": {"pattern": "^b"}}) == {("urn:d#", "pattern")}
    inner = {"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"k": {"$ref": "#/definitions/n"}}}
    inner["definitions"] = {"n": {"oneOf": [{"minLength": 3}, {"maxLength": 0}]}}
    found = violated({"anyOf": [{"$ref": "urn:d"}]}, {"k": "a"}, {"urn:d": inner})
    assert {("urn:d#/definitions/n", "oneOf"), ("urn:d#/definitions/n/oneOf/0", "minLength"), ("", "anyOf")} <= found
    assert ("", "oneOf") not in found


def test_one_row_does_not_excuse_another_violation() -> None:
    schema = {"type": "string", "pattern": "^(a)\\1$", "minLength": 5}
    row = ReportRow("", "pattern", Outcome.RELAXED, "not enforced")
    assert {("", "minLength")} in unexcused(schema, "a", None, [row])
    assert not unexcused(schema, "a", None, [row, replace(row, keyword="minLength")])
    assert not unexcused(schema, "abcdef", None, [row])


REFERRING: list[tuple[Any, Any, str]] = [
    ({"$ref": "#/$defs/a", "properties": {"q": {}}, "$defs": {"a": {"properties": {"p": {"type": "null"}}}}}, {"p": 1},
     "/$defs/a/properties/p"),
    ({"$ref": "#/$defs/a", "type": "integer", "$defs": {"a": {"type": "null"}}}, 1, "/$defs/a"),
    ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b", "minimum": 0}, "b": {"minimum": 3}}}, 1, "/$defs/b"),
    ({"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/a", "type": "null",
      "definitions": {"a": {"type": "string"}}}, 1, "/definitions/a"),
    ({"properties": {"$ref": {"type": "null"}}}, {"$ref": 1}, "/properties/$ref"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "value", "pointer"), REFERRING)
def test_what_is_violated_after_a_reference_is_not_taken_for_what_stands_next_to_it(
    schema: Any, value: Any, pointer: str
) -> None:
    found = {place for causes in violations(schema, value) for place, word in causes if word in ("type", "minimum")}
    assert found == {pointer}
