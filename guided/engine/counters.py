"""The counters of one sequence: updated by its state and its row, and returned in its message."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Guidance"]


@dataclass(slots=True, unsafe_hash=True)
class Guidance:
    """Counters of what guidance did to one answer since its beginning.

    ``masks``: masks computed; a mask that is asked for twice at one position counts once.
    ``overridden``: steps at which the model's best raw score was masked.  Forced tokens count only where the model
    computed scores for them: in ``model.generate``, and with logprobs or a trace.
    ``forced``: positions with one legal token.
    ``rescued``: steps at which other processors had forbidden every legal token, so that the grammar decided alone.
    ``repairs``: masks in which a marker that the engine forced by mistake was replaced by its spelling.
    ``recovered``: failures of the engine's matcher, mostly caused by another row, after which this row continued with a
    matcher compiled for it alone.
    """

    applied: bool = False
    masks: int = 0
    commits: int = 0
    overridden: int = 0
    forced: int = 0
    rescued: int = 0
    rollbacks: int = 0
    repairs: int = 0
    recovered: int = 0
    reasoning_applied: bool = False
