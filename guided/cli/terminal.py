"""Print plans with a legend, reports and tables on the terminal.  Nothing is decided here."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from grammars.compose.response import KINDS
from grammars.plan.plan import Plan
from grammars.values.format import PARTS, Format
from guided.cli.consoles import REGION_STYLES, show_report
from guided.sampling import TokenLogprob

if TYPE_CHECKING:
    from guided.inspect.check import CheckedFormat, CheckedRequest

__all__ = ["show_anchors", "show_checked_format", "show_checked_request", "show_format", "show_logprobs", "show_plan"]


def show_plan(console: Console, plan: Plan) -> None:
    """Print the composed Lark, highlighted, with a legend of its regions, tokens, ends and budgets."""
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


def show_checked_format(console: Console, checked: CheckedFormat) -> None:
    """Print how far a response format can be enforced."""
    console.print(f"{KINDS[checked.kind]}: can be enforced ({checked.num_bytes:,} bytes of grammar)", highlight=False)
    if checked.shortest is not None:
        console.print(Text(f"shortest text: {checked.shortest}"))
    if checked.rows or checked.kind == "json":
        show_report(console, checked.rows)


def show_checked_request(console: Console, checked: CheckedRequest) -> None:
    """Print how a request would be honoured, key by key."""
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


def show_format(console: Console, format: Format, notes: Sequence[str] = ()) -> None:
    """Print the wire format, part by part, with the evidence for each part."""
    sources = dict(format.evidence)
    table = Table("part", "field", "value", "known from", title=f"Wire format: {format.name}", title_justify="left")
    for part in PARTS:
        shown = part
        for name, value in format_rows(getattr(format, part)):
            table.add_row(shown, name, Text(value), Text(sources.get(shown, "")))
            shown = ""
    console.print(table)
    for note in notes:
        console.print(Text(f"note: {note}", style="yellow"))


def show_anchors(console: Console, rows: Sequence[tuple[int | None, str, str]]) -> None:
    """Print the tokens that can replace the text tags of calls."""
    table = Table("id", "token", "in place of", title="Anchors, with Guide(..., anchors=True)", title_justify="left")
    for token_id, text, tag in rows:
        table.add_row(str(token_id), Text(text), Text(json.dumps(tag)))
    if rows:
        console.print(table)


def format_rows(part: object) -> list[tuple[str, str]]:
    """Return field and value of one part's fields that are not empty; texts as JSON, so that blanks are visible."""
    if part is None:
        return [("", "none")]
    shown = []
    for name, value in asdict(part).items():  # type: ignore[call-overload]
        if value not in ("", None, (), False):
            shown.append((name, json.dumps(value, ensure_ascii=False, default=str)))
    return shown or [("", "plain")]


def show_logprobs(console: Console, logprobs: Sequence[TokenLogprob], token_bytes: Callable[[int], bytes]) -> None:
    """Print one row per token: its log-probability before and after the mask, and the best tokens before it."""

    def text(token: int) -> str:
        return repr(token_bytes(token).decode("utf-8", "backslashreplace"))

    table = Table("token", "model's own", "masked", "legal", "best tokens of the model", title="Log-probabilities")
    for token_logprob in logprobs:
        best = "  ".join(f"{text(token)} {logprob:.2f}" for token, logprob in token_logprob.top)
        numbers = (f"{token_logprob.logprob:.2f}", f"{token_logprob.masked:.2f}", f"{token_logprob.num_allowed:,}")
        table.add_row(Text(text(token_logprob.token_id)), *numbers, Text(best))
    console.print(table)
