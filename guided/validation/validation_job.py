"""The job that validates values in a worker process, see `guided.engine.worker_child`; never imported.

A request is ``{"check": text, "most": n}``; the text is JSON of the schema, the value, and the documents by URI.  Each
schema of another dialect than the one around it names its own.  Numbers are read as decimals: 0.07 is seven times 0.01,
which does not hold for doubles.  The answer is ``{"errors": [[path, message], ...]}``, or ``{"failure": text}``.
"""

from __future__ import annotations

import decimal
import json
from itertools import islice
from typing import Any

import jsonschema
import jsonschema.validators
from jsonschema_specifications import REGISTRY
from referencing import Resource
from referencing.jsonschema import DRAFT202012


class ExactNumber(decimal.Decimal):
    """A decimal that messages show as JSON writes it."""

    def __repr__(self) -> str:
        return str(self)


def is_integer(checker: Any, value: Any) -> bool:
    if isinstance(value, decimal.Decimal):
        return value.is_finite() and value == value.to_integral_value()
    return isinstance(value, int) and not isinstance(value, bool)


# A remainder of what is infinite, or of too many digits, is not a number, which counts as one that is not 0.
decimal.getcontext().prec = 5_000
decimal.getcontext().traps[decimal.InvalidOperation] = False
for _kind in (
    jsonschema.Draft6Validator,
    jsonschema.Draft7Validator,
    jsonschema.Draft201909Validator,
    jsonschema.Draft202012Validator,
):
    extend: Any = jsonschema.validators.extend
    exact = extend(_kind, type_checker=_kind.TYPE_CHECKER.redefine("integer", is_integer))
    jsonschema.validators.validates(_kind.META_SCHEMA["$schema"])(exact)


def answer_to(request: dict[str, Any]) -> dict[str, Any]:
    """Return the first violations, or why there is no verdict."""
    try:
        schema, value, documents = json.loads(request["check"], parse_float=ExactNumber, parse_constant=ExactNumber)
        resources = [(uri, Resource.from_contents(document, DRAFT202012)) for uri, document in documents.items()]
        validator: Any = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
        checked = validator(
            schema, registry=REGISTRY.with_resources(resources), format_checker=validator.FORMAT_CHECKER
        )
        errors = islice(checked.iter_errors(value), request["most"])
        return {"errors": [[list(error.absolute_path), error.message[:300]] for error in errors]}
    except (MemoryError, KeyboardInterrupt):
        raise
    except (
        BaseException
    ) as error:  # a broken schema, a reference that leads nowhere; a panic of Rust is not an `Exception`
        reason = str(error).strip().splitlines()
        return {"failure": f"{type(error).__name__}: {reason[0][:200] if reason else ''}"}
