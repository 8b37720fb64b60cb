"""The round-trip law on real vocabularies: rendered calls are allowed and read back, wrong ones are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grammars.tool_calls.syntaxes.lookup import syntax
from grammars.tree.nodes import Node, seq, token
from grammars.tree.render import render
from grammars.values.format import ToolCallFormat
from grammars.values.tool import Call
from guided.engine.engine import Engine
from special_tokens.errors import ToolError
from tests.cases import costly
from tests.judges.tool_calls import calls_of, read, section
from tests.made_up.wire_forms import FORMS, TOOLS, calls

#: One form of every syntax for the default run; all of them, under more vocabularies, in the slow one.
SOME = {form.syntax: name for name, form in FORMS.items()}
PAIRS = [("qwen3", name) for name in SOME.values()]
MORE = [(tokenizer, name) for tokenizer in ("deepseek_v4", "mistral", "gemma3", "gptoss") for name in FORMS]


def stuck_at(engine: Engine, node: Node, text: str) -> int | None:
    """The byte at which no allowed token goes on with ``text``; None where it can be written to its end.

    Canonical tokens first; where bytes are forced the engine offers the one token of those bytes alone, and a
    vocabulary may have one that reaches beyond them.
    """
    sentinel = engine.vocab_size
    matcher = engine.compile(render(seq(node, token(sentinel))).engine_text()).deep_copy()
    whole = text.encode()
    rest = whole
    while rest:
        canonical = _first_token(engine, rest)
        mask = np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8)
        allowed = np.flatnonzero(np.unpackbits(mask, bitorder="little"))
        if canonical in allowed:
            chosen = canonical
        else:
            ids = [int(i) for i in allowed if i < engine.vocab_size and rest.startswith(engine.token_bytes(int(i)))]
            ids = [i for i in ids if engine.token_bytes(i)]
            if not ids:
                return len(whole) - len(rest)
            chosen = max(ids, key=lambda i: len(engine.token_bytes(i)))
        assert matcher.consume_token(chosen)
        rest = rest[len(engine.token_bytes(chosen)) :]
    mask = np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8)
    return None if np.unpackbits(mask, bitorder="little")[sentinel] else len(whole)


def _first_token(engine: Engine, text: bytes) -> int:
    try:
        return engine.tokenize(text.decode())[0]
    except UnicodeDecodeError:  # after a part of a character
        return -1


def round_trip(engine: Engine, form: ToolCallFormat, data: st.DataObject) -> None:
    made = data.draw(calls(form.max_calls))
    try:
        text = syntax(form.syntax).render(form, made, TOOLS)
    except ToolError:
        return  # a value that holds what ends it
    assert stuck_at(engine, section(engine, form, list(TOOLS.values())), text) is None
    events, rest = read(engine, form, TOOLS, text)
    assert [(call.name, call.arguments) for call in calls_of(events)] == [(c.name, c.arguments) for c in made]
    assert not rest.strip()
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=8))
    assert read(engine, form, TOOLS, text, cuts) == (events, rest)


@pytest.mark.parametrize(("tokenizer", "name"), PAIRS)
@settings(max_examples=3)
@given(data=st.data())
def test_what_is_rendered_is_accepted_and_read_back(
    real_engine: Callable[[str], Engine], tokenizer: str, name: str, data: Any
) -> None:
    round_trip(real_engine(tokenizer), FORMS[name], data)


@pytest.mark.slow
@pytest.mark.parametrize(("tokenizer", "name"), MORE)
@costly
@given(data=st.data())
def test_what_is_rendered_is_accepted_under_every_vocabulary(
    real_engine: Callable[[str], Engine], tokenizer: str, name: str, data: Any
) -> None:
    round_trip(real_engine(tokenizer), FORMS[name], data)


@pytest.mark.parametrize(("tokenizer", "name"), PAIRS)
def test_wrong_calls_are_refused(real_engine: Callable[[str], Engine], tokenizer: str, name: str) -> None:
    """A name that no tool has, a missing argument, one too many, one of the wrong type: none gets through."""
    engine, form = real_engine(tokenizer), FORMS[name]
    node = section(engine, form, [TOOLS["get_weather"], TOOLS["get_time"]])
    whole = syntax(form.syntax).render(form, [Call("get_weather", {"city": "Ro", "days": 7, "exact": True})], TOOLS)
    assert stuck_at(engine, node, whole) is None
    for right, wrong in (("get_weather", "get_whether"), ("city", "town"), ("7", '"x"'), ("7", "7.5")):
        place = stuck_at(engine, node, whole.replace(right, wrong, 1))
        assert place is not None, wrong
        first = next((i for i, (a, b) in enumerate(zip(right, wrong, strict=False)) if a != b), len(right))
        begin = len(whole[: whole.index(right)].encode())
        # never after the first wrong byte; before it where the bytes around it are forced as one token
        assert begin - 24 <= place <= begin + first, (wrong, place)
    lacking = syntax(form.syntax).render(form, [Call("get_weather", {"city": "Ro"})], TOOLS)
    assert stuck_at(engine, node, lacking) is not None
