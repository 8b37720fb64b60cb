"""One answer as an iterator of events while it is generated."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from types import TracebackType
from typing import Any, Generic, TypeAlias

from typing_extensions import TypeVar

from guided.hf.loop.generation import Generation
from guided.output.message import AnswerEnd, Message
from guided.output.parser import Event
from special_tokens.errors import AnswerError, GuidanceError

__all__ = ["Stream", "StreamEvent"]

StreamEvent: TypeAlias = Event | AnswerEnd


T = TypeVar("T", default=Any)


class Stream(Generic[T]):
    """The events of one answer while it is generated; iterate once, then read ``message``.

    A run of forced tokens comes at once.  Text that may still become part of a stop sequence is held back until that is
    decided; no event holds stop text.  The last event is `AnswerEnd`, with the message.  Leaving a ``with`` block
    closes the stream: what has not been written is never generated.
    """

    def __init__(self, generation: Generation) -> None:
        self._message: Message[T] | None = None
        self._generation = generation
        self._is_closed = self._is_finished = False
        self._events = _events(generation)  # holds no reference to the stream: dropped with it, it ends at once

    def __enter__(self) -> Stream[T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[StreamEvent]:
        return self

    def __next__(self) -> StreamEvent:
        if self._is_closed and not self._is_finished:
            raise AnswerError(_CLOSED, place="stream", hint="stream.message holds what was written")
        event = next(self._events)
        if isinstance(event, AnswerEnd):
            self._message, self._is_finished = event.message, True
        return event

    @property
    def landed(self) -> int | None:
        """The index of the token at which landing began, as in `Message.landed`; None as long as it has not."""
        return self._generation.answers[0].landed

    def close(self) -> None:
        """End the generation now; the rows of its cache are kept for later turns, ``message`` is what was written."""
        self._events.close()
        self._is_closed = True

    @property
    def partial(self) -> T | None:
        """The response format's value as far as it is final, None where nothing is: as ``message.partial``."""
        value: T | None = self._generation.answers[0].partial()
        return value

    @property
    def message(self) -> Message[T]:
        """The finished message.

        Runs the rest of the stream first; of a closed stream it is cut where the stream was closed, as a note says.
        """
        if self._message is None and self._is_closed:
            message = self._generation.messages()[0]
            self._message = replace(message, notes=(*message.notes, _CLOSED))
        elif self._message is None:
            for _ in self:
                pass
        if self._message is None:
            raise GuidanceError("the stream broke off", place="stream.message", hint="see the error that it raised")
        return self._message


_CLOSED = "the stream was closed before the answer ended"


def _events(generation: Generation) -> Generator[StreamEvent, None, None]:
    (answer,) = generation.answers
    for _ in generation.steps():
        yield from answer.read()
    yield from answer.finish()
    yield AnswerEnd(generation.messages()[0])
