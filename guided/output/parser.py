"""Parse the tokens of an answer into events: the inverse of the grammar, built from the same plan.

The parser follows the plan's regions with the same automaton as `GuidanceState`, decodes the text between markers, and
drops exactly the framing that belongs to the markers.  The events do not depend on how the tokens are split into calls
of `feed`: together they are the same.
"""

from __future__ import annotations

import codecs
import re
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from grammars.plan.plan import Exit, Plan, RegionName
from grammars.tool_calls.names import make_id
from grammars.tool_calls.reader import ArgumentsDelta, CallEnded, CallEvent, CallStarted, CutCall, Reader, StrayText
from grammars.tool_calls.syntaxes.lookup import syntax
from grammars.tree.markers import Markers
from guided.engine.engine import Engine
from guided.tracking.regions import FIRST_MARKER, RegionMap

__all__ = [
    "ContentDelta",
    "Event",
    "OutputParser",
    "ReasoningDelta",
    "ToolCallArguments",
    "ToolCallEnd",
    "ToolCallStart",
    "UnfinishedMarkup",
]


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """More of the reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class ContentDelta:
    """More of the answer's text, the response format's included."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallStart:
    """Call number ``index`` has begun: its name is known, its id is made or read."""

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class ToolCallArguments:
    """More of the JSON text of the arguments of call ``index``."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class ToolCallEnd:
    """Call ``index`` is complete."""

    index: int


@dataclass(frozen=True, slots=True)
class UnfinishedMarkup:
    """Markup that the end of the output cut: its text, and a call's name where known.

    It comes once, after all text, and is part of none.  Where a limit cut the answer, whatever may begin a marker
    counts (a ``<`` at its end); where the model ended it, only what holds a whole token of one, or follows a call.
    """

    text: str
    name: str = ""


Event: TypeAlias = ReasoningDelta | ContentDelta | ToolCallStart | ToolCallArguments | ToolCallEnd | UnfinishedMarkup

_NOT_UTF8 = re.compile("[\ud800-\udfff]")


class OutputParser:
    """Parses one answer.

    ``entry`` is the entry of the plan after this prompt; ``ends_at_marker``: True if that prompt ends right
    after the opening marker; the answer then begins with the marker's white space.  ``hides_special``: special tokens
    other than the plan's markers are not shown.
    """

    def __init__(
        self,
        plan: Plan,
        engine: Engine,
        *,
        entry: str = "fresh",
        ends_at_marker: bool = False,
        hides_special: bool = False,
    ) -> None:
        self.plan = plan
        self._engine = engine
        self._map = RegionMap.of(plan, engine.tokens.marker_ids, engine.token_bytes)
        begin = plan.entry(entry)
        self._position = self._map.start(begin.region)
        self._region = begin.region
        self._markers = Markers(engine.tokens)
        added = engine.tokens.added.values() if hides_special else ()
        self._hidden = {FIRST_MARKER + token.id for token in added if token.special}
        self._held: list[int] = []  # symbols that may belong to a trigger
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        first = _framing_into(plan, begin.region) if entry == "inside" and ends_at_marker else begin.first
        self._text = _Framed(first, self._befores())
        self._calls: Reader | None = None
        self._first_call = 0
        self._num_calls = 0
        self._num_symbols = 0
        self._is_between_calls = False  # a call was closed, and nothing but white space followed
        self._white: str | None = ""  # of a part of the content that has begun; None after its first other character
        self._has_left = False  # a marker was read
        self._reasoning_starts: list[int] = []

    @property
    def reasoning_tokens(self) -> int:
        """Tokens that began strictly between the reasoning markers."""
        return len(self._reasoning_starts)

    @property
    def region(self) -> RegionName:
        """The part of the answer in which the next token begins."""
        return self._map.name(self._position)

    def feed(self, tokens: Iterable[int]) -> list[Event]:
        """Read tokens, without end tokens, and return the events that are certain now."""
        out: list[Event] = []
        for token in tokens:
            out += self._feed_symbols(self._map.symbols(token), begins=True)
        return out

    def finish(self, *, is_cut: bool = False) -> list[Event]:
        """End the output, and return the events of the text held back; ``is_cut``: the model wrote no end token."""
        held, self._held = self._held, []
        if self._is_between_calls and not self._decoder.getstate()[0]:  # of the next call; no text was written
            return self._unfinished(held)
        if self._calls is None and (is_cut or any(symbol >= FIRST_MARKER for symbol in held)):
            return [*self._close(), *self._unfinished(held)]
        out = self._emit(held) + self._close(is_last=True)
        return out if self._has_left or not self._white else [*out, ContentDelta(self._white)]

    def _unfinished(self, held: Sequence[int]) -> list[Event]:
        """The event of symbols that may begin a marker; [] for white space."""
        text = self._decode(held) + self._decoder.decode(b"", final=True)
        return [UnfinishedMarkup(text)] if text.strip() else []

    def feed_part(self, token: int, first: int, last: int) -> list[Event]:
        """Bytes ``first`` to ``last`` of one token, whose earlier bytes were fed before; a marker is fed whole."""
        symbols = self._map.symbols(token)
        if len(symbols) == 1 and symbols[0] >= FIRST_MARKER:
            return self._feed_symbols(symbols, begins=True) if last >= len(self._engine.token_bytes(token)) else []
        return self._feed_symbols(symbols[first:last], begins=first == 0)

    def _feed_symbols(self, symbols: tuple[int, ...], *, begins: bool) -> list[Event]:
        """The events of a token or a part of it; ``begins``: it is the token's beginning."""
        if begins and self.region is RegionName.REASONING:
            self._reasoning_starts.append(self._num_symbols)
        spans, self._position = self._map.spans(self._position, symbols)
        out: list[Event] = []
        for span in spans:
            self._held += symbols[span.first : span.last]
            if span.exit is not None:
                out += self._leave(span.exit, span.left, self._num_symbols + span.last)
            else:
                keep = 0 if self._calls is not None else self._map.matched(self._position)
                ready = len(self._held) - keep
                out += self._emit(self._held[:ready])
                del self._held[:ready]
        self._num_symbols += len(symbols)
        return out

    # -- inside a region

    def _emit(self, symbols: Sequence[int]) -> list[Event]:
        shown = [symbol for symbol in symbols if symbol not in self._hidden] if self._hidden else symbols
        return self._text_out(self._decode(shown)) if shown else []

    def _decode(self, symbols: Sequence[int]) -> str:
        """Symbols as text, marked text among calls; an unfinished character waits for its rest."""
        out: list[str] = []
        run = bytearray()
        for symbol in symbols:
            if symbol < FIRST_MARKER:
                run.append(symbol)
                continue
            out.append(self._decoder.decode(bytes(run), final=True))
            run.clear()
            self._decoder.reset()
            token = symbol - FIRST_MARKER
            char = self._markers.char(token) if self._calls is not None else None
            out.append(char or self._engine.token_bytes(token).decode("utf-8", "replace"))
        out.append(self._decoder.decode(bytes(run)))
        return "".join(out)

    def _text_out(self, text: str) -> list[Event]:
        if not text:
            return []
        if self._calls is not None:
            return self._call_events(self._calls.feed(text))
        return self._plain(self._text.feed(text))

    def _plain(self, text: str) -> list[Event]:
        if not text:
            return []
        self._is_between_calls &= text.isspace()
        name = self.plan.regions[self._region].name
        if name is RegionName.REASONING:
            return [ReasoningDelta(text)]
        return self._content(text) if name is RegionName.CONTENT else [ContentDelta(text)]

    def _content(self, text: str) -> list[Event]:
        """The event of free text; white space waits for the text after it: alone between two markers it is none."""
        if self._white is not None:
            self._white += text
            if self._white.isspace():
                return []
            text, self._white = self._white, None
        return [ContentDelta(text)]

    def _call_events(self, events: Iterable[CallEvent], *, is_last: bool = False) -> list[Event]:
        """The events of the answer; where text goes on after a cut call (``is_last`` is false), that was text."""
        out: list[Event] = []
        for event in events:
            match event:
                case CallStarted(index=index, name=name, id=given):
                    self._white = ""
                    number = self._first_call + index
                    self._num_calls = max(self._num_calls, number + 1)
                    name, given = self._written(name), self._written(given)
                    out.append(ToolCallStart(number, given or self._new_id(name, number), name))
                case ArgumentsDelta(index=index, text=text) if text:
                    out.append(ToolCallArguments(self._first_call + index, self._written(text)))
                case CallEnded(index=index):
                    out.append(ToolCallEnd(self._first_call + index))
                case StrayText(text=text) if text:
                    out += self._content(self._written(text))
                case CutCall(text=text, name=name):
                    text = self._written(text)
                    out.append(UnfinishedMarkup(text, self._written(name)) if is_last else ContentDelta(text))
        return out

    def _new_id(self, name: str, index: int) -> str:
        """Return an id for a call of a model that writes none: in the family's style, else like OpenAI's."""
        form = self.plan.format.tool_calls
        assert form is not None
        return make_id(form.id_style, name, index, "call_" + uuid.uuid4().hex[:24])

    def _written(self, marked: str) -> str:
        """Marked text as the tokenizer writes it; what UTF-8 cannot hold becomes U+FFFD."""
        return _NOT_UTF8.sub("\ufffd", self._markers.plain(marked))

    # -- from region to region

    def _leave(self, way: Exit, length: int, at: int) -> list[Event]:
        """The exit ``way`` was completed by the last ``length`` symbols, which end at symbol ``at``."""
        if self._calls is not None:
            held, self._held = self._held, []
            out = self._emit(held) + self._close()
            self._is_between_calls = True
            trigger: Sequence[int] = ()
        else:
            cut = len(self._held) - length
            trigger = self._held[cut:]
            out = self._emit(self._held[:cut]) + self._plain(self._text.leave(way.before))
            self._held = []
        while self._reasoning_starts and self._reasoning_starts[-1] >= at - length:
            self._reasoning_starts.pop()  # a token of the closing marker
        self._region = way.to
        self._white, self._has_left = "", True
        self._text = _Framed(way.after, self._befores())
        if self.plan.regions[self._region].name is RegionName.TOOL_CALLS:
            self._is_between_calls = False
            self._open_calls()
            out += self._text_out(self._decode(trigger))
        return out

    def _befores(self) -> tuple[str, ...]:
        return tuple({way.before for way in self.plan.regions[self._region].exits if way.before})

    def _open_calls(self) -> None:
        form = self.plan.format.tool_calls
        assert form is not None
        self._markers = Markers(self._engine.tokens)
        tools = {tool.name: tool for tool in self.plan.tools}
        self._calls = syntax(form.syntax).parser(form, tools, self._markers)
        self._first_call = self._num_calls

    def _close(self, *, is_last: bool = False) -> list[Event]:
        tail = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        if self._calls is None:
            return self._plain(self._text.feed(tail) + self._text.finish())
        if not is_last and tail:
            self._call_events(self._calls.feed(tail))
        events = self._calls.finish()  # at the end without a character that was cut, which may be a marker's
        out = self._call_events([*events, StrayText(self._calls.trailing_text)], is_last=is_last)
        self._calls = None
        return out


class _Framed:
    """Drops one ``first`` at the start of a text and one of ``lasts`` where the text is left by its marker."""

    def __init__(self, first: str, lasts: tuple[str, ...]) -> None:
        self._first = first
        self._lasts = lasts
        self._held = ""

    def feed(self, text: str) -> str:
        self._held += text
        if self._first:
            if len(self._held) < len(self._first) and self._first.startswith(self._held):
                return ""
            self._held = self._held.removeprefix(self._first)
            self._first = ""
        keep = max((_overlap(self._held, last) for last in self._lasts), default=0)
        out, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
        return out

    def leave(self, last: str) -> str:
        """The text ended at a marker that ``last`` belongs to."""
        held, self._held = self._held, ""
        if self._first and self._first.startswith(held):
            return ""
        return held.removesuffix(last)

    def finish(self) -> str:
        """The output ended without a marker: nothing held back was a framing but what begins the text."""
        held, self._held = self._held, ""
        return "" if self._first and self._first.startswith(held) else held


def _framing_into(plan: Plan, region: int) -> str:
    """The white space that follows the marker which leads into ``region``."""
    return next((way.after for other in plan.regions for way in other.exits if way.to == region), "")


def _overlap(text: str, pattern: str) -> int:
    """Length of the longest end of ``text`` that begins ``pattern``."""
    for length in range(min(len(text), len(pattern)), 0, -1):
        if text.endswith(pattern[:length]):
            return length
    return 0
