#!/usr/bin/env python3
"""Benchmark: the cost of schemas relative to the plain engine, for compiling and for each mask.

    python benchmarks/json_schema_ratios.py                       # all schemas of the archive (five minutes)
    python benchmarks/json_schema_ratios.py --limit 400           # an even sample
    python benchmarks/json_schema_ratios.py --above 2.5           # and list the schemas above this ratio
    python benchmarks/json_schema_ratios.py --page benchmarks/json_schema.md

It uses the schemas that plain llguidance compiles with its defaults, on two vocabularies: that of the scorer (4,096
tokens, trained on the data) and that of SmolLM2 (49,152), if ``GUIDED_TOKENIZERS`` has it.

*compile*: ours is composing the request to a plan (the schema analysed, rewritten, reported on), compiling its grammar
with an empty cache, and the first mask; plain is the engine's compiler on the text of the schema and the first mask.
CPU time of the process, the minimum of ``--repeat`` alternating runs of each; garbage collection is off.

*mask*: one token's mask, ours from `GuidanceState`, plain from a matcher; the first valid instance of each schema,
token by token, as long as both allow it; the sum over the instance of the minima of ``--repeat`` alternating passes.
Plans with a run-time watcher have their own row: the plain engine has no equivalent.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import llguidance

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks.json_schema_tables import percent, quantile, table, write_page  # noqa: E402
from grammars.plan.plan import Plan  # noqa: E402
from guided.bitmask import is_allowed  # noqa: E402
from guided.state.state import GuidanceState  # noqa: E402
from special_tokens.errors import GuidedError  # noqa: E402
from tests.judges.schema_masks import Judge  # noqa: E402
from tests.judges.schema_scorer import scorer_module  # noqa: E402

__all__ = ["Measured", "measure", "print_ratios", "rows_of"]

HEAD = ("vocabulary", "ours / plain", "counted", "median", "p95", "p99", "above 2.5 %")
_MOST_TOKENS = 400


@dataclass
class Measured:
    """Ratios on one vocabulary: one per schema for compiling, one per instance for masks."""

    vocabulary: str
    compiling: list[tuple[float, str]] = field(default_factory=list)
    rewriting: list[float] = field(default_factory=list)
    masks: list[float] = field(default_factory=list)
    watched_masks: list[float] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


def measure(judge: Judge, name: str, records: list[Any], texts: Callable[..., list[str]], repeat: int) -> Measured:
    """Measure the ratios on the vocabulary of ``judge``; ``texts`` writes an instance as the scorer does."""
    found = Measured(name)
    gc.collect()
    gc.freeze()  # collections skip what is loaded by now
    tokenizer = judge.engine.ll_tokenizer
    for record in records:
        schema = record["schema"]
        grammar = llguidance.LLMatcher.grammar_from_json_schema(json.dumps(schema))

        def plain(grammar: str = grammar) -> Any:
            matcher = llguidance.LLMatcher(tokenizer, grammar, log_level=0)
            matcher.deep_copy().compute_bitmask()
            return matcher

        def ours(schema: Any = schema) -> Plan:
            plan = judge.plan(schema)
            compiled = judge.engine.pristine(plan, "fresh")
            judge.engine.forget(plan, "fresh", compiled)  # here, because the plain matcher is freed at once as well
            return plan

        matcher = plain()
        if matcher.is_error():
            continue
        try:
            plan = ours()
        except GuidedError as error:
            found.refused.append(f"{record['name']}: {error}")
            continue
        with _quiet():
            there, here, composing = _least(repeat, plain, ours, lambda schema=schema: judge.plan(schema))
        found.compiling.append((here / there, record["name"]))
        found.rewriting.append(composing / there)
        ratio = _mask_ratio(judge, plan, matcher, record, texts, repeat)
        if ratio is not None:
            (found.watched_masks if plan.watchers else found.masks).append(ratio)
    return found


@contextmanager
def _quiet() -> Iterator[None]:
    """Turn garbage collection off: it would be charged to whichever code runs when it is due."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _least(repeat: int, *works: Callable[[], Any]) -> list[float]:
    """Return the CPU seconds of each function, the minimum of several alternating runs."""
    best = [float("inf")] * len(works)
    for _ in range(repeat):
        for i, work in enumerate(works):
            begin = time.process_time()
            work()
            best[i] = min(best[i], time.process_time() - begin)
    return best


def _mask_ratio(
    judge: Judge, plan: Plan, matcher: Any, record: Any, texts: Callable[..., list[str]], repeat: int
) -> float | None:
    valid = next((test["data"] for test in record["tests"] if test["valid"]), _NOTHING)
    if valid is _NOTHING:
        return None
    state = GuidanceState(plan, judge.engine)
    ids = judge.tokenizer.encode(texts(valid, record["schema"])[-1], add_special_tokens=False)[:_MOST_TOKENS]
    best: list[list[float]] = []
    with _quiet():
        for _ in range(repeat):
            for i, pair in enumerate(_passed(state.fork(), matcher.deep_copy(), ids)):
                if i == len(best):
                    best.append(list(pair))
                best[i] = [min(a, b) for a, b in zip(best[i], pair, strict=True)]
    return sum(a for a, _ in best) / sum(b for _, b in best) if best else None


_NOTHING = object()


def _passed(state: GuidanceState, matcher: Any, ids: list[int]) -> Iterator[tuple[float, float]]:
    """Return the seconds of both for the masks of the same tokens, as far as both allow them."""
    for i, token in enumerate(ids):
        if state.is_stopped:
            return
        if i % 2:  # the second finds the vocabulary's trie in the processor cache
            there, here, mask = _both(matcher.compute_bitmask, state.mask)
        else:
            here, there, _ = _both(state.mask, matcher.compute_bitmask)
            mask = state.mask()
        yield here, there
        if not is_allowed(mask, token) or not matcher.consume_token(token):
            return
        state.commit([token])


def _both(first: Callable[[], Any], second: Callable[[], Any]) -> tuple[float, float, Any]:
    """Return the seconds of two functions, and the result of the second."""
    begin = time.perf_counter()
    first()
    middle = time.perf_counter()
    result = second()
    return middle - begin, time.perf_counter() - middle, result


def rows_of(found: Measured) -> Iterator[tuple[object, ...]]:
    """Return the rows of one vocabulary."""
    ratios = [ratio for ratio, _ in found.compiling]
    for name, values in (
        ("compile and first mask", ratios),
        ("of it, the request to a plan", found.rewriting),
        ("mask, plans without a watcher", found.masks),
        ("mask, plans with a watcher", found.watched_masks),
    ):
        if values:
            shares = [f"{quantile(values, share):.2f}" for share in (0.5, 0.95, 0.99)]
            above = percent(sum(value > 2.5 for value in values), len(values))
            yield found.vocabulary, name, len(values), *shares, above


def print_ratios(limit: int | None, *, repeat: int = 5, above: float | None = None, page: Path | None = None) -> None:
    """Measure and print the table; list the schemas ``above`` a ratio."""
    scorer = scorer_module()
    records = scorer.load_bench(scorer.DATA / "jsonschemabench.tar.xz")
    if limit and limit < len(records):
        records = [records[i * len(records) // limit] for i in range(limit)]
    rows: list[tuple[object, ...]] = []
    notes: list[str] = []
    for name, where in _vocabularies():
        found = measure(Judge(scorer.load_tokenizer(where)), name, records, scorer.texts, repeat)
        rows += rows_of(found)
        notes = [f"{len(found.compiling)} of {len(records)} schemas."]
        notes += [f"Refused by us alone: {line}" for line in found.refused]
        for ratio, schema in sorted(found.compiling, reverse=True):
            if above is not None and ratio > above:
                print(f"{ratio:7.2f}  {name}  {schema}", file=sys.stderr)
    text = "\n".join([*notes, "", table(HEAD, rows)])
    print(text)
    if page is not None:
        write_page(page, "ratios", "benchmarks/json_schema_ratios.py", text)


def _vocabularies() -> Iterator[tuple[str, str | None]]:
    yield "4k, of the scorer", None
    base = Path(os.environ.get("GUIDED_TOKENIZERS", Path.home() / ".cache" / "guided" / "tokenizers"))
    folder = base / "smollm2"
    if folder.is_dir():
        yield "49k, of SmolLM2", str(folder)
    else:
        print("the vocabulary of SmolLM2 is not there (GUIDED_TOKENIZERS): left out", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int, help="at most this many schemas, evenly spread")
    parser.add_argument("--repeat", type=int, default=5, help="runs of each")
    parser.add_argument("--above", type=float, help="list the schemas above this ratio of compiling")
    parser.add_argument("--page", type=Path, help="write the table into this page too")
    options = parser.parse_args()
    print_ratios(options.limit, repeat=options.repeat, above=options.above, page=options.page)


if __name__ == "__main__":
    main()
