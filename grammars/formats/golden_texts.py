"""Golden texts: assistant turns and prompts that the template rendered, against which a format is checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product

from grammars.formats.check import TYPED_TOOLS
from grammars.formats.probe import samples as s
from grammars.formats.probe.renderings import Probe, Renderings
from grammars.formats.probe.text_units import Units
from grammars.tool_calls.syntaxes.lookup import syntax
from grammars.tools.parameters import arguments_object
from grammars.values.format import Format
from grammars.values.tool import Call
from special_tokens.errors import ToolError

__all__ = ["GoldenPrompt", "GoldenText", "golden_texts", "prompts"]

_BOTH, _OTHER = Call(s.NAME, s.BOTH, s.ID), Call(s.OTHER_NAME, {}, s.OTHER_ID)
_TRICKY = Call(s.NAME, {s.KEYS[7]: s.TRICKY}, s.ID)


@dataclass(frozen=True, slots=True)
class GoldenText:
    """A rendered assistant turn, without header and end, and the message from which it was rendered.

    Values in calls are spelled as the format spells them; everything around them is the template's.  ``entry`` is where
    the generation prompt would leave off: ``inside`` or ``after`` the reasoning block, or ``fresh``.
    """

    text: str
    entry: str = "fresh"
    reasoning: str = ""
    content: str = ""
    calls: tuple[Call, ...] = field(default=(), hash=False)


@dataclass(frozen=True, slots=True)
class GoldenPrompt:
    """A prompt rendered with reasoning switched on, switched off, or with the switch left out (None)."""

    thinking: bool | None
    text: str


def prompts(renderings: Renderings, plain: Probe, format: Format) -> Iterator[GoldenPrompt]:
    """The prompts under the format's reasoning switch; none if it does not reason or the template raises an error."""
    form = format.reasoning
    if form is None:
        return
    values = {None: None, True: form.switch.on, False: form.switch.off} if form.switch is not None else {None: None}
    for thinking, value in values.items():
        kwargs = {} if form.switch is None or value is None else {form.switch.name: value}
        text = renderings.prompt(plain, **kwargs)
        if text is not None:
            yield GoldenPrompt(thinking, text)


def golden_texts(
    renderings: Renderings,
    plain: Probe,
    calling: Probe | None,
    format: Format,
    header: str,
    block: str,
    units: Units,
) -> Iterator[GoldenText]:
    """The sample turns as the template writes them, which the format must be able to write and read.

    ``block`` is the empty reasoning block that the template writes before an answer without reasoning.
    """
    writer = _AssistantText(format, header, block, units)
    yield from _answers(renderings, plain, format, writer)
    if calling is not None and format.tool_calls is not None:
        yield from _calls(renderings, calling, format, writer)


@dataclass(frozen=True, slots=True)
class _AssistantText:
    """Extracts the assistant's text from renderings."""

    format: Format
    header: str
    block: str
    units: Units

    def text(self, rendering: str | None, reasoning: str) -> tuple[str, str] | None:
        """The text after the header and its `GoldenText.entry`; None if ``reasoning`` is missing from the rendering."""
        begin = self._begin(rendering) if rendering is not None else None
        if rendering is None or begin is None or reasoning not in rendering:
            return None
        text = rendering[begin:]
        form = self.format.reasoning
        if form is None:
            return text, "fresh"
        if reasoning:
            return text, "fresh" if text.startswith(form.start) else "inside"
        for closed in (form.prompt_off, self.block if self.block != form.empty else ""):
            if closed and text.startswith(closed):
                return text[len(closed) :], "after"
        if form.start.strip() and text.startswith(form.start) and form.end.strip() not in text:
            return None  # the template opens a block before the answer and never closes it
        return text, "fresh"

    def _begin(self, rendering: str) -> int | None:
        """The position where the assistant's text begins: after the header, or after a suffix of it.

        The header before calls may differ slightly from that before answers, but must share a word or marker with it.
        """
        if not self.header.strip():
            return len(self.header) if rendering.startswith(self.header) else None
        units = self.units.split(self.header)
        for first in range(len(units)):
            end = "".join(units[first:])
            if not end.strip():
                break
            if end in rendering and (first == 0 or self.units.markers(end)):
                return rendering.index(end) + len(end)
        core = self.header.rstrip()
        return rendering.index(core) + len(core) if core and core in rendering else None


def _answers(renderings: Renderings, plain: Probe, format: Format, writer: _AssistantText) -> Iterator[GoldenText]:
    answer = s.assistant(s.ANSWER)
    yield from _answer(renderings.turn(plain, answer), format, writer, "")
    reasoning_as = format.inputs.reasoning_as
    if reasoning_as == "parts":
        answer["content"] = [{"type": "thinking", "thinking": s.REASON}, {"type": "text", "text": s.ANSWER}]
    elif reasoning_as:
        answer[reasoning_as] = s.REASON
    if reasoning_as:
        form = format.reasoning
        on = {form.switch.name: form.switch.on} if form is not None and form.switch is not None else {}
        yield from _answer(renderings.turn(plain, answer, **on), format, writer, s.REASON)


def _answer(rendering: str | None, format: Format, writer: _AssistantText, reasoning: str) -> Iterator[GoldenText]:
    golden = writer.text(rendering, reasoning)
    if golden is None or s.ANSWER not in golden[0]:
        return
    text, entry = golden
    end = text.index(s.ANSWER) + len(s.ANSWER)
    end += len(format.content.end) if text[end:].startswith(format.content.end) else 0
    yield GoldenText(text[:end], entry, reasoning, s.ANSWER)


def _calls(renderings: Renderings, calling: Probe, format: Format, writer: _AssistantText) -> Iterator[GoldenText]:
    form = format.tool_calls
    assert form is not None
    several = [[_BOTH], [_BOTH, _OTHER]] if form.max_calls is None else [[_BOTH]]
    several += [[_TRICKY]] if form.option("plain_strings") else []
    contents = ("", s.TEXT) if format.inputs.text_beside_calls == "kept" and form.text_before else ("",)
    reasoning_as = format.inputs.reasoning_as
    reasonings = ("", s.REASON) if reasoning_as not in ("", "parts") else ("",)
    for made, content, reasoning in product(several, contents, reasonings):
        fields = {reasoning_as: reasoning} if reasoning else {}
        pairs = [(call.name, arguments_object(call)) for call in made]
        message = renderings.calling(calling, pairs, content or None, **fields)
        golden = writer.text(renderings.turn(calling, message, tools=True), reasoning)
        if golden is not None and content in golden[0]:
            yield from _with_calls(*golden, format, made, content, reasoning)


def _with_calls(
    turn_text: str, entry: str, format: Format, made: list[Call], content: str, reasoning: str
) -> Iterator[GoldenText]:
    form = format.tool_calls
    assert form is not None
    try:
        written = syntax(form.syntax).render(form, made, TYPED_TOOLS)
    except ToolError:
        return
    lead = written[: written.index(s.NAME)]
    at = turn_text.find(lead + s.NAME)
    if at >= 0:
        yield GoldenText(turn_text[:at] + written, entry, reasoning, content, tuple(made))
