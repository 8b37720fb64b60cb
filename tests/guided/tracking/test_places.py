"""Places: where they say that watchers refuse a text, the masks refuse it, and nowhere else."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from grammars.values.constraints import JsonSchema
from guided.engine.engine import Engine
from guided.landing.landing import LandingSearch
from guided.state.state import GuidanceState
from tests.cases import seeds
from tests.judges.plans import FORMAT, plan_of
from tests.made_up.wire_forms import FORMS


def _number(chance: random.Random) -> str:
    """A number whose digits or exponent may be too many or too large."""
    digits = "".join(chance.choices("0123456789", k=chance.choice([1, 2, 3, 16, 24, 60])))
    whole = chance.choice(["", "-"]) + (digits.lstrip("0") or "0")
    point = chance.choice(["", "", "." + chance.choice("0123456789") * chance.choice([1, 5, 30])])
    exponent = chance.choice("eE") + chance.choice(["", "+", "-"]) + str(chance.choice([0, 7, 70, 307, 308, 701, 5000]))
    return whole + point + chance.choice(["", exponent, exponent])


@pytest.mark.parametrize("in_call", [False, True])
@pytest.mark.parametrize("seed", seeds(30, default=4))
def test_numbers_are_refused_where_the_masks_refuse_them(engine: Engine, seed: int, in_call: bool) -> None:
    chance = random.Random(f"numbers {seed}")
    array = {"type": "array", "items": {"type": ["number", "string"]}, "minItems": 1}
    if in_call:
        parameters = {"type": "object", "properties": {"a": array}, "required": ["a"]}
        tool = {"type": "function", "function": {"name": "f", "parameters": parameters}}
        plan = plan_of(engine, replace(FORMAT, tool_calls=FORMS["bare"]), tools=[tool], tool_choice="required")
    else:
        plan = plan_of(engine, response_format=JsonSchema(array), thinking=False)
    state, search = GuidanceState(plan, engine), LandingSearch(plan, engine)
    places = search.places
    for token in search.shortest_end(state).tokens or ():
        state.commit([token])
        if (scan := search.follow(state)[1].scan) is not None and scan.frame is not None and not scan.frame.is_object:
            break
    for _ in range(6):
        number = _number(chance).encode()
        grammar, masks, is_refused = state.fork(is_watched=False), state.fork(), False
        for i in range(len(number)):
            (token,) = engine.tokenize(chr(number[i]))
            if not grammar.allows(token):
                break
            is_refused = is_refused or not masks.allows(token)
            written = number[: i + 1]
            assert places.refuses(search.follow(state)[1], written) is is_refused, written
            assert places.refuses(search.follow(grammar)[1], written[i:] + b"]") or not is_refused, written
            grammar.commit([token])
            if not is_refused:
                masks.commit([token])
