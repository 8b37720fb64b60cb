"""A model's wire format, inferred from what is at hand, in the order of how much it is worth.

1. an explicit override;
2. the tokenizer's ``response_template``;
3. renderings: sample conversations, rendered and taken apart;
4. the vocabulary: markers that every model of the field knows;
5. family data;
6. the documented fallback: tools described in the prompt, calls as JSON between tags, as plain text.

Pure: it takes a callable that renders, and the registry of special tokens.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

from grammars.formats import samples as s
from grammars.formats.call_shape import read_shape
from grammars.formats.call_texts import CallTexts, read_call_texts
from grammars.formats.check import differences
from grammars.formats.classify import classify, split_wrappers
from grammars.formats.data import format_of_family
from grammars.formats.declared import read_declared
from grammars.formats.ends import CallEnds, ContentEnds, call_ends, content_ends, not_ends
from grammars.formats.format import (
    ContentFormat,
    Ends,
    Format,
    ReasoningFormat,
    ToolCallFormat,
)
from grammars.formats.inputs import read_inputs, tools_argument
from grammars.formats.reasoning import ReasoningReading, read_reasoning
from grammars.formats.renderings import Asking, Renderings
from grammars.formats.turns import Turn, read_turn
from grammars.formats.units import Units
from grammars.tool_calls.section import opening_marker
from special_tokens import Role, SpecialTokens
from special_tokens.errors import TemplateError

__all__ = ["DESCRIBED_CALLS", "Inference", "infer"]

#: The fallback: what a model is told in the prompt when nothing is known of its own way.
DESCRIBED_CALLS = ToolCallFormat(
    "json_in_tags",
    call_start="<tool_call>\n",
    call_end="\n</tool_call>",
    between="\n",
    gap="\n",
    options=(("args_key", "arguments"), ("name_key", "name")),
)


@dataclass(frozen=True, slots=True)
class Inference:
    """A format and how it came about.

    ``notes`` are sentences for the user; ``texts`` and ``asking`` what the template made of the sample calls, None
    where it writes none: the engine's part of the check uses them.
    """

    format: Format
    notes: tuple[str, ...] = ()
    texts: CallTexts | None = None
    asking: Asking | None = None


def infer(
    render: Callable[..., str] | None,
    tokens: SpecialTokens,
    *,
    template: str = "",
    mutable: Callable[..., str] | None = None,
    override: Format | None = None,
    described: Format | None = None,
) -> Inference:
    """The format of a model.

    ``render(messages, **kw) -> str`` renders its chat template and raises `TemplateError` where that fails; None
    without a template.  ``mutable`` renders where the template may change its own lists, which the first one
    refuses: what calls look like can then still be read.  ``described`` is what the tokenizer's
    ``response_template`` says, already read.  Raises `TemplateError` where the template renders not even a plain
    message.
    """
    if override is not None:
        return Inference(override)
    if render is None:
        return _finished(Format("inferred"), tokens, (), None, None)
    template = template or tokens.facts.chat_template
    reading = _Reading(Renderings(render), tokens, template)
    found, notes = reading.format()
    if mutable is not None and reading.calling is None and reading.is_refused:
        found, notes = _with_refused(found, mutable, reading, notes)
    if described is not None:
        found, notes = _with_described(found, described, reading, notes)
    return _finished(found, tokens, notes, reading.texts, reading.calling)


class _Reading:
    """Everything that renderings show of one template, step by step."""

    def __init__(self, renderings: Renderings, tokens: SpecialTokens, template: str) -> None:
        self.renderings = renderings
        self.tokens = tokens
        self.template = template
        self.units = Units(tokens)
        self.plain = renderings.plain_asking()
        self.turn: Turn | None = read_turn(renderings, self.plain, self.units)
        self.calling = renderings.call_asking(self.plain)
        self.reasoning: ReasoningReading = read_reasoning(
            renderings, self.plain, self.calling, self.turn, self.units, template
        )
        self.texts = self._texts()

    @property
    def is_refused(self) -> bool:
        """Did the sandbox stop the template, rather than the template itself?"""
        return any("SecurityError" in error for error in self.renderings.errors)

    def format(self) -> tuple[Format, tuple[str, ...]]:
        """The format as far as renderings go, cross-checked, and notes on what they could not show."""
        content = content_ends(self.turn, self.reasoning.content_start, self.units)
        calls, ends_of_calls, notes = self._calls(content)
        of_calls = (ends_of_calls,) if ends_of_calls not in ("", content.end) else ()
        ends = Ends((content.end,) if content.end else (), of_calls)
        reasoning = self.reasoning.format
        framing = [content.content_end]
        framing += [reasoning.end, reasoning.empty] if reasoning else []
        framing += [calls.section_start, calls.call_start, calls.call_end, calls.section_end] if calls else []
        thought = reasoning.start if reasoning else ""
        inputs = read_inputs(
            self.renderings, self.plain, self.calling, self.texts, self.reasoning.given_as, thought, self.template
        )
        evidence = [("inputs", "rendering")]
        evidence += [("reasoning", self.reasoning.evidence)] if reasoning else []
        evidence += [("tool_calls", "rendering" if self.texts else "text of the prompt")] if calls else []
        evidence += [("ends", "rendering")] if ends.content else []
        made = Format(
            "inferred",
            reasoning=reasoning,
            content=ContentFormat(self.reasoning.content_start, content.content_end),
            tool_calls=calls,
            ends=replace(ends, not_ends=not_ends(framing, ends, self.units)),
            inputs=inputs,
            evidence=tuple(evidence),
        )
        return made, notes

    def _texts(self) -> CallTexts | None:
        if self.calling is None:
            return None
        return read_call_texts(self.renderings, self.calling, self.units, self.turn, self._without_reasoning)

    def _without_reasoning(self, text: str) -> str:
        """A call's text without a reasoning block in front of it."""
        form = self.reasoning.format
        if form is None:
            return text
        for block in (form.empty, form.prompt_off):
            if block and text.startswith(block):
                return text[len(block) :]
        return text

    def _calls(self, content: ContentEnds) -> tuple[ToolCallFormat | None, str, tuple[str, ...]]:
        if self.texts is None:
            return self._declared(), "", ("the chat template never writes tool calls",)
        shape = read_shape(self.texts, self.units)
        if shape is None:
            return None, "", ("the calls that the chat template writes have no shape that is known here",)
        closed: CallEnds = call_ends(
            self.texts, shape.after, shape.middle, shape.before, content, self.reasoning.header, self.units
        )
        wrappers = split_wrappers(shape.before, closed.after, shape.middle, self.units)
        form = classify(shape, self.texts, wrappers, self.units)
        form = self._beside_text(form, content.end)
        wrong = differences(form, self.texts, self.tokens)
        if wrong:
            return None, "", tuple(f"cross-check failed: {what}" for what in wrong)
        return form, closed.end, ()

    def _declared(self) -> ToolCallFormat | None:
        """A format that the prompt shows by an example."""
        name, is_text = tools_argument(self.renderings, self.plain, self.template)
        if not name:
            return None
        tools: Any = json.dumps([tool["function"] for tool in s.TOOLS]) if is_text else list(s.TOOLS)
        return read_declared(self.renderings.prompt(self.plain, **{name: tools}) or "")

    def _beside_text(self, form: ToolCallFormat, end: str) -> ToolCallFormat:
        """The format with what stands between text and calls, and whether text may stand there."""
        assert self.texts is not None
        text = self.texts.beside or ""
        opening = form.section_start + form.call_start
        has_marker = bool(self.units.markers(opening_marker(form)))
        plain = replace(form, text_before=has_marker, gap=form.gap_without_text)
        if s.TEXT not in text or s.NAME not in text or self._is_thought(text):
            return plain
        if text.index(s.TEXT) > text.index(s.NAME):
            return replace(plain, text_after=not end or end not in text[text.index(s.NAME) : text.index(s.TEXT)])
        between = text[text.index(s.TEXT) + len(s.TEXT) : text.index(s.NAME)]
        between = between.removeprefix(content_ends(self.turn, self.reasoning.content_start, self.units).content_end)
        gap = between[: between.index(opening)] if opening and opening in between else _white(between)
        return replace(form, gap=gap)

    def _is_thought(self, text: str) -> bool:
        """Does the template put text beside calls into the reasoning block?"""
        form = self.reasoning.format
        return form is not None and text[: text.index(s.TEXT)].endswith(form.start)


def _white(text: str) -> str:
    return text[: len(text) - len(text.lstrip())]


# -- other evidence


def _with_refused(
    found: Format, mutable: Callable[..., str], reading: _Reading, notes: tuple[str, ...]
) -> tuple[Format, tuple[str, ...]]:
    """Calls as the template would write them if the sandbox let it; messages with calls cannot be rendered."""
    try:
        loose = _Reading(Renderings(mutable), reading.tokens, reading.template)
    except TemplateError:
        return found, notes
    other, _ = loose.format()
    if other.tool_calls is None or loose.texts is None:
        return found, notes
    evidence = (*found.evidence, ("tool_calls", "rendering outside the sandbox"))
    ends = replace(found.ends, calls=other.ends.calls, not_ends=other.ends.not_ends)
    reasoning = found.reasoning or other.reasoning
    made = replace(found, tool_calls=other.tool_calls, ends=ends, reasoning=reasoning, evidence=evidence)
    return made, ("transformers' sandbox refuses this template's calls: calls in the history are written as text",)


def _with_described(
    found: Format, described: Format, reading: _Reading, notes: tuple[str, ...]
) -> tuple[Format, tuple[str, ...]]:
    """The tokenizer's own description first, wherever it stands up to the template's renderings."""
    calls = described.tool_calls
    if calls is not None and reading.texts is not None:
        wrong = differences(calls, reading.texts, reading.tokens)
        if wrong:
            notes += tuple(f"response_template does not fit the chat template: {what}" for what in wrong)
            calls = None
    if calls is None:
        return found, notes
    evidence = dict(found.evidence) | {"tool_calls": "response_template"}
    return replace(found, tool_calls=calls, evidence=tuple(evidence.items())), notes


def _finished(
    found: Format, tokens: SpecialTokens, notes: tuple[str, ...], texts: CallTexts | None, asking: Asking | None
) -> Inference:
    """The format with what only family data knows, and with the fallback for what nothing tells."""
    if tokens.family is not None:
        found = _with_family(found, format_of_family(tokens.family), tokens.family.id)
    if found.reasoning is None and tokens.family is None:
        found = _with_vocabulary(found, tokens)
    if found.tool_calls is None:
        notes += ("tools are described in the prompt, and calls are JSON between <tool_call> tags",)
        found = replace(
            found,
            tool_calls=DESCRIBED_CALLS,
            inputs=replace(found.inputs, tools="described", tool_calls="described", tool_results="described"),
            evidence=(*found.evidence, ("tool_calls", "fallback")),
        )
    return Inference(found, notes, texts, asking)


def _with_family(found: Format, known: Format, family: str) -> Format:
    """Renderings win; family data fills in what they left open."""
    changes: dict[str, Any] = {"name": family}
    evidence = dict(found.evidence)
    for name in ("reasoning", "tool_calls"):
        if getattr(found, name) is None and getattr(known, name) is not None:
            changes[name] = getattr(known, name)
            evidence[name] = f"family {family}"
    if found.reasoning is not None and known.reasoning is not None:
        changes["reasoning"] = replace(found.reasoning, ends_by_call=known.reasoning.ends_by_call)
    if not (found.content.start or found.content.end):
        changes["content"] = known.content
    changes["ends"] = _united(found.ends, known.ends)
    if "inputs" not in evidence:
        changes["inputs"] = known.inputs
    elif known.inputs.reasoning == "described":
        changes["inputs"] = replace(found.inputs, reasoning="described")
    return replace(found, **changes, evidence=tuple(evidence.items()))


def _united(found: Ends, known: Ends) -> Ends:
    names = (field.name for field in fields(Ends))
    return Ends(**{name: tuple(dict.fromkeys((*getattr(found, name), *getattr(known, name)))) for name in names})


def _with_vocabulary(found: Format, tokens: SpecialTokens) -> Format:
    """Reasoning markers that the vocabulary has, for a model that does not reason unasked."""
    pair = tokens.pair(Role.REASONING_START, Role.REASONING_END)
    if pair is None or not (pair[0].is_token and pair[1].is_token):
        return found
    reasoning = ReasoningFormat(start=pair[0].text + "\n", end=f"\n{pair[1].text}\n\n", default_on=False)
    return replace(found, reasoning=reasoning, evidence=(*found.evidence, ("reasoning", "vocabulary")))
