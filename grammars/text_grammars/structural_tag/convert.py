"""Structural tags: free text with tagged parts, in the forms that clients of XGrammar-based servers send.

The newer form is a tree of formats (``{"type": "structural_tag", "format": {...}}``); the older one lists
``structures`` and ``triggers`` and is read as ``triggered_tags``.  A third, smaller one names one tag and its schema.

Free text ends at the first text that can end it: its tag's ``end``, a trigger, or the literal that follows it in a
sequence.  A marker spelled in any of these texts stays text unless the caller is trusted.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from grammars.json_schema.build import DEFAULT_SPELLING, Policy, SchemaReport, Spelling
from grammars.text_grammars.lark.sizes import MAX_LEAST_BYTES, MAX_LEAST_LEXEMES
from grammars.text_grammars.structural_tag.builder import FORMATS, TagBuilder
from grammars.text_grammars.structural_tag.forms import normalise_form
from grammars.text_grammars.structural_tag.free_text import merge_lexemes
from grammars.tree.markers import Markers
from grammars.tree.nodes import Alt, Group, Lexeme, Node, Repeat, Rule, Seq, Text
from special_tokens.errors import GrammarError

__all__ = ["StructuralTagPart", "structural_tag_part"]


@dataclass(frozen=True, slots=True)
class StructuralTagPart:
    """The grammar of a structural tag, and the report of the schemas in it."""

    node: Node
    report: SchemaReport


def structural_tag_part(
    spec: Any,
    *,
    place: str,
    markers: Markers | None = None,
    trusted: bool = False,
    spelling: Spelling = DEFAULT_SPELLING,
    policy: Policy = "warn",
) -> StructuralTagPart:
    """Return the part for ``spec``, an object or its JSON text, in any of the three forms.

    Raises `GrammarError` with the place of anything unknown, missing or refused.  With ``trusted`` a text
    that spells a marker becomes its token, which needs ``markers``.
    """
    if isinstance(spec, str):
        try:
            spec = json.loads(spec)
        except ValueError as error:
            raise GrammarError(f"not JSON: {error}", place=place, expected="a structural tag as JSON") from None
    builder = TagBuilder(markers, trusted, spelling, policy)
    tree, at = normalise_form(spec, place, FORMATS)
    node = merge_lexemes([builder.build(tree, None, at)])
    _check_least(node, at)
    return StructuralTagPart(node, SchemaReport(tuple(builder.rows)))


def _check_least(node: Node, place: str) -> None:
    """Refuse nested repeats whose shortest text is too long."""

    def least(inner: Node, lexeme: bool) -> int:
        """Return the length of the shortest text: of a lexeme in characters, of a rule in lexemes."""
        match inner:
            case Text(text=text):
                size = len(text) if lexeme else int(bool(text))
            case Seq(parts=parts):
                size = sum(least(part, lexeme) for part in parts)
            case Alt(options=options):
                size = min(least(option, lexeme) for option in options)
            case Repeat(body=body, least=times):
                size = least(body, lexeme) * times
            case Lexeme(body=body):
                size = least(body, True) if lexeme else int(least(body, True) > 0)
            case Rule(body=body):
                size = least(body, lexeme)
            case Group(start=start, rules=rules):
                size = [least(body, lexeme) for body in (*(rule.body for rule in rules.values()), start)][-1]
            case _:
                size = 0
        most, unit = (MAX_LEAST_BYTES, "characters") if lexeme else (MAX_LEAST_LEXEMES, "parts")
        if size > most:
            shown = f": {size} {unit}" if size < 10**15 else ""
            raise GrammarError(f"the shortest text is too long{shown}", place=place, expected=f"at most {most}",
                               hint="use fewer or smaller repeats")  # fmt: skip
        return size

    least(node, False)
