"""Rows as hosts use them that guess ahead: tokens are tried, taken back, and written again."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from grammars.plan.plan import Plan, Stops
from grammars.values.constraints import JsonSchema
from guided.bitmask import allowed_ids
from guided.engine.engine import Engine
from guided.rows.making import make_row
from guided.rows.sequence import RowSequence
from guided.rows.unguided import UnguidedSequence
from special_tokens.errors import GuidanceError, TokenRefused
from tests.cases import seeds
from tests.guided.landing.test_control import FEW
from tests.guided.landing.test_landing import KINDS, made
from tests.guided.rows.test_beams import assert_same, fresh
from tests.judges.plans import FORMAT, drawn, plan_of
from tests.made_up.wire_forms import FORMS


def different(items: Any) -> dict[str, Any]:
    return {"type": "array", "uniqueItems": True, "items": items}


_FREE = {"type": "object", "additionalProperties": {"enum": [1, "ab"]}, "maxProperties": 2}
_TAGS = {"tags": different({"type": "string"}), "meta": _FREE}
_TOOL = {"type": "function", "function": {"name": "tag", "parameters": {"type": "object", "properties": _TAGS}}}
#: Requests with items that must differ and keys that must not repeat, which are watched.
WATCHED: dict[str, dict[str, Any]] = {
    "watched": {"response_format": JsonSchema(different(_FREE))},
    "watched numbers": {"response_format": JsonSchema(different({"type": "number"}))},
    "watched words": {"response_format": JsonSchema(different({"type": "string", "pattern": "^[ab]{1,2}$"}))},
    **{f"watched calls: {name}": {"tools": [_TOOL], "tool_choice": "required",
                                  "format": replace(FORMAT, tool_calls=FORMS[name])}
       for name in ("tags", "xml", "name, separator")},
}  # fmt: skip
CASES = [*(pytest.param(k, marks=() if k in FEW else pytest.mark.slow) for k in KINDS), *WATCHED]


def plan_for(engine: Engine, kind: str, chance: random.Random) -> Plan:
    plan = plan_of(engine, thinking=False, **WATCHED[kind]) if kind in WATCHED else made(engine, kind)
    stops = chance.choice([Stops(), Stops(("ab", "e")), Stops(regex="[a-e][0-9]")])
    return replace(plan, stops=stops)


def written(row: RowSequence, chance: random.Random, most: int) -> list[int]:
    tokens: list[int] = []
    while not row.is_done and len(tokens) < most:
        mask = row.token_mask()
        tokens.append(next(drawn(allowed_ids(mask.words), row.state.engine, chance)))
        row.extend(tokens[-1:])
    return tokens


@pytest.mark.parametrize("seed", seeds(10, default=2))
@pytest.mark.parametrize("kind", CASES)
def test_a_row_rolled_back_is_a_row_that_never_went_on(engine: Engine, kind: str, seed: int) -> None:
    chance = random.Random(f"{kind} {seed}")
    plan = plan_for(engine, kind, chance)
    row = RowSequence(plan, engine)
    tokens = written(row, chance, 50)
    for _ in range(5):
        number = chance.randint(0, row.num_tokens)
        row.rollback(number)
        tokens = tokens[: len(tokens) - number]
        judge = fresh(engine, plan, tokens)
        assert_same(row, judge)
        assert (row.stops.num_tokens if row.stops else 0) == (judge.stops.num_tokens if judge.stops else 0)
        tokens += written(row, chance, chance.randint(0, 12))
    with pytest.raises(GuidanceError, match="cannot undo"):
        row.rollback(row.num_tokens + 1)


@pytest.mark.parametrize("kind", CASES)
def test_an_error_is_taken_back_with_its_token(engine: Engine, kind: str) -> None:
    chance = random.Random(kind)
    plan = replace(plan_for(engine, kind, chance), stops=Stops())
    row = RowSequence(plan, engine)
    tokens = written(row, chance, 9)
    mask = row.token_mask()
    wrong = next((i for i in range(engine.vocab_size) if mask and i not in allowed_ids(mask.words)
                  and fresh(engine, plan, [*tokens, i]).error is not None), None)  # fmt: skip
    if row.is_done or wrong is None:
        pytest.skip("everything may follow")
    for number in (0, 2):
        row.extend([wrong])
        assert row.error is not None
        assert not row.validate([wrong])
        row.rollback(number)
        tokens = tokens[: len(tokens) - number]
        assert row.error is None
        assert_same(row, fresh(engine, plan, tokens))


@pytest.mark.parametrize("seed", seeds(10, default=2))
@pytest.mark.parametrize("kind", CASES)
def test_as_many_tokens_are_valid_as_can_be_read(engine: Engine, kind: str, seed: int) -> None:
    """The judge reads them token by token."""
    chance = random.Random(f"{kind} {seed}")
    plan = plan_for(engine, kind, chance)
    row = RowSequence(plan, engine)
    written(row, chance, chance.randint(0, 40))
    for _ in range(8):
        twin = row.fork()
        guess = written(twin, chance, chance.randint(0, 8))
        for _ in range(chance.randint(0, 2)):
            guess.insert(chance.randint(0, len(guess)), chance.randrange(engine.vocab_size))
        judge, number = row.fork(), 0
        for token in guess:
            if judge.is_done:
                break
            judge.extend([token])
            if judge.error is not None:
                break
            number += 1
        before = list(row.state.tokens)
        assert row.validate(guess) == number, guess
        assert list(row.state.tokens) == before
        assert row.error is None


def test_the_rows_of_stops_alone_are_undone_and_tried_too(engine: Engine) -> None:
    row: Any = make_row(Stops(("abc",)), engine)
    assert isinstance(row, UnguidedSequence)
    tokens = engine.tokenize("xabxabcab")
    ends = next(n for n in range(len(tokens)) if b"abc" in b"".join(map(engine.token_bytes, tokens[: n + 1]))) + 1
    assert row.validate(tokens) == ends
    assert row.num_tokens == 0
    row.extend(tokens)
    assert row.is_done
    assert row.validate(tokens) == 0
    row.rollback(1)
    assert not row.is_done
    assert row.num_tokens == ends - 1
    assert row.validate(tokens[ends - 1 :]) == 1
    with pytest.raises(GuidanceError, match="cannot undo"):
        row.rollback(99)


@pytest.mark.parametrize("kind", ["json", "watched", "free text"])
def test_an_id_that_is_no_token_is_refused_like_one(engine: Engine, kind: str) -> None:
    """Hosts fill drafts up with -1, and their models may score more ids than there are tokens."""
    chance = random.Random(kind)
    plan = replace(plan_for(engine, kind, chance), stops=Stops())
    row = RowSequence(plan, engine)
    legal = written(row.fork(), chance, 2)
    for other in (-1, engine.vocab_size, 2**40):
        assert row.validate([legal[0], other, *legal[1:]]) == 1
        assert row.error is None
        twin = row.fork()
        twin.extend([legal[0], other])
        assert isinstance(twin.error, TokenRefused)


def test_rows_of_stops_alone_mask_nothing(engine: Engine) -> None:
    """So has a row that could not be made: a host asks each of its rows."""
    row: Any = make_row(Stops(("abc",)), engine)
    assert row.token_mask() is None
