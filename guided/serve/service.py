"""The state of a server: it loads, is ready, drains, and ends."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from typing import Any, TypeVar

from grammars.limits.deadline import use_time_limits
from guided.hf.guide import Guide
from guided.hf.loop.sampling import context_size
from guided.serve.engine import MOST_RESTARTS, EngineThread
from guided.serve.loops import make_loop
from guided.serve.metrics import Metrics
from guided.serve.observing.records import Records
from guided.serve.planning import Composers, ServerPlanner
from guided.serve.refusals import Overloaded, Unavailable
from guided.serve.settings import Settings

__all__ = ["Service"]

log = logging.getLogger("guided.serve")

T = TypeVar("T")

#: Threads that read bodies and make prompts; composing itself has processes of its own.
_THREADS = 4


class Service:
    """One model and its engine.  `load` blocks; until it has returned every request is `Unavailable`.

    Plans are composed in as many ``processes``.
    """

    def __init__(self, settings: Settings, *, processes: int = 2) -> None:
        self.settings = settings
        self._processes = processes
        self.metrics = Metrics()
        on_end = None
        if settings.otel:
            from guided.serve.observing.spans import Spans  # needs a package that others need not have

            on_end = Spans()
        self.records = Records(shows_text=settings.page_shows_text, on_end=on_end)
        self.draining = False
        self.drain_until = float("inf")
        self.num_waiting = 0  # requests that have not begun; of the event loop
        self.num_live = 0  # requests without an answer; of the event loop
        self.failed: BaseException | None = None  #: what the model's loader raised
        self._guide: Guide | None = None
        self._engine: EngineThread | None = None
        self._planner: ServerPlanner | None = None
        self._composers: Composers | None = None
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="guided-plan")
        self.metrics.watch("num_requests_waiting", "Requests that have not begun.", lambda: self.num_waiting)
        self.metrics.watch(
            "num_rows_running", "Rows in the engine.", lambda: self._engine.num_rows if self._engine else 0
        )
        self.metrics.watch("kv_cache_bytes", "Bytes of kept rows.", self._kept_bytes)

    def load(self, make: Callable[[], Guide]) -> None:
        """Take the guide that ``make`` returns, and be ready; what it raises is kept in ``failed`` as well."""
        try:
            guide = make()
            self._composers = Composers(guide.tokens, guide.format, number=self._processes)
            self._composers.warm()
            self._planner = ServerPlanner(
                guide.context,
                guide.planner.plans,
                most_tokens=context_size(guide.model, self.settings.cache_tokens),
                composers=self._composers,
                allows_constraints=self.settings.constraint_api,
                most_rows=self.settings.max_rows,
            )
            guide.chat("Hi", max_tokens=1, reuse=False)  # builds and tries now what the first request would wait for
            # What is loaded never dies: collections need not look at it, which takes half a second each time.
            gc.collect()
            gc.freeze()
            self._engine = EngineThread(
                partial(make_loop, guide, self.settings), max_wait_s=self.settings.max_wait_s, on_fault=self._on_fault
            )
            _wait_for_loop(self._engine)
            self._guide = guide
        except BaseException as error:
            self.failed = error
            raise

    def _on_fault(self, error: BaseException, goes_on: bool) -> None:
        self.metrics.failures.labels(type(error).__name__).inc()
        self.metrics.restarts.inc(goes_on)

    def _kept_bytes(self) -> float:
        return float(self._guide.stats().kept.size_bytes) if self._guide is not None else 0.0

    # -- what there is

    @property
    def guide(self) -> Guide:
        return _loaded(self._guide)

    @property
    def engine(self) -> EngineThread:
        return _loaded(self._engine)

    @property
    def planner(self) -> ServerPlanner:
        return _loaded(self._planner)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the model; raises `Unavailable` while it loads, since its clients would ask it."""
        own = self.guide.context.name
        return self.settings.names or (own,)

    def overview(self, since: int) -> dict[str, Any]:
        """Return what the page shows, with the requests that ended after number ``since`` of these."""
        guide, settings = self._guide, self.settings
        kept = asdict(guide.stats().kept) if guide is not None else {}
        return {
            "state": self.state,
            "models": self.names if guide is not None else settings.names,
            "vocab": guide.tokens.vocab_size if guide is not None else 0,
            "running": self._engine.num_rows if self._engine is not None else 0,
            "max_rows": settings.max_rows,
            "waiting": self.num_waiting,
            "max_waiting": settings.max_waiting,
            "kept": kept,
            **self.records.update(since),
        }

    def is_over(self) -> bool:
        """Whether the server ends and has nothing more to answer."""
        return self.draining and self.num_live == 0

    @property
    def state(self) -> str:
        """loading, ok, draining or dead."""
        if self.failed is not None or (self._engine is not None and self._engine.error is not None):
            return "dead"
        if self.draining:
            return "draining"
        return "loading" if self._guide is None else "ok"

    # -- requests

    def check_open(self) -> None:
        """Raise `Unavailable` where no request is taken at all."""
        _loaded(self._guide)
        if self.draining:
            raise Unavailable("the server shuts down", place="engine", hint="ask another one")
        if self.engine.error is not None:
            raise Unavailable("the engine has ended", place="engine", hint="see the server's log")

    @contextmanager
    def request(self) -> Iterator[Callable[[], None]]:
        """Count a request as waiting until the function is called, and as living until the block ends.

        Raises `Overloaded` when the queue is full.
        """
        self.check_open()
        if self.num_waiting >= self.settings.max_waiting:
            raise Overloaded(f"{self.num_waiting} requests wait already", place="engine", hint="try again later")
        waits = [True]

        def begun() -> None:
            self.num_waiting -= waits.pop() if waits else 0

        self.num_waiting += 1
        self.num_live += 1
        try:
            yield begun
        finally:
            begun()
            self.num_live -= 1

    async def planned(self, make: Callable[[], T]) -> T:
        """Return what ``make`` returns in a thread, within the time limits of a plan."""

        def limited() -> T:
            with use_time_limits(self.settings.limits):
                return make()

        context = contextvars.copy_context()
        began = time.perf_counter()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, context.run, limited)
        finally:
            self.metrics.plan.observe(time.perf_counter() - began)

    # -- the end

    def drain(self) -> None:
        """Take no more requests; those that are there may end."""
        self.draining, self.drain_until = True, time.monotonic() + self.settings.drain_s
        log.info("draining: %d requests are answered", self.num_live)

    def is_drained(self) -> bool:
        """Whether the last request has been answered; past the time for it the others end now."""
        if not self.draining:
            return False
        if self.num_live and time.monotonic() > self.drain_until and self._engine is not None:
            threading.Thread(target=self._engine.close, daemon=True).start()
            self.drain_until = float("inf")
        return self.num_live == 0

    def close(self) -> None:
        """End the engine and the processes."""
        self.draining = True
        if self._engine is not None:
            self._engine.close()
        if self._composers is not None:
            self._composers.close()
        self._threads.shutdown(wait=False, cancel_futures=True)
        gc.unfreeze()


def _wait_for_loop(engine: EngineThread) -> None:
    """Wait until its loop is made, for which the model's forwards are measured; raise what ended the engine."""
    failed: Unavailable | None = None
    for _ in range(MOST_RESTARTS + 1):  # it begins anew as often
        try:
            return engine.call(lambda: None).result()
        except Unavailable as error:
            failed = error
    assert failed is not None
    raise engine.error or failed


def _loaded(part: T | None) -> T:
    """Return a part of the service; raise `Unavailable` while there is none."""
    if part is None:
        raise Unavailable("the model is loading", place="engine", hint="GET /ready says when it is there")
    return part
