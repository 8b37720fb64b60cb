#!/usr/bin/env python3
"""Benchmark: guided inside vLLM: the share of its masks, tokens per second, and streams next to a costly grammar.

    build/vllm/bin/python benchmarks/vllm_shares.py               # all tables (half an hour), after `make test-vllm`
    build/vllm/bin/python benchmarks/vllm_shares.py --only speed --rows 8

Embedded model, float32, one thread, scheduler and model in one process, whose processor time counts.  Prompts differ,
the schema is one; a round before the measured one fills caches.

  speed   rows written at once: tokens per processor second without a constraint, with guided's, xgrammar's and
          guidance's; of all time the share of masks and reading tokens; and with a budget near which answers land
  gaps    the longest gap (elapsed time) of a stream over HTTP, alone and while a grammar is compiled until its limit
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

ROWS = (1, 8, 32)
#: Name, vLLM's backend, token limit; None: no constraint.
RUNS = (("free", None, 120), ("guided", "guided", 400), ("guided, near its budget", "guided", 60),
        ("xgrammar", "xgrammar", 400), ("guidance", "guidance", 400))  # fmt: skip
PEOPLE = {
    "type": "array",
    "minItems": 5,
    "maxItems": 5,
    "items": {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "maximum": 99}},
        "required": ["name", "age"],
        "additionalProperties": False,
    },
}  # fmt: skip
#: Takes the engine longer than any grammar may, and is never in a cache.
COSTLY = "start: /(a|b)*{seed}(a|b){{4000}}/"


def measured(run: str, backend: str | None, limit: int, rows: tuple[int, ...]) -> list[dict[str, Any]]:
    """Run in a process of its own; return a record for each number of rows."""
    os.environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "1", "OMP_NUM_THREADS": "1",
                   "VLLM_CPU_OMP_THREADS_BIND": "nobind", "HF_HUB_OFFLINE": "1"}  # fmt: skip
    from vllm import LLM, SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    import guided
    from guided.embedded import model_folder
    from guided.vllm.grammar import RowGrammar
    from guided.vllm.sealed import seal

    spent = _watched(RowGrammar)
    llm = LLM(
        str(model_folder()), dtype="float32", enforce_eager=True, max_model_len=1024, max_num_seqs=max(rows),
        enable_prefix_caching=False, distributed_executor_backend="uni",
        structured_outputs_config={"backend": "auto" if backend in (None, "guided") else backend},
    )  # fmt: skip
    asked: Any = None
    stops: list[int] = []
    if backend == "guided":
        guide = guided.demo()
        plan = guide.plan(response_format=guided.JsonSchema(PEOPLE))
        asked, stops = {"grammar": seal(plan)}, sorted(plan.end_ids())
    elif backend is not None:
        asked = {"json": PEOPLE, "disable_any_whitespace": True}

    def generate(number: int, most: int) -> tuple[int, float, float]:
        params = SamplingParams(
            temperature=0,
            max_tokens=most,
            stop_token_ids=stops,
            structured_outputs=StructuredOutputsParams(**asked) if asked else None,
        )
        chats = [[{"role": "user", "content": f"List five people named like Ann{i}."}] for i in range(number)]
        spent.clear()
        began = time.thread_time()
        outputs = llm.chat(chats, params, use_tqdm=False)
        own = time.thread_time() - began
        return sum(len(one.outputs[0].token_ids) for one in outputs), own, sum(spent)

    records = []
    for number in rows:
        generate(min(number, 2), limit)
        _, prompts, _ = generate(number, 1)  # answers differ in length, so prompts do not count
        tokens, own, masks = generate(number, limit)
        per_s, share = (tokens - number) / (own - prompts), masks / own
        records.append({"run": run, "rows": number, "tokens": tokens, "per_s": per_s, "share": share})
    return records


def _watched(grammar_class: Any) -> list[float]:
    """Return the list of the seconds of every call of a grammar's methods from now on."""
    spent: list[float] = []
    for name in ("fill_bitmask", "accept_tokens"):
        method = getattr(grammar_class, name)

        def timed(*args: Any, call: Any = method) -> Any:
            began = time.thread_time()
            try:
                return call(*args)
            finally:
                spent.append(time.thread_time() - began)

        setattr(grammar_class, name, timed)
    return spent


def speed_table(rows: tuple[int, ...]) -> None:
    print(
        "| rows | run | tokens | tokens per processor second | masks and reading |\n|---|---|---|---|---|", flush=True
    )
    for run, _, _ in RUNS:
        command = [sys.executable, __file__, "--run", run, "--rows", *map(str, rows)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found = [line for line in done.stdout.splitlines() if line.startswith("[{")]
        if not found:
            print(done.stderr[-2000:], file=sys.stderr)
            continue
        for one in json.loads(found[0]):
            share = f"{one['share']:.1%}" if one["share"] else ""
            print(f"| {one['rows']} | {run} | {one['tokens']} | {one['per_s']:.1f} | {share} |", flush=True)


def gaps_table(_: tuple[int, ...]) -> None:
    import httpx2

    from tests.guided.vllm.live.conftest import KEY, MODEL, served

    os.environ.setdefault(KEY, "benchmark")
    chat = {"model": MODEL, "temperature": 0, "stream": True, "max_tokens": 150}
    chat |= {
        "messages": [{"role": "user", "content": "Tell a long story."}],
        "structured_outputs": {"regex": "[A-Za-z ,.]{600}"},
    }

    def gaps(address: str) -> list[float]:
        times = []
        with (
            httpx2.Client(timeout=300) as client,
            client.stream("POST", f"{address}/v1/chat/completions", json=chat) as got,
        ):
            times = [time.perf_counter() for line in got.iter_lines() if line]
        return sorted(b - a for a, b in itertools.pairwise(times))

    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as live:
        gaps(live.address)
        print("\n| stream | median gap | longest gap | the costly request |\n|---|---|---|---|")
        for name in ("alone", "next to a costly grammar"):
            said = [""]

            def costly(said: list[str] = said) -> None:
                time.sleep(1)
                began = time.perf_counter()
                body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 8}
                response = live.post({**body, "structured_outputs": {"grammar": COSTLY.format(seed=os.getpid())}})
                said[0] = f"{response.status_code} after {time.perf_counter() - began:.1f} s"

            compiling = threading.Thread(target=costly)
            if name != "alone":
                compiling.start()
            found = gaps(live.address)
            if compiling.ident is not None:
                compiling.join()
            print(
                f"| {name} | {1000 * found[len(found) // 2]:.0f} ms | {1000 * found[-1]:.0f} ms | {said[0]} |",
                flush=True,
            )


TABLES = {"speed": speed_table, "gaps": gaps_table}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=TABLES)
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    parser.add_argument("--run", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run:
        run, backend, limit = next(one for one in RUNS if one[0] == given.run)
        print(json.dumps(measured(run, backend, limit, tuple(given.rows))))
        return
    for name, table in TABLES.items():
        if given.only in (None, name):
            table(tuple(given.rows))


if __name__ == "__main__":
    main()
