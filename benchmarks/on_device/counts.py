"""Counts of one call on a device: waits of the host, bytes copied each way, kernels launched.

On a card they come from torch's sync debug mode and from a trace of the profiler.  On the CPU the tests' fake device
counts waits and copies; it has neither bytes nor kernels.  There the model's weights lie on the host, so each forward
waits once more, for a copy of its own.
"""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch.profiler import ProfilerActivity, profile

from guided.hf.cache import kv_cache
from guided.hf.loop import prepare
from guided.hf.masks import accelerator
from tests.made_up.device import DEVICE, FakeDevice, FakeEvent

__all__ = ["COUNTS", "counts_of_trace", "per_step"]

#: What is counted.  *waits*: what the sync debug mode warns about, which leaves out waiting for events; *waits by API*:
#: calls of CUDA that wait, events included; several of them may belong to one wait of torch's.
COUNTS = ("waits", "waits by API", "bytes to host", "bytes to device", "copies", "kernels")

_WAITS = {"cudaStreamSynchronize", "cudaEventSynchronize", "cudaDeviceSynchronize"}


def per_step(guide: Any, call: Callable[[int], Any], short: int, long: int) -> dict[str, float]:
    """Return the counts for each further forward of ``call(long)`` over ``call(short)``, which take token limits."""
    counted = _on_card if guide.model.device.type == "cuda" else _on_fake
    if counted is _on_card:
        call(short)  # what is done once is done here; without a trace, which takes seconds
    else:
        counted(guide, call, short)
    less, more = (counted(guide, call, tokens) for tokens in (short, long))
    forwards = more.pop("forwards") - less.pop("forwards")
    return {name: (more[name] - less[name]) / forwards for name in more}


def _on_card(guide: Any, call: Callable[[int], Any], tokens: int) -> dict[str, int]:
    torch.cuda.synchronize()
    with (
        _forwards(guide) as forwards,
        warnings.catch_warnings(record=True) as seen,
        profile(activities=[ProfilerActivity.CUDA]) as profiler,
    ):
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            call(tokens)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    waits = sum("synchronizing CUDA operation" in str(warning.message) for warning in seen)
    return {"forwards": len(forwards), "waits": waits} | counts_of_trace(events)


@contextmanager
def _forwards(guide: Any) -> Iterator[list[int]]:
    seen: list[int] = []
    hook = guide.model.register_forward_pre_hook(lambda *_: seen.append(1))
    try:
        yield seen
    finally:
        hook.remove()


def counts_of_trace(events: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return the counts in the events of a Chrome trace of torch's profiler."""
    found = dict.fromkeys(COUNTS[1:], 0)
    for event in events:
        kind, name = event.get("cat", ""), str(event.get("name", ""))
        if kind == "kernel":
            found["kernels"] += 1
        elif kind == "gpu_memcpy" and ("HtoD" in name or "DtoH" in name):
            found["copies"] += 1
            found["bytes to device" if "HtoD" in name else "bytes to host"] += int(event["args"]["bytes"])
        elif kind in ("cuda_runtime", "cuda_driver") and name in _WAITS:
            found["waits by API"] += 1
    return found


def _on_fake(guide: Any, call: Callable[[int], Any], tokens: int) -> dict[str, int]:
    with _forwards(guide) as forwards, _fake(guide) as device:
        call(tokens)
        return {"forwards": len(forwards), "waits": len(device.syncs), "copies": device.async_copies}


@contextmanager
def _fake(guide: Any) -> Iterator[FakeDevice]:
    """Inside, the guide's model claims to be on the fake device, and takes its inputs there."""
    kind, there, found = type(guide.model), property(lambda _: DEVICE), prepare.abilities_of(guide.model)
    with (
        mock.patch.object(accelerator, "_event", FakeEvent),
        mock.patch.object(kind, "device", there),
        mock.patch.object(kv_cache._Forward, "device", there),
        mock.patch.object(prepare, "abilities_of", return_value=found),
        FakeDevice() as fake,
    ):
        yield fake
