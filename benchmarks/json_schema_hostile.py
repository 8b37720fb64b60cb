#!/usr/bin/env python3
"""Schemas that hurt: what becomes of each, and how long it takes.

    python benchmarks/json_schema_hostile.py
    python benchmarks/json_schema_hostile.py --page docs/hostile_schemas.md    # and write the table into that page

A case is *compiled* (and one mask was computed) or refused with a typed error that names what is wrong; the tests hold
the outcomes, this script prints the times: seconds by the clock, and of processor time the longest that no other thread
of the process came to its turn.  Each ``make`` builds its schema when asked, for some are large.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks.json_schema_hostile_cases import CASES, Case  # noqa: E402
from benchmarks.json_schema_tables import table, write_page  # noqa: E402
from grammars.deadline import deadline  # noqa: E402
from grammars.json_schema import SchemaReport, build  # noqa: E402
from grammars.tree.render import render  # noqa: E402
from guided.engine.engine import compile_grammar  # noqa: E402
from special_tokens.errors import GuidedError  # noqa: E402

__all__ = ["Result", "run"]


@dataclass(frozen=True)
class Result:
    error: GuidedError | None
    report: SchemaReport
    seconds: float


def run(case: Case, tokenizer: Any, seconds: float | None = None) -> Result:
    """Builds, compiles and computes one mask; anything but a typed error is raised as it is.

    All of it under one deadline, of ``seconds`` or the usual one.
    """
    schema = case.make()
    begin = time.perf_counter()
    report = SchemaReport()
    try:
        with deadline(seconds):
            built = build(schema, watch=True)
            report = built.report
            compile_grammar(tokenizer, render(built.node).engine_text())
    except GuidedError as error:
        return Result(error, report, time.perf_counter() - begin)
    return Result(None, report, time.perf_counter() - begin)


class Bystander(threading.Thread):
    """Another thread of the process: wants a turn each millisecond, and says how long it had to wait for one.

    ``waited`` is the longest wait in seconds by the clock: no less than the interpreter's lock was held, and more where
    the machine was busy.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.waited = 0.0
        self._is_over = threading.Event()

    def run(self) -> None:
        last = time.perf_counter()
        while not self._is_over.wait(0.001):
            now = time.perf_counter()
            self.waited, last = max(self.waited, now - last), now

    def __enter__(self) -> Bystander:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self.join()


def outcome(result: Result) -> str:
    """One cell of the table."""
    if result.error is not None:
        text = f"{type(result.error).__name__}: {str(result.error).splitlines()[0][:110]}"
        return text.replace("|", "\\|")
    if result.report.relaxed:
        return "compiled, relaxed: " + ", ".join(sorted({row.keyword for row in result.report.relaxed}))
    return "compiled"


def main() -> None:
    import llguidance

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", type=Path, help="write the table into this page too")
    page = parser.parse_args().page
    tokenizer = llguidance.LLTokenizer("byte")
    rows: list[tuple[object, ...]] = []
    for case in CASES:
        with Bystander() as bystander:
            result = run(case, tokenizer)
        rows.append((case.name, outcome(result), f"{result.seconds:.2f}", f"{bystander.waited:.2f}"))
        print(*rows[-1], sep=" | ", flush=True)
    slowest, longest = (max(float(str(row[column])) for row in rows) for column in (2, 3))
    summary = f"{len(rows)} schemas; the slowest took {slowest:.2f} s, the longest wait was {longest:.2f} s."
    text = summary + "\n\n" + table(("schema", "outcome", "seconds", "another thread's wait"), rows)
    print("\n" + summary)
    if page:
        write_page(page, "hostile", "benchmarks/json_schema_hostile.py", text)


if __name__ == "__main__":
    main()
