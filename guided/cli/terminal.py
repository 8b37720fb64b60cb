"""The output of the command line: events in colours, plans with a legend, tables.  Prints, decides nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.console import Console
from rich.json import JSON
from rich.table import Table
from rich.text import Text

from grammars.compose.response import KINDS
from grammars.formats.provenance import PARTS, by_field
from grammars.json_schema.build import ReportRow
from grammars.plan.plan import Plan
from grammars.values.format import Format
from guided.output.message import Message
from guided.output.parser import ContentDelta, Event, ReasoningDelta, ToolCallArguments, ToolCallEnd, ToolCallStart
from special_tokens.errors import GuidedError, SchemaError

if TYPE_CHECKING:
    from guided.cli.portfolio import PortfolioRow
    from guided.inspect.check import CheckedFormat, CheckedRequest

__all__ = [
    "REGION_STYLES",
    "EventPrinter",
    "show_anchors",
    "show_checked_format",
    "show_checked_request",
    "show_error",
    "show_format",
    "show_message",
    "show_plan",
    "show_portfolio",
    "show_report",
]

#: One colour a region, everywhere.
REGION_STYLES = {"reasoning": "dim italic", "content": "default", "response": "green", "tool_calls": "cyan"}


class EventPrinter:
    """Prints events as they come, each region in its colour."""

    def __init__(self, console: Console, *, response: bool = False) -> None:
        self._console = console
        self._content_style = REGION_STYLES["response" if response else "content"]
        self._last: type[Event] | None = None

    def __call__(self, event: Event) -> None:
        if self._last is ReasoningDelta and not isinstance(event, ReasoningDelta):
            self._write("\n\n", "")
        match event:
            case ReasoningDelta(text=text):
                self._write(text, REGION_STYLES["reasoning"])
            case ContentDelta(text=text):
                self._write(text, self._content_style)
            case ToolCallStart(name=name):
                self._write(f"{name}(", "bold cyan")
            case ToolCallArguments(text=text):
                self._write(text, REGION_STYLES["tool_calls"])
            case ToolCallEnd():
                self._write(")\n", "bold cyan")
        self._last = type(event)

    def _write(self, text: str, style: str) -> None:
        self._console.print(Text(text, style=style), end="", soft_wrap=True)


def show_message(console: Console, message: Message) -> None:
    """The validated object, then one line of numbers."""
    if message.parsed is not None and not isinstance(message.parsed, str):
        value = message.parsed
        data = value.model_dump(mode="json") if hasattr(value, "model_dump") else value
        console.print(JSON(json.dumps(data, ensure_ascii=False, default=str)))
    for violation in message.violations:
        console.print(f"[red]not valid:[/red] {violation}")
    if message.error is not None:
        show_error(console, message.error)
    usage, guidance = message.usage, message.guidance
    console.print(
        f"[dim]{message.finish_reason} | {usage.completion_tokens} tokens ({usage.reasoning_tokens} reasoning) | "
        f"{guidance.overridden} of {guidance.masks} steps changed by guidance[/dim]"
    )


def show_plan(console: Console, plan: Plan) -> None:
    """The composed Lark, highlighted, with a legend of its regions, tokens, ends and budgets."""
    styles = {rule: REGION_STYLES.get(region, "default") for rule, region in plan.grammar.regions}
    for line in plan.lark.splitlines():
        name = re.split(r"[\s:\[]", line, maxsplit=1)[0]
        console.print(_highlight(line, styles.get(name, "default")), soft_wrap=True)
    legend = Table(title="Legend", title_justify="left", box=None, show_header=False)
    for region in dict.fromkeys(plan.grammar.regions):
        legend.add_row(Text(region[0], style=styles[region[0]]), f"region {region[1]}")
    for syntax, label in plan.grammar.labels:
        legend.add_row(Text(syntax, style="magenta"), label)
    for end in plan.ends:
        legend.add_row(f"end of {end.region}", ", ".join(map(str, end.ids)) or "nothing more may follow")
    for budget in plan.budgets:
        legend.add_row(f"budget of {plan.regions[budget.region].name}", f"{budget.max_tokens} tokens")
    for tag, token_id in plan.anchors:
        legend.add_row(f"token {token_id}", f"anchor in place of {json.dumps(tag)}")
    console.print()
    console.print(legend)
    for note in plan.notes:
        console.print(f"[yellow]note:[/yellow] {note}")


def _highlight(line: str, style: str) -> Text:
    text = Text(line, style=style)
    text.highlight_regex(r"^[a-zA-Z_0-9:]+(?=[:\[])", "bold")
    text.highlight_regex(r'"(?:[^"\\]|\\.)*"i?', "yellow")
    text.highlight_regex(r"<\[[^\]]*\]>", "magenta")
    text.highlight_regex(r"%json|@\w+", "blue")
    return text


def show_report(console: Console, rows: Sequence[ReportRow]) -> None:
    """Print what the masks keep of a schema, row by row."""
    if not rows:
        console.print("Every keyword is enforced exactly.")
        return
    table = Table("place", "keyword", "outcome", "reason")
    colours = {"exact": "green", "narrowed": "yellow", "relaxed": "magenta", "refused": "red"}
    for row in rows:
        style = colours[row.outcome]
        place = Text(row.pointer or "(root)")  # "/" is the pointer of the key ""
        table.add_row(place, Text(row.keyword), Text(row.outcome, style=style), Text(row.reason))
    console.print(table)


def show_checked_format(console: Console, checked: CheckedFormat) -> None:
    """A response format that can be enforced, and how far."""
    console.print(f"{KINDS[checked.kind]}: can be enforced ({checked.num_bytes:,} bytes of grammar)", highlight=False)
    if checked.shortest is not None:
        console.print(Text(f"shortest text: {checked.shortest}"))
    if checked.rows or checked.kind == "json":
        show_report(console, checked.rows)


def show_checked_request(console: Console, checked: CheckedRequest) -> None:
    """A request that can be honoured, key by key."""
    table = Table(box=None, show_header=False)
    for name, value in checked.to_json().items():
        if name not in ("report", "tool_report", "notes") and value not in (None, [], {}, ""):
            shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            table.add_row(Text(name, style="bold"), Text(shown))
    console.print(table)
    for title, rows in (("response format", checked.rows), ("tools", checked.tool_rows)):
        if rows:
            console.print(f"\n{title}:")
            show_report(console, rows)
    for note in checked.plan.notes:
        console.print(Text(f"note: {note}", style="yellow"))


def show_portfolio(console: Console, rows: Sequence[PortfolioRow]) -> None:
    """Print how the local models end their turns."""
    if not rows:
        console.print("There are no local models.")
        return
    table = Table("model", "configured ends", "observed end", "leaks", "needed")
    for row in rows:
        if row.skipped is not None:
            table.add_row(Text(row.model), Text(f"skipped: {row.skipped}", style="yellow"))
            continue
        cells = (" ".join(row.configured_ends), row.observed_end or "none", " ".join(map(repr, row.leaked_markers)))
        table.add_row(Text(row.model), *map(Text, cells), Text(row.workaround_needed or ""))
    console.print(table)


def show_format(console: Console, format: Format, notes: Sequence[str] = ()) -> None:
    """The wire format, part by part, with the evidence for each field."""
    known = by_field(format)
    table = Table("part", "field", "value", "known from", title=f"Wire format: {format.name}", title_justify="left")
    for part in PARTS:
        shown = part
        for name, value in format_rows(getattr(format, part)):
            table.add_row(shown, name, Text(value), Text(known.get(f"{part}.{name}", "")))
            shown = ""
    console.print(table)
    for note in notes:
        console.print(Text(f"note: {note}", style="yellow"))


def show_anchors(console: Console, rows: Sequence[tuple[int | None, str, str]]) -> None:
    """The tokens that may stand in place of text tags in calls."""
    table = Table("id", "token", "in place of", title="Anchors, with Guide(..., anchors=True)", title_justify="left")
    for token_id, text, tag in rows:
        table.add_row(str(token_id), Text(text), Text(json.dumps(tag)))
    if rows:
        console.print(table)


def format_rows(part: object) -> list[tuple[str, str]]:
    """Field and value of one part of a format, as far as they say something; texts as JSON, so that blanks show."""
    if part is None:
        return [("", "none")]
    shown = []
    for name, value in asdict(part).items():  # type: ignore[call-overload]
        if value not in ("", None, (), False):
            shown.append((name, json.dumps(value, ensure_ascii=False, default=str)))
    return shown or [("", "plain")]


def show_error(console: Console, error: GuidedError) -> None:
    """One error: what, where, what was expected, what to do."""
    console.print(Text(f"{type(error).__name__}: {error.message}", style="bold red"))
    for label, value in (("where", error.place), ("expected", error.expected), ("do", error.hint)):
        if value:
            console.print(Text(f"  {label}: {value}"))
    if isinstance(error, SchemaError) and error.report is not None:
        show_report(console, error.report.rows)
