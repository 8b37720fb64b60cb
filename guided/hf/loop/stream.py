"""One answer as an iterator of events while it is generated."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any, Generic

from typing_extensions import TypeVar

from guided.hf.loop.generation import Generation
from guided.output.message import Message
from guided.output.parser import Event
from special_tokens.errors import GuidanceError

__all__ = ["Stream"]


T = TypeVar("T", default=Any)


class Stream(Generic[T]):
    """The events of one answer while it is generated; iterate once, then read ``message``.

    A run of forced tokens comes at once.  Text that may still become part of a stop sequence is held back until that is
    decided; no event holds stop text.
    """

    def __init__(self, generation: Generation) -> None:
        self._message: Message[T] | None = None
        self._events = _events(generation)  # holds no reference to the stream: dropped with it, it ends at once

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        try:
            return next(self._events)
        except StopIteration as end:
            self._message = self._message or end.value
            raise

    def close(self) -> None:
        """End the generation now; the rows of its cache are kept for later turns."""
        self._events.close()

    @property
    def message(self) -> Message[T]:
        """The finished message; runs the rest of the stream first."""
        for _ in self:
            pass
        if self._message is None:
            raise GuidanceError("the stream broke off", place="stream.message", hint="see the error that it raised")
        return self._message


def _events(generation: Generation) -> Generator[Event, None, Message]:
    (answer,) = generation.answers
    for _ in generation.steps():
        yield from answer.read()
    yield from answer.finish()
    return generation.messages()[0]
