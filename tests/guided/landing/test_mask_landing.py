"""A host that sees masks alone ends within its budget, and far from the budget its answers are what they were."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from grammars.plan.plan import Plan
from grammars.values.constraints import JsonSchema, Regex
from guided.bitmask import allowed_ids
from guided.engine.engine import Engine
from guided.inspect.shortest import min_tokens
from guided.landing.effort import Effort
from guided.landing.finder import PathFinder
from guided.landing.mask_landing import MaskLanding
from guided.rows.answer import read_answer
from guided.rows.making import make_row
from guided.rows.sequence import RowSequence
from tests.cases import seeds, slow_where
from tests.guided.landing.test_control import FEW
from tests.guided.landing.test_fits import SCHEMAS
from tests.guided.landing.test_landing import KINDS, made
from tests.judges.plans import FORMAT, drawn, plan_of


def row_of(plan: Plan, engine: Engine, max_tokens: int | None) -> RowSequence:
    row = make_row(plan, engine, max_tokens=max_tokens, lands_in_masks=True)
    assert isinstance(row, RowSequence)
    assert not row.budget_note
    return row


def sampled(row: RowSequence, chance: random.Random, most: int) -> list[int]:
    """The tokens of a sampler that sees the masks alone."""
    tokens: list[int] = []
    while not row.is_done and len(tokens) < most:
        mask = row.token_mask()
        assert mask is not None
        ids = allowed_ids(mask.words)
        assert mask.forced is None or ids == [mask.forced]
        assert set(mask.end_ids) <= set(ids)
        tokens.append(next(drawn(ids, row.state.engine, chance)))
        row.extend(tokens[-1:])
        assert row.error is None
    return tokens


def free(row: RowSequence, chance: random.Random, most: int) -> list[int]:
    """The tokens of a sampler that ends by itself."""
    tokens: list[int] = []
    while not row.is_done and len(tokens) < most:
        mask = row.token_mask()
        assert mask is not None
        tokens.append(ending(mask.words, mask.end_ids, row.state.engine, chance))
        row.extend(tokens[-1:])
    return tokens


def ending(words: Any, end_ids: Sequence[int], engine: Engine, chance: random.Random) -> int:
    """A token of a sampler that ends where it can, and closes what it has opened."""
    ids = allowed_ids(words)
    closing = [i for i in ids if engine.token_bytes(i)[:1] in (b'"', b"}", b"]", b"<", b")")]
    pool = (list(end_ids) or closing or ids) if chance.random() < 0.7 else ids
    return chance.choice(pool)


@pytest.mark.parametrize("seed", seeds(12, default=2))
@pytest.mark.parametrize("kind", [pytest.param(k, marks=() if k in FEW else pytest.mark.slow) for k in KINDS])
def test_an_answer_that_ends_well_before_the_budget_is_what_it_was(engine: Engine, kind: str, seed: int) -> None:
    plan = made(engine, kind)
    judge = row_of(plan, engine, None)
    own = free(judge, random.Random(seed), 600)
    if not judge.is_done:
        pytest.skip("it did not end")
    landing = row_of(plan, engine, 10_000).landing
    assert isinstance(landing, MaskLanding)
    most = len(own) * 5 // 4 + landing.reserve + landing.margin + 12
    row = row_of(plan, engine, max(most, min_tokens(plan, engine)))
    assert free(row, random.Random(seed), len(own)) == own
    assert row.report().marks.begun is None


def test_free_text_is_never_ended(engine: Engine) -> None:
    plan = plan_of(engine, thinking=False)
    for most in (6, 40):
        row, judge = row_of(plan, engine, most), row_of(plan, engine, None)
        chance = random.Random(most)
        for _ in range(most):
            masks = [one.token_mask() for one in (row, judge)]
            assert masks[0] is not None
            assert masks[1] is not None
            assert (masks[0].words == masks[1].words).all()
            ids = [i for i in allowed_ids(masks[0].words) if i not in masks[0].end_ids]
            token = chance.choice(ids)
            row.extend([token])
            judge.extend([token])
        assert row.report().marks.begun is None


@pytest.mark.parametrize("kind", slow_where(lambda kind: kind in FEW[::2], FEW))
def test_tokens_that_are_taken_back_leave_no_trace(engine: Engine, kind: str) -> None:
    """Guesses are tried and undone before each token; the budget is kept all the same."""
    plan, chance = made(engine, kind), random.Random(kind)
    most = min_tokens(plan, engine) + 12
    row = row_of(plan, engine, most)
    while not row.is_done and row.num_tokens < most:
        before = row.num_tokens
        sampled(row, chance, chance.randint(0, min(4, most - before - 1)))
        row.rollback(row.num_tokens - before)
        sampled(row, chance, 1)
        assert row.num_tokens == before + 1
    assert row.is_done or kind == "free text"


def test_the_work_of_a_step_is_capped_and_said(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = made(engine, "json")
    most = min_tokens(plan, engine) + 9
    monkeypatch.setattr(MaskLanding, "step_effort", lambda _: Effort(cpu_s=9.0, places=0))
    row = row_of(plan, engine, most)
    tokens = sampled(row, random.Random(0), most)
    assert row.is_done
    message = read_answer(tokens, plan, engine, sequence=row)
    assert message.landed is not None
    assert any("near max_tokens" in note for note in message.notes)


def test_a_pattern_far_from_its_budget_is_not_narrowed(engine: Engine) -> None:
    """No bound is sure of what a token of it makes necessary; vLLM's first answers to one were not the model's."""
    plan = plan_of(engine, response_format=Regex("[A-Z][a-z]{2,6}, [0-9]{2}"))
    near, free = row_of(plan, engine, 80), row_of(plan, engine, None)
    found, wanted = near.token_mask(), free.token_mask()
    assert found is not None
    assert wanted is not None
    assert allowed_ids(found.words) == allowed_ids(wanted.words)


STRINGS = JsonSchema({"type": "array", "items": {"type": "string"}, "minItems": 1})


def wanted(row: RowSequence, tokens: Sequence[int]) -> list[int]:
    """The tokens of a model that wants these, as long as the masks allow them, and then the smallest ids."""
    out: list[int] = []
    while not row.is_done:
        mask = row.token_mask()
        assert mask is not None
        ids, at = allowed_ids(mask.words), len(out)
        out.append(tokens[at] if at < len(tokens) and out == tokens[:at] and tokens[at] in ids else ids[0])
        row.extend(out[-1:])
    return out


def whole(plan: Plan, engine: Engine, text: str) -> list[int]:
    """The tokens of an answer with this text: what is forced before it, and the end after it."""
    row = RowSequence(plan, engine)
    tokens = [*row.forced_run(99), *engine.tokenize(text)]
    row.sync(tokens)
    assert row.error is None
    return [*tokens, *row.state.open_end_ids()[:1]]


def _pair(text: dict[str, Any]) -> dict[str, Any]:
    members = {"a": {"type": "string", **text}, "b": {"type": "integer"}}
    return {"response_format": {"type": "object", "properties": members, "required": ["a", "b"]}}


_USER = "0b6f3f6e-8c2e-4f4e-9f6a-3a1d5c7e9b10"
#: Found by random plans: a tool whose shortest call is far was hidden with 150 tokens to spare.
CALLED: dict[str, Any] = {
    "draw": {"at": {"name": "here", "near": "there"}},
    "get_user": {"id": _USER},
    "do_steps": {"steps": [{"kind": "wait", "until": "2026-03-01T09:30:00Z", "id": _USER}]},
}
_TOOLS = [{"type": "function", "function": {"name": name, "parameters": SCHEMAS[name]}} for name in CALLED]
#: Parts of requests, and texts of their answers after what is forced at first.
OWN: dict[str, tuple[dict[str, Any], str]] = {
    "keys that no schema names": ({"response_format": {"type": "object"}}, '{"name": "Bob", "x y z": 12}'),
    # found by reading: what closes a text was not allowed again until the budget was nearly used up
    "an end that a length allows late": (_pair({"minLength": 4}), '": "ab@cd", "b": 12}'),
    "an end that a pattern allows late": (_pair({"pattern": "^[^@]+@[^@]+$"}), '": "ab@cd", "b": 12}'),
    **{f"one of a few tools, {name}": ({"tools": _TOOLS, "tool_choice": "required"},
                                       f'{name}", "arguments": {json.dumps(arguments)}}}\n</tool_call>')
       for name, arguments in CALLED.items()},
}  # fmt: skip


@pytest.mark.parametrize("extra", [12, 20, 40])
@pytest.mark.parametrize("name", OWN)
def test_an_answer_that_fits_is_the_models_own(engine: Engine, name: str, extra: int) -> None:
    parts, text = OWN[name]
    plan = plan_of(engine, replace(FORMAT, reasoning=None), **parts)
    tokens = whole(plan, engine, text)
    row = row_of(plan, engine, len(tokens) + extra)
    assert wanted(row, tokens) == tokens
    assert row.report().marks.begun is None or name.startswith("one of a few tools")  # an end may be forced


def test_text_that_the_budget_ends_is_said_to_have_landed(engine: Engine) -> None:
    """Several tokens may close a string, so none of them is forced."""
    plan = plan_of(engine, response_format=STRINGS, thinking=False)
    tokens, row = whole(plan, engine, '"' + "a b " * 40), row_of(plan, engine, 40)
    written = wanted(row, tokens)
    assert json.loads(read_answer(written, plan, engine).content or "")
    assert row.report().marks.begun == next(i for i, token in enumerate(written) if token != tokens[i])


def test_drafts_that_are_accepted_have_landed_like_other_tokens(engine: Engine) -> None:
    """A host asks for the masks of its drafts, takes these back, and reads those that its model confirms."""
    plan = plan_of(engine, response_format=STRINGS, thinking=False)
    judge, row = row_of(plan, engine, 40), row_of(plan, engine, 40)
    tokens = wanted(judge, whole(plan, engine, '"' + "a b " * 40))
    for at in range(0, len(tokens), 4):
        drafts = tokens[at : at + 4]
        for token in drafts:
            row.token_mask()
            row.extend([token])
        row.rollback(len(drafts))
        row.extend(drafts)
    assert row.report().marks == judge.report().marks
    assert row.report().marks.begun is not None


def test_drafts_that_are_rejected_leave_no_mark(engine: Engine) -> None:
    plan = plan_of(engine, response_format=STRINGS, thinking=False)
    judge, row = row_of(plan, engine, 40), row_of(plan, engine, 40)
    tokens = wanted(judge, whole(plan, engine, '"' + "a b " * 40))
    begun = judge.report().marks.begun
    assert begun is not None
    row.extend(tokens[: begun - 4])
    for token in tokens[begun - 4 : begun + 1]:
        row.token_mask()
        row.extend([token])
    assert row.report().marks.begun == begun
    row.rollback(5)
    row.token_mask()  # the model takes another token in place of the first draft
    assert row.report().marks.begun is None


def test_one_of_many_values_is_the_models_own(engine: Engine) -> None:
    """More values than the shortest few begin with tokens of their own."""
    values = [letter * 2 for letter in "abcdefghijklmnopqrstuvwxyz"]
    plan = plan_of(engine, response_format=JsonSchema({"enum": values}), thinking=False)
    for value in values:
        tokens = whole(plan, engine, f'{value}"')
        assert wanted(row_of(plan, engine, len(tokens) + 4), tokens) == tokens


def test_most_tokens_near_the_budget_need_no_search(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The known path tells what most of them cost: a search for each took three quarters of the time of a step."""
    person = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer"}},
              "required": ["name", "age"], "additionalProperties": False}  # fmt: skip
    people = JsonSchema({"type": "array", "items": person, "minItems": 5, "maxItems": 5})
    plan, searches = plan_of(engine, response_format=people, thinking=False), []
    find = PathFinder.find
    monkeypatch.setattr(PathFinder, "find", lambda *args, **keys: searches.append(1) or find(*args, **keys))
    own = whole(plan, engine, json.dumps([{"name": "Ann Lee", "age": 31}] * 5).removeprefix('[{"name'))
    row = row_of(plan, engine, min_tokens(plan, engine) + 12)
    written = wanted(row, own)
    assert row.state.is_stopped
    assert len(searches) < len(written) / 2
