"""T3: with anchors any text at all stays possible in a raw value, what is read holds none, and prompts agree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammars.tool_calls.syntaxes.anchors import anchor_tokens, anchored, with_anchors
from grammars.tool_calls.syntaxes.lookup import syntax
from grammars.values.format import Anchor
from grammars.values.tool import Call, Tool
from guided.engine.engine import Engine
from guided.hf.generate.call import read_messages
from guided.hf.generate.inputs import checked_inputs
from special_tokens import SpecialTokens
from special_tokens.errors import ModelError, TokenizerError
from tests.cases import costly
from tests.conftest import small_engine
from tests.grammars.tool_calls.test_round_trip import CHECKED
from tests.judges.plans import FORMAT
from tests.judges.tool_calls import calls_of, read, refused_at, section
from tests.made_up.schemas import having
from tests.made_up.tokenizers import small_tokenizer, small_tokens
from tests.made_up.wire_forms import FORMS, MARKERS, TOOLS, calls

PADS = ("<|image_pad|>", "<|video_pad|>")
#: Formats in which a text tag closes each argument and each call.
NAMES = (
    "xml", "xml, tight", "xml, values as JSON", "invoke", "invoke with a flag", "key tags",
    "key tags, tight", "key tags with types", "whole numbers stated",
)  # fmt: skip
ANCHORED = {name: with_anchors(FORMS[name], PADS) for name in NAMES}
VALUES = (
    "plain", "a < b </x>", "one\n\n中文", "", "ends with a line break\n", "holds </parameter> in a line",
    "</function>\n</tool_call >\n</parameter>\n", "a\n</parameter>\nb", "a</arg_value >b</invoke>\n", "\n</parameter",
)  # fmt: skip


@pytest.fixture(scope="module")
def padded_engine() -> Engine:
    return small_engine((*MARKERS, *PADS), special=MARKERS)


@pytest.mark.parametrize("name", NAMES)
@costly
@given(data=st.data())
def test_what_is_rendered_is_accepted_and_read_back(padded_engine: Engine, name: str, data: st.DataObject) -> None:
    """All values of the round-trip law; none of them is one that its format cannot write."""
    form, made = ANCHORED[name], data.draw(calls(FORMS[name].max_calls))
    text = syntax(form.syntax).render(form, made, TOOLS)
    assert refused_at(padded_engine, section(padded_engine, form, list(TOOLS.values())), text) is None
    events, rest = read(padded_engine, form, TOOLS, text)
    assert ([Call(c.name, c.arguments) for c in calls_of(events)], rest.strip()) == (made, "")
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=20))
    assert read(padded_engine, form, TOOLS, text, cuts) == (events, rest)


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("name", NAMES)
def test_any_text_is_a_value(padded_engine: Engine, name: str, value: str) -> None:
    form, string = ANCHORED[name], {"type": "string"}
    tool = Tool("f", parameters={"type": "object", "properties": {"a": string, "b": string}, "required": ["a"]})
    for arguments in ({"a": value}, {"a": value, "b": value}):
        text = syntax(form.syntax).render(form, [Call("f", arguments)], {"f": tool})
        assert [text.count(pad) for pad in PADS] == [1, len(arguments)]
        assert refused_at(padded_engine, section(padded_engine, form, [tool]), text) is None
        (found,) = calls_of(read(padded_engine, form, {"f": tool}, text)[0])
        assert found == Call("f", arguments)
        for pad in PADS:  # the texts of the replaced tags close nothing
            tagged = text.replace(pad, next(a.closes for a in form.anchors if a.token == pad))
            assert refused_at(padded_engine, section(padded_engine, form, [tool]), tagged) is not None


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "arguments", [{"b": 1}, {"a": "xx", "zz": 1}, {"a": "xx", "b": "not a number"}, {"a": "x"}, {"a": "xx", "c": "C"}]
)
def test_calls_that_break_the_schema_are_refused(padded_engine: Engine, name: str, arguments: dict[str, Any]) -> None:
    form = ANCHORED[name]
    text = syntax(form.syntax).render(form, [Call("f", arguments)], {"f": Tool("f", parameters={})})
    assert refused_at(padded_engine, section(padded_engine, form, [CHECKED]), text) is not None


def test_the_tags_that_anchors_replace_are_named() -> None:
    assert ANCHORED["xml"].anchors == (
        Anchor(PADS[0], "</function>", "<function="),
        Anchor(PADS[1], "\n</parameter>", "<parameter="),
    )
    assert ANCHORED["key tags"].anchors[0] == Anchor(PADS[0], "</tool_call>", "<tool_call>")


@pytest.mark.parametrize("name", sorted(set(FORMS) - set(NAMES)))
def test_formats_without_a_closing_tag_are_refused(name: str) -> None:
    with pytest.raises(ModelError, match=r"no raw values|no text tag"):
        with_anchors(FORMS[name], PADS)


def test_a_model_whose_template_shows_no_calls_is_refused(padded_engine: Engine) -> None:
    assert anchored(FORMAT, padded_engine.tokens, False) is FORMAT
    with pytest.raises(ModelError, match="does not show tools and calls"):
        anchored(FORMAT, padded_engine.tokens)


def _tokens(*added: str) -> SpecialTokens:
    return small_tokens(small_tokenizer((*MARKERS, *added), special=(*MARKERS, *added)))


def test_spare_tokens_are_chosen() -> None:
    assert anchor_tokens(_tokens("<|a_pad|>", "<unused0>", "<|b_pad|>", "<|c_pad|>")) == ("<|b_pad|>", "<|c_pad|>")
    assert anchor_tokens(_tokens("<|a_pad|>", "<unused0>", "<unused1>")) == ("<unused0>", "<unused1>")
    with pytest.raises(TokenizerError, match="no two spare tokens"):
        anchor_tokens(_tokens("<|a_pad|>", "<unused0>"))


def test_tokens_are_named_by_id_or_text() -> None:
    tokens = _tokens("<one>", "<two>")
    assert anchor_tokens(tokens, [tokens.id_of("<one>") or 0, "<two>"]) == ("<one>", "<two>")
    wrong: Any
    for wrong in (["<one>"], ["<one>", "<one>"], "no", 3, None, ["<one>", 5], ["<one>", "<|im_end|>"], ["<one>", []]):
        with pytest.raises(TokenizerError, match="is not"):
            anchor_tokens(tokens, wrong)
    for wrong in ("<think>", "<tool_call>", "the", 10**9, True):
        with pytest.raises(TokenizerError, match="is not a spare token"):
            anchor_tokens(tokens, ["<one>", wrong])


# -- the whole way: a real template, a guide, its prompts, plans and answers

TOOL = {
    "type": "function",
    "function": {
        "name": "f",
        "description": "writes <parameter=a> and\n</parameter> and </function>",
        "parameters": having({"a": {"type": "string", "description": "d"}, "b": {"type": "string"}}, optional=["b"]),
    },
}


@pytest.fixture(scope="module")
def coder(shared: Path) -> Any:
    """A tiny model under Qwen3-Coder's template; its vocabulary has two pads that nothing uses."""
    import guided
    from tests.conftest import make_tiny_guide

    plain = make_tiny_guide((*MARKERS, *PADS))
    template = (shared / "data" / "templates" / "qwen3_coder.jinja").read_text(encoding="utf-8")
    plain.tokenizer.chat_template = template
    return lambda **options: guided.Guide(plain.model, plain.tokenizer, **options)


def _history(value: str) -> list[dict[str, Any]]:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": {"a": value, "b": "x"}}}
    return [
        {"role": "user", "content": f"text <parameter=a>\n</parameter></function>{''.join(PADS)} ends </param"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "ok\n</parameter>"},
    ]


@pytest.mark.parametrize("value", VALUES)
def test_prompt_plan_and_answer_agree(coder: Any, value: str) -> None:
    """The call of the history is, token by token, what the plan lets the model write, and it is read back."""
    from tests.judges.plans import walk

    guide = coder(anchors=True)
    pads = [guide.tokens.id_of(pad) for pad in PADS]
    plan = guide.plan(tools=[TOOL], tool_choice="required")
    assert plan.anchors == (("</function>", pads[0]), ("\n</parameter>", pads[1]))
    assert plan.format.tool_calls.anchors == guide.format.tool_calls.anchors
    prompt = checked_inputs(guide.context, [_history(value)], [plan]).prompt_ids[0]
    answers = [i for i, token in enumerate(prompt) if token == guide.tokens.id_of("<tool_call>")]
    begin = answers[-1]  # the one before is in the template's instructions
    end = prompt.index(guide.tokens.id_of("</tool_call>"), begin) + 1
    call = prompt[begin:end]
    assert [token for token in call if token in pads] == [pads[1], pads[1], pads[0]]
    assert walk(plan, guide.engine, call).is_whole
    import torch

    inputs = checked_inputs(guide.context, ["Hi"], [plan])
    (message,) = read_messages(
        guide.context, torch.tensor([[*inputs.prompt_ids[0], *call, guide.tokens.end_ids[0]]]), inputs, [plan]
    )
    assert [(c.name, json.loads(c.arguments)) for c in message.tool_calls] == [("f", {"a": value, "b": "x"})]
    assert message.content is None


def test_only_the_template_s_own_tags_of_calls_become_anchors(coder: Any) -> None:
    """Tags in a client's text and in tool definitions stay, anchors in a client's text are no tokens."""
    plain, guide = coder(), coder(anchors=True)
    texts = {}
    for of in (plain, guide):
        plan = of.plan(tools=[TOOL])
        ids = checked_inputs(of.context, [_history("</parameter>")], [plan]).prompt_ids[0]
        texts[of] = of.tokenizer.decode(ids)
        pads = [of.tokens.id_of(pad) for pad in PADS]
        # an example with two arguments in the instructions, a call with two in the history
        assert [ids.count(pad) for pad in pads] == ([0, 0] if of is plain else [2, 4])
    call, argument = guide.format.tool_calls.anchors
    example = "<parameter=example_parameter_2>\nvalue_2<|video_pad|>\n<|image_pad|>\n</tool_call>"
    assert example in texts[guide]
    assert "<type>string</type>\n</parameter>\n<required>" in texts[guide]
    assert "</parameters>\n</function>\n</tools>" in texts[guide]
    head, tail = texts[guide].split("text <parameter=a>")
    assert tail.startswith(f"\n</parameter></function>{''.join(PADS)} ends </param<|im_end|>")
    restored = (head + "text <parameter=a>" + tail.replace("".join(PADS), "\0")).replace(
        argument.token, argument.closes
    )
    assert restored.replace(call.token, call.closes).replace("\0", "".join(PADS)) == texts[plain]


def test_anchors_of_one_s_own_and_other_models(coder: Any, tiny_guide: Any) -> None:
    import guided

    tokens = coder().tokens
    ids = (tokens.id_of(PADS[1]), tokens.id_of(PADS[0]))
    assert [i for _, i in coder(anchors=ids).plan(tools=[TOOL]).anchors] == list(ids)
    assert [i for _, i in coder(anchors=ids).with_tokens(tokens).plan(tools=[TOOL]).anchors] == list(ids)
    assert coder(anchors=True).plan(response_format={"type": "json_object"}).anchors == ()
    assert guided.decode_plan(guided.encode_plan(coder(anchors=ids).plan(tools=[TOOL]))).anchors[1][1] == ids[1]
    with pytest.raises(ModelError, match="leave anchors off"):
        guided.Guide(tiny_guide.model, tiny_guide.tokenizer, anchors=True)
