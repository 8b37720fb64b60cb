"""A parser that ends at stops: text of a stop, or text that may become one, does not reach the inner parser.

The text of an answer ends where its stop begins, if necessary inside a token.  Text that is held back is passed on
when it turns out not to be a stop, or when the answer ends.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable

from guided.engine.engine import Engine
from guided.output.parser import ContentDelta, Event, OutputParser
from guided.stops.matcher import StopHit, StopMatcher

__all__ = ["PlainParser", "StopAwareParser"]


class PlainParser:
    """An answer without a plan: every byte is content, special tokens are not shown."""

    reasoning_tokens = 0

    def __init__(self, engine: Engine) -> None:
        self._bytes = engine.token_bytes
        self._hidden = frozenset(token.id for token in engine.tokens.added.values() if token.special)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed_part(self, token: int, first: int, last: int) -> list[Event]:
        """Read bytes ``first`` to ``last`` of one token, whose earlier bytes were fed before."""
        if token in self._hidden:
            return []
        text = self._decoder.decode(self._bytes(token)[first:last])
        return [ContentDelta(text)] if text else []

    def finish(self, *, is_cut: bool = False) -> list[Event]:
        """End the output: an incomplete character becomes U+FFFD."""
        text = self._decoder.decode(b"", final=True)
        return [ContentDelta(text)] if text else []


class StopAwareParser:
    """A parser that ends at the row's first stop; with ``matcher`` None it never stops.

    End-of-turn tokens must not be fed.  ``is_shared``: the row itself pushes its tokens to the matcher, those up to the
    newest one before they are fed here.
    """

    def __init__(
        self,
        parser: OutputParser | PlainParser,
        matcher: StopMatcher | None,
        engine: Engine,
        *,
        is_shared: bool = False,
    ) -> None:
        self._parser = parser
        self._matcher = matcher
        self._is_shared = is_shared
        self._bytes = engine.token_bytes
        self._waiting: list[tuple[int, int]] = []  # tokens not fully passed on, and the bytes of each that were
        self._num_fed = 0

    @property
    def hit(self) -> StopHit | None:
        """The stop that ended the answer, or None."""
        return self._matcher.hit if self._matcher is not None else None

    @property
    def reasoning_tokens(self) -> int:
        return self._parser.reasoning_tokens

    def feed(self, tokens: Iterable[int]) -> list[Event]:
        """Read tokens and return the events that are certain; tokens after a stop are not read."""
        matcher, new = self._matcher, list(tokens)
        if matcher is not None and not self._is_shared and matcher.hit is None:
            matcher.feed(new)
        hit = self.hit
        if hit is not None:
            new = new[: hit.num_tokens - self._num_fed]
        self._num_fed += len(new)
        self._waiting += [(token, 0) for token in new]
        if matcher is None or hit is None:
            return self._pass_on(0 if matcher is None else matcher.held_bytes)
        out = self._pass_on(self._after_cut(matcher)) if new else []
        self._waiting.clear()
        return out

    def finish(self, *, is_cut: bool = False) -> list[Event]:
        """End the output: pass on the text that was held back; ``is_cut``: neither an end nor a stop ended it."""
        return self._pass_on(0) + self._parser.finish(is_cut=is_cut and self.hit is None)

    def _after_cut(self, matcher: StopMatcher) -> int:
        """Return the number of bytes from the end of the answer to the last byte fed."""
        hit = matcher.hit
        assert hit is not None
        whole, part = (hit.until, hit.until_bytes) if matcher.stops.include else (hit.before, hit.before_bytes)
        after = self._num_fed - whole
        return sum(len(self._bytes(token)) for token, _ in self._waiting[len(self._waiting) - after :]) - part

    def _pass_on(self, held: int) -> list[Event]:
        """Pass on all bytes but the last ``held``."""
        out: list[Event] = []
        ready = sum(len(self._bytes(token)) - done for token, done in self._waiting) - held
        while self._waiting:
            token, done = self._waiting[0]
            size = len(self._bytes(token))
            last = min(size, done + ready)
            if last > done or size == 0:
                out += self._parser.feed_part(token, done, last)
            ready -= last - done
            if last < size:
                self._waiting[0] = (token, last)
                break
            self._waiting.pop(0)
        return out
