"""A table of steps through the text of tool calls: which parts of it are JSON values that watchers follow.

Each syntax makes its own table (`grammars.tool_calls.value_table`): it knows what it writes in front of a value, and
what only looks like that.  The table is plain data and part of the plan.
"""

from __future__ import annotations

from dataclasses import dataclass

from grammars.values.watchers import Watcher

__all__ = ["CallStep", "CallWay"]


@dataclass(frozen=True, slots=True)
class CallWay:
    """A way out of a step: after ``trigger`` (see `grammars.plan.plan.Pieces`) go to step number ``to``.

    The end of the trigger may also begin a trigger of that step.
    """

    trigger: tuple[int | str, ...]
    to: int


@dataclass(frozen=True, slots=True)
class CallStep:
    """One step; step 0 begins a section of calls, its opening marker included.

    The step lasts until the trigger of one of its ``ways`` is complete; of several that end together the longest
    counts.  With ``is_value`` the step is one JSON value instead, followed by ``watchers``, and step ``to`` comes next;
    ``place`` is the pointer of its schema, "" where its schema is not watched.
    """

    ways: tuple[CallWay, ...] = ()
    is_value: bool = False
    to: int = 0
    place: str = ""
    watchers: tuple[Watcher, ...] = ()
