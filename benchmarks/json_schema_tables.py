"""Tables of the JSON Schema benchmarks, and writing them into a page.

A table is between ``<!-- NAME: written by SCRIPT -->`` and ``<!-- end -->``; the script's ``--page`` replaces it and
nothing else of the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

__all__ = ["percent", "quantile", "table", "write_page"]


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows)])


def percent(part: int, whole: int) -> str:
    """Return a percentage with two decimals, or a dash if the total is 0."""
    return f"{100 * part / whole:.2f}" if whole else "-"


def quantile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that ``share`` of all values do not exceed; ``values`` must not be empty."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def write_page(page: Path, name: str, script: str, text: str) -> None:
    """Write ``text`` between the page's two comments that name it; raise `SystemExit` if there are none."""
    begin = f"<!-- {name}: written by {script} -->"
    block = re.compile(rf"({re.escape(begin)}\n).*?(<!-- end -->)", re.DOTALL)
    old = page.read_text(encoding="utf-8")
    if not block.search(old):
        raise SystemExit(f"{page} has no place for this table: {begin} ... <!-- end -->")
    page.write_text(block.sub(lambda found: f"{found[1]}{text}\n{found[2]}", old), encoding="utf-8")
