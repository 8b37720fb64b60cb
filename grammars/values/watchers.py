"""Records of run-time constraints: what a grammar of reasonable size cannot express.

The records are plain data, part of the plan; ``guided.watchers.watch`` enforces them.  A watcher never allows a text
that the grammar forbids: it removes tokens from the mask that would write a key or an item a second time, as long as
other tokens are left.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CallStep", "CallWay", "UniqueNode", "UniqueWatch", "Watcher"]


@dataclass(frozen=True, slots=True)
class UniqueNode:
    """One place of the value, for `UniqueWatch`.

    ``unique``: the items of an array here must differ; ``values``: how many different items there are (0: no
    practical limit); ``tight``: items are short, so that one may be begun that can only end as a repeat.  ``keys``,
    ``others``, ``prefix`` and ``items`` are numbers of the nodes below: by key, of other keys, by position, and of
    later positions (-1: nothing to watch below).  ``may_repeat``: a repeat may be the only way on, as the report says.
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

    ``nodes[0]`` is the whole value; without nodes only keys are watched.  ``tight_keys``: somewhere a key that the
    schema does not list may be begun that can only end as a key already written.  ``fewest_keys``: the smallest
    number of different unlisted keys that some object can have, after which it must close (0: no practical limit).
    """

    nodes: tuple[UniqueNode, ...] = ()
    tight_keys: bool = False
    fewest_keys: int = 0


Watcher = UniqueWatch


@dataclass(frozen=True, slots=True)
class CallWay:
    """A way out of a step: after ``trigger`` (see `grammars.plan.plan.Pieces`) go to step number ``to``.

    The end of the trigger may also begin a trigger of that step.
    """

    trigger: tuple[int | str, ...]
    to: int


@dataclass(frozen=True, slots=True)
class CallStep:
    """One step through the text of calls, whose JSON values watchers follow.

    Each syntax makes its own table of steps (`grammars.tool_calls.value_table`): it knows what it writes in front of a
    value, and what only looks like that.  Step 0 begins a section of calls, its opening marker included.

    The step lasts until the trigger of one of its ``ways`` is complete; of several that end together the longest
    counts.  With ``is_value`` the step is one JSON value instead, followed by ``watchers``, and step ``to`` comes next;
    ``place`` is the pointer of its schema, "" where its schema is not watched.
    """

    ways: tuple[CallWay, ...] = ()
    is_value: bool = False
    to: int = 0
    place: str = ""
    watchers: tuple[Watcher, ...] = ()
