"""The records of a server: of all requests that are there, and of the last ones that have ended."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from starlette.requests import ClientDisconnect

from guided.hf.completing import CompletionRun
from guided.hf.loop.loop_row import LoopRow
from guided.output.message import Message
from guided.rows.sequence import RowSequence

__all__ = ["UPDATE_S", "Records", "RequestRecord"]

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


#: The phases of a request, and what ends each of them but the last.
_PHASES = {"compile": "planned", "queue": "begun", "prefill": "first", "decode": ""}

#: Masks that are shown of a row, and tokens whose text is.
_MOST_MASKS, _MOST_TEXT = 16, 60


class RequestRecord:
    """One request on ``route``, ``arrived`` at this time of the performance counter.

    ``headers`` may hold the context of a trace that it belongs to.  `mark` and `look` may be called in the engine's
    thread, all else in the event loop.
    """

    def __init__(self, number: int, route: str, client: str, headers: Mapping[str, str], arrived: float) -> None:
        self.number = number
        self.route = route
        self.client = client
        self.headers = headers
        self.arrived_ns = time.time_ns() - round(1e9 * (time.perf_counter() - arrived))
        self._arrived = arrived
        self._times: dict[str, float] = {}
        self._legal: list[deque[int]] = []
        self.run: CompletionRun | None = None  #: as soon as it is planned
        self.messages: Sequence[Message] = ()
        self.error: BaseException | None = None

    def planned(self, run: CompletionRun) -> None:
        """Note that the request is planned."""
        self._legal = [deque(maxlen=_MOST_MASKS) for _ in run.generation.answers]
        self.run = run  # last: the engine's thread may look on
        self.mark("planned")

    def mark(self, name: str) -> float:
        """Note that the request is ``begun``, has its ``first`` token or has ``ended``; return the seconds it took."""
        return self._times.setdefault(name, time.perf_counter() - self._arrived)

    def has(self, name: str) -> bool:
        """Whether this was noted."""
        return name in self._times

    def look(self) -> None:
        """Note how many tokens the masks of the rows allow now; in the engine's thread, between two steps."""
        rows = self.run.generation.loop_rows if self.run is not None and self.has("begun") else ()
        for row, legal in zip(rows, self._legal, strict=False):
            mask = None if row.is_done else row.answer.token_mask()
            if mask is not None:
                legal.append(int.from_bytes(mask.words.tobytes()).bit_count())

    @property
    def state(self) -> str:
        """The phase that it is in; of one that has ended its finish reasons, the kind of its error, or ``gone``."""
        if not self.has("ended"):
            return next((phase for phase, end in _PHASES.items() if not self.has(end)), "")
        if self.messages:
            return ", ".join(dict.fromkeys(message.finish_reason for message in self.messages))
        return type(self.error).__name__ if self.error is not None else "gone"

    def phases(self) -> dict[str, tuple[float, float]]:
        """Return the phases so far, each with the seconds from the arrival to its beginning and to its end."""
        ends = [self._times[name] for name in (*_PHASES.values(), "ended") if name in self._times]
        return dict(zip(_PHASES, pairwise([0.0, *ends]), strict=False))

    def to_json(self, *, shows_text: bool) -> dict[str, Any]:
        """Return the request as JSON values; the text of its answers only where it ``shows_text``."""
        rows = self.run.generation.loop_rows if self.run is not None else []
        return {
            "number": self.number,
            "route": self.route,
            "client": self.client,
            "state": self.state,
            "seconds": round(self._times.get("ended", time.perf_counter() - self._arrived), 3),
            "phases": {name: round(end - begin, 3) for name, (begin, end) in self.phases().items()},
            "rows": [self._row(row, self._legal[i], shows_text) for i, row in enumerate(rows)],
        }

    def _row(self, row: LoopRow, legal: deque[int], shows_text: bool) -> dict[str, Any]:
        answer, sequence, written = row.answer, row.answer.sequence, len(row.answer.tokens)
        parts = [["content", written]]
        if isinstance(sequence, RowSequence):
            parts = [[name.value, size] for name, size in sequence.state.log.stays() if size]
        forced = answer.forced.copy()
        fields: dict[str, Any] = {
            "prompt": answer.prompt_tokens,
            "cached": row.cached,
            "written": written,
            "limit": row.max_tokens,
            "parts": parts,
            "forced": len(forced),
            "runs": sum(after != before + 1 for before, after in pairwise([-2, *forced])),
            "overridden": sequence.overridden if sequence is not None else 0,
            "landed": answer.landed,
            "legal": list(legal),
        }
        if shows_text and self.run is not None:
            text = b"".join(map(self.run.token_bytes, answer.tokens[-_MOST_TEXT:]))
            fields["text"] = text.decode("utf-8", "replace")
        return fields
