"""One step of a guided row: few modules, called in one direction; regions are followed once per token."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from grammars.compose.compose import Parts, compose
from grammars.plan.plan import Plan, Stops
from grammars.values.constraints import Regex
from guided.bitmask import allowed_ids
from guided.engine.engine import Engine
from guided.rows.sequence import RowSequence
from guided.tracking.regions import RegionMap
from tests.judges.plans import MAY_REASON
from tests.made_up.schemas import closed
from tests.test_architecture import circle_in

ROOT = Path(__file__).resolve().parents[3]
OURS = tuple(str(ROOT / package) for package in ("guided", "grammars", "special_tokens"))

#: The modules of a plain row's step; `guided/engine/matcher.py` joins them only where a matcher has failed.
STEP = {"rows/sequence.py", "state/state.py", "state/mask.py", "tracking/commit_log.py"}

OBJECT = closed({"name": {"type": "string"}, "on": {"type": "boolean"}})


def plan_of(engine: Engine, *, stops: Stops = Stops(), **parts: Any) -> Plan:  # noqa: B008
    return replace(compose(Parts(**parts), tokens=engine.tokens, format=MAY_REASON), stops=stops)


def calls_of(act: Callable[[], object]) -> set[tuple[str, str]]:
    """The calls between functions of ours while ``act`` runs, as pairs of places ``file:function``."""
    calls: set[tuple[str, str]] = set()

    def place(frame: FrameType | None) -> str:
        while frame is not None and not frame.f_code.co_filename.startswith(OURS):
            frame = frame.f_back
        if frame is None:
            return "test"
        return f"{Path(frame.f_code.co_filename).relative_to(ROOT)}:{frame.f_code.co_qualname}"

    def note(frame: FrameType, event: str, arg: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(OURS):
            calls.add((place(frame.f_back), place(frame)))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(before)
    return calls


def arrows(calls: Iterable[tuple[str, str]], *, of: Callable[[str], str]) -> Mapping[str, set[str]]:
    """caller -> callees, each named by ``of``; calls inside one of them are left out."""
    found: dict[str, set[str]] = {}
    for caller, callee in calls:
        if of(caller) != of(callee):
            found.setdefault(of(caller), set()).add(of(callee))
    return found


def module_of(place: str) -> str:
    return place.partition(":")[0].removeprefix("guided/")


def steps_of(row: RowSequence, text: list[int]) -> list[set[tuple[str, str]]]:
    """The calls of each step in which ``row`` reads one token of ``text`` and its next mask is asked for."""
    found = []
    row.token_mask()
    for token in text:

        def step(token: int = token) -> None:
            assert not row.is_done
            row.extend([token])
            assert row.token_mask() is not None

        found.append(calls_of(step))
    return found


@pytest.mark.parametrize(
    "response_format", [OBJECT, Regex("(name|other): [a-z ]{1,40}( constant){3}[a-z]*")], ids=["schema", "regex"]
)
def test_a_step_of_a_plain_row_goes_through_four_modules(engine: Engine, response_format: Any) -> None:
    plan = plan_of(engine, response_format=response_format)
    written = (
        '{"name": "a longer text", "on": true' if response_format is OBJECT else "name: some text constant constant"
    )
    text = engine.tokenize(written)
    RowSequence(plan, engine).extend(text)
    for _ in range(2):  # the first time the kinds of its forced tokens are looked up
        steps = steps_of(RowSequence(plan, engine), text)
    for step in steps:
        between = arrows(step, of=module_of)
        assert {module for called in between.values() for module in called} <= STEP
        assert not circle_in(between)


def test_a_watcher_that_is_asked_adds_its_own_room(engine: Engine) -> None:
    plan = plan_of(engine, response_format={"type": "object", "additionalProperties": {"type": "boolean"}})
    assert plan.watchers
    text = engine.tokenize('{"a": true')
    steps_of(RowSequence(plan, engine), text)
    for step in steps_of(RowSequence(plan, engine), text):
        between = arrows(step, of=module_of)
        called = {module for called in between.values() for module in called}
        # JSON is read by the scanner in `grammars/values`, at the places of `tracking/places.py`.
        rooms = ("watchers/", "grammars/values/", "tracking/", "engine/engine.py")
        assert {module for module in called if not module.startswith(rooms)} <= STEP
        assert not circle_in(between)


@pytest.mark.parametrize("is_masked", [False, True], ids=["before the mask", "after the mask"])
def test_masking_and_recovery_do_not_call_each_other(engine: Engine, is_masked: bool) -> None:
    plan = plan_of(engine, response_format=OBJECT)
    row = RowSequence(plan, engine)
    text = engine.tokenize('{"name": "a')
    row.extend(text[:3])
    if is_masked:
        row.token_mask()
    row.state._matcher.current.consume_tokens([plan.ends[0].sentinel] * 2)  # it fails
    calls = calls_of(lambda: (row.extend(text[3:]), row.token_mask()))
    assert row.guidance().recovered == 1
    between = arrows(
        [call for call in calls if all(place.startswith(("guided/state", "guided/engine/m")) for place in call)],
        of=lambda place: place,
    )
    assert not circle_in(between)
    assert any("RecoveringMatcher.recover" in called for names in between.values() for called in names)


@pytest.mark.parametrize(
    "stops", [Stops(), Stops(("zz", "o\n\nn")), Stops(regex="z+y")], ids=["none", "strings", "regex"]
)
@pytest.mark.parametrize("engine_name", ["engine", "plain_engine"])
def test_regions_are_followed_once_per_token(
    engine_name: str, stops: Stops, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New stops get the moves of the row's state, whether markers are tokens or text."""
    engine: Engine = request.getfixturevalue(engine_name)
    plan = plan_of(engine, reasoning_effort="low", stops=stops)
    row = RowSequence(plan, engine)
    follows: list[None] = []
    num_follows: list[int] = []  # by token
    real = RegionMap._follow

    def counted(regions: RegionMap, *args: Any) -> Any:
        follows.append(None)
        return real(regions, *args)

    monkeypatch.setattr(RegionMap, "_follow", counted)
    text = [i for piece in engine.tokens.pieces("<think>\nso\n</think>\n\nand then one")
            for i in ([piece] if isinstance(piece, int) else engine.tokenize(piece))]  # fmt: skip
    for token in text:
        assert token in allowed_ids(row.state.mask())
        follows.clear()
        row.extend([token])
        num_follows.append(len(follows))
    assert row.num_tokens == len(text)
    assert row.error is None
    assert row.state.region.value == "content"
    assert max(num_follows) == 1
