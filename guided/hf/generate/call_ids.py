"""Which call of ``generate`` is running: told by the lists that ``generate`` reads, and by nobody else.

What a call shows (histories, one after the other) cannot tell a prompt that continues the last prompt and answer from
drafts, nor two calls at once from one.  But every call reads the lists of its processors and criteria anew, once and
before its first step.  So the lists of `guided.Guide.generate_kwargs` say when ``generate`` reads them, and hand out a
processor of their own to each call: one that carries the call's number through whatever loops it is passed to.  A
processor without a number, one that was taken out of its list, is refused.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from threading import Lock, get_ident
from typing import Any

from special_tokens.errors import PlanError

__all__ = ["CallList", "Calls", "at_once"]

#: Modules that read the lists to begin a call.  Whoever else does so copies them, or runs a loop of his own.
_READERS = "transformers.generation"


class CallList(list[Any]):
    """What ``generate`` gets of us, as a list: append to it what is to run behind, or add lists with ``+``.

    Items may have ``of_call()``, which ``generate`` sees instead of them.
    """

    def __iter__(self) -> Iterator[Any]:
        items = list.__iter__(self)
        if not str(sys._getframe(1).f_globals.get("__name__", "")).startswith(_READERS):
            return items
        return iter([item.of_call() if hasattr(item, "of_call") else item for item in items])

    def __add__(self, other: Iterable[Any]) -> CallList:
        return CallList(list.__add__(self, list(other)))

    def __iadd__(self, other: Iterable[Any]) -> CallList:  # else ``+=`` would make another list
        self.extend(other)
        return self

    def __radd__(self, other: Iterable[Any]) -> CallList:
        return CallList(list.__add__(list(other), self))

    def __getitem__(self, at: Any) -> Any:
        found = list.__getitem__(self, at)
        return CallList(found) if isinstance(at, slice) else found

    def copy(self) -> CallList:
        """A list of the same items that says as well when ``generate`` reads it."""
        return CallList(list.copy(self))

    __copy__ = copy

    def __reduce__(self) -> Any:
        """Raises `PlanError`: neither a deep copy nor another process has the session."""
        raise PlanError(
            "the lists of generate_kwargs are copied deeply or sent away",
            place="generate_kwargs",
            expected="one session for all that is done with them",
            hint="call guide.generate_kwargs again; plans can be sent",
        )


class Calls:
    """The calls of one session, one after the other.

    ``lock`` is held while a hook runs.
    """

    __slots__ = ("_announcer", "_heard", "_newest", "_number", "_thread", "announced", "lock")

    def __init__(self) -> None:
        self.lock = Lock()
        self.announced = 0  # how often a list was read
        self._announcer: int | None = None  # the thread that read it last
        self._heard = 0  # as far as processors have heard of it
        self._newest = 0
        self._number = 0  # of the running call; 0 before the first
        self._thread: int | None = None

    def announce(self) -> int:
        """``generate`` reads a list; returns a number for the call that begins."""
        self.announced += 1
        self._announcer = get_ident()
        return self.announced

    def goes_on(self, number: int) -> bool:
        """Is this the running call, in its thread, and none announced since?"""
        return number == self._number and self.announced == self._heard and get_ident() == self._thread

    @property
    def is_awaited(self) -> bool:
        """Has a call been announced that has not come to its first step?"""
        return self.announced != self._heard

    def check_thread(self) -> None:
        """Raise `PlanError` in another thread than the running call's."""
        if self._thread is not None and self._thread != get_ident():
            raise at_once()

    def enter(self, number: int) -> bool:
        """A processor that does not simply go on: does it begin a call?

        Raises `PlanError` where two calls run at once.
        """
        thread, begins = get_ident(), number != self._number
        if begins and number <= self._newest:
            raise at_once()  # an older call that thought it was alone
        if self.is_awaited and self._announcer != thread:
            raise at_once()
        if not begins and thread != self._thread:
            raise at_once()
        self._newest = max(self._newest, number)
        self._number, self._heard, self._thread = number, self.announced, thread
        return begins


def at_once() -> PlanError:
    """Two calls share what only one can have."""
    return PlanError(
        "two calls of generate use the same kwargs at once",
        place="generate_kwargs",
        expected="one call after the other",
        hint="call guide.generate_kwargs for each thread; guide and plans may be shared",
    )
