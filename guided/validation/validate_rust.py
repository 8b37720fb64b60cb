"""Validation by ``jsonschema-rs`` in bounded time.

Rust code cannot be interrupted: only a check that is known to be quick runs here, every other runs in a worker process
(`guided.engine.worker`) that can be ended.
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
from grammars.limits.time_limits import TimeLimits, time_limits
from guided.engine.worker import Ended, Worker
from guided.validation.validate_rust_script import errors_of

__all__ = ["by_jsonschema_rs"]

_BYTES = 1 << 30
_OUT_OF_TIME = getattr(signal, "SIGPROF", None)  # ends the worker when its time is up

#: Estimated states of all patterns together, and states times the characters that they may be matched against.
_FEW_STATES, _FEW_MOVES = 3_000_000, 3_000_000_000
_DYNAMIC = frozenset(("$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor"))
_COUNTED = re.compile(r"\{(\d{1,9})(?:,(\d{1,9})?)?\}")


def by_jsonschema_rs(
    schema: Any, value: Any, documents: Mapping[str, Any], most: int, *, order: int, is_quick: bool, length: int
) -> list[tuple[list[Any], str]]:
    """Return at most ``most`` violations of ``value``, each as its path and a message.

    ``is_quick``: the check is quick, patterns aside, which run over ``length`` characters.  A check that may be slow
    runs in the worker.  Raises what the validator raises, and `TimeoutError` if it does not finish in time.
    """
    schemas = [schema, *documents.values()]
    is_quick = is_quick and not _unfolds(schemas)
    patterns = chain.from_iterable(several for one in schemas for several in patterns_of(one))
    states = sum(map(_states, patterns)) if is_quick else 0
    if is_quick and states <= _FEW_STATES and states * length <= _FEW_MOVES:
        return errors_of(schema, value, documents, order, most)
    request = {"schema": schema, "value": value, "documents": dict(documents), "order": order, "most": most}
    limits = time_limits()
    return _from_worker(json.dumps(request | {"seconds": limits.validation_cpu_s, "bytes": _BYTES}).encode(), limits)


def _unfolds(schemas: Iterable[Any]) -> bool:
    """Whether building the validator may be slow: it follows dynamic references from every scope."""
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
    """Estimate the states of the pattern's automaton, capped at a million."""
    states = len(pattern)
    for least, most in _COUNTED.findall(pattern):
        states = min(states * max(int(most or least), 1), 1_000_000)
    return states


@cache
def _worker() -> Any:
    worker = Worker(Path(__file__).with_name("validate_rust_script.py"))
    atexit.register(worker.close)
    return worker


def _from_worker(body: bytes, limits: TimeLimits) -> list[tuple[list[Any], str]]:
    """Return what the worker finds; one request at a time."""
    answer = _worker().ask(body, limits.validation_s)
    if isinstance(answer, Ended):
        if answer.late or (_OUT_OF_TIME is not None and answer.code == -_OUT_OF_TIME):
            raise TimeoutError(f"not finished within {limits.validation_cpu_s:g} s of processor time")
        raise OSError(f"its worker process ended with exit code {answer.code}")
    if answer["failure"]:
        raise ValueError(answer["failure"])
    return [(place, words) for place, words in answer["errors"]]
