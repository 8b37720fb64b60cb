#!/usr/bin/env python3
"""Benchmark: hostile schemas, their outcomes and times.

    python benchmarks/json_schema_hostile.py
    python benchmarks/json_schema_hostile.py --page benchmarks/hostile_schemas.md  # and into that page

A case is *compiled* (and one mask is computed) or refused with a typed error that names the cause.  The tests check the
outcomes; this script prints the times: wall-clock seconds, and the longest time that no other thread of the process
could run, in seconds of processor time.  Each ``make`` builds its schema on demand, because some are large.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks.json_schema_tables import table, write_page  # noqa: E402
from tests.judges.hostile import HostileResult, run  # noqa: E402
from tests.judges.hostile_cases import CASES  # noqa: E402


class Bystander(threading.Thread):
    """A second thread that wakes up each millisecond and records how late it was.

    ``waited`` is the longest delay in wall-clock seconds: at least the time that the interpreter lock was held, more if
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


def outcome(result: HostileResult) -> str:
    """Return one cell of the table."""
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
