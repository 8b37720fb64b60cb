"""Normalises the three forms in which clients send structural tags to one: a tree of formats."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from grammars.text_grammars.structural_tag.values import only_keys, read_list, read_object
from special_tokens.errors import GrammarError, shown

__all__ = ["normalise_form"]


#: Keys of the tree, and those that the older forms have in their place.
_SCHEMA = {".content.json_schema": ".schema", ".content": ".schema"}
_OF_TRIGGERS = {".tags[": ".structures[", **_SCHEMA}
_OF_TAG = {**_SCHEMA, ".end": ".end_tag"}


def normalise_form(spec: Any, place: str, formats: Collection[str]) -> tuple[Mapping[str, Any], str, Mapping[str, str]]:
    """Return the format tree of a spec in any form, its place in the request, and keys of it that the form renames."""
    if not isinstance(spec, Mapping):
        raise GrammarError("not an object", place=place, expected='{"type": "structural_tag", "format": {...}}')
    if "format" in spec:
        only_keys(spec, {"type", "format"}, place)
        return read_object(spec["format"], f"{place}.format"), f"{place}.format", {}
    if "structures" in spec or "triggers" in spec:
        return _triggers_form(spec, place), place, _OF_TRIGGERS
    if "tag" in spec or "start_tag" in spec:
        return _tag_form(spec, place), place, _OF_TAG
    if isinstance(spec.get("type"), str) and spec["type"] in formats:
        return spec, place, {}
    raise GrammarError(
        "the structural tag has no format", place=place, expected="format, or structures and triggers, or tag"
    )


def _triggers_form(spec: Mapping[str, Any], place: str) -> Mapping[str, Any]:
    only_keys(spec, {"type", "structures", "triggers"}, place)
    tags = []
    for i, structure in enumerate(read_list(spec.get("structures"), f"{place}.structures")):
        at = f"{place}.structures[{i}]"
        only_keys(read_object(structure, at), {"begin", "schema", "end"}, at)
        schema = {"type": "json_schema", "json_schema": structure.get("schema", {"type": "object"})}
        tags.append({"type": "tag", "begin": structure.get("begin"), "content": schema, "end": structure.get("end")})
    return {"type": "triggered_tags", "triggers": spec.get("triggers"), "tags": tags}


def _tag_form(spec: Mapping[str, Any], place: str) -> Mapping[str, Any]:
    only_keys(spec, {"type", "tag", "start_tag", "end_tag", "schema"}, place)
    if spec.get("start_tag") is not None and spec.get("tag") is not None:
        raise GrammarError("tag and start_tag both give the opening tag", place=place, expected="one of the two")
    begin = spec.get("start_tag") or spec.get("tag")
    if not isinstance(begin, str) or not begin.strip():
        raise GrammarError("the tag is empty", place=f"{place}.tag", expected="a name or an opening tag")
    if "start_tag" not in spec and re.fullmatch(r"[\w:.-]+", begin):
        begin = f"<{begin}>"
    end = spec.get("end_tag")
    if end is None:
        match = re.match(r"\s*([<\[])([\w:.-]+)", begin)
        if match is None:
            raise GrammarError(
                f"no end tag can be derived from {shown(begin)}", place=f"{place}.end_tag", expected="a text"
            )
        end = f"{match[1]}/{match[2]}{'>' if match[1] == '<' else ']'}"
    schema = {"type": "json_schema", "json_schema": spec.get("schema", {"type": "object"})}
    return {"type": "tag", "begin": begin, "content": schema, "end": end}
