"""Best-first search over bytes for the nearest end of an answer."""

from __future__ import annotations

import time
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, nsmallest
from itertools import count
from typing import NamedTuple

from guided.landing.byte_twin import ByteMatcher
from guided.landing.candidates import Candidates, open_parts
from guided.landing.place import AnswerPlace, PlaceMap

__all__ = ["Found", "SearchLimits", "search"]

#: Places tried before the search goes on from the most promising one alone.
_ROUND, _ROUND_OF_TEXT = 40, 150
#: Places that a round hands on.
_KEPT = 4
#: What a symbol counts for when places of different depth are compared: going on must not look worse than going back.
_PROGRESS = 0.3
#: How often a place that looks like one before may be tried.
_VISITS = 4
#: A watcher may forbid what was written; it does not where nothing else is left.
_REFUSED = 40.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchLimits:
    """The most that one search may take in all: processor time of this thread in seconds, and places tried."""

    cpu_s: float
    expansions: int = 3_000
    cost: float = float("inf")  #: a text that costs more is of no use


class Found(NamedTuple):
    """A text that ends an answer, as symbols; None with a ``reason`` where none was found."""

    symbols: tuple[int, ...] | None
    reason: str = ""
    expansions: int = 0


class _Node(NamedTuple):
    """A place of the search: ``path`` is a linked list of symbols, the last ones first."""

    matcher: ByteMatcher
    place: AnswerPlace
    cost: float
    size: int
    path: tuple[object, ...] | None


def search(
    matcher: ByteMatcher,
    place: AnswerPlace,
    places: PlaceMap,
    candidates: Candidates,
    limits: SearchLimits,
    until: float,
) -> Found:
    """Return the shortest text found that ends the answer from a place on; ``matcher`` stays where it is.

    ``until`` is the processor time of this thread at which the search gives up.
    """
    ties = count()
    start = _Node(matcher.copy(), place, 0.0, 0, None)
    heap: list[tuple[float, int, _Node]] = [(0.0, 0, start)]
    seen: dict[object, int] = {}
    tried = since = 0
    while heap:
        if tried >= limits.expansions or time.thread_time() > until:
            return Found(None, f"no end was found within {tried} places and {limits.cpu_s:g} s", tried)
        estimate, _, popped = heappop(heap)
        if estimate > limits.cost:
            return Found(None, f"no end is near enough: {limits.cost:g} was the limit", tried)
        tried += 1
        since += 1
        node = _swallowed(popped, places, candidates.forced_cost)
        if node is None:
            continue
        if node.size > popped.size and heap and node.cost + open_parts(node.place) > heap[0][0]:
            heappush(heap, (node.cost + open_parts(node.place), -next(ties), node))  # others are nearer now
            continue
        mask = node.matcher.mask()
        if node.matcher.has_failed:
            continue
        if not node.matcher.ends.isdisjoint(mask.ids):
            return Found(_symbols(node.path), "", tried)
        scan = node.place.scan
        looks = (mask, node.place.position, node.place.call, open_parts(node.place), scan and scan.mode, node.size)
        visits = seen.get(looks, 0)
        if visits >= _VISITS and heap:
            continue
        seen[looks] = visits + 1
        found = candidates.at(node.matcher, mask, node.place, places.advance)
        if any(candidate.settles for candidate in found):
            heap.clear()
            seen.clear()
            since = 0
        for candidate in found:
            after = node.matcher.copy() if len(found) > 1 else node.matcher
            if not after.feed(candidate.symbols):
                continue
            place = places.advance(node.place, candidate.symbols)
            cost = node.cost + candidate.cost
            if place.is_refused:
                cost, place = cost + _REFUSED, place._replace(is_refused=False)
            child = _Node(after, place, cost, node.size + len(candidate.symbols), (node.path, candidate.symbols))
            heappush(heap, (cost + open_parts(place), -next(ties), child))
        if since >= (_ROUND if scan is not None else _ROUND_OF_TEXT) and len(heap) > 1:
            heap = nsmallest(_KEPT, heap, key=lambda item: (item[0] - _PROGRESS * item[2].size, item[1]))
            since = 0
            heapify(heap)
            seen.clear()
    return Found(None, "nothing that was tried leads to an end", tried)


def _swallowed(node: _Node, places: PlaceMap, price: float) -> _Node | None:
    """The node after all that must be written there; None where a limit of the engine is met."""
    matcher, place, cost, size, path = node
    while forced := matcher.forced():
        end = next((i for i, symbol in enumerate(forced) if symbol - 256 in matcher.ends), len(forced))
        forced = forced[:end]
        if not forced:
            break
        if not matcher.feed(forced):
            return None
        place = places.advance(place, forced)
        path, size, cost = (path, tuple(forced)), size + len(forced), cost + price * len(forced)
        if place.is_refused:
            cost, place = cost + _REFUSED, place._replace(is_refused=False)
    return _Node(matcher, place, cost, size, path)


def _symbols(path: tuple[object, ...] | None) -> tuple[int, ...]:
    parts: list[tuple[int, ...]] = []
    while path is not None:
        path, part = path  # type: ignore[assignment]
        parts.append(part)  # type: ignore[arg-type]
    return tuple(symbol for part in reversed(parts) for symbol in part)
