"""A table of steps through the text of tool calls: where the JSON values in it stand, for those who watch them.

Each syntax makes its own (`grammars.tool_calls.value_table`): it knows what it writes in front of a value, and what only
looks like that.  The table is plain data and travels with the plan.
"""

from __future__ import annotations

from dataclasses import dataclass

from grammars.values.watchers import Watcher

__all__ = ["CallStep", "CallWay"]


@dataclass(frozen=True, slots=True)
class CallWay:
    """When ``trigger`` has been written (see `grammars.plan.plan.Pieces`), go to step number ``to``.

    What has just been written may also be the beginning of a way out of that step.
    """

    trigger: tuple[int | str, ...]
    to: int


@dataclass(frozen=True, slots=True)
class CallStep:
    """One step; step 0 is where a section of calls begins, its opening marker included.

    Text goes on until one of the ``ways`` is complete; of several that end together the longest.  With ``is_value``
    one JSON value stands here instead, under ``watchers``, and step ``to`` follows it; ``place`` is the pointer of its
    schema, "" where its schema is not watched.
    """

    ways: tuple[CallWay, ...] = ()
    is_value: bool = False
    to: int = 0
    place: str = ""
    watchers: tuple[Watcher, ...] = ()
