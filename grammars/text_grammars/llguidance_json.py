"""Grammars in llguidance's JSON form: a list of Lark grammars and JSON schemas that reference each other by name.

The list becomes one part of a plan.  Its grammars are renamed there, so that ``@name`` resolves within the list only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from grammars.json_schema.build import DEFAULT_SPELLING, Policy, ReportRow, SchemaReport, Spelling, build
from grammars.text_grammars.lark.convert import client_grammar, located
from grammars.text_grammars.lark.lexer import tokens_of
from grammars.text_grammars.lark.write import REFERENCE_MARK
from grammars.tree.nodes import Node, Sub
from grammars.tree.render import render
from special_tokens.errors import GrammarError, shown

__all__ = ["llguidance_part"]

_KEYS = {"name", "lark_grammar", "json_schema"}
MAX_GRAMMARS = 200


def llguidance_part(
    spec: Any,
    *,
    place: str,
    trusted: bool = False,
    spelling: Spelling = DEFAULT_SPELLING,
    policy: Policy = "warn",
) -> tuple[Node, SchemaReport]:
    """Return the grammar of ``spec``: Lark text, ``{"grammars": [...]}`` or its JSON text; the first is the start.

    Raises `GrammarError` that names the faulty grammar, with line and column in its Lark text.
    """
    if isinstance(spec, str):
        if not spec.lstrip().startswith("{"):
            part = client_grammar(spec, place=place, trusted=trusted, spelling=spelling, policy=policy)
            return Sub("grammar", part.lark), part.report
        spec = _json(spec, place)
    entries = _entries(spec, place)
    names = [_name(entry, i, place) for i, entry in enumerate(entries)]
    for i, name in enumerate(names):
        if name in names[:i]:
            raise GrammarError(f"two grammars are called {shown(name)}", place=f"{place}.grammars[{i}].name",
                               expected="distinct names")  # fmt: skip
    rows: list[ReportRow] = []
    texts = []
    for i, entry in enumerate(entries):
        at = f"{place}.grammars[{i}]"
        if "json_schema" in entry:
            built = build(entry["json_schema"], spelling=spelling, policy=policy)
            rows += built.report.rows
            texts.append(render(built.node).lark())
            continue
        text = entry["lark_grammar"]
        if trusted:
            texts.append(_marked(text, names, f"{at}.lark_grammar"))
            continue
        part = client_grammar(
            text, place=f"{at}.lark_grammar", spelling=spelling, policy=policy, references=frozenset(names)
        )
        rows += part.report.rows
        texts.append(part.lark)
    others = tuple(zip(names, texts, strict=True))
    return Sub(names[0] or "grammar", texts[0], others), SchemaReport(tuple(rows))


def _json(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise GrammarError(f"not JSON: {error}", place=place, expected='{"grammars": [...]} or Lark') from None


def _entries(spec: Any, place: str) -> Sequence[Mapping[str, Any]]:
    if not isinstance(spec, Mapping):
        raise GrammarError("not an object", place=place, expected='{"grammars": [...]} or Lark')
    if spec.get("max_tokens") is not None:
        raise GrammarError("max_tokens would cut the answer", place=f"{place}.max_tokens",
                           hint="use max_tokens of the request")  # fmt: skip
    unknown = sorted(set(spec) - {"grammars", "max_tokens"})
    if unknown:
        raise GrammarError(f"unknown key {shown(unknown[0])}", place=place, expected="grammars")
    entries = spec.get("grammars")
    if not isinstance(entries, list | tuple) or not entries:
        raise GrammarError("there are no grammars", place=f"{place}.grammars", expected="at least one")
    if len(entries) > MAX_GRAMMARS:
        raise GrammarError(f"{len(entries)} grammars", place=f"{place}.grammars", expected=f"at most {MAX_GRAMMARS}")
    for i, entry in enumerate(entries):
        at = f"{place}.grammars[{i}]"
        if not isinstance(entry, Mapping) or len({"lark_grammar", "json_schema"} & set(entry)) != 1:
            raise GrammarError("not one grammar", place=at, expected="lark_grammar or json_schema")
        if set(entry) - _KEYS:
            raise GrammarError(
                f"unknown key {shown(sorted(set(entry) - _KEYS)[0])}", place=at, expected=", ".join(_KEYS)
            )
    return entries


def _name(entry: Mapping[str, Any], number: int, place: str) -> str:
    name = entry.get("name") or (f"grammar_{number}" if number else "")
    if not isinstance(name, str):
        raise GrammarError(f"{shown(name)} is not a name", place=f"{place}.grammars[{number}].name", expected="a text")
    return name


def _marked(text: Any, names: Sequence[str], place: str) -> str:
    """Mark the references to grammars of the list in a trusted text, so that the renderer can rename them."""
    if not isinstance(text, str):
        raise GrammarError("not a text", place=place, expected="Lark")
    try:
        tokens = list(tokens_of(text))
    except GrammarError as error:
        raise located(error, place) from None
    for token in reversed(tokens):
        if token.type == "GRAMMAR_REF" and token.value[1:] in names:
            begin = token.start_pos or 0
            marked = f"@{REFERENCE_MARK}{token.value[1:]}{REFERENCE_MARK}"
            text = str(text)[:begin] + marked + text[begin + len(token.value) :]
    return str(text)
