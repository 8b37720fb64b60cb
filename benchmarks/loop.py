#!/usr/bin/env python3
"""Benchmark: our decode loop: forced runs, rows that leave, free text, ground-truth calls, other libraries.

    python benchmarks/loop.py                                # all tables (an hour)
    python benchmarks/loop.py --only calls --limit 30        # one of calls, batch, formats, truth, free, memory
    python benchmarks/loop.py --only formats                 # with xgrammar and outlines: `make bench-peers`
    python benchmarks/loop.py --page benchmarks/README.md    # write the tables into that page too

Cases: the first of BFCL's simple_python and live_simple (`benchmarks/tool_calls.py`); embedded model, float32, one
thread, greedy.  A ratio is the median over alternating pairs in this process, with its 90 % interval by order
statistics; each case is one pair, so the times of a pair are seconds apart.  No row is kept from call to call.

  calls    a required call, batch 1: forwards per token (median over the answers; of all tokens together, most of which
           may be a few strings that run on until they are cut); wall, prefill included, against the same loop step by
           step
  batch    the same at batch 4, against the loop step by step with finished rows kept
  formats  the same cases as response_format {name, arguments}: time to a whole answer against ``generate`` with the
           processors of xgrammar and outlines; an answer that does not end counts at its limit
  truth    the right calls fed by force, no model: forwards per token by syntax and vocabulary
  free     free text: per token against ``generate``, batch 1 and 8
  memory   peak bytes of the cache against transformers' own
  drafts   prompt look-up against none, for calls, extraction and free prose (`benchmarks/drafts.py`)
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from transformers import DynamicCache

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import guided  # noqa: E402
from benchmarks.drafts import assistant_rows, draft_rows  # noqa: E402
from benchmarks.ground_truth import truth_rows, vocabularies_here  # noqa: E402
from benchmarks.in_turns import in_turns  # noqa: E402
from benchmarks.json_schema_tables import write_page  # noqa: E402
from benchmarks.tool_calls import CATEGORIES, CallCase, load_cases  # noqa: E402
from guided.hf.cache.kv_cache import RowKV  # noqa: E402
from guided.hf.cache.self_test import Abilities  # noqa: E402
from guided.hf.generate.inputs import checked_inputs  # noqa: E402
from guided.hf.loop import prepare  # noqa: E402
from tests.judges.allocations import bytes_per_token  # noqa: E402

GREEDY = guided.Sampling(temperature=0)


@contextmanager
def step_by_step() -> Iterator[None]:
    """Inside, every model is decoded as one that can do nothing but single steps."""
    found = prepare.abilities_of
    prepare.abilities_of = lambda model: Abilities()
    try:
        yield
    finally:
        prepare.abilities_of = found


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Median and its 90 % interval by order statistics (ranks of a binomial, normal approximation)."""
    ordered = sorted(values)
    size = len(ordered)
    margin = math.ceil(1.645 * math.sqrt(size) / 2)
    middle = (size - 1) / 2
    low = ordered[max(0, math.floor(middle - margin))]
    return statistics.median(ordered), low, ordered[min(size - 1, math.ceil(middle + margin))]


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    out = call()
    return time.perf_counter() - began, out


def pairs(jobs: Sequence[tuple[Callable[[], Any], Callable[[], Any]]]) -> tuple[list[float], list[tuple[Any, Any]]]:
    """Run each pair of calls one after the other, the order alternating; return time ratios and results."""
    ratios: list[float] = []
    results: list[tuple[Any, Any]] = []
    for n, (one, other) in enumerate(jobs):
        if n % 2:
            b, y = timed(other)
            a, x = timed(one)
        else:
            a, x = timed(one)
            b, y = timed(other)
        ratios.append(a / b)
        results.append((x, y))
        print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return ratios, results


def shown(values: Sequence[float]) -> str:
    middle, low, high = interval(values)
    return f"{middle:.3f} ({low:.3f} to {high:.3f}, {len(values)} pairs)"


def call_rows(guide: Any, limit: int, batch: int, max_tokens: int) -> list[tuple[str, str, str, str]]:
    """Return rows: cases, forwards per token, wall ratio, tokens changed."""
    rows: list[tuple[str, str, str, str]] = []
    everything: list[float] = []
    for category in CATEGORIES:
        jobs = []
        cases = load_cases(category, limit)
        for at in range(0, len(cases), batch):
            part = cases[at : at + batch]
            plans = [guide.plan(tools=[c.tool], tool_choice="required", parallel_tool_calls=False) for c in part]

            def run(part: Sequence[CallCase] = part, plans: Any = plans) -> Any:
                chats = [case.messages for case in part]
                return guide.generate(chats, plans, sampling=GREEDY, max_tokens=max_tokens, describe=True, reuse=False)

            def slow(run: Callable[[], Any] = run) -> Any:
                with step_by_step():
                    return run()

            jobs.append((run, slow))
        jobs[0][0]()  # the self-test of the model, and tables of the vocabulary
        ratios, results = pairs(jobs)
        everything += ratios
        messages = [m for ours, _ in results for m in ours]
        shares = [m.usage.forwards / m.usage.completion_tokens for m in messages]
        forwards = sum(m.usage.forwards for m in messages) / sum(m.usage.completion_tokens for m in messages)
        cut = sum(m.finish_reason == "length" for m in messages)
        share = f"{shown(shares).replace('pairs', 'answers')}; of all tokens {forwards:.3f}, {cut} answers cut"
        changed = sum(
            sum(a != b for a, b in zip(m.token_ids, j.token_ids, strict=False))
            + abs(len(m.token_ids) - len(j.token_ids))
            for ours, judges in results
            for m, j in zip(ours, judges, strict=True)
        )
        rows.append((f"{category}, batch {batch}", share, shown(ratios), str(changed)))
    rows.append((f"together, batch {batch}", "", shown(everything), ""))
    return rows


# ---------------------------------------------------------------- other libraries


def format_rows(guide: Any, limit: int, max_tokens: int) -> list[tuple[str, str, str, str]]:
    """Return rows: peer, our time / its time per case, whole answers of ours and of the peer."""
    peers = [(name, make(guide)) for name, make in _PEERS.items() if importlib.util.find_spec(name) is not None]
    for name in _PEERS:
        if importlib.util.find_spec(name) is None:
            print(f"{name} is not installed: its row is left out", file=sys.stderr)
    rows = []
    for name, processor_of in peers:
        jobs = []
        for category in CATEGORIES:
            for case in load_cases(category, limit):
                function = case.tool["function"]
                form = {
                    "type": "object",
                    "properties": {"name": {"const": function["name"]}, "arguments": closed(function["parameters"])},
                    "required": ["name", "arguments"],
                    "additionalProperties": False,
                }
                try:
                    plan = guide.plan(response_format=form)
                    processor_of(form)
                except Exception as error:  # a schema that one of the two does not take compares nothing
                    print(f"{case.id}: left out for {name} ({type(error).__name__})", file=sys.stderr)
                    continue
                inputs = checked_inputs(guide.context, [case.messages], [plan], describe=True)

                def ours(case: CallCase = case, plan: Any = plan) -> Any:
                    message = guide.generate(
                        [case.messages], [plan], sampling=GREEDY, max_tokens=max_tokens, describe=True, reuse=False
                    )[0]
                    return message.finish_reason == "stop"

                def theirs(inputs: Any = inputs, form: Any = form, of: Any = processor_of) -> Any:
                    output = guide.model.generate(
                        **inputs, max_new_tokens=max_tokens, do_sample=False, pad_token_id=guide.context.pad_id,
                        logits_processor=[of(form)],
                    )  # fmt: skip
                    return int(output[0, -1]) in guide.tokens.end_ids

                jobs.append((ours, theirs))
        jobs[0][0]()  # the self-test of the model, and tables of the vocabulary
        ratios, results = pairs(jobs)
        whole = [sum(done for done in column) for column in zip(*results, strict=True)]
        rows.append((name, shown(ratios), f"{whole[0]} of {len(jobs)}", f"{whole[1]} of {len(jobs)}"))
    return rows


def closed(schema: Any) -> Any:
    """The schema without unnamed keys: xgrammar forbids them by default, so all write the same language."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    out = {key: closed(part) for key, part in schema.items()}
    return {"additionalProperties": False, **out} if isinstance(out.get("properties"), dict) else out


def _xgrammar(guide: Any) -> Callable[[Any], Any]:
    import xgrammar as xgr
    from xgrammar.contrib.hf import LogitsProcessor

    info = xgr.TokenizerInfo.from_huggingface(guide.tokenizer, vocab_size=guide.model.config.vocab_size)
    compiler = xgr.GrammarCompiler(info)
    return lambda form: LogitsProcessor(compiler.compile_json_schema(json.dumps(form)))


def _outlines(guide: Any) -> Callable[[Any], Any]:
    import outlines
    from outlines.backends import get_json_schema_logits_processor

    model = outlines.from_transformers(guide.model, guide.tokenizer)
    return lambda form: get_json_schema_logits_processor(None, model, json.dumps(form))


_PEERS: dict[str, Callable[[Any], Callable[[Any], Any]]] = {"xgrammar": _xgrammar, "outlines": _outlines}


# ---------------------------------------------------------------- free text, memory


def free_rows(guide: Any, runs: int, tokens: int) -> list[tuple[str, ...]]:
    """Return rows: batch, the ratio of the n-th steps, that of whole calls, that of the bytes allocated per token."""
    chats = ["Tell me a story about a lighthouse.", "What is a glacier?", "List some rivers.", "How do bees fly?"] * 2
    rows = []
    for batch in (1, 8):
        part = chats[:batch]
        inputs = checked_inputs(guide.context, part)
        options = {"do_sample": False, "pad_token_id": guide.context.pad_id}
        quiet = guide.with_tokens(guide.tokens)

        def ours(tokens: int = tokens, part: Any = part, quiet: Any = quiet, reuse: bool = True) -> Any:
            return quiet.generate(part, sampling=guided.Sampling(temperature=0), max_tokens=tokens, reuse=reuse)

        def theirs(tokens: int = tokens, inputs: Any = inputs, options: Any = options) -> Any:
            return guide.model.generate(**inputs, max_new_tokens=tokens, **options)

        lengths = {len(m.token_ids) for m in ours()}
        assert lengths == {tokens}, f"an answer ended early: {lengths}"
        found = in_turns(f"batch {batch}", guide.model, ours, theirs, runs)
        step = f"{found['step']:.3f} ({found['step_low']:.3f} to {found['step_high']:.3f}, {found['pairs']} steps)"
        size = bytes_per_token(partial(ours, reuse=False), 8, tokens) / bytes_per_token(theirs, 8, tokens)
        rows.append((f"batch {batch}", step, f"{found['call']:.3f}", f"{size:.3f}"))
    return rows


def memory_rows(guide: Any) -> list[tuple[str, str]]:
    """Return the peak bytes of the cache of one long row, and of four of different lengths, next to transformers'."""
    rows = []
    for lengths in ((1500,), (900, 700, 500, 300)):
        ours = RowKV(guide.model, len(lengths))
        ours.feed([[5] * length for length in lengths])
        peak = ours.size_bytes
        theirs = DynamicCache(config=guide.model.config)
        width = max(lengths)
        ids = torch.full((len(lengths), width), 5)
        with torch.no_grad():
            guide.model(input_ids=ids, past_key_values=theirs, use_cache=True, logits_to_keep=1)
        for _ in range(100):
            ours.feed([[5]] * len(lengths))
            peak = max(peak, ours.size_bytes)
        with torch.no_grad():
            guide.model(input_ids=ids[:, :100], past_key_values=theirs, use_cache=True, logits_to_keep=1)
        judge = sum(layer.keys.nbytes + layer.values.nbytes for layer in theirs.layers)
        rows.append((f"{len(lengths)} rows of {', '.join(map(str, lengths))} tokens, then 100", f"{peak / judge:.3f}"))
    return rows


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ("calls", "batch", "formats", "truth", "free", "memory", "drafts")
    parser.add_argument("--only", choices=names, action="append")
    parser.add_argument("--limit", type=int, default=30, help="cases of each category (default 30)")
    parser.add_argument("--max-tokens", type=int, default=256)
    parser.add_argument("--vocabulary", action="append", help="tokenizers of the truth table (folders)")
    parser.add_argument("--runs", type=int, default=7, help="pairs of calls for free text")
    parser.add_argument("--page", type=Path, help="write the tables into this page, between its marks")
    args = parser.parse_args()
    torch.set_num_threads(1)
    wanted = args.only or names
    needs_model = set(wanted) - {"truth"}
    guide = guided.demo() if needs_model else None
    print(
        f"{platform.machine()}, torch {version('torch')}, transformers {version('transformers')}, 1 thread", flush=True
    )
    tables: list[str] = []

    def add(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        tables.append(markdown(head, rows))
        print("\n" + tables[-1], flush=True)

    for size, name in ((1, "calls"), (4, "batch")):
        if name in wanted:
            head = ("a required call", "forwards per token", "wall / step by step", "tokens changed")
            add(head, call_rows(guide, args.limit, size, args.max_tokens))
    if "formats" in wanted:
        head = ("{name, arguments} as response format", "our time / its time", "our whole answers", "its whole answers")
        add(head, format_rows(guide, args.limit, args.max_tokens))
    if "truth" in wanted:
        vocabularies = args.vocabulary or vocabularies_here()
        add(
            ("right calls: forwards per token", *(Path(v).name for v in vocabularies)),
            truth_rows(vocabularies, args.limit),
        )
    if "free" in wanted:
        head = ("free text / generate", "per token", "whole call", "bytes allocated per token")
        add(head, free_rows(guide, args.runs, 40))
    if "memory" in wanted:
        add(("peak bytes of the cache", "/ transformers' own"), memory_rows(guide))
    if "drafts" in wanted:
        head = (
            "prompt look-up",
            "forwards per token without",
            "with",
            "with the best pick",
            "CPU time / without",
            "guesses right",
            "changed",
        )
        add(head, draft_rows(guide, args.limit, args.max_tokens, shown))
        head = ("the model as its own assistant", "forwards per token", "guesses right")
        add(head, assistant_rows(guide, min(args.limit, 5), args.max_tokens))
    if args.page is not None:
        write_page(args.page, "loop", "benchmarks/loop.py", "\n\n".join(tables))


if __name__ == "__main__":
    main()
