"""Unlisted keys are written at most once, however they are spelled, and an object closes when none is left."""

from __future__ import annotations

import json
import random
import re
import string
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammars.json_schema.build import build
from grammars.values.json_escapes import canonical, decoded, escaped_forms, unfinished_escape
from grammars.values.json_scanner import ScanState, feed
from grammars.values.watchers import UniqueWatch
from guided.bitmask import allowed_ids
from guided.engine.engine import Engine
from guided.state.state import GuidanceState
from guided.validation.validate import violations
from guided.watchers import direct_duplicates
from guided.watchers.lookahead_duplicates import LookaheadDuplicates
from guided.watchers.vocabulary_index import VocabularyIndex
from special_tokens.errors import SchemaError
from tests.cases import costly
from tests.conftest import small_engine
from tests.guided.watchers.test_value_watch import accepts, start
from tests.judges.plans import END


def keys(pattern: str, values: Any = None) -> dict[str, Any]:
    """Objects whose keys match ``pattern``."""
    return {
        "type": "object",
        "patternProperties": {pattern: values or {"type": "integer"}},
        "additionalProperties": False,
    }


@pytest.fixture(scope="module")
def long_tokens() -> Engine:
    """Tokens that cross from a value into the next key, and from one key to another."""
    words = [
        *('", "', '": "', ', "', ',"', ' "', '"a', '"ab', ' "a', ', "a', ', "ab', '", "a', '", "b', '}, "', '}, "a'),
        *("ab", "ba", "aa", '": 1, "', '": 1, "a', '": 1, "ab": 1', '"ab": 1', "x-", "00", "\\n", "\\u", "00a", '\\n"'),
        *(
            "000a",
            '\\u000a": ',
            "], ",
            '1, "',
            '0, "',
            "20",
            "-0",
            "01",
            '{"',
            '{"a',
            ', "\\',
            '"\\"',
            ' "\\"',
            '"\\',
            '}, "\\',
        ),
    ]
    return small_engine(words=words)


ENGINES = ["engine", "byte_engine", "long_tokens"]


FREE = {"type": "object"}
INTEGERS = {"type": "object", "additionalProperties": {"type": "integer"}}
TWO = keys("^[a-z]{2}$", {"type": "string"})


@pytest.mark.parametrize("tokens", ENGINES)
@pytest.mark.parametrize(
    ("schema", "text", "accepted"),
    [
        (TWO, '{"en": "a", "de": "b", "dn": ""}', True),
        (keys("^[a-z]{2}(-[A-Z]{2})?$"), '{"en": 1, "en-US": 2, "en-GB": 3}', True),
        (keys("^(ab|c.*)$"), '{"ab": 1, "c": 2, "cab": 3}', True),
        (keys("^x-[0-9]{3}$"), '{"x-001": 1, "x-002": 2}', True),
        (keys("^[a-z]+$"), '{"a": 1, "ab": 2, "aba": 3}', True),
        ({"type": "object", "propertyNames": {"pattern": "^[A-Z]{2}$"}}, '{"EN": 1, "EM": 2}', True),
        ({"type": "object", "propertyNames": {"maxLength": 3}}, '{"abc": 1, "ab": 2, "abd": 3}', True),
        ({"type": "object", "propertyNames": {"format": "date"}}, '{"2020-01-01": 1, "2020-01-02": 2}', True),
        ({"type": "object", "propertyNames": {"maxLength": 1}}, '{"a": 1, "b": 1}', True),
        ({"type": "object", "propertyNames": {"maxLength": 1}}, r'{"\"": {}, "\n": {}, "\\": 1}', True),
        ({"type": "object", "propertyNames": {"maxLength": 1}}, r'{"\"": {}, "\"": {}}', False),
        ({"type": "object", "propertyNames": {"maxLength": 1}}, r'{"\\": {}, "\\": {}}', False),
        ({"type": "object", "propertyNames": {"maxLength": 1}}, r'{"\n": {}, "\u000a": {}}', False),
        (keys("^a{1,2}$", {"type": "object"}), '{"aa": {}, "a": {}}', True),
        ({"type": "array", "items": TWO}, '[{"ab": "a"}, {"ab": "b"}]', True),
        (FREE, r'{"\n": 1, "n": 1, "\t": 1}', True),
        (FREE, r'{"\n": 1, "\u000a": 1}', False),
        (FREE, r'{"a\u001fb": 1, "a\u001Fb": 1}', False),
        (keys("^a\x1fb?$"), r'{"a\u001fb": 1, "a\u001f": 1}', True),
        (keys("^a\x1fb?$"), r'{"a\u001fb": 1, "a\u001fb": 1}', False),
        (FREE, r'{"a\u001fb": 1, "a\u001F": 1}', False),  # each text has one spelling
        (keys("^[\x1e\x1f]{1,2}$"), r'{"\u001f\u001e": 1, "\u001f": 1}', True),
        (keys("^[\x1e\x1f]{1,2}$"), r'{"\u001f\u001e": 1, "\u001f\u001e": 1}', False),
        (FREE, r'{"\n\t": 1, "\n\f": 1}', True),
        (FREE, r'{"\n\n\t": 1, "\u000a\n\u0009": 1}', False),
        (INTEGERS, r'{"\b": 1, "\u0008": 1}', False),
        (INTEGERS, r'{"\u007f": 1, "\u007F": 1}', False),
        (INTEGERS, r'{"\\n": 1, "\n": 1, "\\\n": 1}', True),
        (INTEGERS, r'{"\"": 1, "\\\"": 1}', True),
        (INTEGERS, r'{"\\\"": 1, "\\\"": 1}', False),
    ],
)
def test_no_key_is_written_twice(
    request: pytest.FixtureRequest, tokens: str, schema: Any, text: str, accepted: bool
) -> None:
    assert accepts(request.getfixturevalue(tokens), schema, text) is accepted


def work(monkeypatch: pytest.MonkeyPatch, engine: Engine, schema: Any, text: str) -> tuple[int, int, int]:
    """Return the number of masks for ``text``, of those that are restricted, and of tokens scanned for them."""
    restricted, scanned = [], []

    def restrict(self: LookaheadDuplicates, *args: Any) -> None:
        restricted.append(args)
        plain(self, *args)

    def scan(*args: Any) -> ScanState:
        scanned.append(args)
        return feed(*args)

    plain = LookaheadDuplicates.restrict
    monkeypatch.setattr(LookaheadDuplicates, "restrict", restrict)
    monkeypatch.setattr(direct_duplicates, "feed", scan)
    assert accepts(engine, schema, text)
    return len(engine.tokenize(text)), len(restricted), len(scanned)


NESTED = (
    '{"name": "the name", "kind": 12.5, "nested": {"name": [1, {"names": "\\n"}], "nam": {}}, "names": ["name", null]}'
)


def test_only_a_mask_that_may_end_a_written_key_is_restricted(
    monkeypatch: pytest.MonkeyPatch, byte_engine: Engine
) -> None:
    """The one place is that after `"name` of the last key; no token has to be scanned."""
    num_masks, *found = work(monkeypatch, byte_engine, FREE, NESTED)
    assert num_masks == len(NESTED)
    assert found == [1, 0]


@pytest.mark.parametrize("name", ["smollm2", "qwen3", pytest.param("gpt4o", marks=pytest.mark.slow)])
def test_hardly_a_token_is_scanned_on_a_real_vocabulary(
    real_engine: Callable[[str], Engine], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Thousands of its tokens have a quote in them, and hundreds write a whole string."""
    assert work(monkeypatch, real_engine(name), FREE, NESTED)[1:] == (0, 0)
    again = '{"id": 1, "name": "a", "nested": [{"id": 1, "name": "id"}], "a": {"b": {"id": 2, "id2": 3}}, "i": 1}'
    num_masks, num_restricted, num_scanned = work(monkeypatch, real_engine(name), FREE, again)
    assert num_restricted <= 2
    assert num_scanned <= num_masks


def test_the_watcher_knows_how_soon_keys_are_used_up() -> None:
    def bounds(schema: Any) -> tuple[bool, int]:
        (watcher,) = [w for w in build(schema, watch=True).watchers if isinstance(w, UniqueWatch)]
        return watcher.tight_keys, watcher.fewest_keys

    assert bounds(FREE) == bounds(INTEGERS) == (False, 0)
    assert bounds(keys("^x-")) == bounds(keys("^[a-z]+$")) == (False, 0)
    assert bounds(keys("^(a|ab|b)(b|bb)?$")) == (True, 7)
    assert bounds(TWO) == (True, 26 * 26)
    assert bounds(keys("^x-[0-9]{3}$")) == (True, 1000)
    assert bounds({"type": "object", "propertyNames": {"maxLength": 3}}) == (True, 0)
    assert bounds({"type": "array", "items": [keys("^[abc]$"), TWO, FREE]}) == (True, 3)
    assert bounds({**TWO, "additionalProperties": {"type": "integer"}}) == (True, 0)
    assert bounds({"type": "object", "propertyNames": {"pattern": "^(a|bc)(d|ee)$"}}) == (True, 4)


@pytest.mark.parametrize("extra", [{}, {"properties": {"c": {}}, "required": ["c"]}])
def test_more_keys_than_there_are_words_are_impossible(engine: Engine, extra: Any) -> None:
    number = len(extra.get("required", ()))
    for pattern, count in (("^[ab]$", 2), ("^[ab]{1,2}$", 6), ("^(a|ab)(b|bb)$", 3)):
        build({**keys(pattern), **extra, "minProperties": count + number}, watch=True)
        with pytest.raises(SchemaError, match="no value satisfies"):
            build({**keys(pattern), **extra, "minProperties": count + number + 1}, watch=True)


# -- JSON escapes


TEXTS = st.text(st.sampled_from('ab"\\/\n\t\x1f\x7f\xe9\U0001f600u0'), max_size=5)


def spelled(text: str, rng: random.Random) -> bytes:
    """The text in one of the ways that JSON has."""
    out = ""
    for char in text:
        ways = [json.dumps(char, ensure_ascii=rng.random() < 0.5)[1:-1]]
        if ord(char) < 0x80:
            ways += [f"\\u{ord(char):04x}", f"\\u{ord(char):04X}"]
        out += rng.choice(ways)
    return out.encode()


@given(text=TEXTS, seed=st.integers(0, 1000))
def test_all_spellings_are_one(text: str, seed: int) -> None:
    rng = random.Random(seed)
    one, two = spelled(text, rng), spelled(text, rng)
    assert decoded(one) == decoded(two) == text
    assert canonical(one) == canonical(two) == canonical(canonical(one))
    assert unfinished_escape(one) == b""
    for size in range(len(one)):
        begun = unfinished_escape(one[:size])
        assert one[:size].endswith(begun)
        assert canonical(one[: size - len(begun)]) + begun == canonical(one[:size])


@given(text=st.text(st.sampled_from('ab"\\\n\x1f\x7f\xe9'), max_size=4), seed=st.integers(0, 1000))
def test_every_way_to_write_the_rest_is_found(text: str, seed: int) -> None:
    rng = random.Random(seed)
    whole = b""
    for char in text:  # in the spellings that our grammars have
        ways = [json.dumps(char, ensure_ascii=False)[1:-1]]
        ways += [f"\\u{ord(char):04x}", f"\\u{ord(char):04X}"] if ord(char) < 0x20 else []
        whole += rng.choice(ways).encode()
    size = rng.randint(0, len(whole))
    begun = unfinished_escape(whole[:size])
    before = canonical(whole[:size]).removesuffix(begun)
    found = escaped_forms(canonical(whole)[len(before) :], begun, lambda _: True)
    assert whole[size:] in found
    assert all(canonical(whole[:size] + way) == canonical(whole) for way in found)
    some = escaped_forms(canonical(whole)[len(before) :], begun, lambda way: len(way) < 3)
    assert any(whole[size:].startswith(way) for way in some)
    assert all(any(way.startswith(short) for short in some) for way in found)


# -- laws


def random_schema(rng: random.Random, depth: int = 2) -> Any:
    """A schema of objects with free, matched, bounded and listed keys, and arrays of different items."""
    leaves: list[Any] = [
        {"type": "integer"},
        {"type": "number"},
        {"type": "string", "maxLength": 2},
        {"type": "boolean"},
        {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
        {"enum": ["a", "b", 1, None]},
    ]
    if depth == 0:
        return rng.choice(leaves)
    inner = random_schema(rng, depth - 1)
    pattern = rng.choice(
        ["^[ab]$", "^[ab]{1,2}$", "^(ab|b.*)$", "^x-[01]{1,2}$", "^[a-c]{2}$", "^[ab]+$", "^(a|ab|aba)$"]
    )
    item = rng.choice(
        [leaves[0], leaves[1], leaves[3], leaves[5], {"type": "string"}, {"type": "string", "maxLength": 1}]
    )
    return rng.choice(
        [
            {"type": "object", "additionalProperties": inner},
            keys(pattern, inner),
            {**keys(pattern, inner), "properties": {"ab": inner, "c": {"type": "null"}}, "required": ["c"]},
            {"type": "object", "propertyNames": {"pattern": pattern}, "additionalProperties": inner},
            {"type": "object", "propertyNames": {"maxLength": 1}, "additionalProperties": inner},
            {"type": "object", "propertyNames": {"format": "date"}, "additionalProperties": inner},
            {**keys(pattern, inner), "minProperties": 1},
            {"type": "object", "propertyNames": {"enum": ["a", "b", "ab"]}, "additionalProperties": inner},
            {"type": "array", "items": item, "uniqueItems": True},
            {"type": "array", "items": inner, "maxItems": 3},
            {"anyOf": [inner, keys(pattern, inner)]},
            inner,
        ]
    )


def check_walk(engine: Engine, schema: Any, rng: random.Random, most: int = 250) -> None:
    """Writes at random, with a liking for what was written before; then judges what came of it."""
    state = start(engine, schema)
    end = engine.tokens.id_of(END)
    liked: set[bytes] = set()
    while not state.is_stopped and state.num_tokens < most:
        ids = allowed_ids(state.mask())
        assert ids, (schema, bytes_of(engine, state, end))
        if len(ids) > 2_000:  # those that may do harm, and some others
            ids = [*notable(engine).intersection(ids), *rng.sample(ids, 50)]
        late = state.num_tokens > most // 2
        ends = [i for i in ids if i == end or engine.token_bytes(i)[:1] in (b"]", b"}")] if late else []
        quotes = [i for i in ids if engine.token_bytes(i)[:1] in (b'"', b",", b":")]
        known = [i for i in ids if engine.token_bytes(i) in liked]
        digits = [i for i in ids if engine.token_bytes(i)[:1] in (b"0", b"e", b".")]
        pools = [pool for pool in (ends, quotes, known, digits) if pool]
        token = rng.choice(rng.choice(pools) if pools and rng.random() < 0.85 else ids)
        liked.add(engine.token_bytes(token))
        state.commit([token])
    if state.is_stopped:
        check_text(schema, bytes_of(engine, state, end).decode())
        if not state.plan.schema_report.relaxed:
            assert violations(schema, json.loads(bytes_of(engine, state, end))) == ()


@lru_cache(maxsize=4)
def notable(engine: Engine) -> frozenset[int]:
    """Tokens that end or begin a key, and short ones."""
    read = re.compile(rb'.{1,2}|.*["\\\\].*|[-0-9.eE]+', re.DOTALL)
    return frozenset(i for i in range(engine.vocab_size) if read.fullmatch(engine.token_bytes(i)))


def bytes_of(engine: Engine, state: GuidanceState, end: int) -> bytes:
    return b"".join(engine.token_bytes(i) for i in state.tokens if i != end)


def check_text(schema: Any, text: str) -> None:
    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len({key for key, _ in found}) == len(found), (schema, text)
        return dict(found)

    json.loads(text, object_pairs_hook=pairs)
    run = 0
    for char in re.sub(r'"(?:[^"\\]|\\.)*"', "", text):
        run = run + 1 if char in string.digits else 0
        assert run <= 64, (schema, text)
    json.loads(text, parse_float=lambda number: check_finite(number, text))


def check_finite(number: str, text: str) -> float:
    value = float(number)
    assert abs(value) != float("inf"), text
    return value


@costly
@given(seed=st.integers(0, 10**6), tokens=st.sampled_from(ENGINES))
def test_no_walk_writes_a_key_twice_or_stands_still(request: pytest.FixtureRequest, seed: int, tokens: str) -> None:
    rng = random.Random(seed)
    check_walk(request.getfixturevalue(tokens), random_schema(rng), rng)


@pytest.mark.parametrize("name", ["smollm2", "qwen3"])
def test_no_walk_on_a_real_vocabulary_writes_a_key_twice(real_engine: Callable[[str], Engine], name: str) -> None:
    for seed in range(15):
        rng = random.Random(seed)
        check_walk(real_engine(name), random_schema(rng), rng, most=120)


@pytest.mark.parametrize("name", ["", "smollm2", "qwen3", "gemma3", "llama2"])
def test_the_table_of_a_vocabulary_is_its_tokens_one_by_one(
    real_engine: Callable[[str], Engine], plain_engine: Engine, name: str
) -> None:
    engine = real_engine(name) if name else plain_engine
    expected = [b"" if i in engine.tokens.marker_ids else engine.token_bytes(i) for i in range(engine.vocab_size)]
    assert list(engine.derived(VocabularyIndex).token_bytes) == expected
