"""The engine's part of the cross-check: does the grammar built from a format let through what the template wrote?

Each witness is composed, compiled, driven through the masks token by token to its end, and parsed back.  Where no
tokenizer is at hand a synthetic one stands in: single bytes, and one token for every marker of the format.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from grammars.compose import Parts, compose
from grammars.formats.check import TYPED_TOOLS
from grammars.formats.format import Format
from grammars.formats.infer import Inference, without_calls
from grammars.formats.witness import Witness
from grammars.plan import Plan
from guided.bitmask import allocate_bitmask, is_allowed
from guided.byte_tokenizer import byte_tokenizer
from guided.compile import Engine
from guided.parse import ContentDelta, Event, OutputParser, ReasoningDelta, ToolCallArguments, ToolCallStart
from guided.state import GuidanceState
from special_tokens import SpecialTokens
from special_tokens.errors import GuidedError

__all__ = ["check_witnesses", "engine_for", "verified"]

_MARKER = re.compile(r"<[|/\w\uff5c\"][^<>\s]*>|\[/?[A-Z][A-Z_ ]+\]|\[\|[^|\]\s]*\|\]")


def verified(inference: Inference, tokens: SpecialTokens) -> Inference:
    """The inference, checked; calls that do not stand the check give way to the next evidence."""
    engine = engine_for(inference.format, tokens)
    with_calls = [witness for witness in inference.witnesses if witness.calls]
    others = [witness for witness in inference.witnesses if not witness.calls]
    wrong = check_witnesses(inference.format, others, engine)
    inference = replace(inference, notes=(*inference.notes, *(f"cross-check failed: {what}" for what in wrong)))
    wrong = check_witnesses(inference.format, with_calls, engine)
    return without_calls(inference, tokens, wrong) if wrong else inference


def engine_for(format: Format, tokens: SpecialTokens | None = None) -> Engine:
    """An engine over bytes and the format's own markers: those that the vocabulary has as tokens.

    Without a vocabulary every text that is spelled as a marker counts as one.
    """
    texts = list(_texts(format))
    ends = (*format.ends.content, *format.ends.calls)
    if tokens is not None and tokens.added:
        pieces = (piece for text in (*texts, *ends) for piece in tokens.pieces(text))
        return Engine(*byte_tokenizer(tuple(tokens.text(p) for p in pieces if isinstance(p, int)), ends))
    markers = [marker for text in texts for marker in _MARKER.findall(text)]
    return Engine(*byte_tokenizer((*markers, *ends), ends))


def check_witnesses(format: Format, found: Iterable[Witness], engine: Engine) -> tuple[str, ...]:
    """Everything that the format cannot write or read of what the template wrote; empty where it can do all."""
    plans: dict[bool | None, Plan] = {}
    return tuple(wrong for witness in found if (wrong := _check(format, witness, engine, plans)) is not None)


def _check(format: Format, witness: Witness, engine: Engine, plans: dict[bool | None, Plan]) -> str | None:
    """What is wrong with one witness, or None; ``plans`` keeps the plans with and without reasoning."""
    thinking = True if witness.reasoning else None
    try:
        if thinking not in plans:
            parts = Parts(tools=list(TYPED_TOOLS.values()), thinking=thinking)
            plans[thinking] = compose(parts, tokens=engine.tokens, format=format)
        plan, ids = plans[thinking], engine.tokenize(witness.text)
        wrong = _refused(plan, engine, ids, witness.entry)
        return f"{witness.text!r}: {wrong}" if wrong else _misread(plan, engine, ids, witness)
    except GuidedError as error:
        return f"{witness.text!r}: {error}"


def _refused(plan: Plan, engine: Engine, ids: Sequence[int], entry: str) -> str | None:
    """Where the masks stop the text; None where they let it through to an end."""
    state = GuidanceState(plan, engine, entry=entry)
    mask = allocate_bitmask(1, engine.vocab_size)
    for i, token in enumerate(ids):
        state.fill_bitmask(mask)
        if not is_allowed(mask[0], token):
            written = b"".join(map(engine.token_bytes, ids[: i + 1])).decode("utf-8", "replace")
            return f"refused behind {written[-40:]!r}"
        state.commit([token])
    return None if state.is_accepting else "may not end there"


def _misread(plan: Plan, engine: Engine, ids: Sequence[int], witness: Witness) -> str | None:
    parser = OutputParser(plan, engine, entry=plan.entry(witness.entry).name)
    events = [*parser.feed(ids), *parser.finish()]
    reasoning, content, calls = _read(events)
    wanted = [(call.name, call.arguments) for call in witness.calls]
    # A template that puts blanks around some texts and not around others is still the same format.
    if (reasoning.strip(), content.strip()) != (witness.reasoning, witness.content) or calls != wanted:
        return f"{witness.text!r} reads back as {(reasoning, content, calls)!r}"
    return None


def _read(events: Iterable[Event]) -> tuple[str, str, list[tuple[str, object]]]:

    reasoning, content = "", ""
    calls: list[tuple[str, str]] = []
    for event in events:
        match event:
            case ReasoningDelta(text=text):
                reasoning += text
            case ContentDelta(text=text):
                content += text
            case ToolCallStart(name=name):
                calls.append((name, ""))
            case ToolCallArguments(text=text):
                calls[-1] = (calls[-1][0], calls[-1][1] + text)
    return reasoning, content, [(name, json.loads(text)) for name, text in calls]


def _texts(format: Format) -> Iterable[str]:
    if format.reasoning is not None:
        yield from (format.reasoning.start, format.reasoning.end, format.reasoning.empty)
    yield from (format.content.start, format.content.end, format.content.lead_start, format.content.lead_end)
    calls = format.tool_calls
    if calls is not None:
        yield from (calls.section_start, calls.section_end, calls.call_start, calls.call_end, calls.between)
        yield from (str(value) for _, value in calls.options)
