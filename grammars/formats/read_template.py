"""One template taken apart: everything that its renderings show, put together into a format.

The order matters: the reasoning first, because its block stands in front of calls and must be taken off them; then
the calls; then what ends them.
"""

from __future__ import annotations

import json
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any

from grammars.formats.probe import samples as s
from grammars.formats.calls.call_shape import CallShape, read_shape
from grammars.formats.probe.sample_calls import CallTexts, in_one_turn, read_call_texts
from grammars.formats.check import TYPED_TOOLS, differences
from grammars.formats.calls.classify import classify, split_wrappers
from grammars.formats.prompt_example import read_declared
from grammars.formats.turn_ends import CallEnds, ContentEnds, call_ends, content_ends, not_ends
from grammars.values.format import ContentFormat, Ends, Format, InputNeeds, ToolCallFormat
from grammars.formats.probe.input_needs import read_inputs, text_beside_calls, tools_argument
from grammars.formats.provenance import fields_read
from grammars.formats.reasoning.read_reasoning import ReasoningReading, read_reasoning
from grammars.formats.probe.renderings import Renderings
from grammars.formats.probe.turns import Turn, read_turn
from grammars.formats.probe.text_units import Units
from grammars.formats.golden_texts import Prompt, Witness, prompts, witnesses
from grammars.tool_calls import syntax
from grammars.tool_calls.section import opening_marker
from grammars.values.tool import Call
from special_tokens import SpecialTokens
from special_tokens.errors import ToolError

__all__ = ["Reading"]


class Reading:
    """What the renderings of one template show.  Raises `TemplateError` where there are none to look at."""

    def __init__(self, renderings: Renderings, tokens: SpecialTokens, template: str) -> None:
        self.renderings = renderings
        self.tokens = tokens
        self.template = template
        self.units = Units(tokens)
        self.plain = renderings.plain_asking()
        self.turn: Turn | None = read_turn(renderings, self.plain, self.units)
        self.calling = renderings.call_asking(self.plain)
        self._readings = read_reasoning(renderings, self.plain, self.calling, self.turn, self.units, template)
        self._reading: ReasoningReading = next(self._readings)

    @property
    def is_refused(self) -> bool:
        """Did the sandbox stop the template, rather than the template itself?"""
        return any("SecurityError" in error for error in self.renderings.errors)

    @property
    def reasoning(self) -> ReasoningReading:
        """The best reading of the reasoning that has not been refused."""
        return self._reading

    def without_this_reasoning(self) -> Reading | None:
        """The same template with the next evidence for its reasoning; None where there is no other."""
        following = next(self._readings, None)
        if following is None:
            return None
        other = copy(self)
        for name in [name for name, kind in vars(Reading).items() if isinstance(kind, cached_property)]:
            vars(other).pop(name, None)
        other._reading = following
        return other

    @cached_property
    def texts(self) -> CallTexts | None:
        """The sample calls as the template writes them, without what stands in front of them."""
        if self.calling is None:
            return None
        return read_call_texts(self.renderings, self.calling, self.units, self.turn, self._without_reasoning)

    @cached_property
    def one_turn(self) -> CallTexts | None:
        """The sample calls, as many as the template writes in one turn."""
        return in_one_turn(self.texts, self._content_ends.end) if self.texts is not None else None

    @cached_property
    def calls(self) -> ToolCallFormat | None:
        """The format of calls, before it is checked; None where the template writes none that has a known shape."""
        if self._shape is None or self._shape.is_unread or self.texts is None:
            return None
        wrappers = split_wrappers(self._shape.before, self._call_ends.after, self._shape.middle, self.units)
        return self._beside_text(classify(self._shape, self.texts, wrappers, self.units))

    @cached_property
    def wrong(self) -> tuple[str, ...]:
        """In what the format of calls and the template disagree."""
        if self.calls is None or self.one_turn is None:
            return ()
        return differences(self.calls, self.one_turn, self.tokens)

    def format(self) -> tuple[Format, tuple[str, ...]]:
        """The format as far as renderings go, its calls checked, and notes on what renderings could not show."""
        calls, how, notes = self._checked_calls()
        reasoning = self.reasoning.format
        evidence = [("inputs", "rendering")]
        evidence += [("reasoning", self.reasoning.evidence)] if reasoning else []
        evidence += [("tool_calls", how)] if calls else []
        evidence += [("ends", "rendering")] if self._content_ends.end else []
        made = Format(
            "inferred",
            reasoning=reasoning,
            content=self._content(calls if how == "rendering" else None),
            tool_calls=calls,
            ends=self._ends(calls),
            inputs=self._inputs(),
            evidence=tuple(evidence),
        )
        shown = fields_read(made, self.reasoning.fields, shows_calls=self.texts is not None)
        return replace(made, evidence=(*evidence, *shown)), notes

    def witnesses(self, format: Format) -> tuple[Witness, ...]:
        """What the template wrote of the sample turns; calls only where the format was read off them."""
        read_off = dict(format.evidence).get("tool_calls", "").startswith(("rendering", "response_template"))
        calling = self.calling if read_off else None
        reading = self.reasoning
        found = witnesses(self.renderings, self.plain, calling, format, reading.header, reading.block, self.units)
        return tuple(dict.fromkeys(found))

    def prompts(self, format: Format) -> tuple[Prompt, ...]:
        """How prompts end under the switch of ``format``."""
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
        form, beside = self.reasoning.format, None
        if self.calling is not None:  # `texts` are read with the help of these ends
            message = self.renderings.calling(self.calling, [(s.NAME, s.BOTH)], s.TEXT)
            beside = self.renderings.turn(self.calling, message, tools=True)
        inside = [form.end] if form else []
        if beside is not None and s.TEXT in beside and s.NAME in beside:
            inside += [beside[beside.index(s.TEXT) : beside.rindex(s.NAME)]]
        return content_ends(self.turn, self.reasoning.header, self.reasoning.content_start, inside, self.units)

    @cached_property
    def _call_ends(self) -> CallEnds:
        shape, texts = self._shape, self.texts
        if shape is None or texts is None:
            return CallEnds("", "")
        return call_ends(
            texts, shape.after, shape.middle, shape.before, self._content_ends, self.reasoning.header, self.units
        )

    def _checked_calls(self) -> tuple[ToolCallFormat | None, str, tuple[str, ...]]:
        """The calls, how they are known, and notes."""
        if self.texts is None:
            declared = self._declared()
            return declared, "text of the prompt", (self.renderings.why_no_calls,)
        if self._shape is not None and self._shape.is_unread:
            return None, "", ("a second call is written in no way that is read here",)
        if self.calls is None:
            return None, "", ("the calls that the chat template writes have no shape that is known here",)
        if self.wrong:
            return None, "", tuple(f"cross-check failed: {what}" for what in self.wrong)
        return self.calls, "rendering", ()

    def _without_reasoning(self, text: str) -> str:
        """A call's text without a reasoning block in front of it."""
        form = self.reasoning.format
        blocks = {self.reasoning.block, form.empty, form.prompt_off, form.start + form.end} if form else set()
        block = next((block for block in sorted(blocks - {""}, key=len, reverse=True) if text.startswith(block)), "")
        return self._without_empty_answer(text[len(block) :])

    def _without_empty_answer(self, text: str) -> str:
        """A call's text without an answer's frame around nothing in front of it."""
        start = self.reasoning.content_start
        rest = text.removeprefix(start)
        closing = self.units.common_prefix(rest, self._content_ends.content_end)
        return rest[len(closing) :] if start and self.units.markers(closing) else text

    def _declared(self) -> ToolCallFormat | None:
        """A format that the prompt shows by an example."""
        name, is_text = tools_argument(self.renderings, self.plain, self.template)
        if not name:
            return None
        tools: Any = json.dumps([tool["function"] for tool in s.TOOLS]) if is_text else list(s.TOOLS)
        return read_declared(self.renderings.prompt(self.plain, **{name: tools}) or "")

    def _beside_text(self, form: ToolCallFormat) -> ToolCallFormat:
        """The format with what stands between text and calls, and whether text may stand there."""
        text = self._text_beside
        opening = form.section_start + form.call_start
        first = next(iter(self.units.markers(opening)), "")
        has_marker = bool(self.units.markers(opening_marker(form))) and not self.reasoning.content_start
        plain = replace(form, text_before=has_marker, gap=form.gap_without_text)
        if text is None:
            return plain
        if first and first == self._content_ends.end:
            return replace(plain, text_before=False)  # behind text, what opens calls cannot be told from the end
        if text.index(s.TEXT) > text.index(s.NAME):
            end = self._content_ends.end
            return replace(plain, text_after=not end or end not in text[text.index(s.NAME) : text.index(s.TEXT)])
        if self.reasoning.content_start and text[: text.index(s.TEXT)].endswith(self.reasoning.content_start):
            return form  # what closes the text's frame is none of the calls' own
        between = self._between
        gap = between[: between.index(opening)] if opening and opening in between else _white(between)
        return replace(form, gap=gap)

    @property
    def _text_beside(self) -> str | None:
        """The rendering of text beside a call, where both are there and the text is no thought."""
        text = self.texts.beside if self.texts is not None else None
        if text is None or s.TEXT not in text or s.NAME not in text:
            return None
        form = self.reasoning.format
        is_thought = form is not None and text[: text.index(s.TEXT)].endswith(form.start)
        return None if is_thought or self._inputs_text == "apart" else text

    @cached_property
    def _inputs_text(self) -> str:
        return text_beside_calls(self.texts, "", self._content_ends.end)

    @property
    def _between(self) -> str:
        """What stands between text and a call behind it."""
        text = self._text_beside or s.TEXT + s.NAME
        return text[text.index(s.TEXT) + len(s.TEXT) : text.rindex(s.NAME)]

    # -- the rest

    def _content(self, form: ToolCallFormat | None) -> ContentFormat:
        """How text is framed; in front of calls too, where the calls of ``form`` follow a frame that can be told."""
        start, opening, end = self.reasoning.content_start, self.reasoning.opening, self._content_ends.content_end
        plain, text = ContentFormat(opening, start, end), self._text_beside
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
        found = Ends((content,) if content else (), (of_calls,) if of_calls not in ("", content) else ())
        form = self.reasoning.format
        framing = [self._content_ends.content_end]
        framing += [form.end, form.empty] if form else []
        framing += [calls.section_start, calls.call_start, calls.call_end, calls.section_end] if calls else []
        return replace(found, not_ends=not_ends(framing, found, self.units))

    def _inputs(self) -> InputNeeds:
        thought = self.reasoning.format.start if self.reasoning.format else ""
        given_as = self.reasoning.given_as
        end = self._content_ends.end
        return read_inputs(
            self.renderings, self.plain, self.calling, self.texts, given_as, thought, end, template=self.template
        )


def _white(text: str) -> str:
    return text[: len(text) - len(text.lstrip())]
