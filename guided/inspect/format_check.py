"""The engine's part of the cross-check of a format: its masks must allow every text that the template rendered.

For each golden text a plan is composed and compiled; the text is written under the masks token by token to its end, and
parsed back.  The tokenizer is a synthetic one: single bytes, and one token for every marker of the format.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from grammars.compose.compose import Parts, compose
from grammars.formats.check import TYPED_TOOLS
from grammars.formats.golden_texts import GoldenText
from grammars.formats.infer import Inference, without_calls, without_content_markers, without_switch
from grammars.plan.plan import Plan
from grammars.values.format import Format, ReasoningFormat
from guided.bitmask import allocate_bitmask, is_allowed
from guided.engine.engine import Engine
from guided.output.parser import ContentDelta, Event, OutputParser, ReasoningDelta, ToolCallArguments, ToolCallStart
from guided.state.entry import begin_of
from guided.state.state import GuidanceState
from guided.tracking.commit_log import num_common
from special_tokens import AddedToken, SpecialTokens, TokenizerFacts
from special_tokens.errors import GuidedError

__all__ = ["byte_tokenizer", "check_golden_texts", "engine_for", "verified"]

_MARKER = re.compile(r"<[|/\w\uff5c\"][^<>\s]*>|\[/?[A-Z][A-Z_ ]+\]|\[\|[^|\]\s]*\|\]")


def verified(inference: Inference, tokens: SpecialTokens) -> Inference:
    """Return the inference after the check; a part that fails is replaced by the next best evidence, with a note.

    The order is: answers and reasoning, the ends of prompts, calls.
    """
    inference, check = _with_answers(inference, tokens)
    inference = _with_switch(inference, check)
    with_calls = [golden for golden in inference.golden_texts if golden.calls]
    wrong = check.wrong(with_calls)
    if wrong:
        inference = _with_calls_alone(inference, with_calls, check) or without_calls(inference, tokens, wrong)
    return replace(inference, prompts=(), next_inference=None)


def _with_answers(inference: Inference, tokens: SpecialTokens) -> tuple[Inference, _Check]:
    """Return the best inference of reasoning and answers whose golden texts can be written and read, and its check."""
    notes: tuple[str, ...] = ()
    candidate: Inference | None = inference
    last = inference
    while candidate is not None:
        check = _Check(candidate.format, engine_for(candidate.format, tokens))
        wrong = check.wrong(golden for golden in candidate.golden_texts if not golden.calls)
        if not wrong:
            return (_with_notes(candidate, notes) if notes else candidate), check
        notes += tuple(f"cross-check failed: {what}" for what in wrong)
        last, candidate = candidate, candidate.next_inference() if candidate.next_inference is not None else None
    plain = without_content_markers(last)
    notes += ("answers are taken as they are: no frame of theirs reads back",)
    return _with_notes(plain, notes), _Check(plain.format, engine_for(plain.format, tokens))


def _with_notes(inference: Inference, notes: tuple[str, ...]) -> Inference:
    """Return the inference with notes: why better evidence failed, and from which evidence its reasoning is known."""
    known_by = dict(inference.format.evidence).get("reasoning", "nothing, and left out")
    return replace(inference, notes=(*inference.notes, *dict.fromkeys(notes), f"reasoning is known from {known_by}"))


def _with_switch(inference: Inference, check: _Check) -> Inference:
    """Return the inference with a switch and a default that agree with the template's own prompts."""
    form = inference.format.reasoning
    if form is None or not inference.prompts:
        return inference
    texts = {prompt.thinking: prompt.text for prompt in inference.prompts}
    entries = {asked: check.entry(text) for asked, text in texts.items()}
    notes = inference.notes
    content = inference.format.content.start
    if form.switch is not None and (wrong := _wrong_switch(form, content, texts, entries)):
        notes += (f"cross-check failed: the switch {form.switch.name} is not used: {wrong}",)
        form = without_switch(form, texts.get(None, ""))
    default_on = {"inside": True, "after": False}.get(entries[None], form.default_on) if None in entries else None
    if default_on is not None and default_on != form.default_on:
        notes += (f"cross-check failed: the prompt shows that the default is {'on' if default_on else 'off'}",)
        form = replace(form, default_on=default_on)
    if notes == inference.notes:
        return inference
    return replace(inference, format=replace(inference.format, reasoning=form), notes=notes)


def _wrong_switch(
    form: ReasoningFormat, content: str, texts: Mapping[bool | None, str], entries: Mapping[bool | None, str]
) -> str | None:
    """Return how a switch contradicts the prompts rendered with it; None if they agree."""
    if True not in texts or False not in texts:
        return "the template refuses its values"
    if texts[True] == texts[False]:
        return "it changes nothing"
    for asked, tail in ((True, form.prompt_on), (False, form.prompt_off)):
        if not texts[asked].endswith(tail):
            return f"the prompt does not end with {tail!r}"
    if entries[True] == "after":
        return "the prompt closes the block where it is to be open"
    if content and texts[False].endswith(content) and not texts[True].endswith(content):
        return "the prompt opens the answer's own frame where reasoning is off"
    if entries[False] == "inside":
        return "the prompt opens the block where it is to be closed"
    closes = texts[False].endswith(form.prompt_off) and bool(form.prompt_off)
    if entries[False] == "after" and not closes:
        return f"the prompt closes the block, and not by {form.prompt_off!r}"
    return None


def _with_calls_alone(inference: Inference, texts: Sequence[GoldenText], check: _Check) -> Inference | None:
    """Return the inference without text before calls, if the calls after text are the only ones that fail the check."""
    calls = inference.format.tool_calls
    alone = [golden for golden in texts if not golden.content]
    if calls is None or not alone or len(alone) == len(texts):
        return None
    content = replace(inference.format.content, lead_start="", lead_end="")
    format = replace(inference.format, content=content, tool_calls=replace(calls, text_before=False))
    if check_golden_texts(format, alone, check.engine):
        return None
    others = tuple(golden for golden in inference.golden_texts if golden not in texts or golden in alone)
    wrong = check.wrong(golden for golden in texts if golden.content)
    more = (*(f"cross-check failed: {what}" for what in wrong), "calls are written without text in front of them")
    return replace(
        inference,
        format=format,
        golden_texts=others,
        notes=(*inference.notes, *more),
        call_notes=(*inference.call_notes, *more),
    )


def engine_for(format: Format, tokens: SpecialTokens | None = None) -> Engine:
    """Return an engine over bytes and those of the format's markers that are tokens of the vocabulary.

    Without a vocabulary every text that is spelled like a marker counts as one.
    """
    texts = list(_texts(format))
    ends = (*format.ends.content, *format.ends.calls)
    if tokens is not None and tokens.added:
        pieces = (piece for text in (*texts, *ends) for piece in tokens.pieces(text))
        return Engine(*byte_tokenizer(tuple(tokens.text(p) for p in pieces if isinstance(p, int)), ends))
    markers = [marker for text in texts for marker in _MARKER.findall(text)]
    return Engine(*byte_tokenizer((*markers, *ends), ends))


def check_golden_texts(format: Format, golden: Iterable[GoldenText], engine: Engine) -> tuple[str, ...]:
    """Return a sentence for each golden text that the format cannot write or read; () if there is none."""
    return _Check(format, engine).wrong(golden)


class _Check:
    """The check of golden texts and prompts against one format, under one engine.

    Plans are composed once, with and without reasoning.  Many golden texts share a prefix, so a state is rolled back to
    the end of the common prefix instead of beginning again.
    """

    def __init__(self, format: Format, engine: Engine) -> None:
        self.format = format
        self.engine = engine
        self._plans: dict[bool | None, Plan] = {}
        self._states: dict[tuple[bool | None, str], tuple[GuidanceState, list[int]]] = {}
        self._mask = allocate_bitmask(1, engine.vocab_size)

    def wrong(self, golden: Iterable[GoldenText]) -> tuple[str, ...]:
        """Return a sentence for each golden text that cannot be written or read; () if there is none."""
        golden_texts = tuple(golden)
        alike = sorted(range(len(golden_texts)), key=lambda i: (golden_texts[i].entry, golden_texts[i].text))
        wrong = {i: self._wrong(golden_texts[i]) for i in alike}
        return tuple(what for _, what in sorted(wrong.items()) if what is not None)

    def entry(self, prompt: str) -> str:
        """Return where a plan with reasoning begins after a prompt."""
        return begin_of(self._plan(True), self.engine.tokenize(prompt), self.engine).entry

    def _plan(self, thinking: bool | None) -> Plan:
        if thinking not in self._plans:
            parts = Parts(tools=list(TYPED_TOOLS.values()), thinking=thinking)
            self._plans[thinking] = compose(parts, tokens=self.engine.tokens, format=self.format)
        return self._plans[thinking]

    def _wrong(self, golden: GoldenText) -> str | None:
        """Return what is wrong with one golden text, or None."""
        thinking = True if golden.reasoning else None
        try:
            plan, ids = self._plan(thinking), self.engine.tokenize(golden.text)
            wrong = self._refused(thinking, ids, golden.entry)
            return f"{golden.text!r}: {wrong}" if wrong else _misread(plan, self.engine, ids, golden)
        except GuidedError as error:
            return f"{golden.text!r}: {error}"

    def _refused(self, thinking: bool | None, ids: Sequence[int], entry: str) -> str | None:
        """Return where the masks stop the text; None where they let it through to an end."""
        key = (thinking, entry)
        if key not in self._states:
            self._states[key] = GuidanceState(self._plan(thinking), self.engine, entry=entry), []
        state, written = self._states.pop(key)  # one that refused something is not used again
        kept = num_common(written, ids)
        state.rollback(len(written) - kept)
        for i in range(kept, len(ids)):
            state.fill_bitmask(self._mask)
            if not is_allowed(self._mask[0], ids[i]):
                text = b"".join(map(self.engine.token_bytes, ids[: i + 1])).decode("utf-8", "replace")
                return f"refused after {text[-40:]!r}"
            state.commit([ids[i]])
        self._states[key] = state, list(ids)
        return None if state.is_accepting else "may not end there"


def _misread(plan: Plan, engine: Engine, ids: Sequence[int], golden: GoldenText) -> str | None:
    parser = OutputParser(plan, engine, entry=plan.entry(golden.entry).name)
    events = [*parser.feed(ids), *parser.finish()]
    reasoning, content, calls = _read(events)
    wanted = [(call.name, call.arguments) for call in golden.calls]
    # A template that puts blanks around some texts and not around others is still the same format.
    if (reasoning.strip(), content.strip()) != (golden.reasoning, golden.content) or calls != wanted:
        return f"{golden.text!r} reads back as {(reasoning, content, calls)!r}"
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


#: The end token that the engine gets: no format uses it, because a grammar cannot contain the engine's own end token.
_ENGINE_END = "<|end_of_bytes|>"


#: GPT-2's printable characters for the 256 bytes.
_ALPHABET = [chr(code) for code in (*range(33, 127), *range(161, 173), *range(174, 324))]


@lru_cache(maxsize=64)
def byte_tokenizer(markers: tuple[str, ...], ends: tuple[str, ...] = ()) -> tuple[str, SpecialTokens]:
    """Return the text of a ``tokenizer.json`` and its registry: 256 bytes, then the markers, all of them special.

    ``ends`` are the markers that end a turn.
    """
    marker_texts = tuple(dict.fromkeys((_ENGINE_END, *markers)))
    added = tuple(AddedToken(len(_ALPHABET) + i, text, True) for i, text in enumerate(marker_texts))
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    body = {
        "added_tokens": [{"id": t.id, "content": t.text, "special": t.special, **flags} for t in added],
        "pre_tokenizer": byte_level,
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": {char: i for i, char in enumerate(_ALPHABET)}, "merges": []},
    }
    ids = {token.text: token.id for token in added}
    eos = tuple(ids[text] for text in (_ENGINE_END, *ends) if text in ids)
    size = len(_ALPHABET) + len(added)
    return json.dumps(body), SpecialTokens(TokenizerFacts(added, size, generation_eos=eos))
