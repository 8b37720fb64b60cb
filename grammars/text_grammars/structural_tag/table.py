"""The formats that a structural tag may hold."""

from __future__ import annotations

from grammars.text_grammars.structural_tag.builder import Builder, Makers
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
        ("const_string", Builder.const_string, "value"),
        ("json_schema", Builder.json_schema, "json_schema style any_order"),
        ("grammar", Builder.grammar, "grammar"),
        ("regex", Builder.regex, "pattern"),
        ("any_text", Builder.any_text, "excludes max_chars max_tokens"),
        ("sequence", Builder.sequence, "elements"),
        ("or", Builder.options, "elements"),
        ("optional", Builder.repeated, "content"),
        ("plus", Builder.repeated, "content"),
        ("star", Builder.repeated, "content"),
        ("repeat", Builder.repeated, "content min max"),
        ("tag", Builder.tag, "begin content end"),
        ("triggered_tags", Builder.triggered_tags, "triggers tags at_least_one stop_after_first excludes"),
        ("tags_with_separator", Builder.tags_with_separator, "tags separator at_least_one stop_after_first"),
        ("dispatch", Builder.dispatch, "rules loop excludes"),
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
