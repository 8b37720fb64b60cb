"""Build the trace of an answer from the model's log-probabilities and the plan.

Regions and events are derived from the tokens with the plan's own region table, so a trace is right for any loop that
wrote the tokens.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import exp

from grammars.plan.plan import Plan, RegionName, RowPlan
from guided.engine.engine import Engine
from guided.output.answer_end import end_of_answer
from guided.output.message import Message
from guided.output.trace_records import TokenTrace, Trace
from guided.sampling import TokenLogprob
from guided.state.entry import FRESH, Begin
from guided.tracking.regions import RegionMap

__all__ = ["build_trace"]


def build_trace(
    message: Message,
    plan: RowPlan,
    engine: Engine,
    records: Sequence[TokenLogprob],
    *,
    begin: Begin = FRESH,
    runs: Collection[int] = (),
    title: str = "guided generation",
) -> Trace:
    """Return the trace of ``message``; ``records[i]`` are the model's log-probabilities at its token ``i``.

    ``runs`` are the indices of tokens that were fed together with the token before them.
    """
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
            in_run=i in runs,
        )
        for i, record in enumerate(records)
    )
    return Trace(
        tokens=tokens,
        vocab_size=engine.vocab_size,
        prompt_tokens=message.usage.prompt_tokens,
        cached_tokens=message.usage.cached_tokens,
        finish_reason=message.finish_reason,
        stop_reason=message.stop_reason,
        title=title,
        lark=guided.lark if guided is not None else "",
    )


def _regions(tokens: Sequence[int], plan: Plan | None, engine: Engine, begin: Begin) -> list[str]:
    """The region in which each token begins; what frames a marker belongs to the marker, as it does for the parser."""
    end = end_of_answer(tokens, plan, engine)
    plan = plan if plan is not None else begin.reader
    if plan is None:
        return ["end" if i == end else RegionName.CONTENT.value for i in range(len(tokens))]
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
    for i, token in enumerate(tokens):
        is_over = end is not None and i >= end  # an end may follow a separator
        out.append("end" if is_over else table.name(position).value)
        starts.append(len(read))
        if is_over:
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


#: Regions whose text stands next to the framing of markers; that of reasoning counts to its budget.
_TEXT = (RegionName.CONTENT, RegionName.RESPONSE)


def _rest(frame: bytes, symbols: Sequence[int]) -> bytes | None:
    """Return the rest of ``frame`` after ``symbols``; None where they are no part of it."""
    data = bytes(symbol for symbol in symbols if symbol < 256)
    return frame[len(data) :] if data and len(data) == len(symbols) and frame.startswith(data) else None


def _marker_name(to: RegionName, left: str) -> str:
    """Return what the tokens of a marker are called: those of tool calls belong to the calls."""
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
    if message.landed is not None:
        out[message.landed] = ["landing begins: from here on max_tokens decides as well"]
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
