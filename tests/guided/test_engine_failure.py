"""A panic of the engine ends what met it, and nothing that comes later."""

from __future__ import annotations

import pytest

from grammars.compose import Parts, compose
from grammars.constraints import Lark
from grammars.formats.format import Format
from grammars.plan import Plan
from guided.compile import Engine
from guided.state import GuidanceState
from special_tokens.errors import MatcherFailed

#: Behind "3" only an end may follow, which llguidance 1.9.1 does not see: it fails an assertion of its own.
PANICS = r"""start: NUMBER
NUMBER: /[0-9]{1,9}/ & /[0-2][0-9]{0,3}|3(?:\.5)?/
"""


@pytest.fixture
def plan(engine: Engine) -> Plan:
    return compose(Parts(response_format=Lark(PANICS)), tokens=engine.tokens, format=Format("plain"))


def write(state: GuidanceState, text: str) -> None:
    for char in text:
        state.mask()
        state.commit(state.engine.tokenize(char))
    state.mask()


def test_the_next_request_does_not_meet_what_failed(engine: Engine, plan: Plan) -> None:
    failed = GuidanceState(plan, engine)
    GuidanceState(plan, engine)
    before = engine.cache_info()
    with pytest.raises(MatcherFailed, match="panic"):
        write(failed, "3")
    assert engine.cache_info().entries == before.entries - 1
    assert engine.cache_info().size_bytes < before.size_bytes
    later = GuidanceState(plan, engine)
    write(later, "12")
    assert later.is_accepting
    failed.reset()
    write(failed, "20")
    assert failed.is_accepting
    with pytest.raises(MatcherFailed, match="panic"):
        write(GuidanceState(plan, engine), "3")
