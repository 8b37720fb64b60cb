#!/usr/bin/env python3
"""Benchmark: JSON Schema in other engines and ours, on one sample of schemas and instances with one scorer.

    python benchmarks/json_schema_peers.py                             # 80 schemas of each data set, 15 minutes
    python benchmarks/json_schema_peers.py --peers OTHER/bin/python    # an interpreter that has the peers
    python benchmarks/json_schema_peers.py --page benchmarks/json_schema.md  # write the table into that page too

Engines: ours under ``warn`` and ``strict``, plain llguidance with its defaults and ``lenient``, xgrammar
(``strict_mode=False``) and outlines-core.  An engine that is not installed is named and left out.

Columns
  compile %           schemas that the engine accepts within the time limit for a schema and all its instances
  valid accepted %    of all valid instances, including those of schemas that did not compile
  invalid rejected %  of the invalid instances of schemas that compiled
  perfect %           schemas that compiled with every instance right
  timeouts            schemas that exceeded the time limit; crashes  the process ended
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks.json_schema_tables import percent, table, write_page  # noqa: E402

__all__ = ["ENGINES", "rows_of"]

SCORER = Path(os.environ.get("GUIDED_SHARED", ROOT.parent / "shared")) / "bench" / "schema_score.py"
HEAD = (
    "data",
    "engine",
    "schemas",
    "compile %",
    "valid accepted %",
    "invalid rejected %",
    "perfect %",
    "timeouts",
    "crashes",
)

#: Engine, the module that it needs (none for ours), and the arguments of the scorer.
ENGINES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("guided, warn", "", ("--engine", "guided", "--adapter", "benchmarks.json_schema:adapter")),
    ("guided, strict", "", ("--engine", "guided", "--adapter", "benchmarks.json_schema:strict_adapter")),
    ("llguidance", "llguidance", ("--engine", "llguidance")),
    ("llguidance, lenient", "llguidance", ("--engine", "llguidance", "--options", '{"lenient": true}')),
    ("xgrammar", "xgrammar", ("--engine", "xgrammar")),
    ("outlines-core", "outlines_core", ("--engine", "outlines")),
)


def rows_of(engine: str, summary: Mapping[str, Mapping[str, Any]]) -> Iterable[tuple[object, ...]]:
    """Return the rows of one engine, one per data set, from the scorer's summary."""
    for data, row in summary.items():
        yield (
            data,
            engine,
            row["schemas"],
            percent(row["compiled"], row["schemas"]),
            percent(row["v_ok"], row["v_all"]),
            percent(row["i_ok"], row["i_comp"]),
            percent(row["perfect"], row["schemas"]),
            row["timeout"],
            row["crash"],
        )


def _score(python: str, arguments: tuple[str, ...], options: argparse.Namespace, summary: Path) -> dict[str, Any]:
    command = [python, str(SCORER), *arguments, "--limit", str(options.limit), "--timeout", str(options.timeout)]
    command += ["--summary", str(summary), "--failures", str(summary.with_suffix(".jsonl"))]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(command, check=True, cwd=ROOT, env=env, stdout=subprocess.DEVNULL)
    found: dict[str, Any] = json.loads(summary.read_text())
    return found


def _has(python: str, module: str) -> bool:
    if python == sys.executable:
        return importlib.util.find_spec(module) is not None
    return subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int, default=80, help="schemas of each data set, evenly spread")
    parser.add_argument("--timeout", type=float, default=10.0, help="seconds for a schema with all its instances")
    parser.add_argument("--peers", default=sys.executable, help="interpreter that runs the engines that are not ours")
    parser.add_argument(
        "--out", type=Path, default=ROOT / "build" / "bench-schema-peers", help="summaries and failures"
    )
    parser.add_argument("--page", type=Path, help="write the table into this page too")
    options = parser.parse_args()
    if not SCORER.is_file():
        raise SystemExit(f"there is no scorer at {SCORER}; set GUIDED_SHARED")
    options.out.mkdir(parents=True, exist_ok=True)
    rows: list[tuple[object, ...]] = []
    absent: list[str] = []
    for engine, module, arguments in ENGINES:
        python = options.peers if module else sys.executable
        if module and not _has(python, module):
            absent.append(engine)
            print(f"{engine}: not installed, left out (--peers names an interpreter that has it)", file=sys.stderr)
            continue
        print(f"{engine} ...", file=sys.stderr, flush=True)
        summary = options.out / f"{engine.replace(', ', '_')}.json"
        rows += rows_of(engine, _score(python, arguments, options, summary))
    rows.sort(
        key=lambda row: str(row[0]), reverse=True
    )  # stable sort: keeps the order of the engines within a data set
    note = f"{options.limit} schemas of each data set, evenly spread; {options.timeout:g} s for one and its instances."
    note += f" Not installed: {', '.join(absent)}." if absent else ""
    text = f"{note}\n\n{table(HEAD, rows)}"
    print(text)
    if options.page:
        write_page(options.page, "peers", "benchmarks/json_schema_peers.py", text)


if __name__ == "__main__":
    main()
