"""The stops of a request: normalise what the caller passes as ``stop``, and check it."""

from __future__ import annotations

from collections.abc import Sequence

from grammars.plan.plan import Stops
from guided.stops.incremental_regex import compile_pattern
from special_tokens import SpecialTokens
from special_tokens.errors import RequestError

__all__ = ["check_stops", "stops_of"]


def stops_of(value: str | Sequence[str] | Stops | None) -> Stops:
    """Return the record for what a caller passes as ``stop``: one string, several, or the record itself."""
    if value is None:
        return Stops()
    if isinstance(value, Stops):
        return value
    if not isinstance(value, str | list | tuple):
        raise RequestError(
            f"{type(value).__name__} is not a stop",
            place="stop",
            expected="a string, a list of strings, or guided.Stops",
        )
    return Stops((value,) if isinstance(value, str) else tuple(value))


def check_stops(stops: Stops, tokens: SpecialTokens) -> None:
    """Raise `RequestError` for a stop string that is empty or no Unicode text, and for an unknown token id.

    A bad pattern raises `GrammarError`.
    """
    for i, string in enumerate(stops.strings):
        _check_string(string, f"stop[{i}]")
    for i, token in enumerate(stops.ids):
        if not 0 <= token < tokens.vocab_size:
            raise RequestError(
                f"no text can contain token {token}",
                place=f"stop.ids[{i}]",
                expected=f"an id from 0 to {tokens.vocab_size - 1}",
            )
    if stops.regex is not None:
        compile_pattern(stops.regex)


def _check_string(string: str, place: str) -> None:
    if not string:
        raise RequestError("the stop is empty", place=place, expected="at least one character")
    try:
        string.encode("utf-8")
    except UnicodeEncodeError:
        raise RequestError(
            f"no text can contain {string!a}", place=place, expected="Unicode text without lone surrogates"
        ) from None
