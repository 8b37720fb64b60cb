"""Options that several commands share, written once.

A group is a function whose parameters are typer options and whose result is what a command wants to know.  A command
takes the results by name; `takes` gives it the options of all its groups.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["takes"]

T = TypeVar("T")


def takes(**groups: Callable[..., Any]) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Give a command or a group the options of ``groups``; a parameter receives what the group of its name returns."""

    def wrap(command: Callable[..., T]) -> Callable[..., T]:
        own = [p for name, p in _parameters(command).items() if name not in groups]
        options = {name: _parameters(group) for name, group in groups.items()}
        every = [*own, *(p for group in options.values() for p in group.values())]

        @functools.wraps(command)
        def run(**given: Any) -> T:
            kept = {p.name: given[p.name] for p in own}
            found = {name: groups[name](**{key: given[key] for key in keys}) for name, keys in options.items()}
            return command(**kept, **found)

        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in every]
        )
        run.__annotations__ = {p.name: p.annotation for p in every}
        del run.__wrapped__  # typer would look there for the options
        return run

    return wrap


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(function, eval_str=True).parameters)
