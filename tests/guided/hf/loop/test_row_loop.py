"""The order of one step on an accelerator: commit, forced question, launch, masks; and one wait per step."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest
import torch

from grammars.values.constraints import Regex
from guided.engine.engine import Engine
from guided.hf.loop.loop_row import LoopRow
from guided.hf.loop.recorder import Recorder
from guided.hf.loop.row_loop import RowLoop
from guided.hf.loop.row_masks import RowMasks
from guided.hf.loop.sampling import RowSampler
from guided.rows.answer import RowAnswer
from guided.rows.sequence import RowSequence
from guided.sampling import RowSampling
from tests.judges.allocations import Launches
from tests.judges.plans import plan_of
from tests.made_up.device import DEVICE, FakeDevice
from tests.made_up.schemas import closed

FORM = closed({"a long name": {"type": "integer", "maximum": 99}, "another": {"type": "boolean"}})


class _Cache:
    """A cache whose model gives random logits on the fake device; notes when a forward is launched."""

    hidden = None

    def __init__(self, width: int, log: list[str]) -> None:
        self.ids: list[list[int]] = []
        self._width, self._log = width, log
        self._generator = torch.Generator().manual_seed(5)

    def __len__(self) -> int:
        return len(self.ids)

    def select(self, rows: Sequence[int]) -> None:
        self.ids = [list(self.ids[r]) for r in rows]

    def extend(self, prefixes: Sequence[None], room: int) -> None:
        self.ids += [[] for _ in prefixes]

    def num_columns(self, counts: Sequence[int]) -> int:
        return sum(counts)

    def feed(self, chunks: Sequence[Sequence[int]], keep: Sequence[int], hidden: bool) -> torch.Tensor:
        self._log.append("launch")
        for ids, chunk in zip(self.ids, chunks, strict=True):
            ids += chunk
        logits = torch.randn(len(chunks), max(keep), self._width, generator=self._generator)
        return torch.empty(logits.shape, device=DEVICE).copy_(logits, non_blocking=True)


def loop_of(engine: Engine, log: list[str], device: torch.device = DEVICE) -> RowLoop:
    cache: Any = _Cache(engine.vocab_size, log)
    return RowLoop(cache, RowMasks(engine, device), device)


def rows_of(engine: Engine, plans: Sequence[Any], samplings: Sequence[RowSampling]) -> list[LoopRow]:
    recorder = Recorder({0: 2})
    return [
        LoopRow(r, RowAnswer(plan, engine, number=r), 40, [1, 2, 3 + r], RowSampler(samplings[r]), recorder=recorder)
        for r, plan in enumerate(plans)
    ]


def run(loop: RowLoop, rows: Sequence[LoopRow]) -> list[Any]:
    loop.join(rows)
    while not loop.is_empty:
        loop.step()
    return [row.answer.message() for row in rows]


@pytest.fixture
def log(monkeypatch: Any) -> list[str]:
    """The calls in their order: masks, questions for forced tokens, launches of forwards, waits for the device."""
    seen: list[str] = []

    def noted(kind: Any, name: str, word: str) -> None:
        method = getattr(kind, name)

        def call(self: Any, *args: Any, **named: Any) -> Any:
            seen.append(word)
            return method(self, *args, **named)

        monkeypatch.setattr(kind, name, call)

    noted(RowMasks, "apply", "masks")
    noted(RowSequence, "forced_run", "forced")
    noted(FakeDevice, "sync", "wait")
    return seen


@pytest.mark.parametrize(
    "sampling",
    [RowSampling(), RowSampling(temperature=0.9, seed=3), RowSampling(temperature=0.9, top_p=0.9, top_k=5, seed=3),
     RowSampling(temperature=0.7, seed=1, repetition_penalty=1.2, frequency_penalty=0.5)],
    ids=["greedy", "sampled", "filtered", "penalties"],
)  # fmt: skip
def test_the_forward_is_launched_before_the_masks_and_the_host_waits_once(
    engine: Engine, log: list[str], sampling: RowSampling
) -> None:
    plans = [plan_of(engine, response_format=FORM), plan_of(engine), None]
    with FakeDevice():
        messages = run(loop_of(engine, log), rows_of(engine, plans, [sampling] * 3))
    forwards = log.count("launch")
    assert forwards > 5
    text = " ".join(log).replace("forced forced", "forced").replace("forced forced", "forced")
    parts = [part.split() for part in text.split("launch")[1:]]
    for part in parts:  # after each launch: masks, one wait for the tokens, the question for what is forced next
        assert part[:2] == ["masks", "wait"], part
        assert part.count("wait") == 1
        assert set(part[2:]) <= {"forced"}
    # Log-probabilities wait once more each, when the answer is read.
    assert [message.error for message in messages] == [None] * 3


@pytest.mark.parametrize(
    "sampling",
    [RowSampling(), RowSampling(logit_bias=((5, 1.0),), repetition_penalty=1.2, presence_penalty=0.5)],
    ids=["greedy", "penalties"],
)
def test_a_step_brings_8_bytes_a_row_and_launches_and_copies_do_not_grow_with_rows(
    engine: Engine, sampling: RowSampling
) -> None:
    plan, launches, copies = plan_of(engine, response_format=Regex("[a-z]{60}")), {}, {}
    for num_rows in (2, 9):
        with FakeDevice() as device:
            loop = loop_of(engine, [])
            loop.join(
                [
                    LoopRow(r, RowAnswer(plan, engine, number=r), 40, [1, 2, 3], RowSampler(sampling, [1, 2, 3]))
                    for r in range(num_rows)
                ]
            )
            loop.step()
            for _ in range(4):
                sent, copied = device.bytes_to_host, device.async_copies
                with Launches() as counted:
                    loop.step()
                assert device.bytes_to_host - sent == 8 * num_rows
                launches.setdefault(num_rows, []).append(counted.number)
                copies.setdefault(num_rows, []).append(device.async_copies - copied)
            assert len(loop.rows()) == num_rows
    assert copies[2] == copies[9] == [1 if sampling == RowSampling() else 3] * 4
    assert launches[2] == launches[9]


def test_the_answers_are_those_of_the_cpu(engine: Engine, monkeypatch: Any) -> None:
    """The same logits, masks on the device and on the host, counters included."""
    plans = [plan_of(engine, response_format=FORM), plan_of(engine), plan_of(engine, response_format=FORM)]
    samplings = [RowSampling(temperature=1.2, seed=r, top_k=40) for r in range(3)]
    with FakeDevice():
        found = run(loop_of(engine, []), rows_of(engine, plans, samplings))
    monkeypatch.setattr("tests.guided.hf.loop.test_row_loop.DEVICE", torch.device("cpu"))
    judge = run(loop_of(engine, [], torch.device("cpu")), rows_of(engine, plans, samplings))
    assert [(m.token_ids, m.guidance, m.finish_reason) for m in found] == [
        (m.token_ids, m.guidance, m.finish_reason) for m in judge
    ]


@pytest.mark.parametrize("at", [0, 1, 4])
def test_a_row_that_fails_between_steps_leaves_the_others(engine: Engine, at: int) -> None:
    """The next forward has been launched then, and its column is not read."""
    plans = [plan_of(engine, response_format=FORM), plan_of(engine), None]
    with FakeDevice():
        rows = rows_of(engine, plans, [RowSampling(temperature=0.9, seed=r) for r in range(3)])
        loop = loop_of(engine, [])
        loop.join(rows)
        for i in count(-1):
            if i == at:
                rows[1].answer.fail(RuntimeError("injected"))
                size = len(rows[1].answer.tokens)
            if loop.is_empty:
                break
            loop.step()
    messages = [row.answer.message() for row in rows]
    assert [message.error is None for message in messages] == [True, False, True]
    assert messages[1].finish_reason == "error"
    assert len(messages[1].token_ids) == size
    assert len(messages[2].token_ids) == 40
