"""The records of a server: of all requests that are there, and of the last ones that have ended."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from starlette.requests import ClientDisconnect

from guided.serve.observing.record import RequestRecord

__all__ = ["UPDATE_S", "Records"]

log = logging.getLogger("guided.serve")

#: Seconds between two updates of a page; rows are looked at as often.
UPDATE_S = 0.25

#: Requests that have ended, and are remembered.
_MOST_ENDED = 1_000


class Records:
    """The requests of a server; of those that have ended the last 1,000.  ``on_end`` gets each one as it ends.

    Rows are looked at only while someone asks for updates.
    """

    def __init__(self, *, shows_text: bool = False, on_end: Callable[[RequestRecord], None] | None = None) -> None:
        self._shows_text = shows_text
        self._on_end = on_end
        self._live: dict[int, RequestRecord] = {}
        self._ended: deque[dict[str, Any]] = deque(maxlen=_MOST_ENDED)
        self._num_ended = 0
        self._num_requests = 0
        self._num_tokens = 0
        self._watched_until = self._looked = 0.0

    @contextmanager
    def request(self, route: str, client: str, headers: Mapping[str, str], arrived: float) -> Iterator[RequestRecord]:
        """Remember a request, which lives until the block ends."""
        self._num_requests += 1
        record = RequestRecord(self._num_requests, route, client, headers, arrived)
        self._live[record.number] = record
        try:
            yield record
        except Exception as error:
            if not isinstance(error, ClientDisconnect):
                record.error = error
            raise
        finally:
            record.mark("ended")
            del self._live[record.number]
            self._num_ended += 1
            self._ended.append(record.to_json(shows_text=self._shows_text))
            if self._on_end is not None:
                try:
                    self._on_end(record)
                except Exception:  # of an exporter, say: the answer is not at fault
                    log.exception("a request could not be traced")

    def wrote(self, num_tokens: int) -> None:
        """Count tokens that were written; in the engine's thread, between two steps."""
        self._num_tokens += num_tokens
        now = time.perf_counter()
        if self._watched_until > now > self._looked + UPDATE_S:
            self._looked = now
            for record in list(self._live.values()):
                record.look()

    def update(self, since: int) -> dict[str, Any]:
        """Return what there is to see: all live requests, and those that ended after number ``since`` of these."""
        self._watched_until = time.perf_counter() + 8 * UPDATE_S
        new = min(self._num_ended - since, len(self._ended))
        return {
            "time": round(time.perf_counter(), 3),
            "tokens": self._num_tokens,
            "live": [record.to_json(shows_text=self._shows_text) for record in self._live.values()],
            "num_ended": self._num_ended,
            "ended": list(self._ended)[len(self._ended) - new :],
        }
