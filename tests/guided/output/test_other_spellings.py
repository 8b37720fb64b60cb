"""Calls as served models write them off their template: the golden calls of the template are the judge."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from grammars.compose.compose import Parts, compose
from grammars.formats.check import TYPED_TOOLS
from guided.inspect.format_check import engine_for
from tests.guided.output.test_cut_answers import read
from tests.shared_templates import shared_inference, template_names


def _inline(text: str) -> str:
    return re.sub(r"(<parameter=[^>]*>)\n(.*?)\n(</parameter>)", r"\1\2\3", text, flags=re.DOTALL)


def _swapped(old: str, new: str) -> Callable[[str], str]:
    return lambda text: text.replace(old, new)


def _put(pattern: str, by: str) -> Callable[[str], str]:
    return lambda text: re.sub(pattern, by, text)


SPELLINGS: dict[str, Callable[[str], str]] = {
    "parameters": _swapped('"arguments"', '"parameters"'),
    "arguments": _swapped('"parameters"', '"arguments"'),
    "inline parameters": _inline,
    "one line": lambda text: re.sub(r"\n(<parameter=|</parameter>|</function>|<function=)", r"\1", _inline(text)),
    "line break after the name": _put(r"(tool_q\w\d)(<arg_key>)", r"\1\n\2"),
    "line breaks between keys": _put(r"(</arg_key>|</arg_value>)(?=<arg)", r"\1\n"),
    "no line breaks between keys": _put(r"(</arg_key>|</arg_value>)\n(?=<arg)", r"\1"),
    "tight tags": _put(r"(<tool_call>)\n|\n(</tool_call>)", r"\1\2"),
    "tags on lines of their own": _put(r"(</?tool_call>)", r" \1 "),
}


@pytest.mark.parametrize("name", template_names())
def test_calls_in_other_spellings_are_read(name: str) -> None:
    inference = shared_inference(name)
    engine = engine_for(inference.format)
    for golden in inference.golden_texts:
        thinking = True if golden.reasoning else None
        parts = Parts(tools=list(TYPED_TOOLS.values()), thinking=thinking)
        plan = compose(parts, tokens=engine.tokens, format=inference.format)
        for spelling, spelt in SPELLINGS.items():
            text = spelt(golden.text)
            if text == golden.text or not golden.calls:
                continue
            message = read(plan, engine, engine.tokenize(text), plan.entry(golden.entry).name, ended=True)
            found = [(call.name, call.parsed) for call in message.tool_calls]
            assert found == [(call.name, call.arguments) for call in golden.calls], (spelling, text)
            assert ((message.content or "").strip(), message.unfinished) == (golden.content, None), (spelling, text)
