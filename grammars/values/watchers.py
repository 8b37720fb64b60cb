"""What has to be watched while a grammar is written: the little that no grammar of reasonable size can say.

The records are plain data (lists, dicts, strings, numbers), so that a plan can carry them; ``guided.watchers.watch`` runs
them.  A watcher never makes a text legal; it takes tokens away that would write a key or an item for the second
time, or a number without end or bound, as long as another way on exists.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DigitWatch", "UniqueNode", "UniqueWatch", "Watcher"]


@dataclass(frozen=True, slots=True)
class DigitWatch:
    """No number may have more than ``most`` digits in a row."""

    most: int


@dataclass(frozen=True, slots=True)
class UniqueNode:
    """One place of the value, for `UniqueWatch`.

    ``unique``: the items of an array here must differ; ``values``: there are that many different ones (0: more than
    anyone writes); ``tight``: they are short, so that one may begin that can only end as a repeat.  ``keys``,
    ``others``, ``prefix`` and ``items`` are numbers of the nodes below: by key, of other keys, by position, and of
    later positions (-1: nothing to watch below).  ``may_repeat``: a repeat may be all that is left, as the report says.
    """

    unique: bool = False
    values: int = 0
    tight: bool = False
    keys: tuple[tuple[str, int], ...] = ()
    others: int = -1
    prefix: tuple[int, ...] = ()
    items: int = -1
    may_repeat: bool = False


@dataclass(frozen=True, slots=True)
class UniqueWatch:
    """No object may have a key twice, and arrays at places marked ``unique`` no item twice.

    ``nodes[0]`` is the whole value; without nodes only keys are watched.  ``tight_keys``: a key that no schema lists
    may be begun somewhere that can only end as one that is there; ``fewest_keys``: the fewest of them that some
    object has words for, behind which it must close (0: more than anyone writes).
    """

    nodes: tuple[UniqueNode, ...] = ()
    tight_keys: bool = False
    fewest_keys: int = 0


Watcher = DigitWatch | UniqueWatch
