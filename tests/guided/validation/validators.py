"""Two validators as judges: the product's, and where it is installed jsonschema-rs, which reads patterns as ECMA."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from typing import Any

from jsonschema_specifications import REGISTRY

from grammars.json_schema.document.dialects import dialect_of
from grammars.values.json_pointer import pointer_of
from guided.validation import validate
from guided.validation.validate import Verdict, readable

try:
    import jsonschema_rs
except ImportError:
    jsonschema_rs = None

__all__ = ["Verdict", "judge"]

_KINDS = {
    4: "Draft4Validator",
    6: "Draft6Validator",
    7: "Draft7Validator",
    8: "Draft201909Validator",
    9: "Draft202012Validator",
}
_MOST = 20


def judge(schema: Any, value: Any, *, documents: Mapping[str, Any] | None = None) -> tuple[Verdict, ...]:
    """Return the verdicts of both; what takes the first one too long is not asked of the second, which has no limit."""
    found = validate.judge(schema, value, documents=documents)
    has_no_end = ("Unfinished: ", "RecursionError")
    if jsonschema_rs is None or not found or found[0].failure.startswith(has_no_end):
        return found
    try:
        return (*found, Verdict("jsonschema-rs", tuple(_violations(schema, value, documents or {}))))
    except BaseException as error:  # a panic is not an `Exception`
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        return (*found, Verdict("jsonschema-rs", None, f"{type(error).__name__}: {error}"))


def _violations(schema: Any, value: Any, documents: Mapping[str, Any]) -> list[str]:
    dialect = dialect_of(schema)
    schema, others = readable(schema, documents, as_we_do=False)
    others = {uri: _without_angles(other) for uri, other in others.items()}
    validator = getattr(jsonschema_rs, _KINDS[dialect.order])(
        _without_angles(schema),
        validate_formats=True,
        retriever=lambda uri: REGISTRY[uri.removesuffix("#")].contents,
        registry=jsonschema_rs.Registry(list(others.items())) if others else None,
        pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=100_000_000),
    )
    errors = islice(validator.iter_errors(value), _MOST)
    return [f"{pointer_of(list(error.instance_path)) or 'the value'}: {error.message[:300]}" for error in errors]


def _without_angles(schema: Any, key: str = "") -> Any:
    r"""Return what ``key`` holds, with ``<`` for ``\<`` in patterns: to Rust, not to ECMA, a word boundary."""
    if key in ("const", "enum", "default", "example", "examples"):
        return schema
    if isinstance(schema, str):
        return _angles(schema) if key == "pattern" else schema
    if isinstance(schema, list):
        return [_without_angles(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    names = _angles if key == "patternProperties" else str
    return {names(name): _without_angles(below, name) for name, below in schema.items()}


def _angles(pattern: str) -> str:
    return re.sub(r"(?s)\\([<>])|\\.", lambda match: match[1] or match[0], pattern)
