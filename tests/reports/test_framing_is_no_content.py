"""Kind: what frames calls and reasoning is not content: empty sections and white space, cut or whole, masked or not.

Sources: vllm-project/vllm#47704 (white space around calls), vllm-project/vllm#29562 (between reasoning and a call).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from grammars.compose.compose import Parts, compose
from grammars.compose.tool_section import with_text_after_calls
from grammars.formats.check import TYPED_TOOLS
from grammars.formats.infer import infer
from grammars.tool_calls.section import opening_marker
from grammars.tool_calls.syntaxes.lookup import syntax
from grammars.values.format import ContentFormat, Ends, Format, ReasoningFormat
from grammars.values.tool import Call
from guided.engine.engine import Engine
from guided.hf.model.renderers import template_renderer
from guided.inspect.format_check import byte_tokenizer, engine_for, verified
from special_tokens import AddedToken, SpecialTokens, TokenizerFacts
from tests.guided.output.test_cut_answers import read
from tests.judges.plans import END
from tests.made_up.wire_forms import FORMS, TOOLS

WHITE = ("", "\n", "\n\n", " \n", "\r\n")


def _plan(name: str, thinking: bool | None = None, as_text: bool = False, **fields: Any) -> tuple[Any, Engine]:
    format = Format("framed", tool_calls=FORMS[name], ends=Ends((END,)), **fields)
    engine = Engine(*byte_tokenizer((END,), (END,))) if as_text else engine_for(format)
    return compose(Parts(tools=[TOOLS["get_time"]], thinking=thinking), tokens=engine.tokens, format=format), engine


def _rendered(name: str, count: int) -> str:
    form = FORMS[name]
    return syntax(form.syntax).render(form, [Call("get_time", {}) for _ in range(count)], TOOLS)


@pytest.mark.parametrize("name", [name for name, form in FORMS.items() if form.max_calls != 1])
def test_white_space_around_calls_is_no_content(name: str) -> None:
    plan, engine = _plan(name)
    form, two = FORMS[name], _rendered(name, 2)
    border = form.call_end + form.between + form.call_start
    for white in WHITE:
        texts = [white + _rendered(name, 1) + white]
        if border.strip() and border in two:
            spread = form.call_end.rstrip() + white + form.between.strip() + form.call_start.lstrip()
            texts.append(two.replace(border, spread, 1) + white)
        for count, text in enumerate(texts, 1):
            for ended in (True, False):
                message = read(plan, engine, engine.tokenize(text), "fresh", ended=ended)
                assert (message.content, message.unfinished) == (None, None), text
                assert [call.name for call in message.tool_calls] == ["get_time"] * count


@pytest.mark.parametrize("name", ["tags", "xml", "array, name as key"])
def test_white_space_after_the_last_call_is_none_where_text_may_follow(name: str) -> None:
    format = with_text_after_calls(Format("framed", tool_calls=FORMS[name], ends=Ends((END,))), True)
    engine = engine_for(format)
    plan = compose(Parts(tools=[TOOLS["get_time"]]), tokens=engine.tokens, format=format)
    for after, content in (*((white, None) for white in WHITE), ("\nSo.", "\nSo.")):
        for ended in (True, False):
            message = read(plan, engine, engine.tokenize(_rendered(name, 1) + after), "fresh", ended=ended)
            assert (message.content, message.unfinished, len(message.tool_calls)) == (content, None, 1)


#: Without a section, a call's first and last tag frame it.
SECTIONS = [name for name, form in FORMS.items() if opening_marker(form).endswith(">")]


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize("name", SECTIONS)
def test_an_empty_section_shows_nothing(name: str, as_text: bool) -> None:
    plan, engine = _plan(name, as_text=as_text)
    form = FORMS[name]
    opening, closing = form.section_start, form.section_end
    if not opening:
        opening, closing = opening_marker(form), form.call_end[form.call_end.rindex("<") :]
    for before, white in product(("", "So.\n"), WHITE):
        text = before + opening.strip() + white + closing.strip()
        for after in ("", "Hi", "\nHi"):
            message = read(plan, engine, engine.tokenize(text + after), "fresh", ended=True)
            assert "".join((message.content or "").split()) == "".join((before + after).split()), text
            assert (message.tool_calls, message.unfinished, message.violations) == ((), None, ())
        message = read(plan, engine, engine.tokenize(text + "\n" + _rendered(name, 1)), "fresh", ended=True)
        assert [call.name for call in message.tool_calls] == ["get_time"], text
        assert (message.content or "").strip() == before.strip()


#: Every tag is three tokens, and reasoning off opens the answer's frame instead of closing the block: the form of Kimi
#: K3, from whose template the same format is inferred (ggml-org/llama.cpp:models/templates/Kimi-K3.jinja).
_TAGS = """\
{%- macro tag(text) %}<|open|>{{ text }}<|sep|>{% endmacro %}
{%- macro end(text) %}<|close|>{{ text }}<|sep|>{% endmacro %}
{%- macro kind(v) %}{{ 'string' if v is string else 'boolean' if v is boolean else 'number' if v is number else
  'null' if v is none else 'object' if v is mapping else 'array' }}{% endmacro %}
{%- if thinking is undefined %}{% set thinking = true %}{% endif %}
{%- if tools %}{{ tag('message role="system"') }}{{ tools | tojson }}{{ end('message') }}<|over|>{% endif %}
{%- for m in messages %}{{ tag('message role="' ~ m.role ~ '"') }}
{%- if m.role == 'assistant' %}
{%- if thinking %}{{ tag('think') }}{{ m.reasoning_content }}{{ end('think') }}{% endif %}
{{- tag('response') }}{{ m.content or '' }}{{ end('response') }}
{%- if m.tool_calls %}{{ tag('tools') }}
{%- for c in m.tool_calls %}{{ tag('call tool="' ~ c.function.name ~ '" index="' ~ loop.index ~ '"') }}
{%- for k, v in c.function.arguments.items() %}{{ tag('argument key="' ~ k ~ '" type="' ~ kind(v) ~ '"') }}
{{- v if v is string else v | tojson }}{{ end('argument') }}{% endfor %}{{ end('call') }}{% endfor %}{{ end('tools') }}
{%- endif %}{% else %}{{ m.content }}{% endif %}{{ end('message') }}<|over|>{% endfor %}
{%- if add_generation_prompt %}{{ tag('message role="assistant"') }}{{ tag('think' if thinking else 'response') }}
{%- endif %}"""


def test_a_section_opens_by_a_tag_of_several_tokens() -> None:
    markers = ("<|over|>", "<|open|>", "<|close|>", "<|sep|>")
    added = tuple(AddedToken(i, text, special=True) for i, text in enumerate(markers))
    tokens = SpecialTokens(TokenizerFacts(added, len(added), chat_template=_TAGS))
    found = verified(infer(template_renderer(_TAGS), tokens, template=_TAGS), tokens)
    reasoning, calls = found.format.reasoning, found.format.tool_calls
    assert dict(found.format.evidence)["tool_calls"] == "rendering"
    assert (reasoning.start, reasoning.opened_by) == ("<|open|>think<|sep|>", "")
    assert [note.split(" is not used: ")[1] for note in found.notes] == [
        "the prompt opens the answer's own frame where reasoning is off"
    ]
    assert calls is not None
    assert opening_marker(calls) == "<|open|>tools<|sep|>"
    engine = engine_for(found.format, tokens)
    plan = compose(Parts(tools=list(TYPED_TOOLS.values())), tokens=engine.tokens, format=found.format)
    answer = "<|open|>response<|sep|>So.<|close|>response<|sep|>"
    empty = "<|open|>tools<|sep|>%s<|close|>tools<|sep|>"
    for white in WHITE:
        for end in ("", "<|close|>message<|sep|>"):
            ids = engine.tokenize(answer + empty % white + end)
            for splits in ((), range(1, len(ids))):
                message = read(plan, engine, ids, "after", splits, ended=True)
                assert (message.content, message.tool_calls, message.unfinished) == ("So.", (), None)


def test_white_space_of_the_answer_s_own_stays() -> None:
    plan, engine = _plan("tags", True, reasoning=ReasoningFormat("<think>\n", "\n</think>\n\n"))
    call = _rendered("tags", 1)
    for text, content in (
        (" Hi", " Hi"),
        ("\n\nHi\n", "\n\nHi\n"),
        ("Hi \n\n" + call, "Hi \n"),
        (call + "\n Hi", "\n Hi"),
        ("<think>\na\n</think>\n\n\n Hi", "\n Hi"),
        ("<think>\na\n</think>\n", None),
        ("<think>\na\n</think>\n\n", None),
    ):
        message = read(plan, engine, engine.tokenize(text), "fresh", ended=True)
        assert (message.content or None) == content, text
        splits = list(range(1, len(engine.tokenize(text))))
        assert read(plan, engine, engine.tokenize(text), "fresh", splits, ended=True) == message
    framed, engine = _plan("tags", content=ContentFormat(start="<answer>", end="</answer>"))
    message = read(framed, engine, engine.tokenize("<answer>\n a\n</answer>"), "fresh", ended=True)
    assert message.content == "\n a\n"


def test_a_cut_inside_a_character_of_a_marker_shows_no_marker() -> None:
    """DeepSeek's markers, where they are no tokens of the vocabulary, have characters of three bytes."""
    form = replace(
        FORMS["tags"],
        section_start="<｜tool▁calls▁begin｜>",
        section_end="<｜tool▁calls▁end｜>",
        call_start="<｜tool▁call▁begin｜>",
        call_end="<｜tool▁call▁end｜>",
    )
    format = Format("framed", tool_calls=form, ends=Ends((END,)))
    engine = Engine(*byte_tokenizer((END,), (END,)))
    plan = compose(Parts(tools=[TOOLS["get_time"]]), tokens=engine.tokens, format=format)
    ids = engine.tokenize(syntax(form.syntax).render(form, [Call("get_time", {})], TOOLS))
    for size in range(len(ids)):
        assert not read(plan, engine, ids[:size], "fresh").content, size
