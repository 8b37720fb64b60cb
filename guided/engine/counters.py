"""The counters of one sequence: the record that its state and its row fill, and that a message carries."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Guidance"]


@dataclass(slots=True, unsafe_hash=True)
class Guidance:
    """Counters of what guidance did to one answer since its beginning.

    ``masks`` counts masks computed (asking twice at one position counts once), ``overridden`` steps at which the
    model's best raw score was masked (of forced tokens it is known only where the model was asked for its scores: in
    ``model.generate``, and with logprobs or a trace), ``forced`` positions with one legal token, ``rescued`` steps at
    which other processors had forbidden every legal token, so that the grammar decided alone, ``repairs`` masks in
    which a marker that the engine forced by mistake was replaced by its spelling, ``revived`` how often the engine's
    matcher failed, in most cases by a failure in another row, and this row went on with one compiled anew.
    """

    applied: bool = False
    masks: int = 0
    commits: int = 0
    overridden: int = 0
    forced: int = 0
    rescued: int = 0
    rollbacks: int = 0
    repairs: int = 0
    revived: int = 0
    reasoning_applied: bool = False
