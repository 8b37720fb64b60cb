#!/usr/bin/env python3
"""How much of JSON Schema the masks enforce, by a scorer and on data that are not ours.

    python benchmarks/json_schema.py                        # everything (some 20 minutes on two cores)
    python benchmarks/json_schema.py --limit 200            # an even sample of each data set
    python benchmarks/json_schema.py --only ratios          # compile and mask times beside the plain engine's
    python ../shared/bench/schema_score.py --engine guided --adapter benchmarks.json_schema:adapter

``adapter`` and ``strict_adapter`` are what the scorer calls: a schema becomes a plan by the same road as a request's
response format, and a text is accepted when each of its tokens has its bit in the mask that `GuidanceState` fills
just before it, and an end is open after the last.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import llguidance

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from grammars.compose import Parts, compose  # noqa: E402
from grammars.constraints import JsonSchema  # noqa: E402
from grammars.formats.format import Format  # noqa: E402
from grammars.json_schema import Policy  # noqa: E402
from grammars.plan import Plan  # noqa: E402
from guided.bitmask import is_allowed  # noqa: E402
from guided.compile import Engine  # noqa: E402
from guided.hf.tokenizer import special_tokens_of, tokenizer_json  # noqa: E402
from guided.state import GuidanceState  # noqa: E402

__all__ = ["Compiled", "Judge", "adapter", "ratios", "scorer_module", "setup", "strict_adapter"]

SCORER = Path(os.environ.get("GUIDED_SHARED", ROOT.parent / "shared")) / "bench" / "schema_score.py"

#: Runs of the scorer: name in the table, engine, and its arguments.
RUNS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("guided, warn", ("--engine", "guided", "--adapter", "benchmarks.json_schema:adapter")),
    ("guided, strict", ("--engine", "guided", "--adapter", "benchmarks.json_schema:strict_adapter")),
    ("llguidance", ("--engine", "llguidance")),
    ("llguidance, lenient", ("--engine", "llguidance", "--options", '{"lenient": true}')),
)


class Compiled:
    """One schema's plan on one engine; ``accepts`` is what the scorer asks."""

    def __init__(self, plan: Plan, engine: Engine, tokenizer: Any) -> None:
        self.plan = plan
        self.start = GuidanceState(plan, engine)
        self.start.mask()
        self._tokenizer = tokenizer

    def accepts(self, text: str) -> bool:
        """Can ``text`` be written under our masks, and may the answer end there?"""
        return self.written(text) is None

    def explain(self, text: str) -> str:
        """Where the masks stop the text."""
        at = self.written(text)
        if at is None:
            return "accepted"
        data = text.encode()
        return f"stopped after {data[max(0, at - 80) : at]!r}, refused {data[at : at + 20]!r}"

    def written(self, text: str) -> int | None:
        """Byte at which the masks stop the text, its length where it may not end there; None when it is accepted.

        The text is cut as the tokenizer cuts it, and where the mask forces another cut (the engine allows only the
        canonical token of forced bytes) by the longest token that is allowed and begins what is left.
        """
        data = text.encode()
        ids = list(self._tokenizer.encode(text, add_special_tokens=False))
        state, engine = self.start.fork(), self.start.engine
        at = 0
        while at < len(data):
            if state.is_stopped:
                return at
            mask = state.mask()
            token = ids.pop(0) if ids else -1
            piece = engine.token_bytes(token) if token >= 0 else b""
            if not piece or not data.startswith(piece, at) or not is_allowed(mask, token):
                choices = [i for i in engine.tokens_within(data[at : at + 64]) if is_allowed(mask, i)]
                if not choices:
                    return at
                token = max(choices, key=lambda i: len(engine.token_bytes(i)))
                piece = engine.token_bytes(token)
                rest = data[at + len(piece) :].decode("utf-8", "replace")
                ids = list(self._tokenizer.encode(rest, add_special_tokens=False))
            state.commit([token])
            at += len(piece)
        return None if state.is_accepting else at


class Judge:
    """Schemas to `Compiled` objects on one tokenizer; ``documents`` are what references may lead to."""

    def __init__(self, tokenizer: Any, documents: dict[str, Any] | None = None) -> None:
        self.tokenizer = tokenizer
        self.documents = documents
        self.tokens = special_tokens_of(tokenizer)
        self.engine = Engine(tokenizer_json(tokenizer), self.tokens)

    def plan(self, schema: Any, policy: Policy = "warn") -> Plan:
        """The plan of a request for this schema, as `Guide.plan` composes it."""
        wanted = JsonSchema(schema, documents=self.documents)
        return compose(Parts(response_format=wanted, schema_policy=policy), tokens=self.tokens, format=Format("bench"))

    def compiled(self, schema: Any, policy: Policy = "warn") -> Compiled:
        return Compiled(self.plan(schema, policy), self.engine, self.tokenizer)


_judge: list[Judge] = []


def setup(tokenizer: Any, remotes: dict[str, Any]) -> None:
    """Called once by the scorer's workers."""
    _judge[:] = [Judge(tokenizer, remotes)]


def adapter(schema: Any) -> Compiled:
    """A schema under the default policy, ``warn``."""
    return _judge[0].compiled(schema)


def strict_adapter(schema: Any) -> Compiled:
    """A schema under ``strict``: refused when something in it cannot be enforced."""
    return _judge[0].compiled(schema, "strict")


# -- tables


def scorer_module() -> Any:
    """The scorer, which is not ours and is found beside the repository (or under GUIDED_SHARED)."""
    spec = importlib.util.spec_from_file_location("schema_score", SCORER)
    if spec is None or spec.loader is None or not SCORER.is_file():
        raise SystemExit(f"there is no scorer at {SCORER}; set GUIDED_SHARED")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _scores(name: str, arguments: tuple[str, ...], limit: int | None, out: Path) -> None:
    summary = out / f"{name.replace(', ', '_')}.json"
    command = [sys.executable, str(SCORER), *arguments, "--summary", str(summary)]
    command += ["--failures", str(summary.with_suffix(".jsonl"))]
    command += ["--limit", str(limit)] if limit else []
    subprocess.run(
        command, check=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.DEVNULL
    )
    for title, row in json.loads(summary.read_text()).items():
        cells = (
            _percent(row["compiled"], row["schemas"]),
            _percent(row["v_ok"], row["v_all"]),
            _percent(row["i_ok"], row["i_comp"]),
            _percent(row["perfect"], row["schemas"]),
        )
        print(f"| {title} | {row['schemas']} | {name} | " + " | ".join(cells) + " |", flush=True)


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f}" if whole else "-"


def ratios(limit: int) -> None:
    """Times of ours over the plain engine's, schema by schema, where the plain engine compiles it."""
    scorer = scorer_module()
    judge = Judge(scorer.load_tokenizer(None))
    records = scorer.load_bench(scorer.DATA / "jsonschemabench.tar.xz")
    records = [records[i * len(records) // limit] for i in range(min(limit, len(records)))]
    compiling: list[float] = []
    masking: list[float] = []
    for record in records:
        schema = record["schema"]
        plain_grammar = llguidance.LLMatcher.grammar_from_json_schema(json.dumps(schema))
        if llguidance.LLMatcher(judge.engine.ll_tokenizer, plain_grammar, log_level=0).is_error():
            continue

        def plain(grammar: str = plain_grammar) -> Any:
            matcher = llguidance.LLMatcher(judge.engine.ll_tokenizer, grammar, log_level=0)
            matcher.deep_copy().compute_bitmask()
            return matcher

        def ours(schema: Any = schema) -> Any:
            plan = judge.plan(schema)
            judge.engine._cache.clear()
            judge.engine.prepare(plan, "fresh")
            return plan

        plain_matcher, plain_seconds = _timed(plain)
        plan, our_seconds = _timed(ours)
        compiling.append(our_seconds / plain_seconds)
        if plan.watchers:
            continue
        state = GuidanceState(plan, judge.engine)
        for test in record["tests"]:
            for text in scorer.texts(test["data"], schema)[:1] if test["valid"] else ():
                ids = judge.tokenizer.encode(text, add_special_tokens=False)
                here, there = _mask_seconds(state, plain_matcher, ids)
                if there:
                    masking.append(here / there)
    for name, found in (("rewriting + compile + first mask", compiling), ("mask, plans without watcher", masking)):
        found.sort()
        if found:
            p99 = found[min(len(found) - 1, len(found) * 99 // 100)]
            print(f"| {name} / plain | {len(found)} | {found[len(found) // 2]:.2f} | {p99:.2f} |")


def _timed(work: Any) -> tuple[Any, float]:
    best, result = float("inf"), None
    for _ in range(3):
        begin = time.perf_counter()
        result = work()
        best = min(best, time.perf_counter() - begin)
    return result, best


def _mask_seconds(state: GuidanceState, plain: Any, ids: list[int]) -> tuple[float, float]:
    """Seconds of both for the masks of the same tokens, as far as both allow them."""
    mine, other = state.fork(), plain.deep_copy()
    here = there = 0.0
    for token in ids:
        if mine.is_stopped:
            break
        begin = time.perf_counter()
        mask = mine.mask()
        middle = time.perf_counter()
        other.compute_bitmask()
        there += time.perf_counter() - middle
        here += middle - begin
        if not is_allowed(mask, token) or not other.consume_token(token):
            break
        mine.commit([token])
    return here, there


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int, help="at most this many schemas of each data set, evenly spread")
    parser.add_argument("--only", choices=("scores", "ratios"), help="only this table")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "bench-schema", help="summaries and failures")
    options = parser.parse_args()
    scorer_module()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.only != "ratios":
        print("| data | schemas | engine | compile % | valid accepted % | invalid rejected % | perfect % |")
        print("|---|---|---|---|---|---|---|")
        for name, arguments in RUNS:
            _scores(name, arguments, options.limit, options.out)
    if options.only != "scores":
        print("\n| time | samples | median | p99 |\n|---|---|---|---|")
        ratios(options.limit or 400)


if __name__ == "__main__":
    main()
