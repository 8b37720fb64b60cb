"""A section of calls: its delimiters from the `ToolCallFormat`, written and read alike by all syntaxes."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence

from grammars.tool_calls.pattern import CallPattern, Hole, fill
from grammars.tool_calls.reader import OutputEnded, Reader, ReadStep, UnexpectedText, first_chunk, last_chunk
from grammars.tree.markers import Markers
from grammars.values.format import ToolCallFormat
from grammars.values.tool import Tool

__all__ = ["SectionReader", "opening_marker", "wrapped"]

#: A marker at the beginning of an opening, where no word of the opening is part of it.
_MARKER = re.compile(r"(?:<[^<>\s]*>|\[[^\[\]\s]+\])(?=[\[{<\s]|$)")


def wrapped(form: ToolCallFormat, bodies: Sequence[str]) -> str:
    """The text of a section: ``bodies`` are the texts of its calls between ``call_start`` and ``call_end``."""
    written = [form.call_start + body + form.call_end for body in bodies]
    return form.section_start + form.between.join(written) + form.section_end


def opening_marker(form: ToolCallFormat) -> str:
    """The text that opens a section: its first marker, else its own tag, else everything before the name."""
    opening, tag = form.section_start + form.call_start, form.section_start.strip()
    first = _MARKER.match(opening)
    is_tag = tag.endswith(">") and not re.search(r"\s", tag)
    return first[0] if first else tag if is_tag else opening.rstrip()


class SectionReader(Reader):
    """Parser of ``section_start call (between call)* section_end``; a syntax overrides `call`.

    Tolerates deviations of unguided models: white space around delimiters, a missing ``section_end``.
    """

    def __init__(self, form: ToolCallFormat, tools: Mapping[str, Tool], markers: Markers) -> None:
        self.form = form
        self.tools = tools
        self.markers = markers
        self.section_start = markers.marked(form.section_start)
        self.section_end = markers.marked(form.section_end)
        self.call_start = markers.marked(form.call_start)
        self.call_end = markers.marked(form.call_end)
        self.between = markers.marked(form.between)
        self._resumed = False  # after unreadable text the section need not open again
        super().__init__(resync=(self.call_start or self.section_start).strip())

    #: The text with which every call begins, after ``call_start``.
    body_start = ""

    def call(self) -> ReadStep:
        """Read one call between ``call_start`` and ``call_end`` and emit its events."""
        raise NotImplementedError

    def marked(self, pattern: CallPattern) -> CallPattern:
        """Return a pattern with its literals as marked text."""
        return tuple(part if isinstance(part, Hole) else self.markers.marked(part) for part in pattern)

    def begin_call(self, values: Mapping[str, str]) -> str:
        """Begin a call whose holes are ``values`` and return its name; raises `UnexpectedText` without a name."""
        name, style = values.get("name", "").strip(), self.form.id_style
        if not name:
            raise UnexpectedText
        self.start_call(name, fill(style, {**values, "name": name}) if "$" in style else values.get("id", "").strip())
        return name

    def hole(self, follower: str) -> Generator[None, None, str]:
        """Read the text of a hole, which ends where ``follower`` begins; ``follower`` stays unread."""
        text, end = yield from self.until(first_chunk(follower))
        self.back(len(end))
        return text

    def index(self) -> Generator[None, None, str]:
        """Read a call's number; raises `UnexpectedText` if there is none."""
        yield from self.space()
        number = ""
        while (yield from self.peek()).isdecimal():
            number += self.take(1)
        if not number:
            raise UnexpectedText
        return number

    def section(self) -> ReadStep:
        while (yield from self._empty_section()):
            if self.section_start.strip():
                return
        if self._resumed:
            yield from self.try_literal(self.section_start)
        else:
            self._resumed = True
            yield from self.literal(self.section_start)
            if self.form.gap.strip():  # between text and the calls
                yield from self.try_literal(self.markers.marked(self.form.gap))
        while True:
            yield from self.literal(self.call_start)
            yield from self.call()
            yield from self.literal(self.call_end)
            self.next_call()
            if not (yield from self._another()):
                return

    def _empty_section(self) -> Generator[None, None, bool]:
        """Read a section without calls and return True, or read nothing and return False."""
        is_framed = bool(self.section_start.strip())
        opening = self.section_start if is_framed else first_chunk(self.call_start)
        closing = self.section_end if is_framed else last_chunk(self.call_end)
        last = opening.strip("[ \n")[-1:]
        if not closing.strip() or not ((is_framed and last) or last in (">", "]") or "\ud800" <= last <= "\udfff"):
            return False
        begin = self._at
        is_empty = yield from self.try_literal(opening)
        if is_empty and not (yield from self.try_literal(closing)):
            is_empty = self.is_cut_here() and (yield from self.try_literal(first_chunk(closing)))
            self.take(len(self.ahead()) if is_empty else 0)
        if is_empty:
            self.keep()
        else:
            self._at = begin
        return is_empty

    def _another(self) -> Generator[None, None, bool]:
        """Whether another call follows; reads the text between calls or the end of the section."""
        if self.section_end.strip():
            if (yield from self.try_literal(self.section_end)):
                self.keep()
                return False
            if self.is_cut_here():  # part of the closing delimiter
                self.take(len(self.ahead()))
                self.keep()
                return False
        if self.form.max_calls is not None and self.num_calls >= self.form.max_calls:
            return False
        more = yield from self.try_literal(self.between) if self.between.strip() else self._begins_again()
        if not more and self.is_cut_here():
            raise OutputEnded
        return more

    def _begins_again(self) -> Generator[None, None, bool]:
        begin = self._at
        start = self.call_start.strip() or self.body_start
        yield from self.space()
        if start:
            more = yield from self.try_literal(start)
        else:  # another call follows unless the section has ended
            more = bool(self.section_end.strip()) and bool(self.ahead())
        if start or not more:
            self._at = begin
        return more
