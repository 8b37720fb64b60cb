"""One request between the engine's thread and the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

from guided.hf.completing import AnswerForm, CompletionRun
from guided.hf.loop.generation import Generation
from guided.output.message import Message
from guided.serve.engine import EngineThread
from guided.serve.observing.records import RequestRecord

__all__ = ["Running"]


class Running:
    """A job of the engine whose chunks are read in the event loop; ``record`` notes what becomes of it.

    ``on_tokens`` is called in the engine's thread with the number of tokens that were written.
    """

    def __init__(
        self,
        engine: EngineThread,
        run: CompletionRun,
        form: AnswerForm | None,
        record: RequestRecord,
        on_tokens: Callable[[int, float], None],
    ) -> None:
        self.client = record.client
        self.run = run
        self._engine = engine
        self._record = record
        self._form = form  # None: nothing is streamed
        self._on_tokens = on_tokens
        self._loop = asyncio.get_running_loop()
        self._chunks: asyncio.Queue[list[dict[str, Any]] | None] = asyncio.Queue()
        self._begun = asyncio.Event()
        self._is_over = False
        self._error: BaseException | None = None
        self._num_tokens = 0
        self._since = time.perf_counter()

    @property
    def generation(self) -> Generation:
        return self.run.generation

    # -- in the engine's thread

    def began(self) -> None:
        self._since = time.perf_counter()
        self._record.mark("begun")
        if self._form is not None:
            self._made(self._form.first)
        self._tell(self._begun.set)

    def wrote(self) -> None:
        now, written = time.perf_counter(), sum(len(answer.tokens) for answer in self.generation.answers)
        if written > self._num_tokens:
            self._on_tokens(written - self._num_tokens, now - self._since)
            self._num_tokens, self._since = written, now
        if self._form is not None and not self._made(self._form.step):
            self._engine.cancel(self)
            self.ended(None)

    def ended(self, error: BaseException | None) -> None:
        self._error = self._error or error
        if self._form is not None and self._error is None:
            self._made(self._form.held_back)

        def end() -> None:
            self._is_over = True
            self._begun.set()
            self._chunks.put_nowait(None)

        self._tell(end)

    def _made(self, make: Callable[[], list[dict[str, Any]]]) -> bool:
        """Hand over the chunks of ``make``; whether it raised nothing: a fault of ours must not end the engine."""
        try:
            chunks = make()
        except Exception as error:
            self._error = self._error or error
            return False
        if chunks:
            self._tell(self._chunks.put_nowait, chunks)
        return True

    def _tell(self, function: Callable[..., Any], *args: Any) -> None:
        with suppress(RuntimeError):  # the event loop has ended
            self._loop.call_soon_threadsafe(function, *args)

    # -- in the event loop

    async def begun(self) -> None:
        """Wait for the turn of this request; raise what ended it before."""
        self._engine.submit(self)
        await self._begun.wait()
        self._raise()

    async def chunks(self) -> AsyncIterator[list[dict[str, Any]]]:
        """Yield the chunks of each step until the rows have ended; raise what ended them."""
        while (chunks := await self._chunks.get()) is not None:
            yield chunks
        self._raise()

    async def messages(self) -> list[Message]:
        """Return the messages, read and validated in another thread than the engine's."""
        if self.run.with_states:  # it may run the model
            messages = await asyncio.wrap_future(self._engine.call(self.run.messages))
        else:
            messages = await asyncio.to_thread(self.run.messages)
        self._record.messages = messages
        return messages

    def close(self) -> None:
        """Give the rows up, if they have not ended."""
        if not self._is_over:
            self._engine.cancel(self)

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error
