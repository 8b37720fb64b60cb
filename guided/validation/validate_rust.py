"""Finished values by ``jsonschema-rs``, in bounded time.

Nothing interrupts Rust: only what is known to be quick runs here, all else in a helper process (`guided.engine.worker`).
"""

from __future__ import annotations

import atexit
import json
import re
import signal
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from grammars.json_schema.report.document_rows import patterns_of
from guided.engine.worker import Ended, Helper
from guided.validation.validate_rust_script import errors_of

__all__ = ["by_jsonschema_rs"]

_SECONDS = 1.0  # of processor time that a helper may take over one value
_BYTES = 1 << 30
_OUT_OF_TIME = getattr(signal, "SIGPROF", None)  # how the helper ends then
_WAIT = 5.0  # seconds by the clock on the wall, those included in which others ask

#: States of all patterns together, by their counts, and those times the characters that they may run over.
_FEW_STATES, _FEW_MOVES = 3_000_000, 3_000_000_000
_DYNAMIC = frozenset(("$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor"))
_COUNTED = re.compile(r"\{(\d{1,9})(?:,(\d{1,9})?)?\}")


def by_jsonschema_rs(
    schema: Any, value: Any, documents: Mapping[str, Any], most: int, *, order: int, is_quick: bool, length: int
) -> list[tuple[list[Any], str]]:
    """What is wrong with ``value``, as places and words, at ``most`` so many things.

    ``is_quick``: surely so, but for the patterns, which run over ``length`` characters.  All else a helper does.
    Raises where the validator does, and `TimeoutError` where it comes to no end.
    """
    schemas = [schema, *documents.values()]
    is_quick = is_quick and not _unfolds(schemas)
    patterns = chain.from_iterable(several for one in schemas for several in patterns_of(one))
    states = sum(map(_states, patterns)) if is_quick else 0
    if is_quick and states <= _FEW_STATES and states * length <= _FEW_MOVES:
        return errors_of(schema, value, documents, order, most)
    request = {"schema": schema, "value": value, "documents": dict(documents), "order": order, "most": most}
    return _asked(json.dumps(request | {"seconds": _SECONDS, "bytes": _BYTES}).encode())


def _unfolds(schemas: Iterable[Any]) -> bool:
    """May building the validator take long, whatever the value?  Dynamic references are followed from every scope."""
    todo = list(schemas)
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            if not _DYNAMIC.isdisjoint(value):
                return True
            todo.extend(value.values())
        elif isinstance(value, list):
            todo.extend(value)
    return False


def _states(pattern: str) -> int:
    """About how many states an automaton of the pattern has, a million at the most."""
    states = len(pattern)
    for least, most in _COUNTED.findall(pattern):
        states = min(states * max(int(most or least), 1), 1_000_000)
    return states


@cache
def _helper() -> Any:
    helper = Helper(Path(__file__).with_name("validate_rust_script.py"))
    atexit.register(helper.close)
    return helper


def _asked(body: bytes) -> list[tuple[list[Any], str]]:
    """What a helper finds; one question after the other."""
    answer = _helper().ask(body, _WAIT)
    if isinstance(answer, Ended):
        if answer.late or (_OUT_OF_TIME is not None and answer.code == -_OUT_OF_TIME):
            raise TimeoutError(f"not finished within {_SECONDS:g} s of processor time")
        raise OSError(f"its helper process ended with {answer.code}")
    if answer["failure"]:
        raise ValueError(answer["failure"])
    return [(place, words) for place, words in answer["errors"]]
