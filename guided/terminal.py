"""What the command line shows: events in colours, plans with a legend, tables.  Prints, decides nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.json import JSON
from rich.table import Table
from rich.text import Text

from grammars.formats.format import Format
from grammars.json_schema import SchemaReport
from grammars.plan import Plan
from guided.message import Message
from guided.parse import ContentDelta, Event, ReasoningDelta, ToolCallArguments, ToolCallEnd, ToolCallStart
from special_tokens import SpecialTokens
from special_tokens.errors import GuidedError

__all__ = [
    "REGION_STYLES",
    "EventPrinter",
    "show_error",
    "show_format",
    "show_message",
    "show_plan",
    "show_report",
    "show_tokens",
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


def show_report(console: Console, report: SchemaReport) -> None:
    """What the masks keep of a schema, row by row."""
    if not report.rows:
        console.print("Every keyword is enforced exactly.")
        return
    table = Table("place", "keyword", "outcome", "reason")
    colours = {"exact": "green", "narrowed": "yellow", "relaxed": "magenta", "refused": "red"}
    for row in report.rows:
        table.add_row(row.pointer or "/", row.keyword, Text(row.outcome, style=colours[row.outcome]), row.reason)
    console.print(table)


def show_tokens(console: Console, tokens: SpecialTokens) -> None:
    """Roles, ends and what only looks like an end."""
    family = tokens.family.id if tokens.family else "none matched"
    console.print(f"vocabulary {tokens.vocab_size:,} ids, {len(tokens.added):,} added tokens, family: {family}")
    roles = Table("role", "marker", "id", "known from", title="Roles", title_justify="left")
    for role, marker in tokens.roles.items():
        roles.add_row(role, Text(marker.text), "plain text" if marker.id is None else str(marker.id), marker.origin)
    console.print(roles)
    ends = Table("id", "token", "said by", title="Ends of turn", title_justify="left")
    for end in tokens.ends:
        ends.add_row(str(end.id), Text(end.text), ", ".join(end.sources))
    console.print(ends)
    if tokens.looks_like_end:
        texts = _some(token.text for token in tokens.looks_like_end)
        console.print(Text(f"look like an end and are none: {texts}", style="dim"))


def show_format(console: Console, format: Format, notes: Sequence[str] = ()) -> None:
    """The wire format, part by part, with the evidence for each."""
    evidence = dict(format.evidence)
    table = Table("part", "field", "value", "known from", title=f"Wire format: {format.name}", title_justify="left")
    for part in ("reasoning", "content", "tool_calls", "ends", "inputs"):
        known = evidence.get(part, "")
        for name, value in format_rows(getattr(format, part)):
            table.add_row(part, name, Text(value), known)
            part, known = "", ""
    console.print(table)
    for note in notes:
        console.print(Text(f"note: {note}", style="yellow"))


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


def _some(texts: Iterable[str], limit: int = 12) -> str:
    listed = list(texts)
    more = f" and {len(listed) - limit} more" if len(listed) > limit else ""
    return " ".join(listed[:limit]) + more


def as_json(value: Any) -> str:
    """A result as one JSON text."""
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)
