"""Structural tags: free text with tagged parts, in the forms that clients of XGrammar-based servers send.

The newer form is a tree of formats (``{"type": "structural_tag", "format": {...}}``); the older one lists
``structures`` and ``triggers`` and is read as ``triggered_tags``.  A third, smaller one names one tag and its schema.

Free text ends with the first text that ends it: its tag's ``end``, a trigger, or the literal that follows it in a
sequence.  All texts are text: a marker spelled in one stays text unless the caller is trusted.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from grammars.json_schema import DEFAULT_SPELLING, Policy, SchemaReport, Spelling
from grammars.markers import Markers
from grammars.structural_tag.builder import FORMATS, Builder
from grammars.structural_tag.forms import one_form
from grammars.structural_tag.free_text import fused
from grammars.tree import Node
from special_tokens.errors import GrammarError

__all__ = ["FORMATS", "StructuralTagPart", "structural_tag_part"]


@dataclass(frozen=True, slots=True)
class StructuralTagPart:
    """The grammar of a structural tag and what it keeps of its schemas."""

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
    """The part for ``spec``, an object or its JSON text, in any of the three forms.

    Raises `GrammarError` naming the place in it of what is unknown, missing or refused.  ``trusted`` allows the
    token-level formats and lets a text that spells a marker be its token; both need ``markers``.
    """
    if isinstance(spec, str):
        try:
            spec = json.loads(spec)
        except ValueError as error:
            raise GrammarError(f"not JSON: {error}", place=place) from None
    builder = Builder(markers, trusted, spelling, policy)
    tree, at = one_form(spec, place, FORMATS)
    node = fused([builder.build(tree, None, at)])
    return StructuralTagPart(node, SchemaReport(tuple(builder.rows)))
