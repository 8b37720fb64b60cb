"""The watcher of one JSON value: removes duplicates from masks.

`ValueWatcher.restrict` clears bits of a mask that the engine has filled.  It never removes the last possible
continuation: where there is no other the duplicate stays legal, and the schema's report says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grammars.values.watchers import UniqueWatch, Watcher
from guided.watchers.json_scanner import ScanState
from guided.watchers.lookahead_duplicates import LookaheadDuplicates
from guided.watchers.vocabulary_index import VocabularyIndex

__all__ = ["ValueWatcher"]


class ValueWatcher:
    """The watchers of one JSON value.  Immutable; the text written so far is a `ScanState`.

    Cost of ``restrict``: a few hundred us near a duplicate.
    """

    def __init__(self, watchers: Sequence[Watcher], tokens: VocabularyIndex) -> None:
        unique = next((w for w in watchers if isinstance(w, UniqueWatch)), None)
        self.nodes = unique.nodes if unique is not None else ()
        self._duplicates = LookaheadDuplicates(unique, tokens) if unique is not None else None

    def may_restrict(self, scan: ScanState) -> bool:
        """Whether `restrict` could remove a token here."""
        return self._duplicates is not None and self._duplicates.may_restrict(scan)

    def is_quiet(self, words: NDArray[np.int32], scan: ScanState) -> bool:
        """Whether `restrict` surely leaves ``words`` alone; False where that is not seen at once."""
        return self._duplicates is None or self._duplicates.is_quiet(words, scan)

    def restrict(self, words: NDArray[np.int32], scan: ScanState, matcher: Any) -> None:
        """Clear the tokens in ``words`` that would write a duplicate.

        ``words`` is one row as the engine filled it, without bits past the vocabulary and without end tokens;
        ``matcher`` is at the same position and is only copied.
        """
        if self._duplicates is not None and self._duplicates.may_restrict(scan):
            self._duplicates.restrict(words, scan, matcher)
