#!/usr/bin/env python3
"""What stops, our decode loop, log-probabilities and traces cost: ratios within one run.

    python benchmarks/stops.py                    # embedded model, minutes
    python benchmarks/stops.py --repeats 3 --tokens 16 --json out.json

Stops: a real text (this package's licence) as tokens, read once by an automaton that never saw a token before, and by
transformers' ``StopStringCriteria``; microseconds per token, milliseconds to set up.  Stops never match: the cost is
that of looking.

Loop: greedy, ends disabled so that both write the same number of tokens; ``generate`` and ours take turns, and the
ratio is the median over pairs; ``of best`` compares the fastest run of each.  Times are CPU seconds of one thread (on a
shared machine wall time measures the neighbours); wall times stand beside them.  The forward is the same in both, so
what the loops cost themselves is the time outside it.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM, StopStringCriteria

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import guided  # noqa: E402
from guided.hf.decode import decode  # noqa: E402
from guided.sampling import Sampling  # noqa: E402
from guided.stop import StopAutomaton, StopMatcher  # noqa: E402

COUNTS = (1, 3, 100)
CHATS = ("Tell me about cats.", "What is the capital of France?", "Write a poem.", "Count to ten.", "Who are you?",
         "Explain gravity.", "Name three colours.", "Say something nice.")  # fmt: skip


def random_stops(count: int) -> tuple[str, ...]:
    """Stops of 6 to 20 letters that no text contains, half of them beginning like English words."""
    draw = random.Random(count)
    letters = "abcdefghijklmnopqrstuvwxyz ,."
    return tuple(
        draw.choice(("the ", "you ", "q", "z"))
        + "".join(draw.choice(letters) for _ in range(draw.randint(2, 16)))
        + "#"
        for _ in range(count)
    )


def microseconds(run: Callable[[], Any]) -> float:
    began = time.perf_counter()
    run()
    return (time.perf_counter() - began) * 1e6


def stop_rows(guide: Any, repeats: int) -> list[dict[str, Any]]:
    engine = guide.engine
    tokens = engine.tokenize((ROOT / "LICENSE").read_text(encoding="utf-8"))[:2_000]
    for token in range(engine.vocab_size):
        engine.token_bytes(token)  # the vocabulary's bytes are known to every request but the first
    return [stop_row(guide, tokens, count, repeats) for count in COUNTS]


def stop_row(guide: Any, tokens: Sequence[int], count: int, repeats: int) -> dict[str, Any]:
    stops = guided.Stops(random_stops(count))
    setup, fresh, warm = [], [], []
    for _ in range(max(3, repeats)):
        setup.append(microseconds(lambda: StopAutomaton(stops, guide.engine)))
        automaton = StopAutomaton(stops, guide.engine)
        first, second = StopMatcher(automaton), StopMatcher(automaton)
        fresh.append(microseconds(lambda first=first: first.feed(tokens)) / len(tokens))  # type: ignore[misc]
        warm.append(microseconds(lambda second=second: second.feed(tokens)) / len(tokens))  # type: ignore[misc]
        assert first.hit is None
    theirs_setup = microseconds(lambda: StopStringCriteria(guide.tokenizer, list(stops.strings)))
    criterion = StopStringCriteria(guide.tokenizer, list(stops.strings))
    history = torch.tensor([list(tokens)])
    theirs = [microseconds(lambda n=n: criterion(history[:, :n], None)) for n in range(200, 400)]  # type: ignore[misc]
    return {
        "stops": count,
        "setup_ms": statistics.median(setup) / 1e3,
        "per_token_us_new_text": statistics.median(fresh),
        "per_token_us_known_text": statistics.median(warm),
        "transformers_setup_ms": theirs_setup / 1e3,
        "transformers_per_token_us": statistics.median(theirs),
    }


def timed(run: Callable[[], Any]) -> tuple[float, float]:
    """CPU and wall seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    run()
    return time.process_time() - cpu, time.perf_counter() - wall


def outside_forward(model: Any) -> Callable[[Callable[[], Any]], tuple[float, float]]:
    """A clock like `timed` that stops while the model's forward runs."""

    def clock(run: Callable[[], Any]) -> tuple[float, float]:
        inside, began = [0.0, 0.0], [0.0, 0.0]

        def enter(*_: Any) -> None:
            began[:] = time.process_time(), time.perf_counter()

        def leave(*_: Any) -> None:
            inside[0] += time.process_time() - began[0]
            inside[1] += time.perf_counter() - began[1]

        hooks = [model.register_forward_pre_hook(enter), model.register_forward_hook(leave)]
        try:
            cpu, wall = timed(run)
        finally:
            for hook in hooks:
                hook.remove()
        return cpu - inside[0], wall - inside[1]

    return clock


def paired(
    name: str,
    one: Callable[[], Any],
    other: Callable[[], Any],
    repeats: int,
    tokens: int,
    clock: Callable[[Callable[[], Any]], tuple[float, float]] = timed,
) -> dict[str, Any]:
    """``one`` and ``other`` in turns, in changing order; the ratio is the median over pairs."""
    one(), other()
    pairs = []
    for n in range(repeats):
        first, second = (one, other) if n % 2 else (other, one)
        a, b = clock(first), clock(second)
        pairs.append((a, b) if n % 2 else (b, a))
    cpu = [a[0] / b[0] for a, b in pairs]
    return {
        "what": name,
        "ratio_cpu": statistics.median(cpu),
        "ratio_of_best": min(a[0] for a, _ in pairs) / min(b[0] for _, b in pairs),
        "ratio_cpu_low": min(cpu),
        "ratio_cpu_high": max(cpu),
        "ratio_wall": statistics.median(a[1] / b[1] for a, b in pairs),
        "ms_per_step": statistics.median(a[0] for a, _ in pairs) / tokens * 1e3,
        "ms_per_step_other": statistics.median(b[0] for _, b in pairs) / tokens * 1e3,
    }


def loop_rows(guide: Any, repeats: int, tokens: int) -> list[dict[str, Any]]:
    rows = []
    for batch in (1, 8):
        inputs = guide.inputs(CHATS[:batch])
        options = {"max_new_tokens": tokens, "do_sample": False, "eos_token_id": None, "pad_token_id": guide.pad_id}
        ours = lambda inputs=inputs, options=options: guide.model.generate(**inputs, **options, custom_generate=decode)  # noqa: E731
        theirs = lambda inputs=inputs, options=options: guide.model.generate(**inputs, **options)  # noqa: E731
        assert torch.equal(ours(), theirs())
        rows.append(paired(f"our loop / generate, batch {batch}", ours, theirs, repeats, tokens))
        clock = outside_forward(guide.model)
        rows.append(paired(f"  of it outside the forward, batch {batch}", ours, theirs, repeats, tokens, clock))
    return rows


def bookkeeping_rows(guide: Any, repeats: int) -> list[dict[str, Any]]:
    """The same two loops around a model of one tiny layer: what they cost themselves."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=guide.tokens.vocab_size, **sizes)).eval()
    rows = []
    for batch in (1, 8):
        inputs = guide.inputs(CHATS[:batch])
        options = {"max_new_tokens": 100, "do_sample": False, "eos_token_id": None, "pad_token_id": guide.pad_id}
        ours = lambda inputs=inputs, options=options: model.generate(**inputs, **options, custom_generate=decode)  # noqa: E731
        theirs = lambda inputs=inputs, options=options: model.generate(**inputs, **options)  # noqa: E731
        rows.append(paired(f"the same around a tiny model, batch {batch}", ours, theirs, 3 * repeats, 100))
    return rows


def record_rows(guide: Any, repeats: int, tokens: int) -> list[dict[str, Any]]:
    plan = guide.plan(response_format={"type": "array", "items": {"type": "integer"}, "minItems": 4 * tokens})
    rows = []
    for batch in (1, 8):
        chats, plans = list(CHATS[:batch]), [plan] * batch

        def run(logprobs: int | None = None, trace: bool = False, chats: Any = chats, plans: Any = plans) -> Any:
            sampling = Sampling(temperature=0, logprobs=logprobs)
            return guide.generate(chats, plans, sampling=sampling, max_tokens=tokens, trace=trace)

        rows.append(paired(f"logprobs (5 best) on / off, batch {batch}", lambda run=run: run(5), run, repeats, tokens))  # type: ignore[misc]
        rows.append(paired(f"trace on / off, batch {batch}", lambda run=run: run(trace=True), run, repeats, tokens))  # type: ignore[misc]
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9, help="pairs per ratio")
    parser.add_argument("--tokens", type=int, default=48, help="tokens per run")
    parser.add_argument("--only", choices=("stops", "loop", "records"))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    guide = guided.demo()
    versions = {name: version(name) for name in ("torch", "transformers", "llguidance")}
    print(f"{platform.machine()}, Python {platform.python_version()}, {versions}, SmolLM2-135M float32, 1 thread")
    result: dict[str, Any] = {"versions": versions}
    if options.only in (None, "stops"):
        result["stops"] = stop_rows(guide, options.repeats)
        print(f"\n{'stops':>5} {'set-up ms':>10} {'us/token new':>13} {'known':>7} | transformers: set-up ms, us/token")
        for row in result["stops"]:
            print(f"{row['stops']:>5} {row['setup_ms']:>10.3f} {row['per_token_us_new_text']:>13.2f} "
                  f"{row['per_token_us_known_text']:>7.2f} | {row['transformers_setup_ms']:>12.0f} "
                  f"{row['transformers_per_token_us']:>12.1f}")  # fmt: skip
    timings = []
    if options.only in (None, "loop"):
        timings += loop_rows(guide, options.repeats, options.tokens)
        timings += bookkeeping_rows(guide, options.repeats)
    if options.only in (None, "records"):
        timings += record_rows(guide, options.repeats, options.tokens)
    result["ratios"] = timings
    if timings:
        print(
            f"\n{'':<42} {'CPU ratio':>9} {'of best':>8} {'low':>6} {'high':>6} {'wall':>6} {'ms/step':>8} {'other':>8}"
        )
    for row in timings:
        columns = [
            ("ratio_cpu", 9),
            ("ratio_of_best", 8),
            ("ratio_cpu_low", 6),
            ("ratio_cpu_high", 6),
            ("ratio_wall", 6),
        ]
        numbers = " ".join(f"{row[name]:>{width}.3f}" for name, width in columns)
        print(f"{row['what']:<42} {numbers} {row['ms_per_step']:>8.2f} {row['ms_per_step_other']:>8.2f}")
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
