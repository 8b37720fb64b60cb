"""Measurements on a device: each function yields the rows of one table within ``seconds``."""

from __future__ import annotations

import gc
import importlib.util
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from itertools import pairwise
from typing import Any

import torch
from transformers.generation.configuration_utils import CompileConfig

from benchmarks.extraction_cases import extraction_cases
from benchmarks.on_device.counts import COUNTS, per_step
from benchmarks.on_device.run import GREEDY, DeviceRun, Task, call_task, document_task, plan, prose_task, spell
from benchmarks.on_device.timing import ratio, rounds, shown
from benchmarks.overhead import SCHEMA
from guided.hf.generate.call import generate_kwargs, read_messages
from guided.hf.generate.hooks import GuidanceProcessor
from guided.hf.generate.inputs import checked_inputs
from guided.hf.loop.row_masks import RowMasks
from guided.hf.masks.accelerator import DeviceLink
from guided.hf.masks.cpu import HostLink

__all__ = [
    "COUNT_HEAD", "compiled_options", "compiled_rows", "count_rows", "generate_rows", "hidden_rows", "loop_rows",
    "more_rows", "own_loop",
]  # fmt: skip

Cells = Sequence[object]


# ---------------------------------------------------------------- (a) generate with hooks


def generate_rows(run: DeviceRun, seconds: float) -> Iterator[Cells]:
    """Steps of ``generate`` with our hooks and with xgrammar's processor, over those without either."""
    # The cases that differ by little get most of the time.
    cases = [("Qwen3-0.6B", "qwen3", rows, part) for rows, part in ((1, 5), (32, 5), (128, 4), (8, 2))]
    cases += [("Qwen3-0.6B", "smollm2", 32, 2), ("Llama-3-8B", "qwen3", 1, 2), ("Llama-3-8B", "qwen3", 32, 2)]
    if run.tiny:
        cases = [("tiny", "small", 1, 1), ("tiny", "small", 3, 1)]
    whole = sum(part for *_, part in cases)
    for shape, tokenizer, rows, part in cases:
        yield _steps_over_plain(run, shape, tokenizer, rows, seconds * part / whole)
        if shape == "Llama-3-8B" and rows == 32:
            run.drop(shape)


def compiled_rows(run: DeviceRun, seconds: float) -> Iterator[Cells]:
    """The same with a static cache and a compiled forward, in which the card is busy and the host has time."""
    for rows in (3,) if run.tiny else (8, 32):
        yield _steps_over_plain(run, "Qwen3-0.6B", "qwen3", rows, seconds / 2, compiled_options(run))


def compiled_options(run: DeviceRun) -> dict[str, Any]:
    """Return the arguments of ``generate`` for a static cache and a compiled forward, on a CPU without a compiler."""
    options: dict[str, Any] = {"cache_implementation": "static"}
    if not run.is_cuda:  # there transformers compiles by itself
        options["compile_config"] = CompileConfig(backend="eager", fullgraph=False)
        options["compile_config"]._compile_all_devices = True
    return options


def _steps_over_plain(
    run: DeviceRun, shape: str, tokenizer: str, rows: int, seconds: float, options: dict[str, Any] | None = None
) -> Cells:
    guide = run.guide(shape, tokenizer)
    task = document_task(guide, rows, tags=60)
    inputs = task.inputs.to(run.device)
    processors: dict[str, Callable[[], dict[str, Any]]] = {
        "plain": dict, "ours": lambda: generate_kwargs(guide.context, inputs, task.plans),
    }  # fmt: skip
    if make := _xgrammar(guide, run):
        processors["xgrammar"] = lambda: {"logits_processor": [make(rows)]}
    steps: dict[str, list[list[float]]] = {name: [] for name in processors}

    def timed(name: str) -> float:
        steps[name].append(_decode_seconds(run, task, inputs, processors[name]() | (options or {})))
        return sum(steps[name][-1])

    with task.written():
        found = rounds({name: partial(timed, name) for name in processors}, seconds)
    # At each step the least of all rounds, then the mean: what a busy host adds is left out, a slow mask is not.
    quiet = {name: statistics.mean(map(min, zip(*of_way[1:], strict=True))) for name, of_way in steps.items()}
    cells: list[object] = [shape, f"{guide.model.config.vocab_size:,}", rows]
    cells += [f"{statistics.median(found['plain']) * 1e3 / len(steps['plain'][0]):.2f}"]
    for name in ("ours", "xgrammar"):
        cells += [ratio(found, name, "plain"), f"{quiet[name] / quiet['plain']:.3f}" if name in quiet else "-"]
    return cells


def _decode_seconds(run: DeviceRun, task: Task, inputs: Any, kwargs: dict[str, Any]) -> list[float]:
    """Seconds of each step of one call but the prompt's and the last; the call must write the task's text."""
    model, began, steps = task.guide.model, [], 6 if run.tiny else 32
    # Between two steps `generate` prepares the inputs of the next: once a step, and also where a forward is compiled.
    prepare = model.prepare_inputs_for_generation

    @wraps(prepare)
    def marked(*args: Any, **named: Any) -> Any:
        began.append(time.perf_counter())
        return prepare(*args, **named)

    model.prepare_inputs_for_generation = marked
    gc.collect()
    gc.disable()
    try:
        out = model.generate(
            **inputs,
            max_new_tokens=steps,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=task.guide.context.pad_id,
            **kwargs,
        )
        run.sync()
    finally:
        gc.enable()
        del model.prepare_inputs_for_generation
    assert out[-1, inputs.prompt_len :].tolist() == task.tokens[:steps], "another text was written"
    return [after - before for before, after in pairwise(began[-steps + 1 :])]


def _xgrammar(guide: Any, run: DeviceRun) -> Callable[[int], Any] | None:
    """Return what makes xgrammar's processor for `document_task`'s rows; None where it is not installed."""
    if importlib.util.find_spec("xgrammar") is None:
        if "xgrammar is not installed: left out" not in run.notes:
            run.notes.append("xgrammar is not installed: left out")
        return None
    import xgrammar as xgr

    info = xgr.TokenizerInfo.from_huggingface(guide.tokenizer, vocab_size=guide.model.config.vocab_size)
    grammar = xgr.GrammarCompiler(info).compile_json_schema(
        json.dumps(SCHEMA), any_whitespace=False, separators=(", ", ": "), strict_mode=True
    )
    return lambda rows: xgr.contrib.hf.LogitsProcessor([grammar] * rows)


# ---------------------------------------------------------------- (b) our loop


def loop_rows(run: DeviceRun, seconds: float) -> Iterator[Cells]:
    """Whole calls of our loop over those of ``generate`` with our hooks, prompts and rendering included in both."""
    guide = run.guide()
    sizes = (1, 2) if run.tiny else (1, 8, 32)
    makers: dict[str, Callable[[int], Task]] = {
        "tool call": lambda rows: call_task(guide, rows),
        "object": lambda rows: document_task(guide, rows, tags=1),
        "free text": lambda rows: prose_task(guide, rows, 6 if run.tiny else 16),
    }
    for rows in sizes:
        for name, make in makers.items():
            task = make(rows)
            with task.written():
                ours, theirs = (lambda task=task: own_loop(task)), (lambda task=task: with_hooks(run, task))
                mine, other = _forwards(guide, ours), _forwards(guide, theirs)
                assert mine[1] == other[1], f"{name}: the two wrote different tokens"
                ways = {"loop": lambda call=ours: run.timed(call), "generate": lambda call=theirs: run.timed(call)}
                found = rounds(ways, seconds / (len(makers) * len(sizes)), is_warm=True)
            wall = statistics.median(found["loop"]) * 1e3
            yield name, rows, len(mine[1][0]), mine[0], other[0], f"{wall:.1f}", ratio(found, "loop", "generate")


def own_loop(task: Task, **options: Any) -> list[list[int]]:
    """Return the answers of our loop."""
    settings = {"sampling": GREEDY, "max_tokens": _room(task), "describe": False, "reuse": False} | options
    return [list(m.token_ids) for m in task.guide.generate(task.chats, task.plans, **settings)]


def with_hooks(run: DeviceRun, task: Task, **options: Any) -> list[list[int]]:
    """Return the answers of ``generate`` with our hooks."""
    inputs = task.inputs.to(run.device)
    settings = {"max_new_tokens": _room(task), "do_sample": False, "pad_token_id": task.guide.context.pad_id} | options
    kwargs = generate_kwargs(task.guide.context, inputs, task.plans)
    out = task.guide.model.generate(**inputs, **settings, **kwargs)
    return [list(m.token_ids) for m in read_messages(task.guide.context, out, inputs, task.plans)]


def _room(task: Task) -> int:
    return len(task.tokens) if task.plans[0] is None else 4 * len(task.tokens)


def _forwards(guide: Any, call: Callable[[], Any]) -> tuple[int, Any]:
    seen: list[int] = []
    hook = guide.model.register_forward_pre_hook(lambda *_: seen.append(1))
    try:
        out = call()
    finally:
        hook.remove()
    return len(seen), out


# ---------------------------------------------------------------- (c) counts


COUNT_HEAD = ("one step of", "rows", *COUNTS)


def count_rows(run: DeviceRun, seconds: float) -> Iterator[Cells]:
    """Waits, copies and kernels of a step: a long call less a short one."""
    guide, (short, long) = run.guide(), (8, 12)
    for rows in (1, 3) if run.tiny else (1, 32):
        for kind, task in (
            ("free text", prose_task(guide, rows, long)), ("an object", document_task(guide, rows, tags=1)),
        ):  # fmt: skip

            def generate(tokens: int, task: Task = task) -> None:
                inputs = task.inputs
                on_device = {key: value.to(guide.model.device) for key, value in inputs.items()}
                guide.model.generate(
                    **on_device, max_new_tokens=tokens, do_sample=False, eos_token_id=None,
                    pad_token_id=guide.context.pad_id, **generate_kwargs(guide.context, inputs, task.plans),
                )  # fmt: skip

            def loop(tokens: int, task: Task = task) -> None:
                own_loop(task, max_tokens=tokens, landing=False)

            for way, call in (("generate", generate), ("our loop", loop)):
                with task.written():
                    found = per_step(guide, call, short, long)
                yield f"{way}, {kind}", rows, *(f"{found[n]:,.2f}" if n in found else "not counted" for n in COUNTS)


# ---------------------------------------------------------------- (d) masks next to the forward


class _Gaps:
    """For each step: the host's seconds from the launched forward to the sent masks, and how long the device waited.

    Without a card the second is the first: host and device are one.
    """

    def __init__(self, run: DeviceRun) -> None:
        self._run = run
        self._marks: list[tuple[float, float, Any, Any]] = []
        self._open: tuple[float, Any] | None = None

    def _now(self) -> tuple[float, Any]:
        event = torch.cuda.Event(enable_timing=True) if self._run.is_cuda else None
        if event is not None:
            event.record()
        return time.perf_counter(), event

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Inside, masks are watched: they are asked for in ``RowMasks`` or our processor, and sent by a link."""
        whole = {RowMasks: RowMasks.apply, GuidanceProcessor: GuidanceProcessor.__call__}
        sends = {kind: kind.apply for kind in (DeviceLink, HostLink)}

        def asked(real: Any) -> Any:
            def call(*args: Any, **kwargs: Any) -> Any:
                self._open = self._now()
                return real(*args, **kwargs)

            return call

        def sent(real: Any) -> Any:
            def call(*args: Any, **kwargs: Any) -> Any:
                if self._open is not None:
                    (began, first), (ended, second) = self._open, self._now()
                    self._marks.append((began, ended, first, second))
                    self._open = None
                return real(*args, **kwargs)

            return call

        RowMasks.apply, GuidanceProcessor.__call__ = map(asked, whole.values())  # type: ignore[method-assign]
        DeviceLink.apply, HostLink.apply = map(sent, sends.values())  # type: ignore[method-assign]
        try:
            yield
        finally:
            RowMasks.apply, GuidanceProcessor.__call__ = whole.values()  # type: ignore[method-assign]
            DeviceLink.apply, HostLink.apply = sends.values()  # type: ignore[method-assign]

    def take(self) -> list[tuple[float, float]]:
        """Return the pairs of milliseconds since the last call; the first mask of a call, its compilation, included."""
        self._run.sync()
        found = [
            ((ended - began) * 1e3, (ended - began) * 1e3 if first is None else first.elapsed_time(second))
            for began, ended, first, second in self._marks
        ]
        self._marks.clear()
        return found


def hidden_rows(run: DeviceRun, seconds: float) -> Iterator[Cells]:
    """The host's time for the masks of a step, and how long the device had nothing to do for that."""
    guide, gaps = run.guide(), _Gaps(run)
    sizes = (1, 3) if run.tiny else (1, 8, 32)
    for rows in sizes:
        task = document_task(guide, rows, tags=2)
        ways: dict[str, Callable[[], Any]] = {
            "our loop": lambda task=task: own_loop(task),
            "generate, our hooks": lambda task=task: with_hooks(run, task),
        }
        for name, call in ways.items():
            with task.written():
                call()
                until, pairs, walls = time.monotonic() + seconds / (2 * len(sizes)), [], []
                with gaps.watched():
                    while len(walls) < (2 if seconds else 1) or (time.monotonic() < until and len(walls) < 10):
                        walls.append(run.timed(call))
                        pairs += gaps.take()[1:]
            host, idle = (sum(values) for values in zip(*pairs, strict=True))
            yield (
                name, rows, shown([a for a, _ in pairs]), shown([b for _, b in pairs]),
                f"{100 * (1 - idle / host):.1f}", f"{100 * host / (sum(walls) * 1e3):.2f}",
            )  # fmt: skip


# ---------------------------------------------------------------- (e) what saves forwards or costs them


def more_rows(run: DeviceRun, seconds: float) -> Iterator[Cells]:
    """Kept rows, drafts and hidden states: wall of a call over the same call without."""
    guide = run.guide()
    yield ("a second turn with kept rows", 1, *_over(run, _pool_ways(run, guide), seconds / 4))
    case = extraction_cases(1, seed=1)[0]
    of = plan(guide, response_format=case.schema)
    begin = checked_inputs(guide.context, [case.prompt], [of]).begins[0]
    task = Task(guide, [case.prompt], [of], spell(guide, of, json.dumps(case.gold, ensure_ascii=False), begin))
    with task.written():
        ways = {
            "with": lambda: run.timed(lambda: own_loop(task, prompt_lookup_num_tokens=10)),
            "without": lambda: run.timed(lambda: own_loop(task)),
        }
        yield ("extraction with prompt look-up", 1, *_over(run, ways, seconds / 4))
    for rows in (2,) if run.tiny else (1, 8):
        states = document_task(guide, rows, tags=2)
        with states.written():
            ways = {
                "with": lambda states=states: run.timed(lambda: own_loop(states, return_last_hidden_state=True)),
                "without": lambda states=states: run.timed(lambda: own_loop(states)),
            }
            yield ("hidden states of the last tokens", rows, *_over(run, ways, seconds / 4))


def _pool_ways(run: DeviceRun, guide: Any) -> dict[str, Callable[[], float]]:
    long = "The keeper climbed the stairs and looked out over the grey sea. " * (4 if run.tiny else 120)
    first: list[dict[str, Any]] = [{"role": "user", "content": long}]
    options = {"sampling": GREEDY, "max_tokens": 8, "describe": False}

    def turn(reuse: bool) -> float:
        guide.forget()
        (message,) = guide.generate([first], **options)
        later = [*first, {"role": "assistant", "content": message.content or ""}, {"role": "user", "content": "Go on."}]
        return run.timed(lambda: guide.generate([later], reuse=reuse, **options))

    return {"with": lambda: turn(True), "without": lambda: turn(False)}


def _over(run: DeviceRun, ways: dict[str, Callable[[], float]], seconds: float) -> tuple[str, str]:
    found = rounds(ways, seconds)
    return f"{statistics.median(found['without']) * 1e3:.1f}", ratio(found, "with", "without")
