"""The counters of one sequence: updated by its state and its row, and returned in its message."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Guidance"]


@dataclass(slots=True, unsafe_hash=True)
class Guidance:
    """Counters of what guidance did to one answer since its beginning."""

    applied: bool = False
    masks: int = 0  #: masks computed; a mask that is asked for twice at one position counts once
    commits: int = 0
    #: Steps at which the model's best raw score was masked.  Forced tokens count only where the model computed scores
    #: for them: in ``model.generate``, and with logprobs or a trace.
    overridden: int = 0
    forced: int = 0  #: positions with one legal token
    rescued: int = 0  #: steps at which other processors had forbidden every legal token: the grammar decided alone
    rollbacks: int = 0
    repairs: int = 0  #: masks in which a marker that the engine forced by mistake was replaced by its spelling
    #: Failures of the engine's matcher, mostly caused by another row, after which this row continued with a matcher
    #: compiled for it alone.
    recovered: int = 0
    reasoning_applied: bool = False
