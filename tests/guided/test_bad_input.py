"""Bad input gets a typed error that names the place, what was expected and what to do."""

from __future__ import annotations

from typing import Any

import pytest

from grammars.compose.compose import Parts, compose
from grammars.values.constraints import Choice, Regex
from grammars.values.format import Ends, Format
from guided.engine.engine import Engine
from guided.hf.generate.inputs import checked_inputs
from special_tokens.errors import (
    GuidedError,
    ModelError,
    PlanError,
    RequestError,
    SchemaError,
    ToolError,
)
from tests.guided.output.test_parser import FORMAT

PLAIN = Format("plain", ends=Ends(("<|im_end|>",)))


def refuse(engine: Engine, kind: type[GuidedError], match: str, format: Format = FORMAT, **parts: Any) -> None:
    with pytest.raises(kind, match=match) as caught:
        compose(Parts(**parts), tokens=engine.tokens, format=format)
    assert isinstance(caught.value, RequestError)
    assert caught.value.place


@pytest.mark.parametrize(
    ("keyword", "schema"),
    [
        ("uniqueItems", {"type": "array", "items": {"type": "object"}, "uniqueItems": True}),
        ("pattern", {"type": "string", "pattern": r"(a|bb)\1"}),
    ],
)
def test_an_unsupported_keyword_is_listed_or_refused_with_its_place(
    engine: Engine, keyword: str, schema: dict[str, Any]
) -> None:
    whole = {"type": "object", "properties": {"x": schema}, "required": ["x"], "additionalProperties": False}
    refuse(
        engine, SchemaError, f"response_format/properties/x: '{keyword}' cannot be enforced: .*; expected .*use policy",
        response_format=whole, schema_policy="strict",
    )  # fmt: skip
    plan = compose(Parts(response_format=whole), tokens=engine.tokens, format=FORMAT)
    assert [(row.pointer, row.keyword) for row in plan.schema_report.relaxed] == [("/properties/x", keyword)]


def test_tools_for_a_model_without_a_way_of_writing_calls(engine: Engine) -> None:
    refuse(engine, ToolError, "the tool-call format of this model is not known", format=PLAIN, tools=[{"name": "a"}])


@pytest.mark.parametrize(
    ("response_format", "match"),
    [
        (3.5, "cannot read a response format from float"),
        (Regex(""), "the pattern is empty"),
    ],
)
def test_a_broken_response_format_is_named(engine: Engine, response_format: Any, match: str) -> None:
    refuse(engine, RequestError, match, response_format=response_format)


def test_rows_and_plans_must_agree(tiny_guide: Any) -> None:
    with pytest.raises(PlanError, match="chats: the list is empty"):
        checked_inputs(tiny_guide.context, [])
    with pytest.raises(PlanError, match="2 plans for 1 rows"):
        checked_inputs(tiny_guide.context, ["a"], [None, None])
    plan = tiny_guide.plan(response_format=Choice(["a"]))
    with pytest.raises(PlanError, match="plans is one plan"):
        checked_inputs(tiny_guide.context, ["a"], plan)


def test_an_unknown_model_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    import guided

    with pytest.raises(ModelError, match=r"cannot load .*nowhere.*not a folder.*expected a model name or a folder"):
        guided.Guide.from_pretrained(tmp_path / "nowhere")


def test_a_name_is_looked_for_once_where_the_hub_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    import guided
    from guided.hf.model.vocabulary import context_of

    asked: list[str] = []

    def refuse(url: str, **_: Any) -> None:
        asked.append(url)
        raise type("ConnectError", (Exception,), {})("Name or service not known")

    monkeypatch.setattr("huggingface_hub.get_hf_file_metadata", refuse)
    for load in (guided.Guide.from_pretrained, context_of):
        words = "not a folder, it is not in the hub's cache, and the hub cannot be reached .Name or service not known"
        with pytest.raises(ModelError, match=f"cannot load 'nobody/no-model': it is {words}"):
            load("nobody/no-model")
    assert len(asked) == 2


@pytest.mark.parametrize("name", ["x" * 5000, None, 5], ids=["long", "None", "number"])
def test_a_name_that_is_none_is_a_typed_error(name: Any) -> None:
    import guided

    with pytest.raises(ModelError, match="cannot load"):
        guided.Guide.from_pretrained(name)


def test_what_a_slow_hub_a_cache_or_a_folder_has_is_left_to_the_loaders(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    from guided.hf.model.hub import check_reachable

    asked: list[str] = []

    def slow(url: str, **_: Any) -> None:
        asked.append(url)
        raise type("ReadTimeout", (Exception,), {})("The read operation timed out")

    monkeypatch.setattr("huggingface_hub.get_hf_file_metadata", slow)
    check_reachable("nobody/no-model")
    assert len(asked) == 1
    snapshot = tmp_path / "models--nobody--no-model" / "snapshots" / "0f"
    snapshot.mkdir(parents=True)
    (snapshot / "tokenizer.json").write_text("{}")
    (tmp_path / "models--nobody--no-model" / "refs").mkdir()
    (tmp_path / "models--nobody--no-model" / "refs" / "main").write_text("0f")
    check_reachable("nobody/no-model", cache_dir=tmp_path)
    check_reachable("nobody/no-model", local_files_only=True)
    check_reachable(tmp_path)
    assert len(asked) == 1
