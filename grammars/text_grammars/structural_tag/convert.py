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
from grammars.text_grammars.structural_tag.builder import FORMATS, TagBuilder
from grammars.text_grammars.structural_tag.forms import normalise_form
from grammars.text_grammars.structural_tag.free_text import merge_lexemes
from grammars.text_grammars.structural_tag.lost_texts import lost_texts
from grammars.tree.markers import Markers
from grammars.tree.nodes import Node
from special_tokens.errors import GrammarError, RequestError

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
    tree, at, names = normalise_form(spec, place, FORMATS)
    try:
        node = merge_lexemes([builder.build(tree, None, at)])
        return StructuralTagPart(node, SchemaReport((*builder.rows, *lost_texts(node, at, spelling))))
    except RequestError as error:
        within, slash, pointer = error.place.removeprefix(at).partition("/")
        for key, name in names.items():
            within = within.replace(key, name)
        error.place = f"{at}{within}{slash}{pointer}"
        raise
