"""Stops, judged by plain string search over the whole text, however it is cut into tokens."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammars.plan.plan import Stops
from guided.engine.engine import Engine
from guided.output.stop_parser import PlainParser, StopAwareParser
from guided.stops.compiled import CompiledStops
from guided.stops.incremental_regex import compile_pattern
from guided.stops.matcher import StopHit, StopMatcher
from guided.stops.request import check_stops, stops_of
from special_tokens.errors import GrammarError, GuidanceError, RequestError


@dataclass
class _Tokens:
    vocab_size: int = 1_000
    marker_ids: frozenset[int] = frozenset()
    added: dict[int, Any] = field(default_factory=dict)


class Vocabulary:
    """Whatever pieces a text was cut into, as tokens."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.pieces = list(dict.fromkeys(pieces))
        self.tokens = _Tokens()

    def token_bytes(self, token: int) -> bytes:
        return self.pieces[token]

    def encode(self, pieces: Sequence[bytes]) -> list[int]:
        return [self.pieces.index(piece) for piece in pieces]


def matcher_of(stops: Stops, pieces: Sequence[bytes]) -> tuple[StopMatcher, list[int], Any]:
    vocabulary: Any = Vocabulary(pieces)
    return StopMatcher(CompiledStops(stops, vocabulary)), vocabulary.encode(pieces), vocabulary


def cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    """``data`` cut at these places (modulo its length) into non-empty pieces."""
    borders = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[a:b] for a, b in pairwise(borders)]


def first_stop(data: bytes, strings: Sequence[str]) -> tuple[int, int] | None:
    """Begin and end of the stop that is complete first (of several the one that began first), by ``bytes.find``."""
    found = []
    for string in strings:
        needle = string.encode()
        at = data.find(needle)
        if at >= 0:
            found.append((at + len(needle), at))
    return min(found)[::-1] if found else None


def as_bytes(whole: Sequence[bytes], num: int, part: int) -> bytes:
    return b"".join(whole[:num]) + (whole[num][:part] if part else b"")


TEXT = st.text(alphabet="ab.E né中\N{GRINNING FACE}<|>", max_size=40)
STRINGS = st.lists(st.text(alphabet="ab.E né中\N{GRINNING FACE}<|>", min_size=1, max_size=6), min_size=1, max_size=6)
PLACES = st.lists(st.integers(0, 200), max_size=30)


@given(TEXT, STRINGS, PLACES)
def test_X2_every_stop_is_seen_on_its_very_token(text: str, strings: list[str], places: list[int]) -> None:
    data = text.encode()
    pieces = cut(data, places)
    matcher, tokens, _ = matcher_of(Stops(tuple(strings)), pieces)
    expected = first_stop(data, strings)
    for n, token in enumerate(tokens, 1):
        hit = matcher.push(token)
        read = sum(map(len, pieces[:n]))
        if expected is None or read < expected[1]:
            assert hit is None
            continue
        assert hit.num_tokens == n
        assert as_bytes(pieces, hit.before, hit.before_bytes) == data[: expected[0]]
        assert as_bytes(pieces, hit.until, hit.until_bytes) == data[: expected[1]]
        assert str(hit.reason).encode() == data[expected[0] : expected[1]]
        return
    assert expected is None


@given(TEXT, STRINGS, PLACES)
def test_what_is_held_back_is_exactly_what_may_become_a_stop(text: str, strings: list[str], places: list[int]) -> None:
    pieces = cut(text.encode(), places)
    matcher, tokens, _ = matcher_of(Stops(tuple(strings)), pieces)
    prefixes = {s.encode()[:n] for s in strings for n in range(len(s.encode()))}
    for n, token in enumerate(tokens, 1):
        if matcher.push(token) is not None:
            return
        read = b"".join(pieces[:n])
        assert matcher.held_bytes == max(size for size in range(len(read) + 1) if read[len(read) - size :] in prefixes)


@given(TEXT, STRINGS, PLACES, st.lists(st.integers(0, 5), max_size=20), st.sampled_from([None, "a[b.]", "né+E"]))
def test_rollback_is_as_if_never_read(
    text: str, strings: list[str], places: list[int], undo: list[int], regex: str | None
) -> None:
    pieces = cut(text.encode(), places)
    matcher, tokens, vocabulary = matcher_of(Stops(tuple(strings), regex=regex), pieces)
    for count in undo:
        matcher.feed(tokens[matcher.num_tokens : matcher.num_tokens + 4] if not matcher.is_stopped else [])
        twin = matcher.fork()
        matcher.rollback(min(count, matcher.num_tokens))
        fresh = StopMatcher(CompiledStops(matcher.stops, vocabulary))
        fresh.feed(tokens[: matcher.num_tokens])
        assert (fresh.hit, fresh.held_bytes, fresh.num_tokens) == (matcher.hit, matcher.held_bytes, matcher.num_tokens)
        if not twin.is_stopped:  # the twin has not noticed
            other = StopMatcher(CompiledStops(matcher.stops, vocabulary))
            other.feed(tokens[: twin.num_tokens])
            assert (other.feed(tokens[twin.num_tokens :]), other.held_bytes) == (
                twin.feed(tokens[twin.num_tokens :]), twin.held_bytes)  # fmt: skip


@given(TEXT, STRINGS, PLACES, st.booleans())
def test_X3_a_stream_shows_nothing_of_a_stop(text: str, strings: list[str], places: list[int], include: bool) -> None:
    pieces = cut(text.encode(), places)
    matcher, tokens, vocabulary = matcher_of(Stops(tuple(strings), include=include), pieces)
    parser = StopAwareParser(PlainParser(vocabulary), matcher, vocabulary)
    expected = first_stop(text.encode(), strings)
    end = len(text.encode()) if expected is None else expected[1] if include else expected[0]
    final = text.encode()[:end].decode()
    shown = ""
    for token in tokens:
        shown += "".join(event.text for event in parser.feed([token]))  # type: ignore[union-attr]
        assert final.startswith(shown)
    shown += "".join(event.text for event in parser.finish())  # type: ignore[union-attr]
    assert shown == final
    assert (parser.hit is None) == (expected is None)


def test_several_tokens_at_once_stop_inside() -> None:
    matcher, tokens, _ = matcher_of(Stops(("bc",)), [b"a", b"b", b"cd", b"e", b"f"])
    hit = matcher.feed(tokens)
    assert hit == StopHit("bc", 3, 1, 0, 2, 1)
    assert matcher.num_tokens == 3


def test_X2_a_stop_longer_than_any_window() -> None:
    stop = "中" * 5_000 + "."
    data = ("xyz" + stop[:-1] + stop).encode()
    pieces = [data[i : i + 5] for i in range(0, len(data), 5)]
    matcher, tokens, _ = matcher_of(Stops((stop,)), pieces)
    hit = matcher.feed(tokens)
    at = data.find(stop.encode())
    assert as_bytes(pieces, hit.before, hit.before_bytes) == data[:at]


def test_stop_ids_are_found_next_to_strings_and_come_first() -> None:
    matcher, tokens, _ = matcher_of(Stops(("b",), ids=(1,)), [b"a", b"ab"])
    assert matcher.feed(tokens) == StopHit(1, 2, 1, 0, 2, 0)


@pytest.mark.parametrize(
    "source",
    [
        r"\d+",
        "a+b",
        "(?i)end[.!]",
        "(?:ab|é){2}",
        r"a[^.]*\.",
        "x{2,3}y?z",
        "中|aé",
        "(?i:ß|k)b",
        r"[[!--]\w",
        "[]~~]x",
    ],
)
@given(text=st.text(alphabet="ab.EeNnDdxyz12é中!ßẞK[~-]", max_size=24), places=PLACES)
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_pattern_stops_at_its_earliest_match(source: str, text: str, places: list[int]) -> None:
    compiled = re.compile(source)
    expected = next(
        ((s, e) for e in range(len(text) + 1) for s in range(e + 1) if compiled.fullmatch(text, s, e)), None
    )
    pieces = cut(text.encode(), places)
    matcher, tokens, _ = matcher_of(Stops(regex=source), pieces)
    hit = matcher.feed(tokens)
    if expected is None:
        assert hit is None
        return
    assert hit.reason == source
    assert as_bytes(pieces, hit.before, hit.before_bytes).decode() == text[: expected[0]]
    assert as_bytes(pieces, hit.until, hit.until_bytes).decode() == text[: expected[1]]
    assert sum(map(len, pieces[: hit.num_tokens - 1])) < len(text[: expected[1]].encode())


def decoded(data: bytes) -> tuple[str, list[int]]:
    """``data`` as ``errors="replace"`` reads it, and where each character begins and the last one ends."""
    text = data.decode(errors="replace")
    places = [0]
    for i, char in enumerate(text):
        at = places[-1]
        ends = (end for end in range(at + 1, at + 5) if data[at:end].decode(errors="replace") == char)
        places.append(next(end for end in ends if data[end:].decode(errors="replace") == text[i + 1 :]))
    return text, places


@pytest.mark.parametrize("source", ["END", "[a-c]+é", ".", "x?\ufffd", "a.c", "\ufffd{2}b", "[^a]b"])
@given(
    pieces=st.lists(
        st.one_of(
            st.sampled_from([b"END", b"ab", "é".encode(), b"\xc3", b"\xf0\x9f", b"\xed\xa0", b"\xe4\xb8", b"\xff"]),
            st.sampled_from("中abcx").map(str.encode),
            st.binary(min_size=1, max_size=3),
        ),
        max_size=12,
    )
)
def test_a_pattern_is_found_next_to_broken_characters(source: str, pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    text, places = decoded(data)
    compiled = re.compile(source)
    spans = ((s, e) for e in range(len(text) + 1) for s in range(e) if compiled.fullmatch(text, s, e))
    expected = next(spans, None)
    matcher, tokens, _ = matcher_of(Stops(regex=source), pieces)
    hit = matcher.feed(tokens)
    if hit is None:  # a last character that more bytes could complete is not read yet
        assert expected is None or (expected[1] == len(text) and _is_open(data[places[-2] :]))
        return
    assert len(as_bytes(pieces, hit.before, hit.before_bytes)) == places[expected[0]]
    assert len(as_bytes(pieces, hit.until, hit.until_bytes)) == places[expected[1]]


def _is_open(data: bytes) -> bool:
    """Whether more bytes could make one character of ``data``."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data"
    return False


def test_a_pattern_holds_back_from_where_its_match_began() -> None:
    matcher, tokens, _ = matcher_of(Stops(regex=r"<[a-z]+>"), [b"ab<", b"xy", b"z", b"!", "é".encode()[:1]])
    held = [(matcher.push(token), matcher.held_bytes)[1] for token in tokens]
    assert held == [1, 3, 4, 0, 1]


# -- bad input


@pytest.mark.parametrize(
    ("stops", "message"),
    [
        (Stops(("a", "")), r"stop\[1\]: the stop is empty; expected at least one character"),
        (Stops(("\ud800",)), r"stop\[0\]: no text can contain '\\ud800'"),
        (Stops(ids=(1_000_000,)), r"stop.ids\[0\]: no text can contain token 1000000; expected an id from 0 to"),
        (Stops(ids=(-1,)), r"stop.ids\[0\]: no text can contain token -1"),
        (Stops(regex="("), r"stop.regex: '\(' is not a valid pattern: missing \)"),
        (Stops(regex=""), r"stop.regex: the pattern '' matches the empty text"),
        (Stops(regex="a*"), r"stop.regex: the pattern 'a\*' matches the empty text"),
        (Stops(regex=r"[^\s\S]"), r"stop.regex: no text matches the pattern"),
        (Stops(regex="^END"), r"stop.regex: an anchor or word boundary in the pattern '\^END'"),
        (Stops(regex="a(?=b)"), r"stop.regex: look-around in the pattern"),
        (Stops(regex=r"(a)\1"), r"stop.regex: a back-reference in the pattern .*, column 4"),
        (Stops(regex="a++b"), r"stop.regex: a possessive repeat in the pattern 'a\+\+b', column 2"),
        (Stops(regex=r"\pL"), r"stop.regex: .* is not a valid pattern: bad escape \\p, column 1"),
        (Stops(regex="(?:a{1000}){1000}"), r"stop.regex: the pattern is too large"),
    ],
)
def test_stops_that_cannot_be_are_refused(engine: Engine, stops: Stops, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        check_stops(stops, engine.tokens)


def test_reading_past_a_stop_or_undoing_too_much_is_an_error(engine: Engine) -> None:
    matcher = StopMatcher(CompiledStops(Stops(("a",)), engine))
    matcher.feed(engine.tokenize("xa"))
    with pytest.raises(GuidanceError, match="the row has stopped"):
        matcher.push(0)
    with pytest.raises(GuidanceError, match="cannot undo 3 tokens; expected 0 to 2"):
        matcher.rollback(3)


def test_the_forms_of_stop(engine: Engine) -> None:
    assert stops_of(None) == Stops()
    assert stops_of("x") == Stops(("x",))
    assert stops_of(["x", "y"]) == Stops(("x", "y"))
    assert stops_of(Stops(ids=(3,))) == Stops(ids=(3,))
    with pytest.raises(GrammarError):
        compile_pattern("(")


def test_a_special_token_counts_as_its_text(engine: Engine) -> None:
    """Markers of S1: a role marker and what follows it."""
    start = engine.tokens.id_of("<|im_start|>")
    assert start is not None
    tokens = [*engine.tokenize("Hi."), start, *engine.tokenize("user x")]
    matcher = StopMatcher(CompiledStops(Stops(("<|im_start|>user",)), engine))
    hit = matcher.feed(tokens)
    assert hit.before == len(engine.tokenize("Hi."))


def test_a_broken_partial_match_is_released_at_once() -> None:
    matcher, tokens, vocabulary = matcher_of(Stops(("END.",)), [b"x E", b"N", b"D", b"!", b"y"])
    parser = StopAwareParser(PlainParser(vocabulary), matcher, vocabulary)
    shown = ["".join(event.text for event in parser.feed([t])) for t in tokens]  # type: ignore[union-attr]
    assert shown == ["x ", "", "", "END!", "y"]
