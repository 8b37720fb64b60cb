"""A picture of a generation: what was legal, what the model wanted, and what came of it, token by token.

The picture is one page of HTML that needs nothing else: no script, style or font from anywhere.  Regions and events
are read off the tokens by the plan's own table, so a trace is right for whatever loop wrote the tokens.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from math import exp
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grammars.plan.plan import Plan, RegionName
from guided.state.entry import FRESH, Begin
from guided.engine.engine import Engine
from guided.tracking.regions import RegionMap
from guided.sampling import TokenLogprob
from guided.output.output_path import check_writable, unwritable

if TYPE_CHECKING:
    from guided.output.message import Message
    from guided.rows.sequence import RowPlan

__all__ = ["TokenTrace", "Trace", "build_trace", "check_trace_file"]


@dataclass(frozen=True, slots=True)
class TokenTrace:
    """One token.

    ``region`` is the part of the answer in which it begins, ``marker`` for the markers between parts and what frames
    them, ``end`` for an end of turn.  ``probability`` is the model's own, ``masked`` the one after mask, bias and
    penalties, ``removed`` the model's own probability of all that was not legal; ``top`` and ``top_masked`` are the
    best tokens before and after, as (text, probability).  ``events`` are sentences: stops, budgets, ends, errors.
    """

    token_id: int
    text: str
    region: str
    num_allowed: int
    forced: bool
    overridden: bool
    probability: float
    masked: float
    removed: float = 0.0
    top: tuple[tuple[str, float], ...] = ()
    top_masked: tuple[tuple[str, float], ...] = ()
    events: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Trace:
    """All tokens of one answer."""

    tokens: tuple[TokenTrace, ...]
    vocab_size: int
    prompt_tokens: int = 0
    finish_reason: str = ""
    stop_reason: str | int | None = None
    title: str = "guided generation"
    lark: str = field(default="", repr=False)

    def to_dict(self) -> dict[str, Any]:
        """The trace as JSON values."""
        return asdict(self)

    def to_html(self) -> str:
        """One self-contained page."""
        page = files("guided").joinpath("trace.html").read_text(encoding="utf-8")
        parts = {
            "title": html.escape(self.title),
            "tokens": "".join(_span(i, token) for i, token in enumerate(self.tokens)),
            "data": _script_safe(_data(self)),
        }
        return re.sub(r"\{\{(\w+)\}\}", lambda slot: parts[slot[1]], page)

    def write(self, path: str | Path) -> Path:
        """Write the page to ``path``; raises `RequestError` when that cannot be done."""
        try:
            Path(path).write_text(self.to_html(), encoding="utf-8")
        except OSError as error:
            raise unwritable(path, "trace", error.strerror or str(error)) from error
        return Path(path)


def check_trace_file(path: str | Path) -> Path:
    """Raise `RequestError` now when a trace could not be written to ``path`` after a long generation."""
    return check_writable(path, "trace")


def build_trace(
    message: Message,
    plan: RowPlan,
    engine: Engine,
    records: Sequence[TokenLogprob],
    *,
    begin: Begin = FRESH,
    title: str = "guided generation",
) -> Trace:
    """The trace of ``message``; ``records[i]`` is what the model thought at its token ``i``."""
    guided = plan if isinstance(plan, Plan) else None
    regions = _regions(message.token_ids, guided, engine, begin)
    events = _events(message, guided, regions)
    names = _Names(engine)
    tokens = tuple(
        TokenTrace(
            token_id=record.token_id,
            text=names.text(record.token_id),
            region=regions[i],
            num_allowed=record.num_allowed,
            forced=record.num_allowed == 1,
            overridden=record.overridden,
            probability=exp(record.logprob),
            masked=exp(record.masked),
            removed=record.removed,
            top=tuple((names.text(t), exp(p)) for t, p in record.top),
            top_masked=tuple((names.text(t), exp(p)) for t, p in record.top_masked),
            events=tuple(events.get(i, ())),
        )
        for i, record in enumerate(records)
    )
    return Trace(
        tokens=tokens,
        vocab_size=engine.vocab_size,
        prompt_tokens=message.usage.prompt_tokens,
        finish_reason=message.finish_reason,
        stop_reason=message.stop_reason,
        title=title,
        lark=guided.lark if guided is not None else "",
    )


def _regions(tokens: Sequence[int], plan: Plan | None, engine: Engine, begin: Begin) -> list[str]:
    """The region in which each token begins; what frames a marker belongs to the marker, as it does for the parser."""
    ends = plan.end_ids() if plan is not None else frozenset(engine.tokens.end_ids)
    if plan is None:
        return ["end" if token in ends else RegionName.CONTENT.value for token in tokens]
    table = RegionMap.of(plan, engine.tokens.marker_ids, engine.token_bytes)
    entry = plan.entry(begin.entry)
    region = entry.region
    position = table.start(region)
    out: list[str] = []
    starts: list[int] = []  # where each token begins, in symbols
    read: list[int] = []
    frame, frame_name = entry.first.encode("utf-8"), "marker"  # what may still follow the last marker
    if table.regions[region].name not in _TEXT:
        frame = b""
    for token in tokens:
        out.append("end" if token in ends else table.name(position).value)
        starts.append(len(read))
        if token in ends:
            continue
        symbols = table.symbols(token)
        spans, position = table.spans(position, symbols)
        rest = _rest(frame, symbols)
        if rest is not None:
            out[-1] = frame_name
        frame = rest or b""
        read += symbols
        for span in spans:
            if span.exit is None:
                continue
            left, region = table.regions[region].name, span.exit.to
            to = table.regions[region].name
            frame_name = _marker_name(to, left.value)
            first = starts[-1] + span.last - span.left
            gap = list(span.exit.before.encode("utf-8")) if left in _TEXT else []
            if gap and read[max(0, first - len(gap)) : first] == gap:
                first -= len(gap)
            _rename(out, starts, first, frame_name)
            frame = span.exit.after.encode("utf-8") if to in _TEXT else b""
            if span.last < len(symbols):
                frame = _rest(frame, symbols[span.last :]) or b""
    return out


#: Regions whose text stands beside the framing of markers; that of reasoning counts to its budget.
_TEXT = (RegionName.CONTENT, RegionName.RESPONSE)


def _rest(frame: bytes, symbols: Sequence[int]) -> bytes | None:
    """What is left of ``frame`` after ``symbols``; None where they are no part of it."""
    data = bytes(symbol for symbol in symbols if symbol < 256)
    return frame[len(data) :] if data and len(data) == len(symbols) and frame.startswith(data) else None


def _marker_name(to: RegionName, left: str) -> str:
    """What the tokens of a marker are called: those of tool calls belong to the calls."""
    return to.value if to is RegionName.TOOL_CALLS else left if left == RegionName.TOOL_CALLS.value else "marker"


def _rename(names: list[str], starts: Sequence[int], first: int, name: str) -> None:
    """Give the tokens that begin at symbol ``first`` or later another name."""
    for i in range(len(names) - 1, -1, -1):
        if starts[i] < first:
            break
        names[i] = name


def _events(message: Message, plan: Plan | None, regions: Sequence[str]) -> dict[int, list[str]]:
    last = len(regions) - 1
    out: dict[int, list[str]] = {}
    for budget in plan.budgets if plan is not None else ():
        inside = [i for i, name in enumerate(regions) if name == RegionName.REASONING.value]
        if len(inside) >= budget.max_tokens and inside[-1] < last:
            at = inside[-1] + 1
            out.setdefault(at, []).append(f"landing: the budget of {budget.max_tokens} tokens is spent")
    if last < 0:
        return out
    if message.error is not None:
        out.setdefault(last, []).append(f"error: {message.error}")
    elif message.stop_reason is not None:
        out.setdefault(last, []).append(f"stop: {message.stop_reason!r} is complete")
    elif regions[last] == "end":
        out.setdefault(last, []).append("end of turn")
    elif message.finish_reason == "length":
        out.setdefault(last, []).append("cut by max_tokens")
    return out


class _Names:
    """Texts of tokens; bytes that are no whole character are shown as escapes."""

    def __init__(self, engine: Engine) -> None:
        self._bytes = engine.token_bytes

    def text(self, token: int) -> str:
        return self._bytes(token).decode("utf-8", "backslashreplace")


# -- the page


def _span(number: int, token: TokenTrace) -> str:
    classes = [f"r-{token.region.replace('_', '-')}"]
    classes += ["forced"] * token.forced + ["over"] * token.overridden + ["event"] * bool(token.events)
    bar = f"--p:{token.probability * 100:.0f}%"
    return f'<span class="t {" ".join(classes)}" data-i="{number}" style="{bar}">{_visible(token.text)}</span>'


def _visible(text: str) -> str:
    """A token's text with its line breaks and blanks made visible, as HTML."""
    out = html.escape(text).replace("\r", "␍").replace("\t", "⇥\t")
    if not text.strip(" "):
        out = out.replace(" ", "·")
    return out.replace("\n", '<i class="nl">⏎</i>\n') or "∅"


def _data(trace: Trace) -> dict[str, Any]:
    """What the page's script shows, in short keys: a long answer has thousands of tokens."""
    rows = [
        [
            token.token_id,
            token.text,
            token.region,
            token.num_allowed,
            int(token.forced),
            int(token.overridden),
            round(token.probability, 5),
            round(token.masked, 5),
            round(token.removed, 5),
            [[text, round(p, 4)] for text, p in token.top],
            [[text, round(p, 4)] for text, p in token.top_masked],
            list(token.events),
        ]
        for token in trace.tokens
    ]
    return {
        "tokens": rows,
        "vocab": trace.vocab_size,
        "prompt": trace.prompt_tokens,
        "finish": trace.finish_reason,
        "stop": trace.stop_reason,
        "lark": trace.lark,
    }


def _script_safe(value: Any) -> str:
    """JSON that may stand inside a script element: nothing in it can close the element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text
