#!/usr/bin/env python3
"""How much of JSON Schema the masks enforce, by a scorer and on data that are not ours.

    python benchmarks/json_schema.py                        # everything (some 20 minutes on two cores)
    python benchmarks/json_schema.py --limit 200            # an even sample of each data set
    python benchmarks/json_schema.py --only ratios          # compile and mask times beside the plain engine's
    python benchmarks/json_schema.py --page docs/json_schema.md    # and write the tables into that page
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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks.json_schema_tables import percent, table, write_page  # noqa: E402
from grammars.compose.compose import Parts, compose  # noqa: E402
from grammars.values.constraints import JsonSchema  # noqa: E402
from grammars.values.format import Format  # noqa: E402
from grammars.json_schema import Policy  # noqa: E402
from grammars.plan.plan import Plan  # noqa: E402
from guided.bitmask import is_allowed  # noqa: E402
from guided.engine.engine import Engine  # noqa: E402
from guided.hf.model.tokenizer import special_tokens_of, tokenizer_json  # noqa: E402
from guided.state.state import GuidanceState  # noqa: E402

__all__ = ["Compiled", "Judge", "adapter", "scorer_module", "setup", "strict_adapter"]

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


def _scores(name: str, arguments: tuple[str, ...], limit: int | None, out: Path) -> Iterator[tuple[object, ...]]:
    """The rows of one run: one for each data set."""
    summary = out / f"{name.replace(', ', '_')}.json"
    command = [sys.executable, str(SCORER), *arguments, "--summary", str(summary)]
    command += ["--failures", str(summary.with_suffix(".jsonl"))]
    command += ["--limit", str(limit)] if limit else []
    subprocess.run(
        command, check=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.DEVNULL
    )
    for title, row in json.loads(summary.read_text()).items():
        yield (
            title,
            row["schemas"],
            name,
            percent(row["compiled"], row["schemas"]),
            percent(row["v_ok"], row["v_all"]),
            percent(row["i_ok"], row["i_comp"]),
            percent(row["perfect"], row["schemas"]),
        )


HEAD = ("data", "schemas", "engine", "compile %", "valid accepted %", "invalid rejected %", "perfect %")


def main() -> None:
    from benchmarks.json_schema_ratios import print_ratios  # which imports this module

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int, help="at most this many schemas of each data set, evenly spread")
    parser.add_argument("--only", choices=("scores", "ratios"), help="only this table")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "bench-schema", help="summaries and failures")
    parser.add_argument("--page", type=Path, help="write the tables into this page too")
    options = parser.parse_args()
    scorer_module()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.only != "ratios":
        rows: list[tuple[object, ...]] = []
        for name, arguments in RUNS:
            print(f"{name} ...", file=sys.stderr, flush=True)
            rows += _scores(name, arguments, options.limit, options.out)
        rows.sort(key=lambda row: str(row[0]))  # stable: engines stay in order within a data set
        print(table(HEAD, rows))
        if options.page:
            write_page(options.page, "scores", "benchmarks/json_schema.py", table(HEAD, rows))
    if options.only != "scores":
        print()
        print_ratios(options.limit, page=options.page)


if __name__ == "__main__":
    main()
