"""A parser written as a straight script: text arrives in pieces of any size, the script just reads on.

A syntax writes its parser as one generator that consumes marked text through the methods here; ``yield`` means
"wait for more text".  What becomes certain is emitted as events.  Text is never lost: when the script meets
something that is not a call, or the output is cut, everything since the last event comes out again.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from typing import TypeAlias

from grammars.tool_calls.protocol import ArgumentsDelta, CallEnded, CallEvent, CallStarted, StrayText

__all__ = ["Broken", "Cut", "Reader", "Script"]

#: A reading step; its value is what was read.
Script: TypeAlias = Generator[None, None, None]

_SPACE = " \t\r\n"
_CHUNKS = re.compile(r"\S+")


class Cut(Exception):
    """The output ended in the middle of a call."""


class Broken(Exception):
    """The text is not what this syntax writes."""


class Reader:
    """A `CallsParser` driven by `section`, which a syntax overrides.

    ``resync`` is marked text at which reading starts again after something unreadable; empty: never.
    """

    def __init__(self, *, resync: str = "") -> None:
        self._text = ""
        self._at = 0  # everything before it has been read
        self._kept = 0  # everything before it is in an event, or is framing of a call that has begun
        self._final = False
        self._done = False
        self._events: list[CallEvent] = []
        self._resync = resync
        self._script: Script = self._run()
        self.num_calls = 0

    # -- the protocol

    @property
    def is_done(self) -> bool:
        return self._done

    @property
    def rest(self) -> str:
        return self._text[self._at :] if self._done else ""

    @property
    def is_final(self) -> bool:
        """No more text will come."""
        return self._final

    def feed(self, text: str) -> Sequence[CallEvent]:
        self._text += text
        return self._advance()

    def finish(self) -> Sequence[CallEvent]:
        self._final = True
        return self._advance()

    def _advance(self) -> Sequence[CallEvent]:
        if not self._done:
            next(self._script, None)
        out, self._events = self._events, []
        return out

    # -- the script

    def section(self) -> Script:
        """Reads one section of calls; returns where it ends."""
        raise NotImplementedError

    def _run(self) -> Script:
        try:
            while True:
                try:
                    yield from self.section()
                    break
                except Broken:
                    yield from self._skip()
        except Cut:
            self._stray(len(self._text))
        self._done = True

    def _skip(self) -> Script:
        """Text that is no call, up to where a call begins again."""
        step = 1  # not at the very place that was just found unreadable
        while True:
            begin = self._kept + step
            found = self._text.find(self._resync, begin) if self._resync else -1
            if found >= 0:
                self._stray(found)
                return
            keep = 0 if self._final else _overlap(self._text, self._resync, begin)
            if len(self._text) - keep > self._kept:
                self._stray(len(self._text) - keep)
                step = 0
            if self._final:
                raise Cut
            yield

    def _stray(self, end: int) -> None:
        if end > self._kept:
            self._events.append(StrayText(self._text[self._kept : end]))
        self._at = self._kept = end

    # -- events

    def start_call(self, name: str, call_id: str = "") -> int:
        """A call begins; everything read so far belongs to it."""
        index = self.num_calls
        self.num_calls += 1
        self._events.append(CallStarted(index, name, call_id))
        self.keep()
        return index

    def arguments(self, text: str) -> None:
        """More argument text of the call that has begun."""
        if text:
            self._events.append(ArgumentsDelta(self.num_calls - 1, text))
        self.keep()

    def end_call(self) -> None:
        """The call that has begun is whole."""
        self._events.append(CallEnded(self.num_calls - 1))
        self.keep()

    def stray(self, text: str) -> None:
        """Text that was read and belongs to no call."""
        self._events.append(StrayText(text))
        self.keep()

    def keep(self) -> None:
        """Everything read so far is accounted for."""
        self._kept = self._at

    # -- reading

    def need(self, count: int) -> Script:
        """Waits until ``count`` more characters are there; raises `Cut` where the output ends before."""
        while len(self._text) - self._at < count:
            if self._final:
                raise Cut
            yield

    def ahead(self, count: int = 1) -> str:
        """The next characters, as far as they are there."""
        return self._text[self._at : self._at + count]

    def ahead_all(self) -> str:
        """Everything that is there."""
        return self._text[self._at :]

    def more(self) -> Script:
        """Waits for more text than is there; raises `Cut` where none comes."""
        yield from self.need(len(self._text) - self._at + 1)

    def take(self, count: int) -> str:
        """Reads ``count`` characters that are there."""
        text = self._text[self._at : self._at + count]
        self._at += count
        return text

    def peek(self) -> Generator[None, None, str]:
        """The next character, waiting for it."""
        yield from self.need(1)
        return self._text[self._at]

    def back(self, count: int) -> None:
        """Unreads the last ``count`` characters."""
        self._at -= count

    def space(self) -> Script:
        """Reads white space."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in _SPACE:
                self._at += 1
            if self._at < len(self._text) or self._final:
                return
            yield

    def literal(self, text: str) -> Script:
        """Reads ``text``, with any white space where it has some and around it; raises `Broken` otherwise."""
        begin = self._at
        found = yield from self._literal(text)
        if found is None:
            if self._kept == begin:  # nothing but a piece of framing is left over
                self._kept = len(self._text)
            raise Cut
        if not found:
            raise Broken

    def try_literal(self, text: str) -> Generator[None, None, bool]:
        """Reads ``text`` as `literal` does, or reads nothing and is False."""
        begin = self._at
        found = yield from self._literal(text)
        if not found:
            self._at = begin
        return bool(found)

    def _literal(self, text: str) -> Generator[None, None, bool | None]:
        """None: the output ended where ``text`` could still have come."""
        for chunk in _CHUNKS.findall(text):
            yield from self.space()
            if not (yield from self._matches(chunk)):
                return None if self._final and chunk.startswith(self._text[self._at :]) else False
            self._at += len(chunk)
        return True

    def starts(self, text: str) -> Generator[None, None, bool]:
        """Do exactly these characters come next?  Reads nothing."""
        return (yield from self._matches(text))

    def exactly(self, text: str) -> Generator[None, None, bool]:
        """Reads exactly these characters, or reads nothing and is False."""
        matches = yield from self._matches(text)
        if matches:
            self._at += len(text)
        return matches

    def _matches(self, text: str) -> Generator[None, None, bool]:
        while True:
            there = self._text[self._at : self._at + len(text)]
            if len(there) == len(text) or not text.startswith(there) or self._final:
                return there == text
            yield

    def until(self, *ends: str) -> Generator[None, None, tuple[str, str]]:
        """Reads text up to the first of ``ends`` (the longest of those that begin there), which it reads too.

        The value is the pair of text and end.  Raises `Cut`, with nothing read, where none of them comes.
        """
        begin = self._at
        while True:
            at, end = self._first(begin, ends)
            if end:
                text = self._text[begin:at]
                self._at = at + len(end)
                return text, end
            if self._final:
                raise Cut
            yield

    def pieces_until(self, *ends: str) -> Generator[None, None, tuple[str, str]]:
        """As `until`, but hands out what is certain already, with "" as the end; call it again for more."""
        while True:
            at, end = self._first(self._at, ends)
            text = self._text[self._at : at]
            if text or end:
                self._at = at + len(end)
                return text, end
            if self._final:
                raise Cut
            yield

    def _first(self, begin: int, ends: Sequence[str]) -> tuple[int, str]:
        """Where the first end begins and which it is, or how much text is certain to come before any, and ""."""
        found = min(((at, -len(end), end) for end in ends if (at := self._text.find(end, begin)) >= 0), default=None)
        limit = len(self._text)
        if not self._final:  # an end that began earlier, or a longer one at the same place, may still be coming
            limit -= max(_overlap(self._text, end, begin) for end in ends)
        if found is None or found[0] >= limit:
            return limit, ""
        return found[0], found[2]


def _overlap(text: str, pattern: str, begin: int) -> int:
    """Length of the longest end of ``text[begin:]`` that begins ``pattern`` and is not all of it."""
    for length in range(min(len(text) - begin, len(pattern) - 1), 0, -1):
        if text.endswith(pattern[:length]):
            return length
    return 0
