"""The engine: one thread that alone runs the model, a step of all its rows after the other.

It takes jobs, tells them in its thread when they begin, when tokens were written and when they have ended, and can be
asked to drop them.  What a job raises ends that job; what the loop itself raises ends all jobs, and a new loop is made.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from guided.hf.loop.generation import Generation
from guided.serve.refusals import Unavailable

__all__ = ["MOST_RESTARTS", "EngineJob", "EngineThread", "JobLoop", "Waiting"]

log = logging.getLogger("guided.serve")

T = TypeVar("T")
J = TypeVar("J")

#: Jobs that have ended, each with what it raised.
EndedJobs: TypeAlias = list[tuple["EngineJob", BaseException | None]]

#: A loop that fails is made anew, at most this many times within this many seconds.
MOST_RESTARTS, WITHIN_S = 3, 600.0


class EngineJob(Protocol):
    """One request.  Its methods are called in the engine's thread."""

    client: str

    @property
    def generation(self) -> Generation: ...
    def began(self) -> None: ...
    def wrote(self) -> None: ...
    def ended(self, error: BaseException | None) -> None: ...


class JobLoop(Protocol):
    """The rows of jobs.  `step` tells jobs `wrote`, and returns those that have ended, with what they raised."""

    @property
    def num_rows(self) -> int: ...
    def fits(self, job: EngineJob) -> bool: ...
    def join(self, job: EngineJob) -> None: ...
    def drop(self, job: EngineJob) -> None: ...
    def step(self) -> EndedJobs: ...
    def close(self) -> None: ...


class Waiting(Generic[J]):
    """Jobs by client.  Not thread-safe.

    The next job is the oldest of the client whose turn it is; while its rows do not fit no other overtakes it, so that
    a job of many rows gets its turn.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._queues: OrderedDict[str, deque[tuple[float, J]]] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def add(self, client: str, job: J) -> None:
        self._queues.setdefault(client, deque()).append((self._clock(), job))

    def next(self, fits: Callable[[J], bool]) -> J | None:
        """Remove and return the next job; None if there is none or it does not fit."""
        client = next(iter(self._queues), None)
        if client is None or not fits(self._queues[client][0][1]):
            return None
        _, job = self._queues[client].popleft()
        queue = self._queues.pop(client)
        if queue:
            self._queues[client] = queue  # its next turn comes after those of all others
        return job

    def remove(self, job: J) -> bool:
        """Remove ``job``; whether it was there."""
        return bool(self._taken(lambda since, queued: queued is job))

    def expired(self, seconds: float) -> list[J]:
        """Remove and return the jobs that have waited longer than ``seconds``."""
        until = self._clock() - seconds
        return self._taken(lambda since, _: since < until)

    def clear(self) -> list[J]:
        """Remove and return all jobs."""
        return self._taken(lambda *_: True)

    def _taken(self, matches: Callable[[float, J], bool]) -> list[J]:
        def split(queue: deque[tuple[float, J]]) -> Iterator[tuple[float, J]]:
            for since, job in queue:
                if matches(since, job):
                    taken.append(job)
                else:
                    yield since, job

        taken: list[J] = []
        for client in list(self._queues):
            self._queues[client] = deque(split(self._queues[client]))
            if not self._queues[client]:
                del self._queues[client]
        return taken


class EngineThread:
    """The thread and its inbox.  ``make_loop`` is called in the thread, again after a failure.

    ``on_fault`` is called with what was raised and whether the engine goes on.
    """

    def __init__(
        self,
        make_loop: Callable[[], JobLoop],
        *,
        max_wait_s: float = 60.0,
        on_fault: Callable[[BaseException, bool], None] = lambda *_: None,
    ) -> None:
        self._make_loop = make_loop
        self._max_wait_s = max_wait_s
        self._on_fault = on_fault
        self._changed = threading.Condition()
        self._waiting: Waiting[EngineJob] = Waiting()
        self._dropped: list[EngineJob] = []
        self._calls: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._failures: list[float] = []
        self._closed = False
        self._running: set[EngineJob] = set()
        self.loop: JobLoop | None = None
        #: what ended the engine for good
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="guided-engine", daemon=True)
        self._thread.start()

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    @property
    def num_rows(self) -> int:
        return self.loop.num_rows if self.loop is not None else 0

    def submit(self, job: EngineJob) -> None:
        """Let ``job`` wait for its turn; raise `Unavailable` when the engine has ended."""
        with self._changed:
            self._check()
            self._waiting.add(job.client, job)
            self._changed.notify()

    def cancel(self, job: EngineJob) -> None:
        """End ``job`` before its next step; it hears nothing any more.  A job that has ended is left alone."""
        with self._changed:
            if not self._waiting.remove(job):
                self._dropped.append(job)
            self._changed.notify()

    def call(self, function: Callable[[], T]) -> Future[T]:
        """Call ``function`` between two steps, for work that runs the model as well."""
        future: Future[T] = Future()
        with self._changed:
            self._check()
            self._calls.append((function, future))
            self._changed.notify()
        return future

    def close(self, timeout: float = 30.0) -> None:
        """End the thread after its step; all jobs end with `Unavailable`."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(timeout)

    def _check(self) -> None:
        if self._closed or self.error is not None:
            raise Unavailable("the engine has ended", place="engine", hint="see the server's log")

    # -- the thread

    def _run(self) -> None:
        while not self._closed and self.error is None:
            try:
                self.loop = self._make_loop()
                while self._turn(self.loop):
                    pass
                self._end_all("the server shuts down")
            except BaseException as error:
                self._fail(error)

    def _turn(self, loop: JobLoop) -> bool:
        """Let jobs leave and join, and run a step; False when the engine is closed."""
        with self._changed:
            while not (self._closed or self._calls or self._dropped or self._running or self._waiting):
                self._changed.wait()
            if self._closed:
                return False
            dropped, self._dropped = self._dropped, []
            late = self._waiting.expired(self._max_wait_s)
            calls = [self._calls.popleft() for _ in range(len(self._calls))]
        for job in dropped:
            if job in self._running:
                self._running.discard(job)
                loop.drop(job)
        for job in late:
            job.ended(Unavailable(f"no turn within {self._max_wait_s:g} s", place="engine", hint="try again later"))
        for call in calls:
            _answer(*call)
        while (new := self._taken(loop)) is not None:
            new.began()
            loop.join(new)
        for job, raised in loop.step():
            self._running.discard(job)
            job.ended(raised)
        return True

    def _taken(self, loop: JobLoop) -> EngineJob | None:
        with self._changed:
            job = self._waiting.next(loop.fits)
            if job is not None:
                self._running.add(job)
            return job

    def _fail(self, error: BaseException) -> None:
        """End all jobs; the loop is made anew unless it has failed too often."""
        now = time.monotonic()
        self._failures = [at for at in self._failures if at > now - WITHIN_S]
        goes_on = len(self._failures) < MOST_RESTARTS and isinstance(error, Exception)
        self._failures.append(now)
        log.error("the engine failed and %s", "is made anew" if goes_on else "has ended", exc_info=error)
        if not goes_on:
            with self._changed:
                self.error = error
        self._end_all(f"the engine failed: {type(error).__name__}")
        self._on_fault(error, goes_on)

    def _end_all(self, why: str) -> None:
        with self._changed:
            jobs = [*self._running, *self._waiting.clear()]
            calls = [self._calls.popleft() for _ in range(len(self._calls))]
            self._running, self._dropped = set(), []
        for job in jobs:
            job.ended(Unavailable(why, place="engine", hint="try again"))
        for _, future in calls:
            future.set_exception(Unavailable(why, place="engine", hint="try again"))
        loop, self.loop = self.loop, None
        if loop is not None:
            with suppress(Exception):  # it may have failed for good
                loop.close()


def _answer(function: Callable[[], Any], future: Future[Any]) -> None:
    try:
        future.set_result(function())
    except BaseException as error:
        future.set_exception(error)
