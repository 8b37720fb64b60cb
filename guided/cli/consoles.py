"""The two consoles of the command line, and the printing of errors; imports nothing slow."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from special_tokens.errors import GuidedError, SchemaError

if TYPE_CHECKING:
    from grammars.json_schema.build import ReportRow

__all__ = ["REGION_STYLES", "err", "out", "say", "show_error", "show_report", "waiting"]

#: The answer goes to ``out``, everything else to ``err``.
out, err = Console(highlight=False), Console(stderr=True, highlight=False)

#: Seconds before a spinner says what goes on.
PATIENCE_S = 1.0


def say(text: str) -> None:
    """Print a line of progress to standard error."""
    err.print(text, style="dim", markup=False)


@contextmanager
def waiting(text: str) -> Iterator[None]:
    """Show a spinner with ``text`` on standard error while the block runs for more than `PATIENCE_S`, on a terminal."""
    if not err.is_terminal:
        yield
        return
    status = err.status(f"{text} ...")
    timer = threading.Timer(PATIENCE_S, status.start)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        status.stop()


#: One colour a region, everywhere.
REGION_STYLES = {"reasoning": "dim italic", "content": "default", "response": "green", "tool_calls": "cyan"}


def show_error(console: Console, error: GuidedError) -> None:
    """Print an error: the problem, its place, what was expected, and the cure."""
    console.print(Text(f"{type(error).__name__}: {error.message}", style="bold red"))
    for label, value in (("where", error.place), ("expected", error.expected), ("do", error.hint)):
        if value:
            console.print(Text(f"  {label}: {value}"))
    if isinstance(error, SchemaError) and error.report is not None:
        show_report(console, error.report.rows)


def show_report(console: Console, rows: Sequence[ReportRow]) -> None:
    """Print a schema report, row by row."""
    if not rows:
        console.print("Every keyword is enforced exactly.")
        return
    from rich.table import Table

    table = Table("place", "keyword", "outcome", "reason")
    colours = {"exact": "green", "narrowed": "yellow", "relaxed": "magenta", "refused": "red"}
    for row in rows:
        style = colours[row.outcome]
        place = Text(row.pointer or "(root)")  # "/" is the pointer of the key ""
        table.add_row(place, Text(row.keyword), Text(row.outcome, style=style), Text(row.reason))
    console.print(table)
