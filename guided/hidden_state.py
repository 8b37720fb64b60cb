"""The hidden state of an answer's last token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["LastHiddenState", "Vectors"]

Vectors: TypeAlias = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class LastHiddenState:
    """Two states of the last layer after the final norm, float32 ``[hidden size]`` (float64 of a model in float64).

    ``position`` is that of the answer's last token, counted from the first token of the prompt.  ``at_token`` is the
    state there: the model has read the whole answer.  ``producing`` is the state one position earlier, from which the
    last token was chosen, or would have been if it was forced.  ``strategy`` says how they were computed: in the steps
    of the answer (``hybrid``) or after them (``prefill``).
    """

    producing: Vectors
    at_token: Vectors
    position: int
    strategy: Literal["hybrid", "prefill"]
