"""`benchmarks/accelerator.py` without a card: each section runs, each proof holds, and nothing is lost by a failure."""

from __future__ import annotations

import json
import sys
import time
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.hooks import RemovableHandle

from benchmarks import accelerator
from benchmarks.on_device import prove
from benchmarks.on_device.counts import counts_of_trace
from benchmarks.on_device.prove import CHECKS, plans_of, proof_guide
from benchmarks.on_device.run import DeviceRun, call_task, document_task
from benchmarks.on_device.timing import limited, ratio, rounds

ROOT = Path(__file__).resolve().parents[2]


#: Kinds of plans that the proofs of the default run take: those that some of them ask for by name.
FEW = ("object", "regex", "choice", "tool required", "several tools")


@pytest.mark.parametrize("all_proofs", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_whole_of_it_runs_on_the_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, all_proofs: bool) -> None:
    if not all_proofs:
        monkeypatch.setattr(prove, "plans_of", lambda guide: {name: plans_of(guide)[name] for name in FEW})
        monkeypatch.setattr(prove, "MODES", dict(list(prove.MODES.items())[1::2]))
    arguments = ["--device", "cpu", "--tiny", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["accelerator.py", *arguments])
    accelerator.main()
    found = json.loads((tmp_path / "accelerator.json").read_text(encoding="utf-8"))
    assert list(found["tables"]) == list(accelerator.sections())
    assert "whose times mean nothing" in found["run"]
    tables = found["tables"]
    assert [row[0] for row in tables["proofs"]["rows"]] == list(CHECKS)
    # One wait a step, and one that the fake device's model adds; masks to the device, tokens from it, and in `generate`
    # what the masks did with them.
    counts = {row[0]: dict(zip(tables["counts"]["head"], row, strict=True)) for row in tables["counts"]["rows"]}
    assert {name: (row["waits"], row["copies"]) for name, row in counts.items()} == {
        "generate, free text": ("2.00", "0.00"),
        "our loop, free text": ("2.00", "1.00"),
        "generate, an object": ("2.00", "3.00"),
        "our loop, an object": ("2.00", "2.00"),
    }
    (call,) = (row for row in tables["loop"]["rows"] if row[:2] == ["tool call", "1"])
    assert int(call[3]) < int(call[4]) / 2, "forced runs save forwards"
    text = (tmp_path / "accelerator.md").read_text(encoding="utf-8")
    assert all(f"## {section.title}\n" in text for section in accelerator.sections().values())


def test_a_section_that_fails_keeps_its_rows_and_is_named() -> None:
    def rows(run: DeviceRun, seconds: float) -> Iterator[list[str]]:
        yield ["one", "1"]
        raise RuntimeError("injected\nsecond line")

    section = accelerator.MeasuredSection("a title", 1, ("what", "number"), rows)
    section.run(DeviceRun(torch.device("cpu"), True), 0)
    assert section.found == [["one", "1"], ["FAILED: RuntimeError: injected", ""]]
    assert section.has_failed
    fine = accelerator.MeasuredSection("a title", 1, ("what",), lambda run, seconds: iter([["FAILED: a proof"]]))
    fine.run(DeviceRun(torch.device("cpu"), True), 0)
    assert fine.has_failed


def test_a_section_that_hangs_is_broken_off() -> None:
    with pytest.raises(TimeoutError, match="not done after 0 s"), limited(0.05):
        time.sleep(60)


def test_ways_are_compared_in_changing_order() -> None:
    order: list[str] = []

    def way(name: str, seconds: float) -> Any:
        return lambda: order.append(name) or seconds  # type: ignore[func-returns-value]

    found = rounds({"a": way("a", 2.0), "b": way("b", 1.0)}, seconds=1e-9)
    assert "".join(order) == "ab" + "ab" + "ba" + "ba"  # the first to warm up; two turns as they are, two reversed
    assert ratio(found, "a", "b") == "2.000 (2.000 to 2.000, 3)"
    assert ratio(found, "c", "b") == "-"
    order.clear()
    rounds({name: way(name, 1.0) for name in "abc"}, seconds=60)
    turns = {"".join(order[i : i + 3]) for i in range(3, len(order), 3)}
    assert turns == {"abc", "bca", "cab", "cba", "acb", "bac"}


def test_a_trace_is_counted() -> None:
    events = [
        {"cat": "kernel", "name": "elementwise"},
        {"cat": "kernel", "name": "gemm"},
        {"cat": "gpu_memcpy", "name": "Memcpy HtoD (Pinned -> Device)", "args": {"bytes": 4096}},
        {"cat": "gpu_memcpy", "name": "Memcpy DtoH (Device -> Pinned)", "args": {"bytes": 64}},
        {"cat": "gpu_memcpy", "name": "Memcpy DtoD (Device -> Device)", "args": {"bytes": 7}},
        {"cat": "cuda_runtime", "name": "cudaEventSynchronize"},
        {"cat": "cuda_runtime", "name": "cudaLaunchKernel"},
        {"ph": "M", "name": "process_name"},
    ]
    assert counts_of_trace(events) == {
        "waits by API": 1, "bytes to host": 64, "bytes to device": 4096, "copies": 2, "kernels": 2,
    }  # fmt: skip


@pytest.fixture(scope="module")
def run() -> DeviceRun:
    torch.set_num_threads(1)
    return DeviceRun(torch.device("cpu"), True)


def test_the_model_writes_what_it_is_made_to(run: DeviceRun) -> None:
    guide = run.guide()
    for task in (document_task(guide, 1, tags=1), call_task(guide, 1)):
        with task.written():
            (message,) = guide.generate(task.chats, task.plans, temperature=0, max_tokens=400, describe=False)
        assert list(message.token_ids) == task.tokens
        assert message.finish_reason in ("stop", "tool_calls")


@pytest.mark.parametrize("name", ["same tokens", "NaN", "masks"])
def test_a_proof_can_fail(run: DeviceRun, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On another model, where NaN end no row, and where masks are others."""
    there, other = proof_guide(run, torch.float32), DeviceRun(torch.device("cpu"), True).guide()
    with torch.no_grad():
        other.model.lm_head.weight.copy_(other.model.lm_head.weight.flip(0))
    plan = plans_of(there)["object"]
    monkeypatch.setattr("benchmarks.on_device.prove.plans_of", lambda guide: {"object": plan})
    monkeypatch.setattr("benchmarks.on_device.prove.apply_masks", lambda scores, masks: scores)
    if name == "NaN":
        monkeypatch.setattr(there.model, "register_forward_hook", lambda hook: RemovableHandle(OrderedDict()))
    assert CHECKS[name](run, there, other).startswith("FAILED")
