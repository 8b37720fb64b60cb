"""Run-time watchers of one sequence: remove tokens that would write a key or an item twice.

The watchers of a plan come with its schemas (`grammars.values.watchers`): that of the response and those of the JSON
values in tool calls.  A `SequenceWatcher` follows the text of each of these values from its first byte to its last.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from grammars.plan.plan import Plan
from grammars.tree.markers import Markers
from grammars.values.json_scanner import ScanState, feed
from guided.engine.engine import Engine
from guided.tracking.commit_log import CommitLog
from guided.tracking.places import AnswerPlace, PlaceMap
from guided.tracking.regions import Position, RegionMap
from guided.watchers.lookahead_duplicates import LookaheadDuplicates
from guided.watchers.vocabulary_index import VocabularyIndex

__all__ = ["SequenceWatcher"]

_BEGIN = ScanState()


class SequenceWatcher:
    """The watchers of one plan on one sequence that begins in region ``entry``; the caller passes its `CommitLog`.

    ``fork`` copies; ``cut`` follows a rollback; ``restrict`` narrows a mask in place.  Cost: about 2 us a token inside
    values, a few hundred us near a duplicate.
    """

    def __init__(self, plan: Plan, regions: RegionMap, entry: int, engine: Engine) -> None:
        self.tokens = tokens = engine.derived(VocabularyIndex)
        self._places = places = PlaceMap(plan, Markers(engine.tokens), regions)
        self._values = [LookaheadDuplicates(step.watchers, tokens) for step in places.steps]
        self._asked, self._answer = AnswerPlace(Position(0, 0)), False  # what `may_restrict` was asked, and its answer
        self._written = [places.start(entry)]  #: the place before the first token, then one per token

    def _follow(self, log: CommitLog) -> None:
        """Read the tokens of ``log`` that are new."""
        places = self._places
        for token in log.tokens[len(self._written) - 1 :]:
            self._written.append(places.advance(self._written[-1], places.regions.symbols(token)))

    def _value(self) -> tuple[LookaheadDuplicates | None, ScanState]:
        """Return the watcher of the value that is being written, None outside of values, and the position in it."""
        place = self._written[-1]
        if place.scan is None or place.step is None:
            return None, _BEGIN
        return self._values[place.step.state], place.scan

    def cut(self, num_tokens: int) -> None:
        """Keep only the first ``num_tokens`` tokens."""
        del self._written[num_tokens + 1 :]

    def fork(self) -> SequenceWatcher:
        """An independent copy at the same position."""
        twin = object.__new__(SequenceWatcher)
        twin.__dict__.update(self.__dict__)
        twin._written = self._written.copy()
        return twin

    def free_run(self, log: CommitLog, tokens: list[int]) -> list[int]:
        """Return those of the ``tokens``, forced after ``log``, before which no mask need be restricted.

        Inside a value these are all if they write nothing twice; elsewhere, those before a value that could.
        """
        self._follow(log)
        value, scan = self._value()
        texts = [self.tokens.token_bytes[i] for i in tokens]
        if value is None:
            end = next((i for i, text in enumerate(texts) if b"{" in text or b"[" in text), len(texts))
            return tokens[:end]
        after = feed(scan, b"".join(texts), value.nodes)
        return [] if after.is_duplicate or after.is_complete else tokens

    def may_restrict(self, log: CommitLog) -> bool:
        """Whether `restrict` could remove a token after those of ``log``."""
        self._follow(log)
        if self._written[-1] is not self._asked:  # inside a string that is compared with nothing it stays the same
            self._asked, (value, scan) = self._written[-1], self._value()
            self._answer = value is not None and value.may_restrict(scan)
        return self._answer

    def is_quiet(self, words: NDArray[np.int32]) -> bool:
        """Whether `restrict` surely leaves ``words`` alone; call it after `may_restrict`."""
        value, scan = self._value()
        return value is None or value.is_quiet(words, scan)

    def restrict(self, words: NDArray[np.int32], matcher: Any) -> None:
        """Clear the forbidden tokens in ``words``, as `LookaheadDuplicates.restrict`; call it after `may_restrict`."""
        value, scan = self._value()
        if value is not None:
            value.restrict(words, scan, matcher)
