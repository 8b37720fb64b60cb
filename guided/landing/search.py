"""Best-first search over bytes for the nearest end of an answer.

A `SearchTree` holds all places that searches from one place have reached.  The engine and the watchers are asked about
each place once, and searches with other preferences use the same answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, nsmallest
from itertools import chain, count
from typing import NamedTuple

from grammars.values.persistent_set import Mode
from guided.landing.byte_classes import FREE_TEXT, Classes, Outlook, set_of
from guided.landing.byte_twin import ByteMask, ByteMatcher
from guided.landing.candidates import Candidate, Candidates, Preference, open_parts
from guided.landing.effort import Effort
from guided.landing.path import EndPath, remaining_from
from guided.tracking.places import AnswerPlace, PlaceMap

__all__ = ["SearchResult", "SearchTree", "search"]

#: Places tried before the search goes on from the most promising one alone.
_ROUND_PLACES, _ROUND_PLACES_OF_TEXT = 40, 150
_NUM_PROMISING = 4  # places that a round hands on,
_NUM_NEAREST = 2  # and the nearest places from which the way ahead is known
#: What a symbol counts for when places of different depth are compared, in plans with JSON and in others: going on must
#: not look worse than going back.  With JSON it is more than what a byte that must come costs (0.35).
_PROGRESS, _PROGRESS_OF_TEXT = 0.4, 0.3
#: How often a place that looks like one before may be tried, in plans with JSON and in others.
_VISITS, _VISITS_OF_TEXT = 2, 4
_EXTRA_COST = 3.0  # at most, of other ends above the first one: they may have fewer tokens
_EXTRA_PLACES = 30  # in which other ends are sought
#: Where white space may stand in JSON, and white space.
_BETWEEN, _BLANK = frozenset((Mode.VALUE, Mode.KEY, Mode.AFTER_KEY, Mode.AFTER)), set_of(b" \n\t\r")
#: A watcher may forbid what was written; it does not where nothing else is left.
_REFUSED_COST = 40.0


class SearchResult(NamedTuple):
    """The symbols of a text that ends an answer; None if no such text was found, for this ``reason``.

    With ``is_far`` all that was left to try costs more than `Effort.cost`, or than a first end by more than a little.
    """

    symbols: tuple[int, ...] | None
    reason: str = ""
    is_far: bool = False


class _Node:
    """The place after ``symbols`` and, once entered, ``forced``, which must come next."""

    __slots__ = ("forced", "gave_matcher", "is_entered", "is_lost", "mask", "matcher", "open", "parent", "penalty",
                 "place", "size", "symbols", "takes_matcher")  # fmt: skip

    def __init__(self, before: ByteMatcher, parent: _Node | None, symbols: Sequence[int], place: AnswerPlace) -> None:
        self.matcher = before  # of the place before, until this one is entered
        self.takes_matcher = self.gave_matcher = False  # an only child takes its parent's over
        self.parent = parent
        self.symbols = symbols
        self.forced: list[int] = []
        self.size: int = len(symbols) + (parent.size if parent is not None else 0)
        self.mask: ByteMask | None = None
        self.is_entered = self.is_lost = False  # lost: a limit of the engine is met
        self.penalty = 0.0
        self._put(place)

    def _put(self, place: AnswerPlace) -> None:
        self.place = place
        if place.is_refused:
            self.penalty += _REFUSED_COST
            self.place = place._replace(is_refused=False)
        self.open = open_parts(place)

    def enter(self, places: PlaceMap) -> None:
        """Write what leads here and what must come next."""
        self.is_entered = True
        self.matcher = matcher = self.matcher if self.takes_matcher else self.matcher.copy()
        self.is_lost = bool(self.symbols) and not matcher.feed(self.symbols)
        while not self.is_lost and (forced := matcher.forced() or self._but_for_blanks()):
            end = len(forced)
            if max(forced) >= 256:
                end = next((i for i, symbol in enumerate(forced) if symbol - 256 in matcher.ends), end)
            if not end:
                break
            self.forced += forced[:end]
            self.size += end
            self.is_lost = not matcher.feed(forced[:end])
            if not self.is_lost:
                self._put(places.advance(self.place, forced[:end]))

    def _but_for_blanks(self) -> list[int]:
        """Return the one byte that may come next in JSON besides white space."""
        scan = self.place.scan
        if scan is None or scan.mode not in _BETWEEN:
            return []
        mask = self.matcher.mask()
        solid = mask.byte_bits & ~_BLANK
        return [solid.bit_length() - 1] if not mask.ids and solid.bit_count() == 1 and mask.byte_bits & _BLANK else []

    def look(self) -> ByteMask:
        """Return the mask; what follows an error of the engine is lost."""
        if self.mask is None:
            self.mask = self.matcher.mask()
            self.is_lost = self.matcher.has_failed
        return self.mask

    def written(self) -> Iterator[int]:
        """Yield how much has been written; two places with the same numbers are taken for alike if their masks are.

        In JSON: the bytes of the value that is open, and the members and items of each open object and array, so that
        values of any size count alike.  Outside of JSON: the symbols.
        """
        scan, before = self.place.scan, self
        if scan is None:
            yield self.size
            return
        while before.parent is not None and before.parent.place.scan is not None:
            other = before.parent.place.scan
            if other.mode is not scan.mode or other.frame is not scan.frame:
                break
            before = before.parent
        yield self.size - before.size
        frame = scan.frame
        while frame is not None:
            yield from (len(frame.written), frame.item_index)
            frame = frame.parent

    def result(self, ending: Sequence[int] = ()) -> SearchResult:
        """Return the text from the beginning of the search to here and ``ending``, which ends it."""
        pieces, node = [tuple(ending)], self
        while node.parent is not None:
            pieces.append((*node.symbols, *node.forced))
            node = node.parent
        pieces.append((*node.symbols, *node.forced))
        return SearchResult(tuple(chain.from_iterable(reversed(pieces))))


@dataclass(eq=False)
class SearchTree:
    """The places of all searches that begin at one place, the root.  Not thread-safe.

    ``matcher`` stays at the root.  ``written`` are the last bytes of the answer before the root.
    """

    matcher: ByteMatcher
    place: AnswerPlace
    places: PlaceMap
    candidates: Candidates
    classes: Classes
    written: bytes
    num_tokens: Callable[[Sequence[int]], int]

    def __post_init__(self) -> None:
        self.root = _Node(self.matcher, None, (), self.place)
        #: of the places, which do not know them: then all are freed with the tree
        self._children: dict[_Node, list[tuple[Candidate, _Node]]] = {}

    def children(self, node: _Node, mask: ByteMask, effort: Effort) -> list[tuple[Candidate, _Node]]:
        """Return what may follow a place, and the places after it; ``effort`` pays for what is looked at."""
        after = self._children.get(node)
        if after is None:
            # What a search begins with must be right, except in text.
            is_narrow = node is self.root and mask.byte_bits.bit_count() <= FREE_TEXT
            classes = Classes() if is_narrow else self.classes
            here = Outlook(node.matcher, mask, classes, b"" if node.size else self.written)
            candidates = self.candidates.at(here, node.place, self.places, is_begun=bool(self.written))
            after = [(candidate, self.after(node, candidate.symbols)) for candidate in candidates]
            if node.place.scan is not None and any(child.penalty for _, child in after):
                others = self.candidates.others(here._replace(classes=self.classes))
                after = [(candidate._replace(settles=False), child) for candidate, child in after]
                after += [(candidate, self.after(node, candidate.symbols)) for candidate in others]
            self._children[node] = after
            for paid in (classes, self.classes):
                effort.spend(paid.spent)
                paid.spent = 0.0
            if len(after) == 1 and node is not self.root:
                node.gave_matcher = after[0][1].takes_matcher = True
        return after

    def after(self, node: _Node, symbols: Sequence[int]) -> _Node:
        """Return the place after ``symbols``."""
        return _Node(node.matcher, node, symbols, self.places.advance(node.place, symbols))


def search(
    tree: SearchTree, preference: Preference, effort: Effort, known_path: EndPath, too_long: int, least: float
) -> Iterator[SearchResult]:
    """Yield the texts found that end the answer: some symbols and then a rest of ``known_path``, then others.

    The first of the others is the shortest that the preference leads to, the next ones cost little more; in the end
    comes None with the reason why there is none.  ``known_path`` is a path
    that ends the answer from a place near by; its rests from index ``too_long`` on are too long, as is each that is
    yielded when the next is asked for.  ``least`` places of ``effort`` are left to others.
    """
    ties = count()
    heap: list[tuple[float, int, float, _Node, bool]] = [(0.0, 0, 0.0, tree.root, False)]
    seen: dict[object, int] = {}
    tried, since, most = 0, 0, effort.cost
    progress, most_visits = (_PROGRESS, _VISITS) if tree.places.has_json else (_PROGRESS_OF_TEXT, _VISITS_OF_TEXT)
    while heap:
        if effort.left < least or effort.is_spent:
            yield SearchResult(None, f"no end was found within {tried} places, {effort.end}")
            return
        estimate, _, cost, node, is_paid = heappop(heap)
        if estimate > most:
            yield SearchResult(None, f"no end is near enough: {most:g} was the limit", is_far=True)
            return
        tried, since = tried + 1, since + 1
        effort.spend(1.0)
        if not is_paid:
            penalty = node.penalty
            if not node.is_entered:
                node.enter(tree.places)
            cost += node.penalty - penalty
            if node.forced:
                piece = (*node.symbols, *node.forced)
                cost += preference.cost_of(piece, tree.num_tokens) - preference.cost_of(node.symbols, tree.num_tokens)
            if node.forced and heap and cost + node.open > heap[0][0]:
                heappush(heap, (cost + node.open, -next(ties), cost, node, True))  # others are nearer now
                continue
        mask = node.look()
        if node.is_lost:
            continue
        if not node.matcher.ends.isdisjoint(mask.ids):
            yield node.result()
            most, least = min(most, estimate + _EXTRA_COST), max(least, effort.left - _EXTRA_PLACES)
            continue
        scan = node.place.scan
        looks = (mask, node.place.position, node.place.step, scan and scan.mode, node.place.num_values, *node.written())
        visits = seen.get(looks, 0)
        if visits >= most_visits and heap:
            continue
        seen[looks] = visits + 1
        if known_path.symbols and node is not tree.root and not node.gave_matcher:
            at = remaining_from(node.matcher, node.place, tree.places, known_path, effort, too_long)
            if at > too_long:  # what is asked for after a longer rest must be shorter
                too_long = at
                yield node.result(known_path.symbols[at:])
                least = max(least, effort.left - _EXTRA_PLACES)
        children = tree.children(node, mask, effort)
        if any(candidate.settles for candidate, _ in children):
            heap = [item for item in heap if item[3].place.scan is None]  # another tag, say
            heapify(heap)
            seen.clear()
            since = 0
        for candidate, child in children:
            piece = (*child.symbols, *child.forced)
            after = cost + preference.cost(candidate) + preference.cost_of(piece, tree.num_tokens) + child.penalty
            heappush(heap, (after + child.open, -next(ties), after, child, child.is_entered))
        if since >= (_ROUND_PLACES if scan is not None else _ROUND_PLACES_OF_TEXT) and len(heap) > 1:
            ahead = nsmallest(_NUM_PROMISING, heap, key=lambda item: (item[0] - progress * item[3].size, item[1]))
            nearest = nsmallest(_NUM_NEAREST, (item for item in heap if item[4]))
            heap = [*ahead, *(item for item in nearest if item not in ahead)]
            since = 0
            heapify(heap)
            seen.clear()
    yield SearchResult(None, "nothing that was tried leads to an end")
