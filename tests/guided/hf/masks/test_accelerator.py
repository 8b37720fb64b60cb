"""The accelerator path, on a fake device that counts what makes the host wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from guided.bitmask import allowed_ids, num_words
from guided.hf.masks import accelerator as device_module
from guided.hf.masks.accelerator import OVERRIDDEN, RESCUED, UNSOUND, DeviceLink
from guided.hf.masks.apply import RESCUE, RowMask, apply_masks
from guided.hf.masks.cpu import HostLink
from tests.guided.hf.generate.reuse.test_interrupted import Interrupted, interrupt
from tests.judges.allocations import Launches
from tests.judges.generation import CHATS, GuidedCall, check_answer, plan_of
from tests.made_up.device import DEVICE, FakeDevice, FakeEvent, OnDevice
from tests.made_up.models import poisoned

MODE = ("accelerators", "right", "no synchronisation of our own per step in greedy search and sampling; fake device")

NAMES = ["json", None, "choice"]


@pytest.fixture
def fake(tiny_guide: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDevice]:
    monkeypatch.setattr(device_module, "_event", FakeEvent)
    monkeypatch.setattr(type(tiny_guide.model), "device", property(lambda model: DEVICE))
    with FakeDevice() as device:
        yield device


def on_device(call: GuidedCall, **options: Any) -> torch.Tensor:
    """Return what the model makes of the inputs on the fake device."""
    out: torch.Tensor = call.generate(**{key: value.to(DEVICE) for key, value in call.inputs.items()}, **options)
    return out.cpu()


def run(guide: Any, device: FakeDevice, names: Sequence[Any], **options: Any) -> tuple[Any, Any, list[int]]:
    """(tokens after the prompt, messages, syncs of each step) of one call on the fake device."""
    call = GuidedCall(guide, CHATS[: len(names)], names)
    marks: list[int] = []

    def mark(input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        marks.append(len(device.syncs))
        assert isinstance(scores, OnDevice)
        return scores

    torch.manual_seed(0)
    call.kwargs.setdefault("logits_processor", []).append(mark)
    out = on_device(call, **{"max_new_tokens": 16} | options)
    return out[:, call.inputs.prompt_len :], call.read(out), np.diff(marks).tolist()


@pytest.mark.parametrize("options", [{}, {"do_sample": True, "top_k": 0}], ids=["greedy", "sampled"])
def test_a_step_waits_for_the_device_as_often_as_without_us(
    tiny_guide: Any, fake: FakeDevice, options: dict[str, Any]
) -> None:
    _, _, plain = run(tiny_guide, fake, [None] * 3, **options)
    copies = fake.async_copies
    tokens, messages, guided = run(tiny_guide, fake, NAMES, **options)
    assert guided == plain[: len(guided)]
    assert len(guided) > 8
    assert fake.async_copies - copies == 3 * (len(guided) + 1)  # masks to the device, tokens and scores from it
    for r, name in enumerate(NAMES):
        if name is not None:
            check_answer(tiny_guide, name, tokens[r].tolist(), messages[r])


CARELESS: dict[str, Callable[[torch.Tensor], Any]] = {
    "item": lambda scores: scores.amax().item(),
    "bool": lambda scores: bool(scores.isnan().any()),
    "in": lambda scores: 3.0 in scores,
    "list": lambda scores: scores[0, :2].tolist(),
    "numpy": lambda scores: scores.cpu().numpy(),
    "host, later": lambda scores: scores[0, :2].to("cpu", non_blocking=True),
    "nonzero": lambda scores: scores.nonzero(),
    "where": lambda scores: torch.where(scores > 0),
    "bool index": lambda scores: scores[scores > 0],
    "bool assignment": lambda scores: scores.clone().__setitem__(scores > 0, 1.0),
    "index on the host": lambda scores: scores[torch.tensor([0])],
    "list as index": lambda scores: scores[[0]],
    "number to the device": lambda scores: torch.tensor([1.0], device=scores.device),
    "pageable memory": lambda scores: torch.zeros(2).to(scores.device, non_blocking=True),
    "format": lambda scores: f"{scores[0, 0]}",
}


@pytest.mark.parametrize("name", CARELESS)
def test_one_careless_line_is_noticed(name: str) -> None:
    """The test above stands on the fake device: it must count whatever makes a host wait."""
    with FakeDevice() as device:
        scores = torch.zeros(3, 8, device=DEVICE)
        before = len(device.syncs)
        CARELESS[name](scores)
        assert len(device.syncs) > before


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"do_sample": True, "top_k": 0},
        {"num_beams": 3},
        {"min_new_tokens": 14},
        {"do_sample": True, "num_return_sequences": 2},
    ],
    ids=str,
)
def test_rows_and_counters_are_those_of_the_host(tiny_guide: Any, options: dict[str, Any], request: Any) -> None:
    torch.manual_seed(0)
    host, expected = GuidedCall(tiny_guide, CHATS[:3], NAMES).run(max_new_tokens=16, **options)
    tokens, messages, _ = run(tiny_guide, request.getfixturevalue("fake"), NAMES, **options)
    assert tokens.tolist() == host
    assert [m.guidance for m in messages] == [m.guidance for m in expected]
    assert [m.finish_reason for m in messages] == [m.finish_reason for m in expected]


@pytest.mark.parametrize(
    "options", [{}, {"do_sample": True, "top_k": 0}, {"num_beams": 2}, {"prompt_lookup_num_tokens": 2}], ids=str
)
@pytest.mark.parametrize("stop", ["never written", None])
def test_nan_logits_end_their_row_and_cost_no_wait(
    tiny_guide: Any, fake: FakeDevice, options: dict[str, Any], stop: str | None
) -> None:
    """The device's findings come to the host with the tokens that it sends anyway."""
    num_rows = 1 if "prompt_lookup_num_tokens" in options else 3
    plans = [tiny_guide.plan(stop=stop), plan_of(tiny_guide, "json"), None][:num_rows]
    *_, clean = run(tiny_guide, fake, plans, **options)
    width = options.get("num_beams", 1)
    with poisoned(tiny_guide.model, since=3, rows=slice(0, width)):
        _, messages, waits = run(tiny_guide, fake, plans, **options)
    if not options or "do_sample" in options:
        assert waits == clean[: len(waits)]
    assert messages[0].finish_reason == "error"
    assert str(messages[0].error).startswith("row 0: the model's logits are not numbers")
    assert messages[0].guidance.rescued == 0
    for message in messages[1:]:
        assert message.error is None
    if not options:
        assert len(messages[0].token_ids) == 3


@pytest.mark.parametrize("chat", CHATS[:3])
def test_drafts_taken_back_on_the_device_are_those_of_the_host(tiny_guide: Any, chat: str, request: Any) -> None:
    """The token after a rejected draft was taken for the one that follows it, and the row ended with an error."""
    plans, options = [tiny_guide.plan()], {"max_new_tokens": 16, "prompt_lookup_num_tokens": 2}
    _, (expected,) = GuidedCall(tiny_guide, [chat], plans).run(**options)
    request.getfixturevalue("fake")
    call = GuidedCall(tiny_guide, [chat], plans)
    (message,) = call.read(on_device(call, **options))
    assert expected.error is None
    assert (message.token_ids, message.error) == (expected.token_ids, None)
    assert message.guidance == expected.guidance


def test_stops_in_text_need_the_token_at_once(tiny_guide: Any, request: Any) -> None:
    """A stop sequence is found on the host: one wait a step, and the row ends on the very token."""
    text = GuidedCall(tiny_guide, CHATS[:1], [tiny_guide.plan()]).run(max_new_tokens=30)[1][0].content
    stop = next(text[i : i + 2] for i in range(3, 20) if text[i : i + 2].isascii() and text.count(text[i : i + 2]) == 1)
    request.getfixturevalue("fake")
    call = GuidedCall(tiny_guide, CHATS[:1], [tiny_guide.plan(stop=[stop])])
    out = on_device(call, max_new_tokens=30)
    (message,) = call.read(out)
    assert message.stop_reason == stop
    assert message.content == text[: text.index(stop)]
    assert len(message.token_ids) == out.shape[1] - call.inputs.prompt_len


@pytest.mark.parametrize("at", [2, 1, 5])
@pytest.mark.parametrize(
    "options", [{}, {"suppress_tokens": list(range(296))}, {"num_beams": 3}], ids=["greedy", "rescued", "beams"]
)
def test_counters_after_an_interrupted_call(
    tiny_guide: Any, at: int, options: dict[str, Any], fake: FakeDevice
) -> None:
    """Those of the first call, counted on the device, were still there after an exception at the first step."""
    options = {"max_new_tokens": 16} | options
    call = GuidedCall(tiny_guide, CHATS[:2], ["json", None])
    expected = on_device(call, **options)
    judged = call.read(expected)
    assert judged[0].guidance.overridden + judged[0].guidance.rescued > 0
    call = GuidedCall(tiny_guide, CHATS[:2], ["json", None])
    call.kwargs["logits_processor"].append(interrupt(at))
    with pytest.raises(Interrupted):
        on_device(call, **options)
    out = on_device(call, **options)
    assert torch.equal(out, expected)
    assert [m.guidance for m in call.read(out)] == [m.guidance for m in judged]


def test_our_own_loop_on_the_device(tiny_guide: Any, fake: FakeDevice) -> None:
    plans = [plan_of(tiny_guide, name) for name in ("json", "choice")]
    messages = tiny_guide.generate(CHATS[:2], plans, temperature=0, max_tokens=30)
    for name, message in zip(("json", "choice"), messages, strict=True):
        check_answer(tiny_guide, name, list(message.token_ids), message)
        assert message.guidance.overridden > 0


def test_generate_lands_on_a_device_without_float64(tiny_guide: Any, fake: FakeDevice) -> None:
    """As Apple's are."""
    fake.has_float64 = False
    plan = plan_of(tiny_guide, "json")
    batch = tiny_guide.batch(CHATS[:1], plan, temperature=0, max_tokens=tiny_guide.check(plan).min_tokens + 2)
    (message,) = batch.messages(tiny_guide.model.generate(**batch))
    assert message.finish_reason == "stop"
    assert message.landed is not None
    assert message.guidance.overridden > 0


def test_sampling_for_a_device_without_float64(tiny_guide: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"response_format": int, "temperature": 1, "seed": 1, "max_tokens": 20, "reuse": False}
    judge = tiny_guide.chat("x", **options)
    device = torch.device("mps")
    monkeypatch.setattr("tests.made_up.device.DEVICE", device)
    monkeypatch.setattr(device_module, "_event", FakeEvent)
    monkeypatch.setattr(type(tiny_guide.model), "device", property(lambda model: device))
    with FakeDevice(has_float64=False):
        assert tiny_guide.chat("x", **options).token_ids == judge.token_ids


# -- what a step costs


@pytest.mark.parametrize(
    ("num_guided", "ends", "most"),
    [(1.0, (), 15), (0.5, (), 19), (1.0, (2,), 22), (0.5, (2,), 26)],
    ids=["all rows guided", "half of them", "all rows may end", "half of them may"],
)
def test_launches_of_a_step_do_not_grow_with_rows_and_masks_are_sent_as_bits(
    num_guided: float, ends: tuple[int, ...], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    width, launches = 4096, {}
    for num_rows in (2, 16):
        buffers: list[int] = []

        def buffer(shape: Any, dtype: Any, device: Any, sent: list[int] = buffers) -> torch.Tensor:
            memory = torch.empty(shape, dtype=dtype)
            sent.append(memory.nbytes)
            return memory

        monkeypatch.setattr(device_module, "host_buffer", buffer)
        monkeypatch.setattr(device_module, "_event", MagicMock())
        link = DeviceLink(torch.device("cpu"), num_rows, num_words(width), 2)
        masks = [RowMask(r, np.full(num_words(width), 77, np.int32), ends) for r in range(int(num_guided * num_rows))]
        scores, ids = torch.randn(num_rows, width), torch.zeros((num_rows, 3), dtype=torch.long)
        link.apply(scores, masks, [False] * num_rows)  # the first makes what all others use
        with Launches() as counted:
            link.apply(scores, masks, [False] * num_rows)
            link.ended(ids)
        launches[num_rows] = counted.number
        to_device, *to_host = sorted(buffers, reverse=True)  # once for all steps
        assert to_device <= num_rows * (width / 8 + 32)
        assert sum(to_host) == (8 + 2 * 4) * num_rows
    assert launches[2] == launches[16]
    assert launches[2] <= most


# -- the implementations of one mask


def naive(scores: torch.Tensor, masks: list[RowMask]) -> torch.Tensor:
    """The contract of a mask, token by token."""
    out = scores.clone()
    for mask in masks:
        allowed = set(allowed_ids(mask.words))
        lowest = torch.finfo(scores.dtype).min / 2
        alive = [i for i in allowed if i < scores.shape[1] and float(scores[mask.row, i]) > lowest]
        for i in range(scores.shape[1]):
            score = float(scores[mask.row, i])
            if i not in allowed:
                score = float("-inf")
            elif mask.is_imposed or not alive:
                score = RESCUE / 2 if mask.ends and i == mask.ends[0] else RESCUE
            elif score != score:
                score = float("-inf")
            out[mask.row, i] = score
    return out


@given(
    data=st.data(),
    width=st.sampled_from([60, 64, 70]),
    dtype=st.sampled_from([torch.float32, torch.bfloat16, torch.float16]),
)
def test_every_implementation_agrees_with_the_contract(data: st.DataObject, width: int, dtype: torch.dtype) -> None:
    numbers = [float("-inf"), float(torch.finfo(dtype).min), 3.0, -2.0, 0.5]
    special = st.sampled_from([*numbers, *[float("nan")] * data.draw(st.booleans())])
    scores = torch.tensor(
        data.draw(st.lists(st.lists(special, min_size=width, max_size=width), min_size=3, max_size=3))
    )
    scores = scores.to(dtype)
    given_scores = scores.clone()
    masks = []
    for row in data.draw(st.sets(st.integers(0, 2))):
        ids = data.draw(st.sets(st.integers(0, 59), min_size=1, max_size=6))
        words = np.zeros(num_words(60), dtype=np.uint32)
        for i in ids:
            words[i >> 5] |= np.uint32(1 << (i & 31))
        ends = tuple(data.draw(st.sets(st.sampled_from(sorted(ids)), max_size=2)))
        masks.append(RowMask(row, words.view(np.int32), ends, is_imposed=data.draw(st.booleans())))
    judge = naive(scores, masks).nan_to_num(nan=77.0)
    one_by_one, ceilings = HostLink(), HostLink(copy_below_words=0)

    def in_place(host: HostLink) -> Callable[..., torch.Tensor]:
        return lambda scores, masks: host.apply(scores.clone(), masks, in_place=True)

    written = [in_place(host) for host in (one_by_one, ceilings)]
    link = DeviceLink(torch.device("cpu"), 3, num_words(60), 2)
    assert torch.equal(link.apply(scores, masks, [False] * 3).nan_to_num(nan=77.0), judge)
    with_nan = {r for r in range(3) if bool(given_scores[r].isnan().any())}
    told = with_nan & {mask.row for mask in masks if not mask.is_imposed}
    taken = link.take_effects()
    assert taken is not None
    assert link.take_effects() is None
    effects = [flags * guided for flags, guided in zip(taken.tolist(), link.is_guided, strict=True)]
    assert {r for r, flags in enumerate(effects) if flags & UNSOUND} == told
    for apply in (
        apply_masks,
        one_by_one.apply,
        *[ceilings.apply] * 2,
        *written,
    ):  # known masks too
        copies = [replace(mask) for mask in masks]
        found = apply(scores, copies)
        assert found.dtype is dtype
        assert torch.equal(found.nan_to_num(nan=77.0), judge)
        assert torch.equal(scores.nan_to_num(nan=77.0), given_scores.nan_to_num(nan=77.0)), "never in place"
        rescued = {mask.row for mask in copies if mask.rescued and not mask.unsound}
        assert rescued == {r for r, flags in enumerate(effects) if flags & RESCUED}
        unsound = {mask.row for mask in copies if mask.unsound and not mask.is_imposed}
        assert unsound == told
        overridden = {mask.row for mask in copies if mask.overridden and not mask.is_imposed}
        assert overridden == {r for r, flags in enumerate(effects) if flags & OVERRIDDEN}


def _size_of(host: HostLink) -> int:
    """The bytes of its results and of its ceilings."""
    parts = (*(ceiling for _, ceiling in host._kept), *(memory for memory, _ in host._buffers._lent))
    return sum(part.nbytes for part in parts)


def test_ceilings_are_bounded_and_found_again() -> None:
    host = HostLink(copy_below_words=0)
    draw = np.random.default_rng(0)
    scores = torch.randn(1, 320, generator=torch.Generator().manual_seed(0))
    masks = [RowMask(0, draw.integers(-(2**31), 2**31, 10).astype(np.int32)) for _ in range(30)]
    for mask in [*masks, *masks[::-1], *(m for m in masks for _ in range(2))]:
        assert torch.equal(host.apply(scores, [mask]), naive(scores, [mask]))
        assert _size_of(host) <= 10 * 320 * 4
    assert torch.equal(host.apply(scores[:, :300], masks[-1:]), naive(scores[:, :300], masks[-1:]))


@pytest.mark.parametrize("hold", ["tensor", "view", "array", "storage", "nothing"])
def test_memory_is_used_again_only_when_no_one_holds_it(hold: str) -> None:
    """A caller that keeps a result, or any part of it, keeps its numbers."""
    holds: dict[str, Callable[[torch.Tensor], Any]] = {
        "tensor": lambda out: out,
        "view": lambda out: out[0, 5:9],
        "array": lambda out: out.numpy()[:, 2:],
        "storage": lambda out: out.untyped_storage(),
        "nothing": lambda out: None,
    }
    host, held, addresses = HostLink(), [], set()
    words = np.full(2, -1, dtype=np.int32)
    for step in range(12):
        out = host.apply(torch.full((1, 64), float(step)), [RowMask(0, words)])
        addresses.add(out.data_ptr())
        held.append(holds[hold](out))
        del out
    assert len(addresses) == (1 if hold == "nothing" else 12)
    assert _size_of(host) <= 2 * 64 * 4
    for step, part in enumerate(held):
        if hold == "storage":
            part = torch.tensor([], dtype=torch.float32).set_(part)
        if part is not None:
            assert set(np.asarray(part).ravel().tolist()) == {float(step)}
