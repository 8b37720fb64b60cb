"""A grammar in llguidance's JSON form, as its own functions write it: a list with one Lark grammar or JSON schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from grammars.json_schema.build import DEFAULT_SPELLING, Policy, SchemaReport, Spelling, build
from grammars.text_grammars.lark.convert import client_grammar
from grammars.tree.nodes import Node, Sub
from special_tokens.errors import GrammarError, shown

__all__ = ["llguidance_part"]

_KINDS = {"lark_grammar", "json_schema"}


def llguidance_part(
    spec: Any,
    *,
    place: str,
    trusted: bool = False,
    spelling: Spelling = DEFAULT_SPELLING,
    policy: Policy = "warn",
) -> tuple[Node, SchemaReport]:
    """Return the grammar of ``spec``: Lark text, ``{"grammars": [...]}`` or its JSON text.

    Raises `GrammarError` with the place of what is wrong, in Lark text with line and column, and for several grammars.
    """
    if not isinstance(spec, str) or spec.lstrip().startswith("{"):
        entry, place = _only_grammar(spec, place), f"{place}.grammars[0]"
        if "json_schema" in entry:
            built = build(entry["json_schema"], spelling=spelling, policy=policy)
            return built.node, built.report
        spec, place = entry["lark_grammar"], f"{place}.lark_grammar"
    part = client_grammar(spec, place=place, trusted=trusted, spelling=spelling, policy=policy)
    return Sub("grammar", part.lark), part.report


def _only_grammar(spec: Any, place: str) -> Mapping[str, Any]:
    """Return the one entry of a list of grammars; raises `GrammarError` if there is another number of them."""
    expected = '{"grammars": [...]} or Lark'
    if isinstance(spec, str):
        try:
            spec = json.loads(spec)
        except (ValueError, RecursionError) as error:
            raise GrammarError(f"not JSON: {error}", place=place, expected=expected) from None
    if not isinstance(spec, Mapping):
        raise GrammarError("not an object", place=place, expected=expected)
    if spec.get("max_tokens") is not None:
        raise GrammarError("max_tokens would cut the answer", place=f"{place}.max_tokens",
                           hint="use max_tokens of the request")  # fmt: skip
    _check_keys(spec, {"grammars", "max_tokens"}, place)
    entries = spec.get("grammars")
    if not isinstance(entries, list | tuple) or not entries:
        raise GrammarError("there are no grammars", place=f"{place}.grammars", expected="one")
    if len(entries) > 1:
        raise GrammarError(f"{len(entries)} grammars", place=f"{place}.grammars", expected="one",
                           hint="write one in Lark: rules in place of grammars, %json {...} for schemas")  # fmt: skip
    (entry,) = entries
    if not isinstance(entry, Mapping) or len(_KINDS & set(entry)) != 1:
        raise GrammarError("not one grammar", place=f"{place}.grammars[0]", expected="lark_grammar or json_schema")
    _check_keys(entry, {"name", *_KINDS}, f"{place}.grammars[0]")
    return entry


def _check_keys(value: Mapping[str, Any], known: set[str], place: str) -> None:
    unknown = sorted(set(value) - known)
    if unknown:
        raise GrammarError(f"unknown key {shown(unknown[0])}", place=place, expected=", ".join(sorted(known)))
