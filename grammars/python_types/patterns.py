"""The pattern of a pydantic type, read as the type reads it, in the keywords of JSON Schema.

A string is run by pydantic's Rust engine, or with ``regex_engine="python-re"`` by Python's ``re``; a compiled pattern
by ``re`` with its flags.  Where ECMA-262 reads the same it stays as it is.  Otherwise it is written anew, so that
whoever reads the schema means the same.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from grammars.regular.syntax import ecma, python, rust
from grammars.regular.syntax.write import written
from grammars.regular.terms import ALL, Regular

__all__ = ["pattern_keywords"]

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
