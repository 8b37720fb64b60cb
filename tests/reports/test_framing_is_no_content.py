"""Kind: what frames calls and reasoning is no content: empty sections and white space, cut or whole, masked or not.

Sources: vllm-project/vllm#47704 (white space around calls), vllm-project/vllm#29562 (between reasoning and a call).
"""

from __future__ import annotations

from typing import Any

import pytest

from grammars.compose.compose import Parts, compose
from grammars.formats.check import TYPED_TOOLS
from grammars.tool_calls.section import opening_marker
from grammars.tool_calls.syntaxes.lookup import syntax
from grammars.values.format import ContentFormat, Ends, Format, ReasoningFormat
from grammars.values.tool import Call
from guided.engine.engine import Engine
from guided.hf.model.wire_format import inference_of_template
from guided.inspect.format_check import engine_for
from tests.guided.output.test_cut_answers import names, read
from tests.judges.plans import END
from tests.made_up.wire_forms import FORMS, TOOLS

WHITE = ("", "\n", "\n\n", " \n", "\r\n")


def _plan(name: str, thinking: bool | None = None, **fields: Any) -> tuple[Any, Engine]:
    format = Format("framed", tool_calls=FORMS[name], ends=Ends((END,)), **fields)
    engine = engine_for(format)
    return compose(Parts(tools=[TOOLS["get_time"]], thinking=thinking), tokens=engine.tokens, format=format), engine


def _rendered(name: str, count: int) -> str:
    form = FORMS[name]
    return syntax(form.syntax).render(form, [Call("get_time", {}) for _ in range(count)], TOOLS)


@pytest.mark.parametrize("white", WHITE)
@pytest.mark.parametrize("name", [name for name, form in FORMS.items() if form.max_calls != 1])
def test_white_space_around_calls_is_no_content(name: str, white: str) -> None:
    plan, engine = _plan(name)
    form, two = FORMS[name], _rendered(name, 2)
    border = form.call_end + form.between + form.call_start
    texts = [white + _rendered(name, 1) + white]
    if border.strip() and border in two:
        spread = form.call_end.rstrip() + white + form.between.strip() + form.call_start.lstrip()
        texts.append(two.replace(border, spread, 1) + white)
    for count, text in enumerate(texts, 1):
        for ended in (True, False):
            message = read(plan, engine, engine.tokenize(text), "fresh", ended=ended)
            assert (message.content, message.unfinished) == (None, None), text
            assert [call.name for call in message.tool_calls] == ["get_time"] * count


SECTIONS = [
    name
    for name, form in FORMS.items()
    if opening_marker(form) == (form.section_start or form.call_start).strip() and opening_marker(form).endswith(">")
]


@pytest.mark.parametrize("white", WHITE)
@pytest.mark.parametrize("name", SECTIONS)
def test_an_empty_section_shows_nothing(name: str, white: str) -> None:
    plan, engine = _plan(name)
    form = FORMS[name]
    opening, closing = form.section_start or form.call_start, form.section_end or form.call_end
    for before in ("", "So.\n"):
        text = before + opening.strip() + white + closing.strip()
        for after in ("", "Hi", "\nHi"):
            message = read(plan, engine, engine.tokenize(text + after), "fresh", ended=True)
            assert "".join((message.content or "").split()) == "".join((before + after).split()), text
            assert (message.tool_calls, message.unfinished, message.violations) == ((), None, ())
    message = read(plan, engine, engine.tokenize(text + "\n" + _rendered(name, 1)), "fresh", ended=True)
    assert [call.name for call in message.tool_calls] == ["get_time"]
    assert (message.content or "").strip() == "So."


@pytest.mark.parametrize("name", names())
def test_no_prefix_of_what_a_template_writes_is_white_space_alone(shared: Any, name: str) -> None:
    path = shared / "data" / "templates" / f"{name}.jinja"
    if not path.is_file():
        pytest.skip("needs the shared chat templates, which are absent")
    inference, _ = inference_of_template(path.read_text(encoding="utf-8"))
    engine = engine_for(inference.format)
    for golden in inference.golden_texts:
        parts = Parts(tools=list(TYPED_TOOLS.values()), thinking=True if golden.reasoning else None)
        plan = compose(parts, tokens=engine.tokens, format=inference.format)
        ids = engine.tokenize(golden.text)
        for end in range(len(ids) + 1):
            message = read(plan, engine, ids[:end], plan.entry(golden.entry).name)
            assert not message.content or message.content.strip(), ids[:end]


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
