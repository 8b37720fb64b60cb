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
    GrammarError,
    GuidedError,
    ModelError,
    PlanError,
    RequestError,
    SchemaError,
    TemplateError,
    TokenizerError,
    ToolError,
)
from tests.guided.output.test_parser import FORMAT

PLAIN = Format("plain", ends=Ends(("<|im_end|>",)))


def refuse(engine: Engine, kind: type[GuidedError], match: str, format: Format = FORMAT, **parts: Any) -> None:
    with pytest.raises(kind, match=match) as caught:
        compose(Parts(**parts), tokens=engine.tokens, format=format)
    assert isinstance(caught.value, RequestError)
    assert caught.value.place


@pytest.mark.parametrize("effort", ["lots", "", "hi gh", 3])
def test_an_unknown_effort_names_the_levels(engine: Engine, effort: Any) -> None:
    refuse(
        engine, RequestError, "reasoning_effort.*(unknown level|not a level).*none.*low.*high", reasoning_effort=effort
    )


def test_an_unknown_preset_names_the_presets(engine: Engine) -> None:
    refuse(engine, RequestError, "unknown preset 'fancy'.*native or structured", reasoning_preset="fancy")


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


@pytest.mark.parametrize(
    ("tools", "match"),
    [
        ([{"description": "no name"}], r"tools\[0\]\.name.*no name"),
        ([{"name": "a"}, {"name": "a"}], r"tools\[1\]\.name.*two tools are called 'a'"),
        ([{"name": "a", "parameters": 3}], r"tools\[0\]\.parameters.*not a JSON schema"),
        ([{"type": "retrieval"}], r"unknown type 'retrieval'"),
        (["get_weather"], r"tools\[0\].*cannot read a tool from str"),
        ("get_weather", "not a list of tools"),
        ([lambda x: x], "the function has no name"),
        ([{"name": "a\nb"}], r"control character"),
    ],
)
def test_a_broken_tool_is_named(engine: Engine, tools: Any, match: str) -> None:
    refuse(engine, ToolError, match, tools=tools)


def test_a_tool_choice_without_its_tool(engine: Engine) -> None:
    refuse(engine, ToolError, "there is no tool 'b'.*one of: a", tools=[{"name": "a"}], tool_choice="b")
    refuse(engine, ToolError, "'required' without tools", tool_choice="required")
    refuse(engine, ToolError, "cannot read", tools=[{"name": "a"}], tool_choice=3)


def test_tools_for_a_model_without_a_way_of_writing_calls(engine: Engine) -> None:
    refuse(engine, ToolError, "the tool-call format of this model is not known", format=PLAIN, tools=[{"name": "a"}])


@pytest.mark.parametrize("options", [[], ["a", ""], ["a", 3]])
def test_an_empty_choice_is_refused(engine: Engine, options: Any) -> None:
    refuse(engine, GrammarError, r"response_format\.choice", response_format=Choice(options))


@pytest.mark.parametrize(
    ("response_format", "match"),
    [
        ({"type": "xml"}, "unknown type 'xml'.*json_object or json_schema"),
        ({"type": "json_schema"}, r"response_format\.json_schema.*there is no schema"),
        ({"type": "json_schema", "json_schema": {"name": "x"}}, "there is no schema"),
        ("json", "'json' is not a response format"),
        (3.5, "cannot read a response format from float"),
        (Regex(""), "the pattern is empty"),
        (Regex(r"(a)(?=\1)"), "column 7: a back-reference is not supported"),
    ],
)
def test_a_broken_response_format_is_named(engine: Engine, response_format: Any, match: str) -> None:
    refuse(engine, RequestError, match, response_format=response_format)


def test_a_regex_that_is_not_one_is_refused_with_its_column(engine: Engine) -> None:
    refuse(engine, GrammarError, r"response_format.regex line 1, column 2: missing \), unterminated subpattern",
           response_format=Regex("a(b"))  # fmt: skip


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


def test_a_tokenizer_without_a_fast_backend_is_refused(tiny_guide: Any) -> None:
    import guided

    class Slow:
        pass

    with pytest.raises(TokenizerError, match="Slow has no fast backend"):
        guided.Guide(tiny_guide.model, Slow())


def test_logits_narrower_than_the_tokenizer_are_refused(tiny_guide: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import guided

    monkeypatch.setattr(tiny_guide.model.config, "vocab_size", 10)
    with pytest.raises(ModelError, match="logits are 10 wide"):
        guided.Guide(tiny_guide.model, tiny_guide.tokenizer)


def test_without_a_chat_template_the_message_says_what_to_do(tiny_guide: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiny_guide.tokenizer, "chat_template", None)
    with pytest.raises(TemplateError, match="no chat template.*set tokenizer.chat_template"):
        checked_inputs(tiny_guide.context, ["a"])


def test_a_finished_plan_takes_no_further_parts(tiny_guide: Any) -> None:
    plan = tiny_guide.plan(response_format=Choice(["a"]))
    with pytest.raises(RequestError, match="'tools' together with a finished plan"):
        tiny_guide.chat("hi", plan, tools=[])
    with pytest.raises(RequestError, match="colour"):
        tiny_guide.chat("hi", colour="red")


@pytest.mark.parametrize("options", [{"temperature": -1}, {"top_p": 0}, {"top_p": 1.5}])
def test_sampling_out_of_range_is_refused(tiny_guide: Any, options: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match="temperature|top_p"):
        tiny_guide.chat("hi", **options)
