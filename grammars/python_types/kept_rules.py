"""Rules of Python types in keywords of JSON Schema: dates within limits, numbers as text, patterns; what can be hashed.

A pattern is read as its type reads it: a string is run by pydantic's Rust engine, or with ``regex_engine="python-re"``
by Python's ``re``; a compiled pattern by ``re`` with its flags.  Where ECMA-262 reads the same it stays as it is.
Otherwise it is written anew, so that whoever reads the schema means the same.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

from grammars.json_schema.shapes.number_texts import multiples_regex, signed_bounds
from grammars.regular.syntax import ecma, python, rust
from grammars.regular.syntax.write import written
from grammars.regular.terms import ALL, Regular

__all__ = ["decimal_text_pattern", "is_hashable", "key_pattern", "pattern_keywords", "within"]

_MAX_DIGITS = 40  # digits before the point, and after it, where the type sets no limit
_NUMBER_KEY = "-?(?:0|[1-9][0-9]{0,14})(?:\\.[0-9]{1,6})?"
_INTEGER_KEY = "(?:0|-?[1-9][0-9]{0,99})"


def decimal_text_pattern(schema: Mapping[str, Any]) -> tuple[str, bool]:
    """The pattern of a decimal in a string under pydantic's rules, and whether it keeps all of them.

    ``max_digits`` count all digits but zeros in front, ``decimal_places`` those after the point.
    """
    low, high = schema.get("gt", schema.get("ge")), schema.get("lt", schema.get("le"))
    try:
        ahead = _within(low, high, low_open="gt" in schema, high_open="lt" in schema)
        step = schema.get("multiple_of")
        multiples = None if step is None else multiples_regex(Fraction(step))
    except ValueError:  # of too many digits
        ahead, step, multiples = (), 1, None
    is_kept = (step is None or multiples is not None) and not {"gt", "ge"} <= schema.keys()
    ahead += () if multiples is None else (multiples,)
    body = _digits(schema.get("max_digits"), schema.get("decimal_places"))
    return f"^{''.join(f'(?=(?:{regex})$)' for regex in ahead)}-?(?:{body})$", is_kept


def _within(low: Any, high: Any, **how: bool) -> tuple[str, ...]:
    lowest, highest = (None if bound is None else Fraction(bound) for bound in (low, high))
    return signed_bounds(lowest, highest, **how)


def _digits(digits: int | None, places: int | None) -> str:
    if digits is None:
        return f"(?:0|[1-9][0-9]{{0,{_MAX_DIGITS - 1}}}){_point(_MAX_DIGITS if places is None else places)}"
    if places is not None and digits <= places:
        return f"0\\.[0-9]{{1,{digits}}}"
    if places is not None:
        return f"(?:0|[1-9][0-9]{{0,{digits - places - 1}}}){_point(places)}"
    if digits > _MAX_DIGITS:  # one of the ways to share them
        return f"(?:0|[1-9][0-9]{{0,{_MAX_DIGITS // 2 - 1}}}){_point(_MAX_DIGITS // 2)}"
    wholes = (f"[1-9][0-9]{{{size - 1}}}{_point(digits - size)}" for size in range(1, digits + 1))
    return "|".join([f"0{_point(digits)}", *wholes])


def _point(places: int) -> str:
    return f"(?:\\.[0-9]{{1,{places}}})?" if places > 0 else ""


def key_pattern(schema: Mapping[str, Any]) -> tuple[str, bool]:
    """The pattern of keys that are numbers of ``schema``, and whether it keeps all of its bounds."""
    whole = schema["type"] == "integer"
    low_open, high_open = "exclusiveMinimum" in schema, "exclusiveMaximum" in schema
    low, high = (
        schema.get("exclusiveMinimum", schema.get("minimum")),
        schema.get("exclusiveMaximum", schema.get("maximum")),
    )
    bounds = _within(low, high, low_open=low_open, high_open=high_open, whole=whole)
    ahead = "".join(f"(?=(?:{regex})$)" for regex in bounds)
    return f"^{ahead}{_INTEGER_KEY if whole else _NUMBER_KEY}$", "multipleOf" not in schema


_NEVER = frozenset(("list", "set", "dict", "typed-dict", "deque", "ordered-dict", "counter"))
_ALWAYS = frozenset((
    "str", "int", "float", "bool", "none", "decimal", "date", "datetime", "time", "timedelta", "uuid", "url",
    "multi-host-url", "enum", "literal", "bytes", "frozenset",
))  # fmt: skip


def is_hashable(schema: Any, definitions: Mapping[str, Any]) -> bool | None:
    """Whether all values of ``schema`` can be hashed (False: none can); None where that depends on their parts."""
    if schema["type"] == "definition-ref":
        schema = definitions[schema["schema_ref"]]
    kind, made_by = schema["type"], schema.get("cls")
    if kind in _NEVER or (made_by is not None and made_by.__hash__ is None):
        return False
    inside = {"nullable": [schema.get("schema")], "tuple": schema.get("items_schema")}.get(kind)
    parts = [schema] if inside is None else inside
    return True if all(part["type"] in _ALWAYS for part in parts) else None


def within(json_schema: dict[str, Any], limits: Sequence[tuple[str, datetime.date]]) -> dict[str, Any]:
    """Return ``json_schema`` with the patterns of dates within the limits."""
    day = datetime.timedelta(days=1)
    patterns = []
    for name, limit in limits:
        text = (limit + {"gt": day, "lt": -day}.get(name, 0 * day)).isoformat()
        patterns.append({"pattern": f"^(?:{_ordered(text, upwards=name in ('gt', 'ge'))})"})
    return {**json_schema, "allOf": patterns} if patterns else json_schema


def _ordered(text: str, *, upwards: bool) -> str:
    """Return the beginnings of dates that come after ``text`` (or before it), and the text itself."""
    options = [text]
    for at, char in enumerate(text):
        low, high = (int(char) + 1, 9) if upwards and char != "-" else (0, int(char) - 1) if char != "-" else (1, 0)
        if low <= high:
            options.append(f"{text[:at]}[{low}-{high}]")
    return "|".join(options)


#: What our reader of ECMA-262 knows and others do not: flags, named groups of Python, anchors, braces as text.
_FOREIGN = re.compile(r"\(\?[a-zA-Z-]|\\[AzZ]|(?<!\\)\{(?![0-9]+,?[0-9]*\})")


def pattern_keywords(pattern: str | re.Pattern[str], engine: str) -> tuple[dict[str, Any], str]:
    """Return the keywords of a type's pattern, and what they leave to the type ("" for nothing).

    ``engine``: "rust-regex" or "python-re", for a pattern that is not compiled.
    """
    flags = 0 if isinstance(pattern, str) and engine != "python-re" else re.compile(pattern).flags
    return _keywords(pattern if isinstance(pattern, str) else pattern.pattern, flags)


@lru_cache(maxsize=1_000)
def _keywords(source: str, flags: int) -> tuple[dict[str, Any], str]:
    """``flags`` are those of ``re``; 0, which no pattern of texts has, is Rust."""
    try:
        engine_language = _read(source, flags)
    except (rust.InvalidRegex, rust.NotTranslated) as error:
        return {}, f"the pattern, {error}"
    try:
        common = ecma.language(source)
    except (ecma.InvalidPattern, ecma.NotRegular):
        common = None
    if _FOREIGN.search(source):
        common = None
    if engine_language == common:
        return {"pattern": source}, ""
    keywords = _of_term(engine_language)
    if keywords is not None:
        return keywords, ""
    if common is not None and _read(source, flags, plain_classes=True) == common:
        return {"pattern": source}, "the pattern beyond ASCII"
    return {}, "the pattern"


def _read(source: str, flags: int, *, plain_classes: bool = False) -> Regular:
    if not flags:
        return rust.searched(source, plain_classes=plain_classes)
    flags &= ~re.UNICODE
    return python.language(source, flags, search=True, plain_classes=plain_classes, final_newline=False)


def _of_term(term: Regular) -> dict[str, Any] | None:
    """The keywords of exactly these texts, None if they need a word that no keyword says."""
    if term.plain:
        parts = term.args if term.op == "cat" else (term,)
        begins, ends = parts[:1] == (ALL,), parts[-1:] == (ALL,) and len(parts) > 1
        inner = "".join(written(part, named=True) for part in parts[begins : len(parts) - ends])
        return {"pattern": f"{'' if begins else '^'}{inner}{'' if ends else '$'}"} if term != ALL else {}
    if term.op == "cat" or term.op == "rep":
        return None
    each = [_of_term(part) for part in term.args]
    keywords = [part for part in each if part is not None]
    if len(keywords) < len(each):
        return None
    return {"not": keywords[0]} if term.op == "not" else {"allOf" if term.op == "and" else "anyOf": keywords}
