#!/usr/bin/env python3
"""Benchmark: how much of JSON Schema the masks enforce, by an independent scorer on public data.

    python benchmarks/json_schema.py                        # everything (about 20 minutes on two cores)
    python benchmarks/json_schema.py --limit 200            # an even sample of each data set
    python benchmarks/json_schema.py --only ratios          # compile and mask times relative to the plain engine
    python benchmarks/json_schema.py --page benchmarks/json_schema.md    # and write the tables into that page
    python ../shared/bench/schema_score.py --engine guided --adapter benchmarks.json_schema:adapter

The scorer calls ``adapter`` and ``strict_adapter``: a schema becomes a plan like the response format of a request, and
a text is accepted if each of its tokens is set in the mask that `GuidanceState` fills before it, and the text may end
after the last.
"""

from __future__ import annotations

import argparse
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

from benchmarks.json_schema_ratios import print_ratios  # noqa: E402
from benchmarks.json_schema_tables import percent, table, write_page  # noqa: E402
from tests.judges.schema_masks import Compiled, Judge  # noqa: E402
from tests.judges.schema_scorer import SCORER, scorer_module  # noqa: E402

__all__ = ["adapter", "setup", "strict_adapter"]

#: Runs of the scorer: name in the table, and the arguments.
RUNS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("guided, warn", ("--engine", "guided", "--adapter", "benchmarks.json_schema:adapter")),
    ("guided, strict", ("--engine", "guided", "--adapter", "benchmarks.json_schema:strict_adapter")),
    ("llguidance", ("--engine", "llguidance")),
    ("llguidance, lenient", ("--engine", "llguidance", "--options", '{"lenient": true}')),
)


_judge: list[Judge] = []


def setup(tokenizer: Any, remotes: dict[str, Any]) -> None:
    """Prepare a worker of the scorer, which calls this once."""
    _judge[:] = [Judge(tokenizer, remotes)]


def adapter(schema: Any) -> Compiled:
    """Compile a schema under the default policy, ``warn``."""
    return _judge[0].compiled(schema)


def strict_adapter(schema: Any) -> Compiled:
    """Compile a schema under ``strict``, which refuses what cannot be enforced."""
    return _judge[0].compiled(schema, "strict")


# -- tables


def _scores(name: str, arguments: tuple[str, ...], limit: int | None, out: Path) -> Iterator[tuple[object, ...]]:
    """Return the rows of one run, one per data set."""
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
        rows.sort(key=lambda row: str(row[0]))  # stable sort: keeps the order of the engines within a data set
        print(table(HEAD, rows))
        if options.page:
            write_page(options.page, "scores", "benchmarks/json_schema.py", table(HEAD, rows))
    if options.only != "scores":
        print()
        print_ratios(options.limit, page=options.page)


if __name__ == "__main__":
    main()
