"""The twins of the methods that answer for programs with an event loop: ``await guide.achat(...)``.

The model runs in one worker thread of the guide, a step at a time: steps of several answers take turns, and an answer
whose task is cancelled ends after its running step.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Generic

from typing_extensions import TypeVar, Unpack

from grammars.plan.plan import RowPlan
from guided.hf.answer_methods import AnswerMethods
from guided.hf.completing import ChatForm, Chunks, completing
from guided.hf.loop.stream import Stream, StreamEvent
from guided.hf.options import Chat, Keywords, Kind, with_options
from guided.hf.retries import aanswered
from guided.hf.tool_loop import CallTool, ToolRun, arun_tools
from guided.output.message import Message
from special_tokens.errors import GuidanceError

__all__ = ["AsyncMethods", "AsyncStream", "WorkerThread"]

T = TypeVar("T", default=Any)
E = TypeVar("E")


class WorkerThread:
    """One thread, made on first use, that runs what it is given in order."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None

    async def run(self, call: Callable[[], T]) -> T:
        """Return what ``call`` returns in the thread."""
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(1, thread_name_prefix="guided")
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(self._pool, partial(context.run, call))

    async def iterate(self, steps: Generator[E, None, Any]) -> AsyncGenerator[E, None]:
        """Yield what ``steps`` yields in the thread; close it there when the iteration ends early or is cancelled."""
        end = object()
        try:
            while (item := await self.run(lambda: next(steps, end))) is not end:
                yield item  # type: ignore[misc]  # the sentinel is not an item
        finally:
            assert self._pool is not None
            self._pool.submit(steps.close)

    async def result(self, steps: Generator[Any, None, T]) -> T:
        """Return what ``steps`` returns, run in the thread a step at a time."""
        results: list[T] = []

        def kept() -> Generator[Any, None, None]:
            results.append((yield from steps))

        async for _ in self.iterate(kept()):
            pass
        return results[0]


class AsyncStream(Generic[T]):
    """The events of one answer, iterated with ``async for``; ``message`` is there at the end.

    An async context manager; `aclose` ends the generation, and so does a cancelled task.
    """

    def __init__(self, worker: WorkerThread, start: Callable[[], Stream[T]]) -> None:
        self._worker = worker
        self._ended: Stream[T] | None = None
        self._events = worker.iterate(self._run(start))

    def _run(self, start: Callable[[], Stream[T]]) -> Generator[StreamEvent, None, None]:
        stream = start()
        try:
            yield from stream
        finally:
            stream.close()
            self._ended = stream

    def __aiter__(self) -> AsyncStream[T]:
        return self

    async def __anext__(self) -> StreamEvent:
        return await anext(self._events)

    async def __aenter__(self) -> AsyncStream[T]:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the generation after the running step."""
        await self._events.aclose()
        await self._worker.run(lambda: None)  # the thread has closed it then

    @property
    def message(self) -> Message[T]:
        """The message of `Stream.message`; raises `GuidanceError` while the answer is generated."""
        if self._ended is None:
            raise GuidanceError("the stream has not ended", place="stream.message", hint="iterate to its end first")
        return self._ended.message


class AsyncMethods(AnswerMethods):
    """The part of `Guide` that answers an event loop."""

    _worker: WorkerThread

    @with_options()
    def astream(
        self,
        messages: Chat | None = None,
        plan: RowPlan = None,
        *,
        response_format: Kind[T] = None,
        **options: Unpack[Keywords],
    ) -> AsyncStream[T]:
        """Return the events of `stream` for ``async for``; a wrong argument raises at the first one."""
        return AsyncStream(
            self._worker, lambda: self.stream(messages, plan, response_format=response_format, **options)
        )

    @with_options()
    async def achat(
        self,
        messages: Chat | None = None,
        plan: RowPlan = None,
        *,
        response_format: Kind[T] = None,
        **options: Unpack[Keywords],
    ) -> Message[T]:
        """Return the message of `chat`."""
        retries = options.pop("retries", 0)

        async def ask(messages: Chat | None) -> Message[T]:
            stream = self.astream(messages, plan, response_format=response_format, **options)
            async for _ in stream:
                pass
            return stream.message

        return await aanswered(ask, messages, retries)

    @with_options()
    async def arun(
        self,
        messages: Chat,
        *,
        response_format: Kind[T] = None,
        max_turns: int = 10,
        call_tool: CallTool | None = None,
        **options: Unpack[Keywords],
    ) -> ToolRun[T]:
        """Return what `run` returns; async functions run in the event loop, others in threads."""
        asked = {**options, "response_format": response_format}
        return await arun_tools(self.achat, messages, max_turns, call_tool, asked)

    def complete(
        self,
        body: Mapping[str, Any],
        *,
        trusted: bool = False,
        ignore_unknown: bool = False,
        describe: bool = True,
    ) -> dict[str, Any] | Chunks:
        """Answer a Chat Completions body with OpenAI's objects as dicts: a completion, or chunks with ``stream``.

        The body is read as `guided.read_request` reads it, and refused before the first chunk.  A row that fails is a
        choice with an ``error``; if all rows fail, the first error is raised.
        """
        run = completing(self.planner, body, trusted=trusted, ignore_unknown=ignore_unknown, describe=describe)
        if run.is_streamed:
            return run.chunks()
        for _ in run.generation.steps():
            pass
        return ChatForm(run).whole(run.messages())

    async def acomplete(
        self,
        body: Mapping[str, Any],
        *,
        trusted: bool = False,
        ignore_unknown: bool = False,
        describe: bool = True,
    ) -> dict[str, Any] | AsyncGenerator[dict[str, Any], None]:
        """Return what `complete` returns; chunks come as an async iterator."""
        run = await self._worker.run(
            lambda: completing(self.planner, body, trusted=trusted, ignore_unknown=ignore_unknown, describe=describe)
        )
        return self._worker.iterate(run.chunks()) if run.is_streamed else await self._worker.result(run.whole())
