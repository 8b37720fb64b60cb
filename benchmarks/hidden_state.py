#!/usr/bin/env python3
"""Benchmark: the last token's hidden state by each strategy, in time and memory.

    python benchmarks/hidden_state.py                      # the table (ten minutes)
    python benchmarks/hidden_state.py --only 1 --only 8    # of these batches
    python benchmarks/hidden_state.py --page benchmarks/README.md

Embedded model, float32, one thread, greedy, ``--max-tokens`` tokens at most.  Loads, by what ends their answers:

  length    free text, all cut by the limit
  mixed     60 % of the rows free text, 40 % JSON that ends when it is complete
  content   80 % of the rows JSON of different lengths, 20 % free text

Time is CPU seconds of this process, divided by those of the same call without hidden states in the same round (rounds
go through all ways, each time in another order); median with its 90 % interval by order statistics.  ``prefill`` finds
the answers' rows kept (``reuse=True``) or, in its second column, computes whole texts.  Memory is the bytes of states
that are held when the answers are done, and for ``prefill`` the cache that it fills, next to what
``output_hidden_states=True`` of ``generate`` returns for the same batch.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import guided  # noqa: E402
from benchmarks.json_schema_tables import write_page  # noqa: E402
from benchmarks.loop import interval, markdown  # noqa: E402
from guided.hf.cache.kv_cache import RowKV  # noqa: E402
from guided.hf.generate.call import generate_kwargs  # noqa: E402
from guided.hf.generate.inputs import checked_inputs  # noqa: E402
from guided.hf.hidden import messages as prefill  # noqa: E402
from guided.hf.hidden.messages import LastStates  # noqa: E402

THINGS = ("a cat", "the rain", "an old clock", "bread", "a long train", "the moon", "a red door", "salt")
ADJECTIVES = {"type": "object", "properties": {"thing": {"type": "string", "maxLength": 12},
              "size": {"enum": ["small", "medium", "very large"]}}, "required": ["thing", "size"],
              "additionalProperties": False}  # fmt: skip
YES_NO = {"enum": ["yes", "no", "nobody knows"]}

#: Load -> of five rows, how many are free text, the long JSON, and the short one.
LOADS = {"length": (5, 0, 0), "mixed": (3, 1, 1), "content": (1, 2, 2)}
#: Way -> how the states are asked for, and whether rows are kept.
WAYS: dict[str, tuple[Any, bool]] = {
    "off": (False, True),
    "hybrid": (guided.hf.HiddenStates("hybrid"), True),
    "prefill": (guided.hf.HiddenStates("prefill"), True),
    "prefill, nothing kept": (guided.hf.HiddenStates("prefill"), False),
    "auto": (guided.hf.HiddenStates("auto"), True),
}


def batch_of(guide: Any, load: str, size: int) -> tuple[list[str], list[Any]]:
    """Return the chats and plans of a batch; batch 1 takes the load's most frequent kind."""
    kinds = [None] * LOADS[load][0] + [ADJECTIVES] * LOADS[load][1] + [YES_NO] * LOADS[load][2]
    kinds = kinds[:1] if size == 1 and load != "content" else kinds[1:2] if size == 1 else kinds
    chats, plans = [], []
    for i in range(size):
        kind = kinds[i % len(kinds)]
        chats.append(f"Say something about {THINGS[i % len(THINGS)]}, please.")
        plans.append(None if kind is None else guide.plan(response_format=kind))
    return chats, plans


class TimedCall:
    """One call of a way: its CPU seconds, and the bytes of states and of the caches of ``prefill``."""

    def __init__(self, guide: Any, load: str, size: int, way: str, max_tokens: int) -> None:
        chats, plans = batch_of(guide, load, size)
        how, reuse = WAYS[way]
        guide.forget()
        with watched() as held:
            began = time.process_time()
            self.messages = guide.generate(
                chats, plans, sampling=guided.Sampling(temperature=0), max_tokens=max_tokens, reuse=reuse,
                return_last_hidden_state=how,
            )  # fmt: skip
            self.seconds = time.process_time() - began
        self.held = held
        guide.forget()


@contextmanager
def watched() -> Iterator[dict[str, int]]:
    """Inside, the most bytes of states between steps, and of the caches that `prefill` fills."""
    held = {"states": 0, "cache": 0}
    take, states = LastStates.take, prefill._states

    def taking(self: Any, *args: Any) -> None:
        take(self, *args)
        memory = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in self._states.values()}
        held["states"] = max(held["states"], sum(memory.values()))

    def computed(*args: Any) -> Any:
        caches = []
        begin = RowKV.__init__

        def made(self: Any, *given: Any) -> None:
            begin(self, *given)
            caches.append(self)

        RowKV.__init__ = made  # type: ignore[method-assign]
        try:
            found = states(*args)
        finally:
            RowKV.__init__ = begin  # type: ignore[method-assign]
        held["cache"] = max(held["cache"], sum(cache.size_bytes for cache in caches))
        held["states"] += sum(state.nbytes for state in found)
        return found

    LastStates.take, prefill._states = taking, computed  # type: ignore[method-assign]
    try:
        yield held
    finally:
        LastStates.take, prefill._states = take, states  # type: ignore[method-assign]


def theirs(guide: Any, load: str, size: int, max_tokens: int) -> int:
    """Return the bytes that ``output_hidden_states=True`` of ``generate`` returns for the batch."""
    chats, plans = batch_of(guide, load, size)
    inputs = checked_inputs(guide.context, chats, plans, describe=True)
    out = guide.model.generate(
        **inputs, max_new_tokens=max_tokens, do_sample=False, pad_token_id=guide.context.pad_id,
        output_hidden_states=True, return_dict_in_generate=True, **generate_kwargs(guide.context, inputs, plans),
    )  # fmt: skip
    return sum(layer.nbytes for step in out.hidden_states for layer in step)


def ends(messages: Sequence[Any]) -> str:
    """Return how the answers ended: by the limit, by a chosen token, by a forced one."""
    cut = sum(message.finish_reason == "length" for message in messages)
    forced = sum(message.usage.forwards == 0 for message in messages)
    return f"{cut} cut, {len(messages) - cut - forced} ended, {forced} without a forward"


def shown(values: Sequence[float]) -> str:
    middle, low, high = interval(values)
    return f"{middle:.3f} ({low:.3f} to {high:.3f})"


def rows_of(guide: Any, load: str, size: int, rounds: int, max_tokens: int) -> tuple[list[str], list[str]]:
    """Return one row of the table of times and one of the table of memory."""
    names = list(WAYS)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    last: dict[str, TimedCall] = {}
    TimedCall(guide, load, size, "off", 4)  # tables of the vocabulary
    for n in range(rounds):
        for name in (names[n % len(names) :] + names[: n % len(names)])[:: 1 if n % 2 else -1]:
            last[name] = TimedCall(guide, load, size, name, max_tokens)
            seconds[name].append(last[name].seconds)
        print(".", end="", file=sys.stderr, flush=True)
    texts = {name: [message.token_ids for message in call.messages] for name, call in last.items()}
    assert all(text == texts["off"] for text in texts.values()), "a way changed the answers"
    ratios = {name: [a / b for a, b in zip(seconds[name], seconds["off"], strict=True)] for name in names[1:]}
    time_row = [load, str(size), ends(last["hybrid"].messages), *(shown(ratios[name]) for name in names[1:])]
    judge = theirs(guide, load, size, max_tokens)
    hybrid, after = last["hybrid"].held, last["prefill"].held
    width = guide.model.config.hidden_size * 4
    memory_row = [load, str(size), f"{hybrid['states'] / (size * width):.1f}", f"{hybrid['states']:,}",
                  f"{after['cache']:,}", f"{judge:,}"]  # fmt: skip
    return time_row, memory_row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=int, action="append", help="batch sizes (default 1, 8, 32)")
    parser.add_argument("--load", choices=LOADS, action="append")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--max-tokens", type=int, default=24)
    parser.add_argument("--page", type=Path, help="write the tables into this page, between its marks")
    args = parser.parse_args()
    torch.set_num_threads(1)
    guide = guided.demo()
    guide.chat("x", max_tokens=2, return_last_hidden_state=True)  # the self-tests
    print(f"{platform.machine()}, torch {version('torch')}, transformers {version('transformers')}, 1 thread")
    times, memory = [], []
    for load in args.load or LOADS:
        for size in args.only or (1, 8, 32):
            found = rows_of(guide, load, size, args.rounds, args.max_tokens)
            times.append(found[0])
            memory.append(found[1])
            print("\n", found, flush=True)
    tables = [
        markdown(("load", "rows", "answers", *(f"{name} / off" for name in list(WAYS)[1:])), times),
        markdown(("load", "rows", "hybrid holds, in states a row", "bytes", "cache that prefill fills, bytes",
                  "output_hidden_states=True, bytes"), memory),
    ]  # fmt: skip
    print("\n" + "\n\n".join(tables))
    if args.page is not None:
        write_page(args.page, "hidden states", "benchmarks/hidden_state.py", "\n\n".join(tables))


if __name__ == "__main__":
    main()
