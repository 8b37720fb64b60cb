"""Build the trace of an answer from the model's log-probabilities and the plan.

Regions are derived from the tokens with the plan's region table, events from these and the message; so a trace is right
for any loop that wrote the tokens.
"""

from __future__ import annotations

from bisect import bisect_left
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
    fed_together: Collection[int] = (),
) -> Trace:
    """Return the trace of ``message``; ``records[i]`` are the model's log-probabilities at its token ``i``.

    ``fed_together``: indices of tokens that were fed together with the token before them.
    """
    plan = plan if isinstance(plan, Plan) else None  # stops alone have no regions, budgets or grammar
    regions = _regions(message.token_ids, plan, engine, begin)
    events = _events(message, plan, regions)
    tokens = tuple(
        TokenTrace(
            token_id=record.token_id,
            text=_text(engine, record.token_id),
            region=regions[i],
            num_allowed=record.num_allowed,
            forced=record.num_allowed == 1,
            overridden=record.overridden,
            probability=exp(record.logprob),
            masked=exp(record.masked),
            removed=record.removed,
            top=tuple((_text(engine, t), exp(p)) for t, p in record.top),
            top_masked=tuple((_text(engine, t), exp(p)) for t, p in record.top_masked),
            events=tuple(events.get(i, ())),
            in_run=i in fed_together,
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
        lark=plan.lark if plan is not None else "",
    )


def _regions(tokens: Sequence[int], plan: Plan | None, engine: Engine, begin: Begin) -> list[str]:
    """Return the region in which each token begins.

    Framing text around a marker counts as the marker, as it does in the parser.
    """
    end = end_of_answer(tokens, plan, engine)
    plan = plan if plan is not None else begin.reader
    if plan is None:
        return ["end" if i == end else RegionName.CONTENT.value for i in range(len(tokens))]
    table = RegionMap.of(plan, engine.tokens.marker_ids, engine.token_bytes)
    entry = plan.entry(begin.entry)
    region = entry.region
    position = table.start(region)
    out: list[str] = []
    written: list[int] = []  # symbols
    starts: list[int] = []  # where each token begins in them
    trailing = entry.first.encode("utf-8") if table.regions[region].name in _TEXT else b""  # may follow the last marker
    marker_name = "marker"
    for i, token in enumerate(tokens):
        is_over = end is not None and i >= end  # the end token and all tokens after it
        out.append("end" if is_over else table.name(position).value)
        starts.append(len(written))
        if is_over:
            continue
        symbols = table.symbols(token)
        spans, position = table.spans(position, symbols)
        remaining = _remainder(trailing, symbols)
        if remaining is not None:
            out[-1] = marker_name
        trailing = remaining or b""
        written += symbols
        for span in spans:
            if span.exit is None:
                continue
            source, target = table.regions[region].name, table.regions[span.exit.to].name
            region = span.exit.to
            marker_name = RegionName.TOOL_CALLS.value if RegionName.TOOL_CALLS in (source, target) else "marker"
            marker_start = starts[-1] + span.last - span.left
            leading = list(span.exit.before.encode("utf-8")) if source in _TEXT else []
            if leading and written[max(0, marker_start - len(leading)) : marker_start] == leading:
                marker_start -= len(leading)
            first_token = bisect_left(starts, marker_start)
            out[first_token:] = [marker_name] * (len(out) - first_token)
            trailing = span.exit.after.encode("utf-8") if target in _TEXT else b""
            if span.last < len(symbols):
                trailing = _remainder(trailing, symbols[span.last :]) or b""
    return out


#: Regions next to which framing text counts as the marker.  Not reasoning: there it counts towards the budget.
_TEXT = (RegionName.CONTENT, RegionName.RESPONSE)


def _remainder(trailing: bytes, symbols: Sequence[int]) -> bytes | None:
    """Return the rest of ``trailing`` after ``symbols``; None where they are not its beginning."""
    data = bytes(symbol for symbol in symbols if symbol < 256)
    return trailing[len(data) :] if data and len(data) == len(symbols) and trailing.startswith(data) else None


def _events(message: Message, plan: Plan | None, regions: Sequence[str]) -> dict[int, list[str]]:
    last = len(regions) - 1
    out: dict[int, list[str]] = {}
    if message.landed is not None:
        out[message.landed] = ["max_tokens is near: from here on only tokens that can still finish in time are allowed"]
    inside = [i for i, name in enumerate(regions) if name == RegionName.REASONING.value]
    for budget in plan.budgets if plan is not None else ():
        if inside and len(inside) >= budget.max_tokens and inside[-1] < last:
            at = inside[-1] + 1
            out.setdefault(at, []).append(f"the reasoning budget of {budget.max_tokens} tokens is used up")
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


def _text(engine: Engine, token: int) -> str:
    """Return the text of a token; bytes that are not a whole character are shown as escapes."""
    return engine.token_bytes(token).decode("utf-8", "backslashreplace")
