#!/usr/bin/env python3
"""Benchmark: conversations with kept rows against none.

  python benchmarks/conversations.py                  # embedded model, float32, one thread, about ten minutes
  python benchmarks/conversations.py --only parts     # one of fed, branches, requests, parts, first
  python benchmarks/conversations.py --page benchmarks/README.md

fed       tokens fed on turn n / (length of prompt n - its longest common prefix with prompt n-1 and answer n-1),
          counted outside of our pool from the ids that the model was fed
branches  20 turns that alternate three plans: how often an old token of a branch is fed again
requests  30 requests of one conversation: tokens fed per new token; time of the last ten / the first ten, divided by
          the same ratio of single steps at these lengths
parts     milliseconds of processor time at 10, 50, 100 and 200 turns: render, tokenise, compare, prefill; with no pool
first     the first request with the pool and without: forwards, and copies of tensors
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import guided  # noqa: E402
from benchmarks.json_schema_tables import write_page  # noqa: E402
from benchmarks.loop import interval  # noqa: E402
from guided.hf.cache.kv_cache import RowKV  # noqa: E402
from guided.hf.cache.prefix_pool import model_state  # noqa: E402
from guided.hf.generate.inputs import checked_inputs  # noqa: E402
from guided.hf.model.chat_template import prompt_text  # noqa: E402

QUESTIONS = (
    "What is a glacier?",
    "And how old is it?",
    "Say that in one word.",
    "Why?",
    "Give me a number.",
    "Thanks.",
)


class Fed:
    """The numbers of columns that the model was fed, forward by forward."""

    def __init__(self, model: Any) -> None:
        self.sizes: list[int] = []
        model.register_forward_pre_hook(self._note, with_kwargs=True)

    def _note(self, module: Any, args: Any, kwargs: Any) -> None:
        self.sizes.append(int(kwargs["input_ids"].shape[1]))

    def taken(self) -> list[int]:
        sizes, self.sizes = self.sizes, []
        return sizes


def common(one: Sequence[int], other: Sequence[int]) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def question(turn: int) -> dict[str, str]:
    return {"role": "user", "content": QUESTIONS[turn % len(QUESTIONS)]}


def fed_rows(model: Any, tokenizer: Any, turns: int) -> list[tuple[str, str]]:
    guide, fed = guided.Guide(model, tokenizer), Fed(model)
    chat: list[dict[str, Any]] = []
    known: list[int] = []
    ratios = []
    for turn in range(turns):
        chat.append(question(turn))
        prompt = checked_inputs(guide.context, [chat]).prompt_ids[0]
        fed.taken()
        message = guide.chat(chat, temperature=0, max_tokens=12)
        if turn:
            ratios.append(fed.taken()[0] / (len(prompt) - min(common(prompt, known), len(prompt) - 1)))
        known = [*prompt, *message.token_ids[:-1]]  # the last token was never fed
        chat.append(message.to_chat())
    return [("tokens fed on a turn / tokens that are new, 20 turns", f"{min(ratios):.2f} to {max(ratios):.2f}")]


def branch_rows(model: Any, tokenizer: Any) -> list[tuple[str, str]]:
    guide, fed = guided.Guide(model, tokenizer), Fed(model)
    plans = [None, guide.plan(response_format={"enum": ["yes", "no"]}), guide.plan(response_format={"type": "integer"})]
    chat: list[dict[str, Any]] = []
    times: list[Counter[int]] = [Counter() for _ in plans]
    for turn in range(20):
        chat.append(question(turn))
        plan = plans[turn % 3]
        inputs = checked_inputs(guide.context, [chat], [plan], describe=True)
        fed.taken()
        message = guide.chat(chat, plan, temperature=0, max_tokens=12)
        first = fed.taken()[:1]
        size = len(inputs.prompt_ids[0])
        times[turn % 3].update(range(size - min(first[0] if first else 0, size), size))
        chat.append({"role": "assistant", "content": message.content})
    again = max(max(counts.values()) for counts in times) - 1
    return [("20 turns, three plans in turn: an old token of a branch is fed again", f"at most {again} times")]


def request_rows(model: Any, tokenizer: Any) -> list[tuple[str, str]]:
    fed = Fed(model)
    shares: list[float] = []
    growth: list[float] = []
    for _ in range(3):
        guide, chat = guided.Guide(model, tokenizer), []
        guide.chat("warm", max_tokens=1, reuse=False)  # the first time with the model's self-test
        seconds, lengths = [], []
        for turn in range(32):
            chat.append(question(turn))
            fed.taken()
            began = time.process_time()
            message = guide.chat(chat, temperature=0, max_tokens=12)
            seconds.append(time.process_time() - began)
            usage = message.usage
            shares.append(sum(fed.taken()) / (usage.prompt_tokens - usage.cached_tokens + len(message.token_ids) - 1))
            lengths.append(usage.prompt_tokens)
            chat.append(message.to_chat())
        # Requests 2 to 11 and 20 to 29, 18 turns apart: the same question, so about as many new tokens.
        for first in range(2, 12):
            steps = single_step(model, lengths[first + 18]) / single_step(model, lengths[first])
            growth.append(seconds[first + 18] / seconds[first] / steps)
    middle, low, high = interval(growth)
    return [
        ("requests of one conversation: tokens fed per new token", f"{min(shares):.2f} to {max(shares):.2f}"),
        (
            "time of a late request / of an early one with the same question, over the ratio of single steps",
            f"{middle:.3f} ({low:.3f} to {high:.3f}, {len(growth)} pairs)",
        ),
    ]


def single_step(model: Any, length: int) -> float:
    cache = RowKV(model, 1)
    cache.feed([[5] * length])
    times = []
    for _ in range(15):
        began = time.process_time()
        cache.feed([[7]])
        times.append(time.process_time() - began)
    return statistics.median(times)


def median_ms(call: Callable[[], Any], runs: int = 9) -> float:
    times = []
    for _ in range(runs):
        began = time.process_time()
        call()
        times.append(time.process_time() - began)
    return statistics.median(times) * 1e3


def part_rows(model: Any, tokenizer: Any) -> list[tuple[str, ...]]:
    rows = []
    for turns in (10, 50, 100, 200):
        guide = guided.Guide(model, tokenizer, cache_bytes=4 << 30)
        chat: list[dict[str, Any]] = []
        for turn in range(turns):
            chat += [question(turn), {"role": "assistant", "content": "A river of ice."}]
        now = [*chat, question(turns)]
        render = median_ms(lambda guide=guide, now=now: prompt_text(tokenizer, now, guide.format, None, guide.tokens))
        text = prompt_text(tokenizer, chat[:-1], guide.format, None, guide.tokens)
        whole = median_ms(lambda text=text: tokenizer(text, add_special_tokens=False))
        ids = checked_inputs(guide.context, [now]).prompt_ids[0]
        prefill = "past the context"
        without = "past the context"
        compare = 0.0
        if len(ids) < model.config.max_position_embeddings:
            cache = RowKV(model, 1)
            old = checked_inputs(guide.context, [chat[:-1]]).prompt_ids[0]
            cache.feed([old])
            guide.context.pool.keep(cache.take(0), model_state(model), 0)
            state = model_state(model)
            compare = median_ms(lambda guide=guide, ids=ids, state=state: guide.context.pool.longest(ids[:-1], state))
            found = guide.context.pool.longest(ids[:-1], state)
            assert found is not None

            def kept(found: Any = found, ids: Any = ids) -> None:
                cache = RowKV(model, 0)
                cache.extend([found])
                cache.feed([ids[found[1] :]])

            prefill = f"{median_ms(kept, 5):.0f}"
            without = f"{median_ms(lambda ids=ids: RowKV(model, 1).feed([list(ids)]), 3):.0f}"
        rows.append(
            (
                str(turns),
                str(len(ids)),
                f"{render:.2f}",
                f"{whole:.2f}",
                f"{compare:.3f}",
                prefill,
                without,
            )
        )
    return rows


def first_rows(model: Any, tokenizer: Any) -> list[tuple[str, str]]:
    counts = []
    names = ("clone", "index_select", "copy_", "contiguous")
    for size in (None, 0):
        guide = guided.Guide(model, tokenizer, cache_bytes=size)
        guide.chat("warm", max_tokens=2, reuse=False)
        calls: Counter[str] = Counter()
        methods = {name: getattr(torch.Tensor, name) for name in names}
        for name, method in methods.items():

            def counted(
                *args: Any, _method: Any = method, _name: str = name, _calls: Any = calls, **kwargs: Any
            ) -> Any:
                _calls[_name] += 1
                return _method(*args, **kwargs)

            setattr(torch.Tensor, name, counted)
        hook = model.register_forward_pre_hook(lambda *_, _calls=calls: _calls.update(["forwards"]))
        try:
            guide.chat("What is a glacier?", max_tokens=9, temperature=0)
        finally:
            hook.remove()
            for name, method in methods.items():
                setattr(torch.Tensor, name, method)
        counts.append(f"{calls['forwards']} forwards, {sum(calls[name] for name in names)} copies")
    return [("first request with the pool / without", f"{counts[0]} / {counts[1]}")]


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("fed", "branches", "requests", "parts", "first"), action="append")
    parser.add_argument("--page", type=Path, help="write the tables into this page, between its marks")
    args = parser.parse_args()
    torch.set_num_threads(1)
    demo = guided.demo()
    model, tokenizer = demo.model, demo.tokenizer
    wanted = args.only or ("fed", "branches", "requests", "parts", "first")
    counts: list[tuple[str, str]] = []
    if "fed" in wanted:
        counts += fed_rows(model, tokenizer, 20)
    if "branches" in wanted:
        counts += branch_rows(model, tokenizer)
    if "requests" in wanted:
        counts += request_rows(model, tokenizer)
    if "first" in wanted:
        counts += first_rows(model, tokenizer)
    tables = [markdown(("conversations with kept rows", "found"), counts)] if counts else []
    if "parts" in wanted:
        head = (
            "turns",
            "tokens",
            "render ms",
            "tokenise",
            "compare",
            "prefill",
            "without the pool",
        )
        tables.append(markdown(head, part_rows(model, tokenizer)))
    print("\n\n".join(tables))
    if args.page is not None:
        write_page(args.page, "conversations", "benchmarks/conversations.py", "\n\n".join(tables))


if __name__ == "__main__":
    main()
