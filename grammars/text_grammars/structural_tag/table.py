"""The table of the formats of structural tags: their methods and keys."""

from __future__ import annotations

from grammars.text_grammars.structural_tag.builder import Makers, TagBuilder
from grammars.text_grammars.structural_tag.token_formats import (
    any_tokens,
    exclude_token,
    token,
    token_dispatch,
    token_triggered_tags,
)

__all__ = ["FORMATS"]

FORMATS: Makers = {
    kind: (maker, frozenset(keys.split()))
    for kind, maker, keys in (
        ("const_string", TagBuilder.const_string, "value"),
        ("json_schema", TagBuilder.json_schema, "json_schema style any_order"),
        ("grammar", TagBuilder.grammar, "grammar"),
        ("regex", TagBuilder.regex, "pattern"),
        ("any_text", TagBuilder.any_text, "excludes max_chars max_tokens"),
        ("sequence", TagBuilder.sequence, "elements"),
        ("or", TagBuilder.options, "elements"),
        ("optional", TagBuilder.repeated, "content"),
        ("plus", TagBuilder.repeated, "content"),
        ("star", TagBuilder.repeated, "content"),
        ("repeat", TagBuilder.repeated, "content min max"),
        ("tag", TagBuilder.tag, "begin content end"),
        ("triggered_tags", TagBuilder.triggered_tags, "triggers tags at_least_one stop_after_first excludes"),
        ("tags_with_separator", TagBuilder.tags_with_separator, "tags separator at_least_one stop_after_first"),
        ("dispatch", TagBuilder.dispatch, "rules loop excludes"),
        ("token", token, "token"),
        ("exclude_token", exclude_token, "exclude_tokens"),
        ("any_tokens", any_tokens, "exclude_tokens max_tokens"),
        (
            "token_triggered_tags",
            token_triggered_tags,
            "trigger_tokens tags at_least_one stop_after_first exclude_tokens",
        ),
        ("token_dispatch", token_dispatch, "rules loop exclude_tokens"),
    )
}
