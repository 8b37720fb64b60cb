"""Values of the wrong kind are refused by name, whatever they are; none counts silently as a default."""

from __future__ import annotations

import re
import typing
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic
import pytest
from transformers import GenerationConfig

import guided
from grammars.python_types.adapter import read_value, schema_of_type
from guided import Choice, Sampling, Stops, read_request
from guided.hf.generate.call import generate_kwargs, read_messages
from guided.hf.generate.inputs import checked_inputs
from guided.hf.guide import Guide
from special_tokens.errors import (
    ContextExceeded,
    GrammarError,
    GuidanceError,
    GuidedError,
    ModelError,
    PlanError,
    RequestError,
    SchemaError,
    ToolError,
)

COUNT = "max_tokens: .* is out of range; expected an integer of 1 or more"


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"on_error": "raise"}, "on_error: 'raise' is unknown; expected end or unconstrained"),
        ({"on_error": "End"}, "on_error: 'End' is unknown"),
        ({"on_error": None}, "on_error: None is unknown"),
        ({"max_rollbacks": "3"}, "max_rollbacks='3'; expected an integer of 0 or more, or None"),
        ({"max_rollbacks": -1}, "max_rollbacks=-1"),
        ({"max_rollbacks": True}, "max_rollbacks=True"),
        ({"max_rollbacks": 2.5}, r"max_rollbacks=2\.5"),
        *[({"max_tokens": value}, COUNT) for value in ("x", [3], True, 1.5, 0, -5)],
    ],
    ids=str,
)
def test_options_of_generate_kwargs_and_of_our_loop(tiny_guide: Guide, options: dict[str, Any], place: str) -> None:
    plan = tiny_guide.plan(response_format=Choice(["a"]))
    inputs = checked_inputs(tiny_guide.context, ["hi"], [plan])
    calls = [
        lambda: generate_kwargs(tiny_guide.context, inputs, [plan], **options),
        lambda: generate_kwargs(tiny_guide.context, None, plan, **options),
    ]
    if "max_rollbacks" not in options:
        calls.append(lambda: tiny_guide.generate(["hi"], [plan], **options))
    for call in calls:
        with pytest.raises(PlanError if "max_rollbacks" in options else RequestError, match=place):
            call()


def test_a_pad_token_may_be_named_next_to_our_kwargs(tiny_guide: Guide, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two values for one keyword; what we name is named only where ``generate`` finds none."""
    end = tiny_guide.tokens.end_ids[0]
    plans = [tiny_guide.plan(response_format=Choice(["a"])), None]
    inputs = checked_inputs(tiny_guide.context, ["hi", "a longer one"], plans)
    for config, named in ((GenerationConfig(eos_token_id=end), False), (GenerationConfig(), True)):
        monkeypatch.setattr(tiny_guide.model, "generation_config", config)
        kwargs = generate_kwargs(tiny_guide.context, inputs, plans)
        assert ("pad_token_id" in kwargs) == named
        pad = {} if named else {"pad_token_id": tiny_guide.context.pad_id}
        out = tiny_guide.model.generate(**inputs, **pad, max_new_tokens=9, do_sample=False, **kwargs)
        assert read_messages(tiny_guide.context, out, inputs, plans)[0].content == "a"
        out = tiny_guide.model.generate(**inputs, max_new_tokens=9, do_sample=False, **kwargs)
        assert read_messages(tiny_guide.context, out, inputs, plans)[0].content == "a"


@pytest.mark.parametrize(
    ("call", "place"),
    [
        (lambda guide: guide.plan(schema_policy="Strict"), "schema_policy: 'Strict'"),
        (lambda guide: guide.plan(max_tokens="x"), "max_tokens: 'x'"),
        (lambda guide: guide.plan(max_tokens=-5), "max_tokens: -5"),
        (lambda guide: guide.plan(max_tokens=True), "max_tokens: True"),
        (lambda guide: guide.plan(max_tokens=2.0), "max_tokens: 2.0"),
        (lambda guide: guide.plan(parallel_tool_calls="no"), "parallel_tool_calls: 'no'"),
        (lambda guide: guide.plan(thinking="yes"), "thinking: 'yes'"),
        (lambda guide: guide.plan(stop=5), "stop: int is not a stop"),
        (lambda guide: guide.plan(stop={"strings": ["a"]}), "stop: dict is not a stop"),
        (lambda guide: guide.plan(tools=len), "tools: builtin_function_or_method is not a list"),
        (lambda _: Stops(strings=5), "stop.strings: 5 is not a list"),  # type: ignore[arg-type]
        (lambda _: Stops(strings={"a": 1}), "stop.strings"),  # type: ignore[arg-type]
        (lambda _: Stops(include="yes"), "stop.include"),  # type: ignore[arg-type]
        (lambda _: Stops((3,)), r"stop\[0\]: 3 is not text"),  # type: ignore[arg-type]
        (lambda _: Stops((["a"],)), r"stop\[0\]: \['a'\] is not text; expected a string"),  # type: ignore[arg-type]
        (lambda _: Stops(ids=(1, [1])), r"stop.ids\[1\]: \[1\] is not a token id"),  # type: ignore[arg-type]
        (lambda _: Stops(ids=("7",)), r"stop.ids\[0\]: '7' is not a token id; expected an integer"),  # type: ignore[arg-type]
        (lambda _: Stops(regex=7), "stop.regex: 7 is not text"),  # type: ignore[arg-type]
        (lambda _: Sampling(logit_bias=[1]), "logit_bias: list is not a bias"),  # type: ignore[arg-type]
        (lambda guide: guide.chat(None), "chat: neither of messages and prompt"),
        (lambda guide: guide.chat(5), "messages: int is not a chat"),
        (lambda guide: guide.chat([5]), r"messages\[0\]: int is not a message"),
        (lambda guide: guide.chat(["x"]), r"messages\[0\]: str is not a message"),
        (lambda guide: guide.chat([{"role": "user", "text": "x"}]), r"messages\[0\]: there is no content"),
        (lambda guide: guide.chat({"role": "user", "content": "x"}), r"messages: dict is not a chat.*\[message\]"),
        (lambda guide: guide.chat("\ud800"), r"messages\[0\]: a lone surrogate is not text"),
        (lambda guide: guide.chat("hi", n=2, temperature=1.0), "n: n=2 for one answer"),
        (lambda guide: guide.chat("hi", guide.plan(), stop="a"), "'stop' together with a finished plan"),
        (lambda guide: guide.chat("hi", do_sample=2), "unknown keyword 'do_sample' .*temperature=0"),
        (lambda guide: guide.chat("hi", num_beams=2), "unknown keyword 'num_beams' .*guide.batch"),
        (lambda guide: guide.chat("hi", max_new_tokens=2), "unknown keyword 'max_new_tokens' .*max_tokens"),
        (lambda guide: guide.generate(["hi"], sampling=Sampling(), top_p=0.5), "top_p together with sampling"),
        (lambda guide: guide.generate(["hi"], [None], tools=[print]), "'tools' together with a finished plan"),
        (lambda guide: guide.generate(guide.plan()), "chats: this is a plan; expected chats$"),
        (lambda guide: guide.plan(int), r"type is not a request that was read; .*response_format="),
        (lambda guide: guide.plan({"temperature": 1}), "plan: dict is not a request that was .*guided.read_request"),
        (lambda guide: guide.plan(read_request({}), stop="x"), "plan: a request together with keywords"),
        (lambda guide: guide.plan(read_request({"temperature": -1})), "temperature: -1 is out of range"),
        (lambda guide: guide.plan(read_request({"who_knows": 1})), "who_knows: unknown key"),
        (lambda guide: guide.batch(guide.plan()), "chats: this is a plan; expected chats, or plans=plan for any"),
        (lambda guide: guide.batch(plans=guide.plan(), return_last_hidden_state=True), "hidden_state: the batch has"),
        (lambda guide: guide.batch(plans=guide.plan(), retries=1), "retries: only guide.chat and guide.run ask again"),
        (lambda guide: guide.batch(plans=guide.plan(), response_format=int), "batch: 'response_format' together with"),
        (
            lambda guide: guide.batch(["x", "y"], [guide.plan(max_tokens=3), guide.plan(max_tokens=4)]),
            "max_tokens: the plans have different limits",
        ),
        *[
            (lambda guide, wrong=wrong: guide.choice_probabilities("x", wrong), "choice: .* expected a list of texts")
            for wrong in (None, 3, 2.5)
        ],
        (lambda guide: guide.choice_probabilities("word " * 3000, ["a"]), "messages: the prompt fills the context"),
        (
            lambda guide: guide.choice_probabilities("which?", ["a", "bcd " * 2000], describe=False),
            "messages: a choice has .* tokens; expected .* which the context leaves",
        ),
    ],
)
def test_settings_records_and_chats(tiny_guide: Guide, call: Any, place: str) -> None:
    with pytest.raises(RequestError, match=place):
        call(tiny_guide)


def test_one_stop_is_a_list_of_one() -> None:
    assert Stops("abc") == Stops(("abc",)) == Stops(["abc"])  # type: ignore[arg-type]
    assert Stops(ids=5) == Stops(ids=[5])  # type: ignore[arg-type]
    assert hash(Stops(["a", "b"]))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        ({"chats": "hello"}, "chats: this is one chat"),
        ({"chats": [{"role": "user", "content": "a"}]}, r"messages: dict .* into a list, \[message\]"),
        ({"chats": ["a", "b"], "plans": ["x", None]}, r"plans\[0\]: str is not a plan"),
        ({"chats": ["a"], "plans": "x"}, "plans is str"),
        ({"chats": ["a"], "sampling": {"n": 2}}, r"sampling\[0\]: dict is not a Sampling"),
        ({"chats": ["a", "b"], "sampling": [None, Sampling()]}, r"sampling\[0\]: NoneType is not a Sampling"),
        ({"chats": ["a", "b"], "seed": [1, 2, 3]}, "seed: 3 values for 2 rows; expected one value, or one per row"),
        ({"chats": ["a", "b"], "sampling": [Sampling()]}, "sampling: 1 values for 2 rows"),
        ({"chats": ["a"], "sampling": Sampling(logit_bias={10**6: 1.0})}, "logit_bias: 1000000 is not a token of this"),
    ],
    ids=str,
)
def test_batches(tiny_guide: Guide, arguments: dict[str, Any], place: str) -> None:
    with pytest.raises(GuidedError, match=place):
        tiny_guide.generate(**arguments)


def test_one_text_of_choices_is_one_choice(tiny_guide: Guide) -> None:
    (only,) = tiny_guide.choice_probabilities("x", "yes")
    assert only.text == "yes"


def test_a_stream_that_broke_off_says_so(tiny_guide: Guide, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = tiny_guide.stream("hi", temperature=0, max_tokens=5)

    def broken(*args: Any, **kwargs: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(type(tiny_guide.model), "forward", broken)
    with pytest.raises(MemoryError):
        list(stream)
    with pytest.raises(GuidanceError, match="the stream broke off"):
        _ = stream.message


class Old(typing.TypedDict):
    """A TypedDict of the standard library, which pydantic does not take before 3.12."""

    number: Annotated[int, pydantic.Field(ge=3)]
    kind: Literal["a", "b"] | None


@pytest.mark.parametrize(
    ("python_type", "text"),
    [
        (Annotated[int, pydantic.Field(ge=3)], "3"),
        (list[Annotated[int, pydantic.Field(ge=3)]], "[3]"),
        (typing.Optional[Annotated[int, pydantic.Field(ge=3)]], "null"),  # noqa: UP045
        (Old, '{"number": 3, "kind": null}'),
        (Old | int, "3"),
        (dict[str, Old], '{"x": {"number": 4, "kind": "a"}}'),
    ],
    ids=str,
)
def test_annotated_and_typed_dicts_in_every_python(python_type: Any, text: str) -> None:
    assert "3" in str(schema_of_type(python_type)[0]) or "number" in str(schema_of_type(python_type)[0])
    read_value(python_type, text)
    with pytest.raises(pydantic.ValidationError):
        read_value(python_type, '"zz"')


@pytest.mark.parametrize(
    ("call", "error", "place"),
    [
        (
            lambda guide: guide.plan(response_format=guided.Regex(re.compile("a+"))),  # type: ignore[arg-type]
            GrammarError,
            r"regex: Pattern is not a pattern's text.*re.compile gives is a response",
        ),
        (lambda guide: guide.chat("How many?", int), PlanError, r"type is not a plan; .*response_format="),
        (lambda guide: guide.check([guide.plan()]), PlanError, "check: list is not a plan"),
        (lambda guide: guide.batch("hello", response_format=int), PlanError, "chats: this is one chat"),
        *[
            (
                lambda guide, plans=plans: guide.batch(plans=plans),
                PlanError,
                "batch: there are no chats; expected chats, or one plan as plans=plan",
            )
            for plans in ([None], [], 3)
        ],
    ],
)
def test_plans_and_patterns(tiny_guide: Guide, call: Any, error: type[GuidedError], place: str) -> None:
    with pytest.raises(error, match=place):
        call(tiny_guide)


def test_a_format_whose_description_fills_the_context_says_so(tiny_guide: Guide) -> None:
    names = [f"option {i}" for i in range(1000)]
    with pytest.raises(ContextExceeded, match="fills the context.*describe=False leaves them out"):
        tiny_guide.chat("Which?", response_format=names)
    assert tiny_guide.chat("Which?", response_format=names, describe=False, temperature=0).parsed in names


def test_positional_only_parameters_are_no_tool(tiny_guide: Guide) -> None:
    def tool(a: int, /) -> int:
        """A tool."""
        return a

    with pytest.raises(ToolError, match="a cannot be passed by name"):
        tiny_guide.plan(tools=[tool])


def test_a_schema_that_cannot_be_kept_names_its_tool(tiny_guide: Guide) -> None:
    good = {"name": "good", "parameters": {"type": "object"}}
    bad = {"name": "bad", "parameters": {"properties": {"x": {"type": "array", "enum": ["a"]}}, "required": ["x"]}}
    with pytest.raises(SchemaError, match="^/tools/bad/parameters/properties/x: unsatisfiable: no value satisfies it"):
        tiny_guide.plan(tools=[good, bad])


@pytest.mark.parametrize("config", ["{", "[]", '{"model_type": 5}', '{"model_type": "llama", "hidden_size": "x"}'])
def test_a_broken_model_folder_is_a_model_error(tmp_path: Path, config: str) -> None:
    (tmp_path / "config.json").write_text(config)
    (tmp_path / "tokenizer.json").write_text('{"model": 3}')
    with pytest.raises(ModelError, match="model: cannot load"):
        guided.Guide.from_pretrained(tmp_path)
