"""Read one template: combine everything that its renderings show into a format.

The order matters: first the reasoning, whose block precedes calls and must be removed from them; then the calls; then
the tokens that end them.
"""

from __future__ import annotations

import json
import re
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal

from grammars.formats.calls.call_shape import CallShape, read_shape
from grammars.formats.calls.classify import classify, split_wrappers
from grammars.formats.check import TYPED_TOOLS, differences
from grammars.formats.golden_texts import GoldenPrompt, GoldenText, golden_texts, prompts
from grammars.formats.probe import samples as s
from grammars.formats.probe.renderings import Probe, Renderings
from grammars.formats.probe.sample_calls import CallTexts, in_one_turn, read_call_texts
from grammars.formats.probe.text_units import Units
from grammars.formats.probe.turns import Turn, read_turn
from grammars.formats.reasoning.read_reasoning import ReasoningReading, read_reasoning
from grammars.formats.turn_ends import CallEnds, ContentEnds, call_ends, content_ends, not_ends
from grammars.tool_calls.section import opening_marker
from grammars.tool_calls.syntaxes.lookup import syntax
from grammars.values.format import ContentFormat, Ends, Format, InputNeeds, ToolCallFormat
from grammars.values.tool import Call
from special_tokens import SpecialTokens
from special_tokens.errors import ToolError

__all__ = ["TemplateReading"]


class TemplateReading:
    """The findings from the renderings of one template; raises `TemplateError` if it renders no plain message."""

    def __init__(self, renderings: Renderings, tokens: SpecialTokens, template: str) -> None:
        self.renderings = renderings
        self.tokens = tokens
        self.template = template
        self.units = Units(tokens)
        self.plain = renderings.plain_probe()
        self.turn: Turn | None = read_turn(renderings, self.plain, self.units)
        self.calling = renderings.call_probe(self.plain)
        self._readings = read_reasoning(renderings, self.plain, self.calling, self.turn, self.units, template)
        self._reading: ReasoningReading = next(self._readings)

    @property
    def is_refused(self) -> bool:
        """Whether the sandbox, and not the template itself, raised an error."""
        return any("SecurityError" in error for error in self.renderings.errors)

    @property
    def reasoning(self) -> ReasoningReading:
        """The best reading of the reasoning that no check has refused."""
        return self._reading

    def with_next_reasoning(self) -> TemplateReading | None:
        """The same template with the next best reading of its reasoning; None if there is no other."""
        following = next(self._readings, None)
        if following is None:
            return None
        other = copy(self)
        for name in [name for name, kind in vars(TemplateReading).items() if isinstance(kind, cached_property)]:
            vars(other).pop(name, None)
        other._reading = following
        return other

    @cached_property
    def texts(self) -> CallTexts | None:
        """The sample calls as the template writes them, without header and reasoning."""
        if self.calling is None:
            return None
        return read_call_texts(self.renderings, self.calling, self.units, self.turn, self._without_reasoning)

    @cached_property
    def one_turn(self) -> CallTexts | None:
        """The sample calls, without those that the template writes after the end of the turn."""
        return in_one_turn(self.texts, self._content_ends.end) if self.texts is not None else None

    @cached_property
    def calls(self) -> ToolCallFormat | None:
        """The format of calls, unchecked; None if the template writes no calls of a known shape."""
        if self._shape is None or self._shape.is_unread or self.texts is None:
            return None
        wrappers = split_wrappers(self._shape.before, self._call_ends.after, self._shape.middle, self.units)
        return self._with_gap(classify(self._shape, self.texts, wrappers, self.units))

    @cached_property
    def wrong(self) -> tuple[str, ...]:
        """The differences between the format of calls and the template's calls."""
        if self.calls is None or self.one_turn is None:
            return ()
        return differences(self.calls, self.one_turn, self.tokens)

    def format(self) -> tuple[Format, tuple[str, ...]]:
        """The format as far as renderings show it, with checked calls, and notes on what they do not show."""
        calls, notes = self._checked_calls()
        reasoning = self.reasoning.format
        content = self._content(calls)
        evidence = [("inputs", "rendering")]
        evidence += [("reasoning", self.reasoning.evidence)] if reasoning else []
        evidence += [("content", "rendering")] if content != ContentFormat() else []
        evidence += [("tool_calls", "rendering")] if calls else []
        evidence += [("ends", "rendering")] if self._content_ends.end else []
        made = Format(
            "inferred",
            reasoning=reasoning,
            content=content,
            tool_calls=calls,
            ends=self._ends(calls),
            inputs=self._inputs(),
            evidence=tuple(evidence),
        )
        return made, notes

    def golden_texts(self, format: Format) -> tuple[GoldenText, ...]:
        """The sample turns as the template wrote them; with calls only if ``format`` was inferred from them."""
        read_off = dict(format.evidence).get("tool_calls", "").startswith("rendering")
        calling = self.calling if read_off else None
        reading = self.reasoning
        texts = golden_texts(self.renderings, self.plain, calling, format, reading.header, reading.block, self.units)
        return tuple(dict.fromkeys(texts))

    def prompts(self, format: Format) -> tuple[GoldenPrompt, ...]:
        """The prompts that the template renders under the reasoning switch of ``format``."""
        return tuple(prompts(self.renderings, self.plain, format))

    # -- calls

    @cached_property
    def _shape(self) -> CallShape | None:
        shape = read_shape(self.one_turn, self.units) if self.one_turn is not None else None
        end = self._content_ends.end
        if shape is not None and shape.middle is not None and end and end in shape.middle:
            return replace(shape, middle=None)  # each call is a turn of its own
        return shape

    @cached_property
    def _content_ends(self) -> ContentEnds:
        form, with_text = self.reasoning.format, None
        if self.calling is not None:  # not from `texts`, which need these ends themselves
            message = self.renderings.calling(self.calling, [(s.NAME, s.BOTH)], s.TEXT)
            with_text = self.renderings.turn(self.calling, message, tools=True)
        inside = [form.end] if form else []
        if with_text is not None and s.TEXT in with_text and s.NAME in with_text:
            inside += [with_text[with_text.index(s.TEXT) : with_text.rindex(s.NAME)]]
        return content_ends(self.turn, self.reasoning.header, self.reasoning.content_start, inside, self.units)

    @cached_property
    def _call_ends(self) -> CallEnds:
        shape, texts = self._shape, self.texts
        if shape is None or texts is None:
            return CallEnds("", "")
        return call_ends(
            texts, shape.after, shape.middle, shape.before, self._content_ends, self.reasoning.header, self.units
        )

    def _checked_calls(self) -> tuple[ToolCallFormat | None, tuple[str, ...]]:
        """The format of calls, and notes."""
        if self.texts is None:
            return None, (self.renderings.why_no_calls,)
        if self._shape is not None and self._shape.is_unread:
            return None, ("the chat template writes a second call in a form that is not recognised",)
        if self.calls is None:
            return None, ("the chat template writes calls in a form that is not recognised",)
        if self.wrong:
            return None, tuple(f"cross-check failed: {what}" for what in self.wrong)
        return self.calls, ()

    def _without_reasoning(self, text: str) -> str:
        """A call's text without a preceding reasoning block."""
        form = self.reasoning.format
        blocks = {self.reasoning.block, form.empty, form.prompt_off, form.start + form.end} if form else set()
        block = next((block for block in sorted(blocks - {""}, key=len, reverse=True) if text.startswith(block)), "")
        return self._without_empty_answer(text[len(block) :])

    def _without_empty_answer(self, text: str) -> str:
        """A call's text without preceding markers of an empty answer."""
        start = self.reasoning.content_start
        answer = text.removeprefix(start)
        closing = self.units.common_prefix(answer, self._content_ends.content_end)
        return answer[len(closing) :] if start and self.units.markers(closing) else text

    def _with_gap(self, form: ToolCallFormat) -> ToolCallFormat:
        """The format with the gap between text and calls, and with whether text may precede or follow calls."""
        text = self._text_with_call
        opening = form.section_start + form.call_start
        first = next(iter(self.units.markers(opening)), "")
        has_marker = bool(self.units.markers(opening_marker(form))) and not self.reasoning.content_start
        plain = replace(form, text_before=has_marker, gap=form.gap_without_text)
        if text is None:
            return plain
        if first and first == self._content_ends.end:
            return replace(plain, text_before=False)  # after text, this could be the end or the start of calls
        if text.index(s.TEXT) > text.index(s.NAME):
            end = self._content_ends.end
            return replace(plain, text_after=not end or end not in text[text.index(s.NAME) : text.index(s.TEXT)])
        if self.reasoning.content_start and text[: text.index(s.TEXT)].endswith(self.reasoning.content_start):
            is_open = not opening and not self._content_ends.content_end  # nothing else ends the text
            return replace(form, gap=self._between) if is_open else form  # its closing markers are not part of calls
        between = self._between
        gap = between[: between.index(opening)] if opening and opening in between else _white(between)
        return replace(form, gap=gap)

    @property
    def _text_with_call(self) -> str | None:
        """The rendering of a message with text and a call; None if one is missing or the text became reasoning."""
        text = self.texts.with_text if self.texts is not None else None
        if text is None or s.TEXT not in text or s.NAME not in text:
            return None
        form = self.reasoning.format
        is_thought = form is not None and text[: text.index(s.TEXT)].endswith(form.start)
        return None if is_thought or self._inputs_text == "apart" else text

    @cached_property
    def _inputs_text(self) -> str:
        return _text_beside_calls(self.texts, "", self._content_ends.end)

    @property
    def _between(self) -> str:
        """The text between content and the call after it."""
        text = self._text_with_call or s.TEXT + s.NAME
        return text[text.index(s.TEXT) + len(s.TEXT) : text.rindex(s.NAME)]

    # -- the rest

    def _content(self, form: ToolCallFormat | None) -> ContentFormat:
        """The markers around answers, and around text before the calls of ``form`` if that text has its own."""
        start, opening, end = self.reasoning.content_start, self.reasoning.opening, self._content_ends.content_end
        plain, text = ContentFormat(opening, start, end), self._text_with_call
        if not start or text is None or form is None or not text[: text.index(s.TEXT)].endswith(start):
            return plain
        if text.index(s.TEXT) > text.index(s.NAME):
            return plain
        try:
            written = syntax(form.syntax).render(form, [Call(s.NAME, s.BOTH, s.ID)], TYPED_TOOLS)
        except ToolError:
            return plain
        closing = self._between.removesuffix(form.gap_without_text + written[: written.index(s.NAME)])
        return plain if closing == self._between else ContentFormat(opening, start, end, start, closing)

    def _ends(self, calls: ToolCallFormat | None) -> Ends:
        content, of_calls = self._content_ends.end, self._call_ends.end
        ends = Ends((content,) if content else (), (of_calls,) if of_calls not in ("", content) else ())
        form = self.reasoning.format
        framing = [self._content_ends.content_end]
        framing += [form.end, form.empty] if form else []
        framing += [calls.section_start, calls.call_start, calls.call_end, calls.section_end] if calls else []
        return replace(ends, not_ends=not_ends(framing, ends, self.units))

    def _inputs(self) -> InputNeeds:
        reasoning_start = self.reasoning.format.start if self.reasoning.format else ""
        reasoning_as = self.reasoning.reasoning_as
        end = self._content_ends.end
        return _read_inputs(
            self.renderings,
            self.plain,
            self.calling,
            self.texts,
            reasoning_as,
            reasoning_start,
            end,
            template=self.template,
        )


def _white(text: str) -> str:
    return text[: len(text) - len(text.lstrip())]


def _read_inputs(
    renderings: Renderings,
    plain: Probe,
    calling: Probe | None,
    texts: CallTexts | None,
    reasoning_as: str,
    reasoning_start: str,
    end: str,
    *,
    template: str,
) -> InputNeeds:
    """The needs of a template; ``reasoning_start`` opens its reasoning, ``end`` ends an answer."""
    probe = calling or plain
    tools_as, tools_are_text = _tools_argument(renderings, plain, template)
    kwargs = {key: value for key, value in probe.base_kwargs.items() if key not in ("tools", "functions")}
    no_tools: dict[str, Any] = {"tools": [], "functions": "[]"}
    kwargs |= {name: none for name, none in no_tools.items() if name in plain.base_kwargs}
    return InputNeeds(
        arguments="string" if probe.arguments == "string" else "object",
        content_of_calls="none" if probe.content is None else "empty",
        content_as="parts" if plain.parts else "text",
        developer_role="developer" in template and _shows_role(renderings, plain, "developer"),
        system_role=_shows_role(renderings, plain, "system"),
        tools="native" if tools_as else "described",
        tool_calls="native" if calling is not None else "described",
        tool_results="native" if texts is not None and s.RESULT in (texts.answered or "") else "described",
        kwargs=tuple(sorted(kwargs.items())),
        tools_as=tools_as or "tools",
        tools_are_text=tools_are_text,
        reasoning_as=reasoning_as,
        text_beside_calls=_text_beside_calls(texts, reasoning_start, end),
    )


_TOOLS_WORD = re.compile(r"(?<![\w.'\"\[])(?:\w*tools|functions)\b")


def _tools_argument(renderings: Renderings, plain: Probe, template: str) -> tuple[str, bool]:
    """The template argument that makes the prompt show tools ("" if none does), and whether it takes JSON text."""
    base = {key: value for key, value in plain.base_kwargs.items() if key not in ("tools", "functions")}
    names = dict.fromkeys(["tools", *sorted(set(_TOOLS_WORD.findall(template)))])
    functions = json.dumps([tool["function"] for tool in s.TOOLS])
    for name in names:
        for value in (list(s.TOOLS), functions):
            shown = renderings.prompt(replace(plain, base_kwargs=base), **{name: value})
            if shown is not None and s.NAME in shown:
                return name, isinstance(value, str)
    return "", False


def _shows_role(renderings: Renderings, plain: Probe, role: str) -> bool:
    messages = [plain.shaped(message) for message in ({"role": role, "content": s.SYSTEM}, s.user())]
    text = renderings.text(messages, add_generation_prompt=True, **plain.base_kwargs)
    return text is not None and s.SYSTEM in text and s.USER in text


def _text_beside_calls(
    texts: CallTexts | None, reasoning_start: str, end: str
) -> Literal["kept", "dropped", "after", "instead", "thought", "apart"]:
    """Return whether and where the template renders the text of a message with calls."""
    text = texts.with_text if texts is not None else None
    if text is None or s.TEXT not in text:
        return "dropped" if texts is not None else "kept"
    if s.NAME not in text:
        return "instead"
    if reasoning_start and text[: text.index(s.TEXT)].endswith(reasoning_start):
        return "thought"
    if text.index(s.TEXT) > text.index(s.NAME):
        return "after"
    return "apart" if end and end in text[text.index(s.TEXT) : text.index(s.NAME)] else "kept"
