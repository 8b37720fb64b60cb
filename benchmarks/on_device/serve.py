"""Rows that are all there at once: tokens per second of ``generate``, of a batching engine, and of ours."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from transformers import GenerationConfig
from transformers.generation.configuration_utils import ContinuousBatchingConfig

from benchmarks.on_device.measure import own_loop
from benchmarks.on_device.run import DeviceRun, Task, prose_task
from benchmarks.on_device.timing import ratio, rounds
from guided.hf.completing import completing
from guided.serve.engine import EngineThread
from guided.serve.loops import make_loop
from guided.serve.settings import Settings

__all__ = ["serve_rows"]


def serve_rows(run: DeviceRun, seconds: float) -> Iterator[Sequence[object]]:
    """Tokens per second of rows that are all there: plain ``generate``, transformers' batching engine, our loop."""
    guide, steps = run.guide(), 6 if run.tiny else 24
    sizes = (1, 3) if run.tiny else (1, 8, 32, 64)
    for rows in sizes:
        task = prose_task(guide, rows, steps)
        inputs = task.inputs.to(run.device)
        config = GenerationConfig(
            do_sample=False, max_new_tokens=steps, eos_token_id=-1, pad_token_id=guide.context.pad_id
        )
        timed: dict[str, Callable[[], float]] = {
            "plain": lambda inputs=inputs, config=config: run.timed(
                lambda: guide.model.generate(**inputs, generation_config=config)
            ),
            "loop": lambda task=task: run.timed(lambda: own_loop(task)),
        }
        with task.written():
            found = rounds(timed, seconds / (2 * len(sizes)))
        speeds = [f"{rows * steps / statistics.median(found[name]):,.0f}" for name in ("plain", "loop")]
        try:
            engine = [_continuous(run, guide, inputs, config) for _ in range(2)][-1]
            other = f"{rows * steps / engine:,.0f}"
        except Exception as error:  # whatever the engine raises is its result
            other = f"{type(error).__name__}: {str(error)[:80]}"
        with task.written():
            served = statistics.median(_served(run, guide, task, steps))
        yield rows, *speeds, ratio(found, "loop", "plain"), other, f"{rows * steps / served:,.0f}"


class _ServedJob:
    """A request of the server's engine, without HTTP."""

    client = ""

    def __init__(self, generation: Any, left: threading.Semaphore) -> None:
        self.generation = generation
        self.error: BaseException | None = None
        self._left = left

    def began(self) -> None: ...

    def wrote(self) -> None: ...

    def ended(self, error: BaseException | None) -> None:
        self.error = error
        self._left.release()


def _served(device: DeviceRun, guide: Any, task: Task, steps: int) -> list[float]:
    """Seconds in which the server's engine answers all chats of a task as requests that come at once."""
    size, left = len(task.chats), threading.Semaphore(0)
    engine = EngineThread(partial(make_loop, guide, Settings(max_rows=size)), max_wait_s=600)

    def answer() -> None:
        guide.forget()
        jobs = []
        for chat in task.chats:
            body = {"messages": [{"role": "user", "content": chat}], "max_tokens": steps, "temperature": 0}
            run = completing(guide.planner, body, trusted=False, ignore_unknown=False, describe=False)
            jobs.append(_ServedJob(run.generation, left))
        began.append(time.perf_counter())
        for job in jobs:
            engine.submit(job)
        for _ in jobs:
            left.acquire()
        device.sync()
        ended.append(time.perf_counter())
        for job in jobs:
            assert job.error is None, job.error
            assert [len(answer.tokens) for answer in job.generation.answers] == [steps]

    began: list[float] = []
    ended: list[float] = []
    try:
        for _ in range(2 if device.tiny else 4):
            answer()
    finally:
        engine.close()
    return [after - before for before, after in zip(began[1:], ended[1:], strict=True)]  # the first measures its steps


def _continuous(run: DeviceRun, guide: Any, inputs: Any, config: Any) -> float:
    """Seconds of the engine of ``transformers serve --continuous-batching``, as it is called from Python."""
    rows = len(inputs.prompt_ids)
    batching = ContinuousBatchingConfig(
        num_blocks=4 * rows + 16, max_batch_tokens=max(512, rows), auto_switch_to_flash=False
    )
    prompts = [list(ids) for ids in inputs.prompt_ids]
    try:
        return run.timed(
            lambda: guide.model.generate_batch(
                prompts, generation_config=config, continuous_batching_config=batching, progress_bar=False
            )
        )
    finally:
        vars(guide.model.config).pop("is_causal", None)  # transformers 5.23 may leave it there
