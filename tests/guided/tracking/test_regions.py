"""Region tracking switches at the exact symbol, however the text is cut into tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammars.plan.plan import Exit, QuoteSpan, Region, RegionName, Stops
from guided.engine.engine import Engine
from guided.rows.sequence import RowSequence
from guided.tracking.regions import RegionMap, symbols_of
from tests.guided.output.test_parser import canonical
from tests.judges.plans import MAY_REASON, plan_of

A, B, C = RegionName.CONTENT, RegionName.REASONING, RegionName.TOOL_CALLS


def region_map(engine: Engine, regions: Sequence[Region]) -> RegionMap:
    return RegionMap(regions, engine.tokens.marker_ids, engine.token_bytes)


def cut(draw: st.DrawFn, engine: Engine, text: bytes) -> list[int]:
    """``text`` as some tokens: words of the vocabulary or single bytes, whichever are drawn."""
    ids: list[int] = []
    while text:
        fitting = engine.tokens_within(text)
        token = draw(st.sampled_from(fitting))
        ids.append(token)
        text = text[len(engine.token_bytes(token)) :]
    return ids


@given(data=st.data(), text=st.text("<a/>th", max_size=30))
def test_an_exit_is_found_on_the_symbol_that_completes_it(plain_engine: Engine, data: st.DataObject, text: str) -> None:
    marker = "</t>"
    table = region_map(plain_engine, [Region(A, (Exit((marker,), 1),)), Region(B)])
    ids = cut(data.draw, plain_engine, text.encode())
    position, read = table.start(0), b""
    for token in ids:
        position = table.follow(position, token).position
        read += plain_engine.token_bytes(token)
        assert (table.name(position) is B) == (marker.encode() in read)  # judge: plain substring search


@given(data=st.data(), text=st.text('ab\\"]', max_size=24))
def test_exits_inside_quotes_are_ordinary_text(plain_engine: Engine, data: st.DataObject, text: str) -> None:
    table = region_map(plain_engine, [Region(C, (Exit(("]",), 1),), (QuoteSpan(('"',), ('"',), "\\"),)), Region(A)])
    position = table.start(0)
    for token in cut(data.draw, plain_engine, text.encode()):
        position = table.follow(position, token).position
    assert (table.name(position) is A) == closes_outside_strings(text)


def closes_outside_strings(text: str) -> bool:
    quoted = escaped = False
    for char in text:
        if escaped:
            escaped = False
        elif quoted:
            escaped, quoted = char == "\\", char != '"'
        elif char == '"':
            quoted = True
        elif char == "]":
            return True
    return False


@given(
    data=st.data(),
    text=st.text("abc", max_size=20),
    patterns=st.sets(st.text("abc", min_size=1, max_size=4), min_size=1),
)
def test_the_first_of_several_exits_wins(
    plain_engine: Engine, data: st.DataObject, text: str, patterns: set[str]
) -> None:
    exits = tuple(Exit((p,), n + 1) for n, p in enumerate(sorted(patterns)))
    regions = [Region(A, exits), *(Region(B) for _ in exits)]
    table = region_map(plain_engine, regions)
    position = table.start(0)
    for token in cut(data.draw, plain_engine, text.encode()):
        position = table.follow(position, token).position
    ends = {p: text.find(p) + len(p) for p in patterns if p in text}
    first = min(ends.values(), default=None)
    candidates = {p for p, end in ends.items() if end == first}
    number = table.region_number(position)
    assert (number == 0) == (not ends)
    if ends:
        assert exits[number - 1].trigger[0] == max(candidates, key=len)


def test_marker_tokens_are_not_their_text(engine: Engine) -> None:
    think = engine.tokens.id_of("</think>")
    assert think is not None
    table = region_map(engine, [Region(B, (Exit((think,), 1),)), Region(A)])
    position = table.start(0)
    for token in engine.tokens_within(b"<")[:1] + [engine.tokens_within(bytes([b]))[0] for b in b"/think>"]:
        position = table.follow(position, token).position
    assert table.name(position) is B
    assert table.name(table.follow(position, think).position) is A


def test_mixed_markers_of_tokens_and_text(engine: Engine) -> None:
    start = engine.tokens.id_of("<|im_start|>")
    assert start is not None
    table = region_map(engine, [Region(B, (Exit((start, "al"), 1),)), Region(A)])
    a, ell = (engine.tokens_within(bytes([b]))[0] for b in b"al")
    for ids, expected in (([start, a, ell], A), ([a, ell], B), ([start, ell], B), ([start, start, a, ell], A)):
        position = table.start(0)
        for token in ids:
            position = table.follow(position, token).position
        assert table.name(position) is expected


@given(data=st.data(), text=st.text("<a/>t", max_size=20))
def test_spans_cover_every_symbol_once(plain_engine: Engine, data: st.DataObject, text: str) -> None:
    table = region_map(plain_engine, [Region(A, (Exit(("<t>",), 1),)), Region(B, (Exit(("</t>",), 0),))])
    position = table.start(0)
    for token in cut(data.draw, plain_engine, text.encode()):
        symbols = table.symbols(token)
        spans, after = table.spans(position, symbols)
        assert [i for span in spans for i in range(span.first, span.last)] == list(range(len(symbols)))
        assert after == table.follow(position, token).position
        position = after


def test_symbols_of_marker_text() -> None:
    assert symbols_of(("a", 3, "é")) == (97, 256 + 3, 0xC3, 0xA9)


@pytest.mark.parametrize(
    "stops", [Stops(), Stops(("zz", "o\n\nn")), Stops(regex="z+y")], ids=["none", "strings", "regex"]
)
@pytest.mark.parametrize("engine_name", ["engine", "plain_engine"])
def test_regions_are_followed_once_per_token(
    engine_name: str, stops: Stops, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New stops get the moves of the row's state, whether markers are tokens or text."""
    engine: Engine = request.getfixturevalue(engine_name)
    row = RowSequence(plan_of(engine, MAY_REASON, reasoning_effort="low", stop=stops), engine)
    followed: list[Any] = []
    real = RegionMap._follow
    monkeypatch.setattr(RegionMap, "_follow", lambda *args: followed.append(args) or real(*args))
    for num_tokens, token in enumerate(canonical(engine, "<think>\nso\n</think>\n\nand then one"), 1):
        assert row.state.allows(token)
        row.extend([token])
        assert len(followed) <= num_tokens
    assert row.error is None
    assert row.state.region is RegionName.CONTENT
