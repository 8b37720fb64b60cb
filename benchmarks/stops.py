#!/usr/bin/env python3
"""Benchmark: the cost of stops, log-probabilities and traces, as ratios within one run.

    python benchmarks/stops.py                    # embedded model, minutes
    python benchmarks/stops.py --repeats 3 --tokens 16 --json out.json

Stops: a real text (this package's licence) as tokens, read once by a new automaton and by transformers'
``StopStringCriteria``; microseconds per token, milliseconds to set up.  The stops never match, so only the search is
measured.

Log-probabilities and traces: on and off alternate at every step (``in_turns.py``), and the ratio is the median over the
pairs of steps, with its 95 % interval; next to it are the ratio of the time outside the forward, which is the same in
both, and that of whole calls, set-up and prefill included.  The loop itself is measured by ``benchmarks/loop.py``.
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
from transformers import StopStringCriteria

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import guided  # noqa: E402
from benchmarks.in_turns import in_turns  # noqa: E402
from guided.sampling import Sampling  # noqa: E402
from guided.stops.compiled import CompiledStops  # noqa: E402
from guided.stops.matcher import StopMatcher  # noqa: E402

COUNTS = (1, 3, 100)
CHATS = ("Tell me about cats.", "What is the capital of France?", "Write a poem.", "Count to ten.", "Who are you?",
         "Explain gravity.", "Name three colours.", "Say something nice.")  # fmt: skip


def random_stops(count: int) -> tuple[str, ...]:
    """Return stops of 6 to 20 letters that the text does not contain; half of them begin like English words."""
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
        engine.token_bytes(token)  # only the first request pays for the vocabulary's bytes
    return [stop_row(guide, tokens, count, repeats) for count in COUNTS]


def stop_row(guide: Any, tokens: Sequence[int], count: int, repeats: int) -> dict[str, Any]:
    stops = guided.Stops(random_stops(count))
    setup, ours = [], []
    for _ in range(max(3, repeats)):
        setup.append(microseconds(lambda: CompiledStops(stops, guide.engine)))
        matcher = StopMatcher(CompiledStops(stops, guide.engine))
        ours.append(microseconds(lambda matcher=matcher: matcher.feed(tokens)) / len(tokens))  # type: ignore[misc]
        assert matcher.hit is None
    theirs_setup = microseconds(lambda: StopStringCriteria(guide.tokenizer, list(stops.strings)))
    criterion = StopStringCriteria(guide.tokenizer, list(stops.strings))
    history = torch.tensor([list(tokens)])
    theirs = [microseconds(lambda n=n: criterion(history[:, :n], None)) for n in range(200, 400)]  # type: ignore[misc]
    return {
        "stops": count,
        "setup_ms": statistics.median(setup) / 1e3,
        "per_token_us": statistics.median(ours),
        "transformers_setup_ms": theirs_setup / 1e3,
        "transformers_per_token_us": statistics.median(theirs),
    }


def record_rows(guide: Any, runs: int, tokens: int) -> list[dict[str, Any]]:
    plan = guide.plan(response_format={"type": "array", "items": {"type": "integer"}, "minItems": 4 * tokens})
    rows = []
    for batch in (1, 8):
        chats, plans = list(CHATS[:batch]), [plan] * batch

        def run(logprobs: int | None = None, trace: bool = False, chats: Any = chats, plans: Any = plans) -> Any:
            sampling = Sampling(temperature=0, logprobs=logprobs)
            return guide.generate(chats, plans, sampling=sampling, max_tokens=tokens, trace=trace)

        rows.append(
            in_turns(f"logprobs (5 best) on / off, batch {batch}", guide.model, lambda run=run: run(5), run, runs)  # type: ignore[misc]
        )
        rows.append(in_turns(f"trace on / off, batch {batch}", guide.model, lambda run=run: run(trace=True), run, runs))  # type: ignore[misc]
    return rows


def print_ratios(rows: Sequence[dict[str, Any]]) -> None:
    names = ("step", "quiet", "outside", "call", "call_low", "call_high", "ms_per_step", "ms_per_step_other")
    print(
        "\n" + " " * 38 + "".join(f"{name.replace('ms_per_step', 'ms'):>10}" for name in names),
        "  step's 95 %, of pairs",
    )
    for row in rows:
        numbers = "".join(f"{row[name]:>10.3f}" for name in names)
        interval = f"{row['step_low']:.3f}-{row['step_high']:.3f}, {row['pairs']}"
        print(f"{row['what']:<38}{numbers}   {interval}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9, help="calls of each per ratio")
    parser.add_argument("--tokens", type=int, default=48, help="tokens per run")
    parser.add_argument("--only", choices=("stops", "records"))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    guide = guided.demo()
    versions = {name: version(name) for name in ("torch", "transformers", "llguidance")}
    print(f"{platform.machine()}, Python {platform.python_version()}, {versions}, SmolLM2-135M float32, 1 thread")
    result: dict[str, Any] = {"versions": versions}
    if options.only in (None, "stops"):
        result["stops"] = stop_rows(guide, options.repeats)
        print(f"\n{'stops':>5} {'set-up ms':>10} {'us/token':>9} | transformers: set-up ms, us/token")
        for row in result["stops"]:
            print(f"{row['stops']:>5} {row['setup_ms']:>10.3f} {row['per_token_us']:>9.2f} | "
                  f"{row['transformers_setup_ms']:>12.0f} "
                  f"{row['transformers_per_token_us']:>12.1f}")  # fmt: skip
    timings = []
    if options.only in (None, "records"):
        timings += record_rows(guide, options.repeats, options.tokens)
    result["ratios"] = timings
    if timings:
        print_ratios(timings)
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
