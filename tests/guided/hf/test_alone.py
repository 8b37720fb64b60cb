"""Rows fail alone: an exception in one row ends that row with a typed error, and its neighbours stay as they are.

The model is exact: whatever is fed together, every sum is one of small multiples of an eighth.  So the neighbours are
compared to the bit, in batches of any shape.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

import guided
import guided.rows.sequence
import guided.rows.unguided
from grammars.plan.plan import Plan
from guided.engine.matcher import RecoveringMatcher
from guided.hf.drafts.assistant import AssistantDrafts
from guided.hf.drafts.draft import DraftTrial
from guided.hf.drafts.lookup import PromptLookup
from guided.hf.hidden.messages import LastStates
from guided.hf.loop.recorder import Recorder
from guided.hf.masks.cpu import HostLink
from guided.landing.control import LandingControl
from guided.landing.landing import LandingSearch
from guided.output.message import Message
from guided.output.message_builder import MessageBuilder
from guided.output.parser import OutputParser
from guided.rows.answer import RowAnswer
from guided.rows.reader import AnswerReader
from guided.state.state import GuidanceState
from guided.stops.matcher import StopMatcher
from guided.watchers.watch import SequenceWatcher
from special_tokens.errors import GuidanceError
from tests.cases import seeds, slow_where
from tests.guided.hf.conftest import tiny_model
from tests.judges.generation import CHATS, SCHEMA, GuidedCall
from tests.made_up.schemas import closed

#: The row in which something is raised.
ROW = 1
NUMBERS = {"type": "array", "items": {"type": "integer"}, "minItems": 40}
DISTINCT = {"type": "array", "items": {"type": "string", "maxLength": 3}, "uniqueItems": True, "minItems": 5}
TEXTS = closed({"first name": {"type": "string"}, "last name": {"type": "string"}})


class PanicException(BaseException):
    """As extensions in Rust raise it."""


PanicException.__module__ = "pyo3_runtime"
ERRORS = (RuntimeError, ValueError, KeyError, PanicException)
OF_THE_PROCESS = (KeyboardInterrupt, SystemExit, MemoryError, torch.OutOfMemoryError)


@pytest.fixture(scope="module")
def guide(tiny_guide: Any) -> Any:
    """A guide of a model that looks at the last token alone, in numbers that are exact in any order of summation."""
    tokenizer = tiny_guide.tokenizer
    model = tiny_model(len(tokenizer), rms_norm_eps=0.0)
    torch.manual_seed(1)
    quiet = [i for i in range(len(tokenizer)) if not tokenizer.convert_ids_to_tokens(i).strip("\u0120").isalnum()]
    with torch.no_grad():
        embeddings = model.get_input_embeddings().weight
        embeddings.copy_(torch.randint(0, 2, embeddings.shape) * 2.0 - 1.0)
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        model.lm_head.weight.copy_(torch.randint(-2, 3, model.lm_head.weight.shape) / 4)
        model.lm_head.weight[quiet] *= 0.5
    model.generation_config = tiny_guide.model.generation_config
    return guided.Guide(model, tokenizer)


#: Whether a call of the function, with these arguments, is one for the row of this answer.
IsOf = Callable[[Any, Sequence[Any]], bool]


@dataclass(frozen=True)
class Room:
    """A function in which something is raised: ``kind.name``; ``self`` is the first argument that ``is_of`` gets.

    ``plan`` names the plan of the row, ``options`` those of the call.  ``is_late``: it runs after the last token.
    """

    kind: Any
    name: str
    is_of: IsOf
    plan: str = "texts"
    options: str = ""
    is_late: bool = False

    def __str__(self) -> str:
        return "-".join([self.kind.__name__, self.name, self.plan, self.options])


def _is_part(*names: str) -> IsOf:
    """Whether the call is one of the answer's part of this name."""

    def is_of(answer: Any, args: Sequence[Any]) -> bool:
        for name in names:
            answer = getattr(answer, name, None)
        return args[0] is answer

    return is_of


def _is_mask(answer: Any, mask: Any) -> bool:
    own = getattr(answer.sequence, "state", None) and answer.sequence.state._mask
    return own is not None and mask.words is own.words


def _is_number(answer: Any, args: Sequence[Any]) -> bool:
    return bool(args[1] == answer.number)


def _is_trial(answer: Any, args: Sequence[Any]) -> bool:
    return args[0]._sequence is not None and args[0]._sequence.row == answer.number


OPTIONS: dict[str, dict[str, Any]] = {
    "": {},
    "look up": {"prompt_lookup_num_tokens": 3},
    "assistant": {"assistant_model": "the model"},
    "trace": {"trace": True},
    "step by step": {},
}
#: Rooms that rows have in every way to generate.
SHARED = [
    Room(GuidanceState, "token_mask", _is_part("sequence", "state")),
    Room(GuidanceState, "_commit", _is_part("sequence", "state")),
    Room(HostLink, "_mask_row", lambda answer, args: _is_mask(answer, args[3])),
    Room(HostLink, "_ceiling", lambda answer, args: _is_mask(answer, args[1])),
    Room(LandingControl, "is_near", _is_part("sequence", "landing")),
    Room(LandingControl, "allows", _is_part("sequence", "landing")),
    Room(SequenceWatcher, "may_restrict", _is_part("sequence", "state", "_watch"), "distinct"),
    Room(SequenceWatcher, "restrict", _is_part("sequence", "state", "_watch"), "distinct"),
    Room(StopMatcher, "push", _is_part("sequence", "stops"), "stopped"),
    Room(StopMatcher, "push", _is_part("sequence", "stops"), "stops alone"),
]
#: Rooms in which an answer is read.
READING = [
    Room(OutputParser, "feed_part", _is_part("_parser", "_parser"), is_late=True),
    Room(OutputParser, "finish", _is_part("_parser", "_parser"), is_late=True),
    Room(OutputParser, "feed_part", _is_part("_parser", "_parser"), "none", is_late=True),
    Room(MessageBuilder, "add", _is_part("_builder"), is_late=True),
    Room(MessageBuilder, "message", _is_part("_builder"), is_late=True),
]
#: Rooms of our own loop.
OURS = [
    Room(GuidanceState, "forced_next", _is_part("sequence", "state")),
    Room(PromptLookup, "_propose", lambda answer, args: args[1].answer is answer, options="look up"),
    Room(PromptLookup, "learn", _is_number, options="look up"),
    Room(DraftTrial, "guess", _is_trial, options="look up"),
    Room(DraftTrial, "guess", _is_trial, options="assistant"),
    Room(DraftTrial, "token_mask", _is_trial, options="assistant"),
    Room(AssistantDrafts, "learn", _is_number, options="assistant"),
    Room(Recorder, "record", lambda answer, args: answer.number in args[4]),
    Room(Recorder, "record_forced", _is_number),
    Room(Recorder, "logprobs", _is_number, is_late=True),
    Room(Recorder, "seconds", _is_number, options="trace", is_late=True),
    Room(LastStates, "take", lambda answer, args: any(of and of[0] == answer.number for of in args[4]), is_late=True),
    Room(LastStates, "around", _is_number, is_late=True),
]
ROOMS = SHARED + READING + OURS
#: Rooms that stand for all of them.
SOME = (SHARED[0], READING[0], OURS[1], OURS[-1])
STEPS = [replace(room, options="step by step") for room in ROOMS if not room.options and "forced" not in room.name]

#: What stands in place of the function, as if it were of the same module.
BROKEN = """
def broken(*args, **kwargs):
    check(args)
    return real(*args, **kwargs)
"""


class Injection:
    """Raises ``error`` in a room of row ``number``, once it has ``at`` tokens.

    ``is_written``: in the answer that reads the tokens of ``model.generate``; ``answer`` is set by the test otherwise.
    """

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        room: Room,
        error: BaseException,
        at: int = 0,
        *,
        number: int = ROW,
        is_written: bool = False,
    ) -> None:
        self.answer: Any = None
        self.num_raised = 0
        self.is_on = True
        self._room, self._error, self._at = room, error, at
        real = getattr(room.kind, room.name)
        names: dict[str, Any] = {"__name__": real.__module__, "check": self._check, "real": real}
        exec(BROKEN, names)
        monkeypatch.setattr(room.kind, room.name, names["broken"])
        made = AnswerReader.__init__

        def make(answer: AnswerReader, *args: Any, **kwargs: Any) -> None:
            made(answer, *args, **kwargs)
            if answer.number == number and isinstance(answer, RowAnswer) != is_written:
                self.answer = answer

        monkeypatch.setattr(AnswerReader, "__init__", make)

    def _check(self, args: Sequence[Any]) -> None:
        if self.answer is None or not self.is_on or not self._room.is_of(self.answer, args):
            return
        if self._room.is_late or len(self.answer.tokens) >= self._at:
            self.num_raised += 1
            raise self._error


def plan_of(guide: Any, name: str) -> Any:
    forms = {"texts": TEXTS, "stopped": TEXTS, "numbers": NUMBERS, "distinct": DISTINCT, "short": SCHEMA}
    if name in forms:
        return guide.plan(response_format=forms[name], stop=["never written"] if name == "stopped" else None)
    return guided.Stops(["never written"]) if name == "stops alone" else None


def plans_of(guide: Any, plan: str) -> list[Any]:
    """The plans of four rows, of which one has the plan of this name."""
    return [plan_of(guide, name) for name in ("short", plan, "numbers", "none")]


def options_of(guide: Any, options: str) -> dict[str, Any]:
    found = {"return_last_hidden_state": True, "max_tokens": 30, "reuse": False, **OPTIONS[options]}
    return found | ({"assistant_model": guide.model} if "assistant_model" in found else {})


def ours(guide: Any, plan: str, options: str = "", **more: Any) -> list[Message]:
    samplings = [guided.Sampling(temperature=0.9, seed=r, logprobs=2) for r in range(4)]
    more |= options_of(guide, options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guide.model.generation_config, "use_cache", options != "step by step")
        found: list[Message] = guide.generate(CHATS, plans_of(guide, plan), sampling=samplings, **more)
    return found


def error_of(room: Room, seed: int) -> tuple[BaseException, int]:
    """An error, and the tokens before it."""
    return ERRORS[(seed + (ROOMS + STEPS).index(room)) % 4]("injected"), random.Random(seed).randrange(6)


def check_neighbours(found: Sequence[Message], judge: Sequence[Message]) -> None:
    """All rows but one are the same to the bit."""
    assert len(found) == len(judge)
    for r, (message, judged) in enumerate(zip(found, judge, strict=True)):
        if r * 4 // len(judge) == ROW:
            continue
        assert message == judged
        assert judged.error is None
        state, right = message.last_hidden_state, judged.last_hidden_state
        assert (state is None) == (right is None)
        if state is not None and right is not None:
            assert np.array_equal(state.at_token, right.at_token)
            assert np.array_equal(state.producing, right.producing)


def check_failed(
    message: Message, judge: Message, room: Room, error: BaseException, at: int, *, number: int = ROW
) -> None:
    """The row says what was raised where, and keeps the tokens that it had."""
    assert message.finish_reason == "error"
    assert not message.ok
    assert message.parsed is None
    assert type(message.error) is GuidanceError
    assert message.error.__cause__ is error
    where = f"{type(error).__name__} in {room.kind.__module__}, line "
    for word in (f"row {number};", "token ", where, "injected"):
        assert word in str(message.error)
    size = len(message.token_ids)
    assert size == len(judge.token_ids) if room.is_late else size >= at
    assert message.token_ids == judge.token_ids[:size]
    assert message.usage.completion_tokens == size
    assert (judge.content or "").startswith((message.content or "").rstrip("\ufffd"))


@pytest.fixture(autouse=True)
def quick_assistant(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model itself may be the assistant."""
    monkeypatch.setattr("guided.hf.drafts.drafts.relative_cost", lambda assistant, model: 0.01)


@cache
def judged(run: Callable[..., Any], *args: Any) -> Any:
    """Return what ``run`` returns where nothing is raised, computed once for all rooms."""
    return run(*args)


@pytest.mark.parametrize("seed", seeds(12, default=1))
@pytest.mark.parametrize("room", ROOMS + slow_where(lambda room: replace(room, options="") not in SOME, STEPS), ids=str)
def test_in_our_loop(guide: Any, room: Room, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = judged(ours, guide, room.plan, room.options)
    error, at = error_of(room, seed)
    fault = Injection(monkeypatch, room, error, at)
    found = ours(guide, room.plan, room.options)
    assert fault.num_raised
    check_neighbours(found, judge)
    check_failed(found[ROW], judge[ROW], room, error, at)


def events_of(guide: Any, plan: str, options: str, is_async: bool = False) -> list[Any]:
    """The events of a stream of the row alone."""
    asked = (CHATS[ROW], plan_of(guide, plan))
    settings = {"temperature": 0.9, "seed": ROW, **options_of(guide, options)}

    async def asynchronous() -> list[Any]:
        async with guide.astream(*asked, **settings) as stream:
            return [event async for event in stream]

    return asyncio.run(asynchronous()) if is_async else [*guide.stream(*asked, **settings)]


IN_STREAMS = [room for room in ROOMS if room.kind is not Recorder or room.options]  # which have no log-probabilities


@pytest.mark.parametrize("seed", seeds(6, default=1))
@pytest.mark.parametrize(
    ("room", "is_async"),
    slow_where(lambda case: case[1] and case[0] not in SOME, product(IN_STREAMS, (False, True))),
    ids=str,
)
def test_in_a_stream(guide: Any, room: Room, seed: int, is_async: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = judged(events_of, guide, room.plan, room.options)[-1].message
    error, at = error_of(room, seed)
    fault = Injection(monkeypatch, room, error, at, number=0)
    found = events_of(guide, room.plan, room.options, is_async)
    assert fault.num_raised
    message = found[-1].message
    early = replace(room, is_late=room.is_late and room not in READING)
    check_failed(message, judge, early, error, 0 if room in READING else at, number=0)
    assert "".join(event.text for event in found[:-1] if isinstance(event, guided.ContentDelta)) == message.content


def choices_of(guide: Any, plan: str, is_streamed: bool) -> list[list[dict[str, Any]]]:
    """The choices of a completion, or of its chunks, by row."""
    form = {"type": "json_schema", "json_schema": {"name": "o", "schema": TEXTS}}
    answer = guide.complete({
        "messages": [{"role": "user", "content": "hi"}], "n": 4, "seed": 3, "temperature": 0.9, "max_tokens": 30,
        "response_format": form, "logprobs": True, "stream": is_streamed, "return_hidden_states": True,
        "stop": ["never written"] if plan == "stopped" else None,
    })  # fmt: skip
    choices = [one for chunk in answer for one in chunk["choices"]] if is_streamed else answer["choices"]
    return [[choice for choice in choices if choice["index"] == r] for r in range(4)]


IN_COMPLETIONS = [room for room in ROOMS if not room.options and room.plan in ("texts", "stopped")]


@pytest.mark.parametrize(
    ("room", "is_streamed"),
    slow_where(lambda case: case[1] and case[0] not in SOME, product(IN_COMPLETIONS, (False, True))),
    ids=str,
)
def test_in_a_completion(guide: Any, room: Room, is_streamed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = judged(choices_of, guide, room.plan, is_streamed)
    error, _ = error_of(room, 0)
    fault = Injection(monkeypatch, room, error, 3)
    found = choices_of(guide, room.plan, is_streamed)
    assert fault.num_raised
    for r in (0, 2, 3):
        assert found[r] == judge[r]
    last = found[ROW][-1]
    assert last["finish_reason"] == "error"
    assert last["error"]["type"] == "GuidanceError"
    assert f"row {ROW}" in last["error"]["message"]
    assert type(error).__name__ in last["error"]["message"]


@pytest.mark.parametrize("seed", seeds(6, default=1))
@pytest.mark.parametrize(
    ("room", "options"),
    [
        pytest.param(room, options, marks=pytest.mark.slow if len(options) == 1 or (options and i % 5) else ())
        for i, room in enumerate(SHARED + READING)
        for options in ({}, {"num_beams": 2}, {"num_beams": 2, "num_return_sequences": 2})
    ],
    ids=str,
)
def test_in_model_generate(
    guide: Any, room: Room, options: dict[str, Any], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = GuidedCall(guide, CHATS, plans_of(guide, room.plan), max_tokens=30)
    _, judge = call.run(**options)
    error, at = error_of(room, seed)
    number = ROW * options.get("num_return_sequences", 1)
    fault = Injection(monkeypatch, room, error, at, number=number, is_written=room in READING)
    expand = options.get("num_beams", 1)
    if room not in READING:
        fault.answer = _Watched(call.inputs.session.rows[ROW * expand])
    _, found = call.run(**options)
    assert fault.num_raised
    check_neighbours(found, judge)
    if not options:  # a search goes on with what has not failed
        check_failed(found[ROW], judge[ROW], room, error, at)
    fault.is_on = False
    assert call.run(**options)[1] == judge


class _Watched:
    """A row of ``generate`` as `Room.is_of` looks at it."""

    number = ROW

    def __init__(self, sequence: Any) -> None:
        self.sequence = sequence

    @property
    def tokens(self) -> range:
        return range(self.sequence.num_tokens)


@pytest.mark.parametrize(
    ("room", "kind"),
    slow_where(lambda case: case[1] is not OF_THE_PROCESS[ROOMS.index(case[0]) % 4], product(ROOMS, OF_THE_PROCESS)),
    ids=str,
)
def test_what_is_of_the_process_passes(
    guide: Any, room: Room, kind: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    Injection(monkeypatch, room, kind("injected"))
    with pytest.raises(kind, match="injected"):
        ours(guide, room.plan, room.options)


def test_an_error_of_the_models_forward_passes(guide: Any) -> None:
    def broken(module: Any, args: Any, output: Any) -> Any:
        raise RuntimeError("of the model")

    with guide.model.register_forward_hook(broken):
        for room in (SHARED[0], OURS[1], OURS[4]):
            with pytest.raises(RuntimeError, match="of the model"):
                ours(guide, room.plan, room.options)


@pytest.mark.parametrize("room", [room for room in SHARED if room.kind is not StopMatcher], ids=str)
def test_by_option_a_row_whose_guidance_raises_goes_on(guide: Any, room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = judged(ours, guide, room.plan)
    error, at = error_of(room, 0)
    Injection(monkeypatch, room, error, at)
    found = ours(guide, room.plan, on_error="unconstrained")
    check_neighbours(found, judge)
    message = found[ROW]
    assert message.error.__cause__ is error
    assert not message.guidance.applied
    is_applied = room.kind is HostLink or room.name == "allows"  # its token means nothing
    assert (message.finish_reason == "error") == is_applied


#: What makes a part of a row before its first token, and the plan of the row.
MAKING: list[tuple[Any, str, str]] = [
    (LandingSearch, "shortest_end", "texts"),
    (GuidanceState, "__init__", "texts"),
    (RecoveringMatcher, "__init__", "texts"),
    (SequenceWatcher, "__init__", "distinct"),
    (guided.rows.sequence, "CompiledStops", "stopped"),
    (guided.rows.unguided, "CompiledStops", "stops alone"),
    (OutputParser, "__init__", "texts"),
]


@pytest.mark.parametrize(
    ("kind", "name", "plan", "way"),
    [
        pytest.param(*making, way, marks=pytest.mark.slow if way != "our loop" and i % 6 else (), id=f"{i} {way}")
        for i, making in enumerate(MAKING)
        for way in ("our loop", "stream", "model.generate")
    ],
)
def test_a_row_of_which_a_part_cannot_be_made_fails_alone(
    guide: Any, kind: Any, name: str, plan: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = RuntimeError("injected")

    def messages() -> list[Message]:
        if way == "our loop":
            return ours(guide, plan)
        if way == "stream":
            return [[*guide.stream(CHATS[ROW], plan_of(guide, plan), max_tokens=30)][-1].message]
        call = GuidedCall(guide, CHATS, plans_of(guide, plan), max_tokens=30)
        call.run()
        return call.run()[1]  # again: the rows begin anew

    judge, real, of_row = messages(), getattr(kind, name), plan_of(guide, plan)

    def is_of_row(value: Any) -> bool:
        value = getattr(value, "plan", value)
        is_plan = isinstance(value, type(of_row))
        return is_plan and (value.response == of_row.response if isinstance(value, Plan) else value == of_row)

    def broken(*args: Any, **kwargs: Any) -> Any:
        if any(map(is_of_row, args)):
            raise error
        return real(*args, **kwargs)

    guide.engine._derived.clear()  # of what is known of the plans
    monkeypatch.setattr(kind, name, broken)
    found = messages()
    failed = found[0 if way == "stream" else ROW]
    if way != "stream":
        check_neighbours(found, judge)
    assert failed.finish_reason == "error"
    assert not failed.ok
    assert type(failed.error) is GuidanceError
    assert failed.error.__cause__ is error
    is_written = kind is OutputParser and way == "model.generate"  # its answer is read at the end
    assert failed.token_ids == (judge[ROW].token_ids if is_written else ())
    assert not failed.content
