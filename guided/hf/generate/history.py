"""The token ids of a ``generate`` call as far as they were read."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["History", "Ids"]

Ids: TypeAlias = NDArray[np.int64]


class History:
    """Prompts and what was generated after them, in a buffer that grows by halves."""

    def __init__(self, ids: Ids) -> None:
        self._buffer = ids.copy()
        self.size = ids.shape[1]

    @property
    def ids(self) -> Ids:
        """Int64 ``[rows, size]``."""
        return self._buffer[:, : self.size]

    @property
    def nbytes(self) -> int:
        return int(self._buffer.nbytes)

    def begins(self, ids: Ids, size: int) -> bool:
        """Do ``ids`` and the history share their first ``size`` columns?"""
        if len(ids) != len(self._buffer) or ids.shape[1] < size:
            return False
        return ids[:, :size].tobytes() == self._buffer[:, :size].tobytes()

    def appended(self, tokens: Ids) -> Ids:
        """The history and one more token ``[rows]`` each."""
        return np.concatenate([self.ids, tokens[:, None]], axis=1)

    def set(self, ids: Ids, same: int) -> None:
        """Keep ``ids``, whose first ``same`` columns are kept already."""
        rows, size = ids.shape
        if size > self._buffer.shape[1]:
            self._buffer, same = np.empty((rows, size + size // 2 + 64), dtype=np.int64), 0
        self._buffer[:, same:size] = ids[:, same:]
        self.size = size
