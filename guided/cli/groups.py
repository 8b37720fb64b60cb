"""Options that several commands share, written once.

A group is a function whose parameters are typer options; it returns one value for the command.  A command has a
parameter with the name of each of its groups; the decorator `takes` adds the options of all of them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["takes"]

T = TypeVar("T")


def takes(**groups: Callable[..., Any]) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Add the options of ``groups`` to a command or a group; the parameter of a group's name gets its result."""

    def wrap(command: Callable[..., T]) -> Callable[..., T]:
        own_parameters = [p for name, p in _parameters(command).items() if name not in groups]
        options = {name: _parameters(group) for name, group in groups.items()}
        every = [*own_parameters, *(p for group in options.values() for p in group.values())]

        @functools.wraps(command)
        def run(**given: Any) -> T:
            kept = {p.name: given[p.name] for p in own_parameters}
            values = {name: groups[name](**{key: given[key] for key in keys}) for name, keys in options.items()}
            return command(**kept, **values)

        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in every]
        )
        run.__annotations__ = {p.name: p.annotation for p in every}
        del run.__wrapped__  # typer would look there for the options
        return run

    return wrap


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(function, eval_str=True).parameters)
