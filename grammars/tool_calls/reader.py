"""The base class of incremental parsers of tool calls, written as generators.

A syntax writes its parser as a generator that consumes marked text through the methods here; ``yield`` waits for more
text.  Events are emitted as soon as they are certain.  No text is lost: everything since the last event is emitted as
`StrayText` if it is not a call, and as a `CutCall` if the output ends within a call.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

__all__ = [
    "ArgumentsDelta",
    "CallEnded",
    "CallEvent",
    "CallStarted",
    "CutCall",
    "OutputEnded",
    "ReadStep",
    "Reader",
    "StrayText",
    "UnexpectedText",
    "first_chunk",
    "last_chunk",
]

#: A generator that reads some text; it yields to wait for more.
ReadStep: TypeAlias = Generator[None, None, None]

_SPACE = " \t\r\n"
#: What stands together in a delimiter: marker tokens and tags may have white space between them.
_CHUNKS = re.compile("[\ud800-\udfff]|[^\\s\ud800-\udfff][^\\s\ud800-\udfff<]*")


@dataclass(frozen=True, slots=True)
class CallStarted:
    """The name of call ``index`` (from 0) is known.  ``id`` is "" unless the model wrote one."""

    index: int
    name: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class ArgumentsDelta:
    """A further piece of the JSON text of call ``index``'s arguments; concatenated, the pieces are the whole text."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class CallEnded:
    """Call ``index`` and its arguments are complete."""

    index: int


@dataclass(frozen=True, slots=True)
class StrayText:
    """Text between calls that belongs to none of them, as in unguided output; it is never dropped."""

    text: str


@dataclass(frozen=True, slots=True)
class CutCall:
    """The output ended within a call: ``text`` is what was written of it and is in no other event.

    ``name`` is the name of its tool where that was read, else "".
    """

    text: str
    name: str = ""


CallEvent: TypeAlias = CallStarted | ArgumentsDelta | CallEnded | StrayText | CutCall


class OutputEnded(Exception):
    """The output ended within a call."""


class UnexpectedText(Exception):
    """The text does not follow this syntax."""


class Reader:
    """An incremental parser of one section of calls; a syntax overrides `section`.

    Its input is marked text (see `Markers.marked`) in pieces of any size, beginning with the trigger that opened the
    section.  The concatenated events do not depend on how the text was split.  ``resync`` is the marked text at which
    parsing resumes after unreadable text; "": never.
    """

    def __init__(self, *, resync: str = "") -> None:
        self._text = ""
        self._at = 0  # everything before it has been read
        self._kept = 0  # everything before it is in an event, or is framing of a call that has begun
        self._final = False
        self._done = False
        self._events: list[CallEvent] = []
        self._resync = resync
        self._script: ReadStep = self._run()
        self.num_calls = 0
        self.name = ""  # of the call that is being read, once known
        self._waiting: CallStarted | None = None  # of the call whose arguments have not begun
        self._in_opening = True  # no call has begun since the last one ended
        self._cut_at = -1  # the place from which all text that is left began a literal of the syntax

    # -- text in, events out

    @property
    def is_done(self) -> bool:
        """Whether the section has ended; later text is not part of a call."""
        return self._done

    @property
    def trailing_text(self) -> str:
        """Marked text that was fed after the end of the section."""
        return self._text[self._at :] if self._done else ""

    @property
    def is_final(self) -> bool:
        """Whether no more text will come."""
        return self._final

    def feed(self, text: str) -> Sequence[CallEvent]:
        """Return the events that became certain."""
        self._text += text
        return self._advance()

    def finish(self) -> Sequence[CallEvent]:
        """Return, at the end of the output, the text held back: as arguments or a `CutCall`, or as `StrayText`."""
        self._final = True
        return self._advance()

    def _advance(self) -> Sequence[CallEvent]:
        if not self._done:
            next(self._script, None)
        out, self._events = self._events, []
        return out

    # -- the generator

    def section(self) -> ReadStep:
        """Read one section of calls, up to its end."""
        raise NotImplementedError

    def _run(self) -> ReadStep:
        try:
            while True:
                try:
                    yield from self.section()
                    break
                except UnexpectedText:
                    if self._final and self._cut_at >= self._kept:
                        raise OutputEnded from None
                    yield from self._skip()
        except OutputEnded:
            self._cut()
        self._done = True

    def _skip(self) -> ReadStep:
        """Emit unreadable text as `StrayText`, up to the place where the next call begins."""
        step = 1  # skip at least the place that has just proved unreadable
        while True:
            begin = self._kept + step
            resumed = self._text.find(self._resync, begin) if self._resync else -1
            if resumed >= 0:
                self._stray(resumed)
                self._in_opening, self.name = True, ""
                return
            keep = 0 if self._final else _overlap(self._text, self._resync, begin)
            if len(self._text) - keep > self._kept:
                self._stray(len(self._text) - keep)
                step = 0
            if self._final:
                raise OutputEnded
            yield

    def _cut(self) -> None:
        """Emit the rest of a call that the output cut."""
        text = self._text[self._kept :]
        if text.strip():
            self._events.append(CutCall(text, self.name))
        self._at = self._kept = len(self._text)

    def _stray(self, end: int) -> None:
        if self._waiting is not None:  # that was no call
            self._waiting, self.num_calls = None, self.num_calls - 1
        if end > self._kept:
            self._events.append(StrayText(self._text[self._kept : end]))
        self._at = self._kept = end

    # -- events

    def start_call(self, name: str, call_id: str = "") -> None:
        """Begin a call; its start is emitted with the first of its arguments, or its end."""
        self._waiting = CallStarted(self.num_calls, name, call_id)
        self.num_calls += 1
        self.name, self._in_opening = name, False

    def arguments(self, text: str) -> None:
        """Emit a further piece of the current call's argument text."""
        if text:
            self._emit(ArgumentsDelta(self.num_calls - 1, text))
        self.keep()

    def end_call(self) -> None:
        """Emit the end of the current call."""
        self._emit(CallEnded(self.num_calls - 1))

    def _emit(self, event: CallEvent) -> None:
        if self._waiting is not None:
            self._events.append(self._waiting)
            self._waiting = None
        self._events.append(event)
        self.keep()

    def keep(self) -> None:
        """Mark everything read so far as accounted for by events; not while a call waits for its arguments."""
        if self._waiting is None:
            self._kept = self._at

    def next_call(self) -> None:
        """Begin to read another call; text before its name belongs to it."""
        self.keep()
        self.name, self._in_opening = "", True

    def is_cut_here(self) -> bool:
        """Whether the output ended within a literal that was tried at this place."""
        return self._final and self._cut_at >= self._at

    # -- reading

    def need(self, count: int) -> ReadStep:
        """Wait for ``count`` unread characters; raises `OutputEnded` if the output ends earlier."""
        while len(self._text) - self._at < count:
            if self._final:
                raise OutputEnded
            yield

    def ahead(self) -> str:
        """All unread characters that have arrived; reads nothing."""
        return self._text[self._at :]

    def more(self) -> ReadStep:
        """Wait for more text to arrive; raises `OutputEnded` if none does."""
        yield from self.need(len(self._text) - self._at + 1)

    def take(self, count: int) -> str:
        """Read ``count`` characters that have arrived."""
        text = self._text[self._at : self._at + count]
        self._at += count
        return text

    def peek(self) -> Generator[None, None, str]:
        """Return the next character without reading it."""
        yield from self.need(1)
        return self._text[self._at]

    def back(self, count: int) -> None:
        """Make the last ``count`` characters unread again."""
        self._at -= count

    def space(self) -> ReadStep:
        """Skip white space."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in _SPACE:
                self._at += 1
            if self._at < len(self._text) or self._final:
                return
            yield

    def literal(self, text: str) -> ReadStep:
        """Read ``text``, tolerating white space between its words and tags and before them; raises `UnexpectedText`."""
        begin = self._at
        matched = yield from self._literal(text)
        if matched is None:
            if self._kept == begin and not self._in_opening:  # only part of a closing delimiter is left
                self._kept = len(self._text)
            raise OutputEnded
        if not matched:
            raise UnexpectedText

    def try_literal(self, text: str) -> Generator[None, None, bool]:
        """Read ``text`` as `literal` does and return True, or read nothing and return False."""
        begin = self._at
        matched = yield from self._literal(text)
        if not matched:
            self._at = begin
        return bool(matched)

    def _literal(self, text: str) -> Generator[None, None, bool | None]:
        """Read ``text`` as `literal` does; return None if the output ended within it."""
        begin = self._at
        for chunk in _CHUNKS.findall(text):
            yield from self.space()
            if not (yield from self.starts(chunk)):
                if not self._final or not chunk.startswith(self._text[self._at :]):
                    return False
                if self._text[begin:].strip():
                    self._cut_at = begin
                return None
            self._at += len(chunk)
        return True

    def exactly(self, text: str) -> Generator[None, None, bool]:
        """Read exactly these characters and return True, or read nothing and return False."""
        matches = yield from self.starts(text)
        if matches:
            self._at += len(text)
        return matches

    def starts(self, text: str) -> Generator[None, None, bool]:
        """Whether exactly these characters come next; reads nothing."""
        while True:
            there = self._text[self._at : self._at + len(text)]
            if len(there) == len(text) or not text.startswith(there) or self._final:
                if self._final and there and there != text and text.startswith(there):
                    self._cut_at = self._at
                return there == text
            yield

    def until(self, *ends: str) -> Generator[None, None, tuple[str, str]]:
        """Read up to and including the first of ``ends`` (the longest that begins there); return text and end.

        Raises `OutputEnded`, with nothing read, if none of them arrives.
        """
        begin = self._at
        while True:
            at, end = self._first(begin, ends)
            if end:
                text = self._text[begin:at]
                self._at = at + len(end)
                return text, end
            if self._final:
                raise OutputEnded
            yield

    def pieces_until(self, *ends: str) -> Generator[None, None, tuple[str, str]]:
        """Like `until`, but return text as soon as it is certain, with "" as its end; call again for the rest."""
        while True:
            at, end = self._first(self._at, ends)
            text = self._text[self._at : at]
            if text or end:
                self._at = at + len(end)
                return text, end
            if self._final:
                raise OutputEnded
            yield

    def _first(self, begin: int, ends: Sequence[str]) -> tuple[int, str]:
        """Position and text of the first end; else the position before which none can begin, and ""."""
        first = min(((at, -len(end), end) for end in ends if (at := self._text.find(end, begin)) >= 0), default=None)
        limit = len(self._text)
        if not self._final:  # an earlier end, or a longer one at the same place, may still arrive
            limit -= max(_overlap(self._text, end, begin) for end in ends)
        if first is None or first[0] >= limit:
            return limit, ""
        return first[0], first[2]


def first_chunk(text: str) -> str:
    """Return what stands together at the beginning of a delimiter; ``text`` itself if it is only white space."""
    match = _CHUNKS.search(text)
    return match[0] if match else text


def last_chunk(text: str) -> str:
    """Return what stands together at the end of a delimiter; ``text`` itself if it is only white space."""
    chunks = _CHUNKS.findall(text)
    return chunks[-1] if chunks else text


def _overlap(text: str, pattern: str, begin: int) -> int:
    """Length of the longest proper prefix of ``pattern`` that ``text[begin:]`` ends with."""
    for length in range(min(len(text) - begin, len(pattern) - 1), 0, -1):
        if text.endswith(pattern[:length]):
            return length
    return 0
