#!/usr/bin/env python3
"""Benchmark: rows that join and leave one loop, fed packed: against rectangles, batches, and ``model.generate``.

    python benchmarks/joining.py --against TREE      # all tables (an hour); TREE is an older checkout
    python benchmarks/joining.py --only peers        # one of generate (needs TREE), peers, continuous, arrivals, gap
    python benchmarks/joining.py --page README.md    # write the tables into that page too

Embedded model, float32, one thread, CPU time of the process.  Rows are kept as by default, but no row from call to
call.  A ratio is the median over alternating pairs, with the least and the greatest.

  generate  ``guide.generate`` against that of TREE: eight mixed requests, required calls, free rows; one row
  peers     eight rows at once in a shared loop against ``model.generate``: guided rows with our processor, free rows
  continuous  eight rows at once against transformers' continuous batching, which writes as many tokens a row but no
            masks: as it is for free rows; for mixed guided ones with attention that reads each row's own keys alone
  arrivals  sixteen mixed requests, one every 0.3 s, against batches of ``guide.generate``: tokens per second and first
  gap       a prompt of 400 tokens joins seven rows: the largest gap between tokens, in steps; our share of the time
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from transformers import ContinuousBatchingConfig, GenerationConfig
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import guided  # noqa: E402
from benchmarks import generate_rows as generated  # noqa: E402
from benchmarks.json_schema_tables import write_page  # noqa: E402
from benchmarks.loop import markdown  # noqa: E402
from guided.hf.answering import generation_of, rows_of  # noqa: E402
from guided.hf.generate.call import generate_kwargs  # noqa: E402
from guided.hf.generate.inputs import checked_inputs  # noqa: E402
from guided.hf.loop import prepare  # noqa: E402
from guided.hf.loop.generation import Generation  # noqa: E402
from guided.hf.loop.row_loop import RowLoop  # noqa: E402
from guided.hf.options import options_of  # noqa: E402

WORDS = "The lighthouse keeper wrote down the weather, the ships, and what the sea had brought in the night. " * 30


#: What `chat` is asked for besides, by row.
_MORE: list[dict[str, Any]] = [
    {}, {}, {}, {}, {}, {"stop": ["waves", "\n\n"], "max_tokens": 40}, {"frequency_penalty": 0.2},
    {"logprobs": True, "top_logprobs": 3, "max_tokens": 16},
]  # fmt: skip
#: Eight requests, none like another.
MIXED: list[tuple[str, dict[str, Any]]] = [
    (chat, {**asked, **how, "max_tokens": 90, **more})
    for (chat, asked, how), more in zip(generated.MIXED, _MORE, strict=True)
]


def free(size: int) -> list[tuple[str, dict[str, Any]]]:
    """Eight requests for 32 tokens of free text, of about ``size`` tokens each."""
    text = " ".join(WORDS.split()[: max(1, int(0.8 * (size - 30)))])
    return [(f"{i} {text}", {"temperature": 0, "max_tokens": 32}) for i in range(8)]


def of(guide: Any, chat: str, asked: dict[str, Any]) -> Generation:
    options = options_of("chat", asked)
    return generation_of(guide.planner, *rows_of(guide.planner, chat, None, options, "chat", is_one=True), options)


def run(loop: RowLoop, runs: Sequence[Generation]) -> int:
    """Let all join, step until the loop is empty; return the tokens written."""
    for one in runs:
        one.join(loop)
    while not loop.is_empty:
        loop.step()
    return sum(len(answer.tokens) for one in runs for answer in one.answers)


def cpu(call: Callable[[], Any]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def ratio(one: Callable[[], Any], other: Callable[[], Any], runs: int) -> str:
    """Return the time of ``other`` divided by that of ``one``."""
    found = []
    for n in range(runs):
        order = (one, other) if n % 2 else (other, one)
        times = {call: cpu(call) for call in order}
        found.append(times[other] / times[one])
        print(f" {found[-1]:.2f}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return f"{statistics.median(found):.2f} ({min(found):.2f} to {max(found):.2f})"


class TreeProcess:
    """A process that runs `generate_rows` with the packages of a checkout."""

    def __init__(self, tree: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, generated.__file__], env=os.environ | {"PYTHONPATH": str(tree.resolve())},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def ask(self, name: str) -> list[float]:
        """Return what a workload found."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(name, file=self._process.stdin, flush=True)
        return [float(number) for number in self._process.stdout.readline().split()]


def generate_rows(tree: Path, runs: int) -> list[tuple[str, str]]:
    """``guide.generate`` of this checkout against that of another one."""
    here, there = TreeProcess(ROOT), TreeProcess(tree)
    rows = []
    for name in generated.WORKLOADS:
        found = []
        for n in range(-1, runs):  # the first pair fills caches
            times = {worker: worker.ask(name)[0] for worker in ((here, there) if n % 2 else (there, here))}
            found.append(times[there] / times[here])
        rows.append((name, f"{statistics.median(found[1:]):.2f} ({min(found[1:]):.2f} to {max(found[1:]):.2f})"))
    return rows


def peer_rows(guide: Any, runs: int) -> list[tuple[str, str]]:
    """Eight rows at once in a shared loop against ``model.generate`` of the same rows, greedy."""
    rows = []
    guided_ones = [(chat, {**asked, "temperature": 0}) for chat, asked in MIXED if "response_format" in asked]
    guided_ones = [(c, {k: a[k] for k in ("response_format", "temperature", "max_tokens")}) for c, a in guided_ones]
    for name, requests in (
        ("8 guided rows", [(f"{n} {chat}", asked) for n, (chat, asked) in enumerate((guided_ones * 2)[:8])]),
        ("8 free rows, prompts of 36 tokens", free(36)),
        ("8 free rows, prompts of 400 tokens", free(400)),
    ):
        plans = [guide.plan(response_format=asked.get("response_format")) for _, asked in requests]
        inputs = checked_inputs(guide.context, [chat for chat, _ in requests], plans, describe=True)
        most = max(asked["max_tokens"] for _, asked in requests)
        is_guided = "response_format" in requests[0][1]

        def ours(requests: Any = requests) -> None:
            guide.forget()
            made = [of(guide, *request) for request in requests]
            run(prepare.shared_loop(guide.context, rows=16, cached_tokens=30_000), made)

        def theirs(inputs: Any = inputs, plans: Any = plans, most: int = most, is_guided: bool = is_guided) -> None:
            more = (
                generate_kwargs(guide.context, inputs, plans) if is_guided else {"pad_token_id": guide.context.pad_id}
            )
            guide.model.generate(**inputs, max_new_tokens=most, do_sample=False, **more)

        ours()
        rows.append((name, ratio(ours, theirs, runs)))
    return rows


def row_attention(module: Any, query: Any, key: Any, value: Any, mask: Any, **more: Any) -> tuple[Any, None]:
    """Scaled dot product attention of each row over its own keys, where transformers masks all keys of all rows."""
    cache = more.get("cache")
    if cache is None:
        return sdpa_attention_forward(module, query, key, value, mask, **more)
    key, value = cache.update(key_states=key, value_states=value, layer_idx=module.layer_idx, kwargs=more)
    fed, kept = (more[f"cu_seq_lens_{one}"].tolist() for one in "qk")
    out = torch.empty_like(query)
    for (a, b), (c, d) in zip(pairwise(fed), pairwise(kept), strict=False):
        seen = torch.ones(b - a, d - c, dtype=torch.bool).tril(d - c - (b - a))
        out[:, :, a:b] = torch.nn.functional.scaled_dot_product_attention(
            query[:, :, a:b], key[:, :, c:d], value[:, :, c:d], seen, scale=more["scaling"], enable_gqa=True
        )
    return out.transpose(1, 2).contiguous(), None


def continuous_rows(guide: Any, runs: int) -> list[tuple[str, str]]:
    """Eight rows at once in a shared loop against continuous batching, by tokens per second."""
    config = ContinuousBatchingConfig(
        page_size=16, num_blocks=512, max_batch_tokens=128, max_requests_per_batch=16, use_cuda_graph=False
    )
    rows = []
    for name, requests, attention in (
        ("8 free rows, prompts of 36 tokens", free(36), sdpa_attention_forward),
        ("8 free rows, prompts of 400 tokens", free(400), sdpa_attention_forward),
        ("8 mixed guided rows", MIXED, row_attention),
    ):
        prompts: list[list[int]] = []
        tokens: list[int] = []

        def ours(requests: Any = requests, prompts: Any = prompts, tokens: Any = tokens) -> None:
            guide.forget()
            made = [of(guide, *request) for request in requests]
            run(prepare.shared_loop(guide.context, rows=16, cached_tokens=30_000), made)
            prompts[:] = [list(one.inputs.prompt_ids[0]) for one in made]
            tokens[:] = [len(one.answers[0].tokens) for one in made]

        def theirs(prompts: Any = prompts, tokens: Any = tokens, attention: Any = attention) -> None:
            greedy = GenerationConfig(do_sample=False, eos_token_id=-1, pad_token_id=0, max_new_tokens=max(tokens))
            ALL_ATTENTION_FUNCTIONS["sdpa"] = attention
            try:
                with guide.model.continuous_batching_context_manager(greedy, continuous_batching_config=config) as peer:
                    for ids, most in zip(prompts, tokens, strict=True):
                        peer.add_request(ids, max_new_tokens=most)
                    left = len(prompts)
                    while left:
                        answer = peer.get_result(timeout=1)
                        left -= answer is not None and answer.is_finished()
            finally:
                ALL_ATTENTION_FUNCTIONS["sdpa"] = sdpa_attention_forward

        ours()
        rows.append((name, ratio(ours, theirs, runs)))
    return rows


def arrivals(guide: Any) -> tuple[float, float]:
    """Return the tokens per second and the median time to the first token, where requests join a shared loop."""
    guide.forget()
    rows = generated.arriving(generated.MIXED)
    made, begun, tokens, skipped = 0, time.process_time(), 0, 0.0
    running, firsts = dict[int, Generation](), dict[int, float]()
    loop = prepare.shared_loop(guide.context, rows=16, cached_tokens=30_000)
    while made < len(rows) or running:
        now = time.process_time() - begun + skipped
        while made < len(rows) and now >= made * generated.EVERY:
            chat, asked, how = rows[made]
            running[made] = of(guide, chat, {**asked, **how, "max_tokens": generated.WORKLOADS["8 mixed"][1]})
            running[made].join(loop)
            made += 1
        if not running:
            skipped += made * generated.EVERY - now
            continue
        loop.step()
        now = time.process_time() - begun + skipped
        for n, one in list(running.items()):
            if n not in firsts and one.answers[0].tokens:
                firsts[n] = now - n * generated.EVERY
            if all(row.is_done for row in one.loop_rows):
                tokens += len(one.answers[0].tokens)
                del running[n]
    return tokens / (time.process_time() - begun + skipped), statistics.median(firsts.values())


def arrival_rows(guide: Any, tree: Path, runs: int) -> list[tuple[str, str, str, str]]:
    """Requests that join against batches of ``guide.generate``."""
    there = TreeProcess(tree)
    ways: list[Callable[[], Sequence[float]]] = [partial(arrivals, guide), partial(there.ask, "arrivals")]
    found = []
    for n in range(-1, runs):  # the first pair fills caches
        times = {way: way() for way in ways[:: 1 if n % 2 else -1]}
        found.append((times[ways[0]], times[ways[1]]))
    faster = [joined[0] / batches[0] for joined, batches in found[1:]]
    return [
        (
            "16 mixed, one every 0.3 s",
            f"{statistics.median(faster):.2f} ({min(faster):.2f} to {max(faster):.2f})",
            f"{statistics.median(joined[1] for joined, _ in found[1:]):.2f} s",
            f"{statistics.median(batches[1] for _, batches in found[1:]):.2f} s",
        )
    ]


def gap_rows(guide: Any, runs: int) -> list[tuple[str, str]]:
    gaps = []
    for _ in range(runs):
        guide.forget()
        loop = prepare.shared_loop(guide.context, rows=16, cached_tokens=30_000)
        for chat, _ in free(36)[:7]:
            of(guide, chat, {"temperature": 0, "max_tokens": 60}).join(loop)
        for _ in range(4):
            loop.step()
        plain = statistics.median(cpu(loop.step) for _ in range(8))
        late = of(guide, free(400)[7][0], {"temperature": 0, "max_tokens": 4})
        late.join(loop)
        longest = 0.0
        while not late.answers[0].tokens:
            longest = max(longest, cpu(loop.step))
        loop.close()
        gaps.append(longest / plain)
    seconds = 0.0

    def noted(forward: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            nonlocal seconds
            began = time.process_time()
            out = forward(*args, **named)
            seconds += time.process_time() - began
            return out

        return call

    guide.forget()
    made = [of(guide, *request) for request in MIXED]
    loop = prepare.shared_loop(guide.context, rows=16, cached_tokens=30_000)
    loop.places.feed = noted(loop.places.feed)  # type: ignore[union-attr, method-assign]
    whole = cpu(lambda: run(loop, made))
    return [
        ("a prompt of 400 tokens joins 7 rows: largest gap / a step", f"{statistics.median(gaps):.1f}"),
        ("our share of the loop's time, mixed", f"{1 - seconds / whole:.1%}"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ("generate", "peers", "continuous", "arrivals", "gap")
    parser.add_argument("--against", type=Path, help="a checkout whose guide.generate is timed next to this one's")
    parser.add_argument("--only", choices=names, action="append")
    parser.add_argument("--runs", type=int, default=5, help="pairs of each ratio (default 5)")
    parser.add_argument("--page", type=Path, help="write the tables into this page, between its marks")
    args = parser.parse_args()
    if args.against is None and "generate" in (args.only or ()):
        parser.error("--only generate needs --against")
    torch.set_num_threads(1)
    guide = guided.demo()
    of(guide, *MIXED[0])
    tables: list[str] = []

    def add(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        tables.append(markdown(head, rows))
        print("\n" + tables[-1], flush=True)

    wanted = args.only or names
    if "generate" in wanted and args.against is not None:
        add(
            ("guide.generate", f"times as fast as {args.against.resolve().name}"),
            generate_rows(args.against, args.runs),
        )
    if "peers" in wanted:
        add(("at once in one loop", "times as fast as model.generate"), peer_rows(guide, args.runs))
    if "continuous" in wanted:
        add(("at once in one loop", "times as fast as continuous batching"), continuous_rows(guide, args.runs))
    if "arrivals" in wanted:
        head = ("arriving", "tokens per second / batches", "first token, median", "of batches")
        add(head, arrival_rows(guide, args.against or ROOT, args.runs))
    if "gap" in wanted:
        add(("steps", ""), gap_rows(guide, args.runs))
    if args.page is not None:
        write_page(args.page, "joining", "benchmarks/joining.py", "\n\n".join(tables))


if __name__ == "__main__":
    main()
