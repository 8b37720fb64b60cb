"""What is raised in one row ends that row with a typed error; its neighbours are the same to the bit.

The model is exact: whatever is fed together, every sum is a sum of small multiples of an eighth.  So a neighbour that
differs by one bit was touched by more than the shape of the batch.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch

import guided
from guided.hf.drafts.draft import DraftTrial
from guided.hf.drafts.lookup import PromptLookup
from guided.hf.generate import call
from guided.hf.hidden.last_states import LastStates
from guided.hf.loop.recorder import Recorder
from guided.hf.masks.cpu import HostLink
from guided.landing.control import LandingControl
from guided.output.message import Message, MessageBuilder
from guided.output.parser import OutputParser
from guided.rows.answer import RowAnswer
from guided.state.state import GuidanceState
from guided.stops.matcher import StopMatcher
from guided.watchers.watch import SequenceWatcher
from special_tokens.errors import GuidanceError
from tests.cases import seeds
from tests.guided.hf.conftest import tiny_model
from tests.judges.generation import CHATS, SCHEMA

#: The row in which something is raised.
ROW = 1
NUMBERS = {"type": "array", "items": {"type": "integer"}, "minItems": 40}
DISTINCT = {"type": "array", "items": {"type": "string", "maxLength": 3}, "uniqueItems": True, "minItems": 5}
TEXTS = {
    "type": "object",
    "properties": {"first name": {"type": "string"}, "last name": {"type": "string"}},
    "required": ["first name", "last name"],
    "additionalProperties": False,
}


class PanicException(BaseException):
    """As extensions in Rust raise it."""


PanicException.__module__ = "pyo3_runtime"
ERRORS = (RuntimeError, ValueError, KeyError, PanicException)


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


@dataclass(frozen=True)
class Room:
    """Where something is raised: in ``kind.name`` when ``is_of(target, self, args)``, ``self`` first in ``args``.

    ``plan`` names the plan of the row; ``options`` those of the call.
    """

    kind: Any
    name: str
    is_of: Callable[[Any, Sequence[Any]], bool]
    plan: str = "texts"
    options: Any = None
    is_late: bool = False  # raised after the last token

    def __str__(self) -> str:
        return f"{self.kind.__name__}.{self.name} {self.plan}"


def _is_state(target: Any, args: Sequence[Any]) -> bool:
    return args[0] is target.sequence.state


def _is_mask(target: Any, args: Sequence[Any]) -> bool:
    mask = target.sequence.state._mask
    return mask is not None and args[3].words is mask.words


def _is_landing(target: Any, args: Sequence[Any]) -> bool:
    return args[0] is target.sequence.landing


def _is_watch(target: Any, args: Sequence[Any]) -> bool:
    return args[0] is target.sequence.state._watch


def _is_stops(target: Any, args: Sequence[Any]) -> bool:
    return args[0] is target.sequence.stops


def _is_parser(target: Any, args: Sequence[Any]) -> bool:
    return args[0] is target._parser._parser


def _is_number(target: Any, args: Sequence[Any]) -> bool:
    return bool(args[1] == ROW)


def _is_trial(target: Any, args: Sequence[Any]) -> bool:
    return args[0]._sequence is not None and args[0]._sequence.row == ROW


DRAFTS = {"prompt_lookup_num_tokens": 3}
#: Rooms that rows have in every way to generate.
SHARED = [
    Room(GuidanceState, "token_mask", _is_state),
    Room(GuidanceState, "_commit", _is_state),
    Room(HostLink, "_mask_row", _is_mask),
    Room(LandingControl, "is_near", _is_landing),
    Room(LandingControl, "allows", _is_landing),
    Room(SequenceWatcher, "may_restrict", _is_watch, "numbers"),
    Room(SequenceWatcher, "restrict", _is_watch, "distinct"),
    Room(StopMatcher, "push", _is_stops, "stopped"),
    Room(StopMatcher, "push", _is_stops, "stops alone"),
]
#: Rooms of our own loop.
OURS = [
    Room(GuidanceState, "forced_next", _is_state),
    Room(PromptLookup, "_propose", lambda target, args: args[1].answer is target, options=DRAFTS),
    Room(PromptLookup, "learn", _is_number, options=DRAFTS),
    Room(DraftTrial, "guess", _is_trial, options=DRAFTS),
    Room(Recorder, "record", lambda target, args: ROW in args[4]),
    Room(Recorder, "record_forced", _is_number),
    Room(Recorder, "logprobs", _is_number, is_late=True),
    Room(OutputParser, "feed_part", _is_parser, is_late=True),
    Room(OutputParser, "finish", _is_parser, is_late=True),
    Room(MessageBuilder, "message", lambda target, args: args[0] is target._builder, is_late=True),
    Room(LastStates, "take", lambda target, args: any(of and of[0] == ROW for of in args[4]), is_late=True),
    Room(LastStates, "around", lambda target, args: args[1] == ROW, is_late=True),
]
ROOMS = SHARED + OURS

#: What stands in place of a function of a room, as if it were of its module.
BROKEN = """
def broken(*args, **kwargs):
    check(args)
    return real(*args, **kwargs)
"""


class Fault:
    """Raises ``error`` in a room of the target row, once it has ``at`` tokens."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: Room, error: BaseException, at: int) -> None:
        self.target: Any = None
        self.num_raised = 0
        self._room, self._error, self._at = room, error, at
        real = getattr(room.kind, room.name)
        names: dict[str, Any] = {"__name__": real.__module__, "check": self._check, "real": real}
        exec(BROKEN, names)
        made = RowAnswer.__init__

        def make(answer: RowAnswer, *args: Any, **kwargs: Any) -> None:
            made(answer, *args, **kwargs)
            if answer.number == ROW and not kwargs.get("is_written"):
                self.target = answer

        monkeypatch.setattr(RowAnswer, "__init__", make)
        monkeypatch.setattr(room.kind, room.name, names["broken"])

    def _check(self, args: Sequence[Any]) -> None:
        if self.target is None or not self._room.is_of(self.target, args):
            return
        size = len(self.target.tokens) if hasattr(self.target, "tokens") else self.target.sequence.num_tokens
        if size >= self._at:
            self.num_raised += 1
            raise self._error


def plans_of(guide: Any, name: str) -> list[Any]:
    known = {
        "texts": lambda: guide.plan(response_format=TEXTS),
        "numbers": lambda: guide.plan(response_format=NUMBERS),
        "distinct": lambda: guide.plan(response_format=DISTINCT),
        "stopped": lambda: guide.plan(response_format=TEXTS, stop=["never written"]),
        "stops alone": lambda: guided.Stops(["never written"]),
    }
    return [guide.plan(response_format=SCHEMA), known[name](), guide.plan(response_format=NUMBERS), None]


def ours(guide: Any, room: Room) -> list[Message]:
    samplings = [guided.Sampling(temperature=0.9, seed=r, logprobs=2) for r in range(4)]
    options = {"return_last_hidden_state": True, "max_tokens": 30, **(room.options or {})}
    return guide.generate(CHATS, plans_of(guide, room.plan), sampling=samplings, reuse=False, **options)


def same(found: Sequence[Message], judge: Sequence[Message]) -> None:
    """The neighbours are the same to the bit."""
    for r, (message, judged) in enumerate(zip(found, judge, strict=True)):
        if r == ROW:
            continue
        assert message == judged, r
        assert judged.error is None
        states = [one.last_hidden_state for one in (message, judged)]
        if states[1] is not None:
            assert states[0] is not None
            assert np.array_equal(states[0].at_token, states[1].at_token)
            assert np.array_equal(states[0].producing, states[1].producing)


def failed(message: Message, judge: Message, room: Room, error: BaseException, at: int) -> None:
    """The row says what was raised, and keeps the tokens that it had."""
    assert message.finish_reason == "error"
    assert not message.complete
    assert not message.ok
    assert message.parsed is None
    assert type(message.error) is GuidanceError
    assert message.error.__cause__ is error
    where = f"{type(error).__name__} in {room.kind.__module__}, line "
    for word in (f"row {ROW};", "token ", where, "injected"):
        assert word in str(message.error), str(message.error)
    size = len(message.token_ids)
    assert size >= (len(judge.token_ids) if room.is_late else at)
    assert message.token_ids == judge.token_ids[:size]
    assert message.usage.completion_tokens == size


@pytest.mark.parametrize("seed", seeds(12, default=2))
@pytest.mark.parametrize("room", ROOMS, ids=str)
def test_neighbours_in_our_loop(guide: Any, room: Room, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = ours(guide, room)
    error, at = ERRORS[(seed + ROOMS.index(room)) % 4]("injected"), random.Random(seed).randrange(6)
    fault = Fault(monkeypatch, room, error, at)
    found = ours(guide, room)
    assert fault.num_raised
    same(found, judge)
    failed(found[ROW], judge[ROW], room, error, at)
