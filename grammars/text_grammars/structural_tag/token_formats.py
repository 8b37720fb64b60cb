"""The formats of structural tags that name tokens; only a trusted caller may use them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grammars.plan.plan import SENTINELS
from grammars.text_grammars.structural_tag.builder import ANY, FormatEnd, TagBuilder
from grammars.text_grammars.structural_tag.free_text import merge_lexemes
from grammars.text_grammars.structural_tag.values import read_count, read_flag, read_format, read_list, read_rules
from grammars.tree.nodes import Node, Rule, Seq, Tokens, alt, repeat, seq, tokens_except
from grammars.tree.nodes import token as marker_token
from special_tokens import SpecialTokens
from special_tokens.errors import GrammarError, shown

__all__ = ["any_tokens", "exclude_token", "token", "token_dispatch", "token_triggered_tags"]


def token(builder: TagBuilder, body: Mapping[str, Any], end: FormatEnd, place: str) -> Node:
    node = _token(builder, body.get("token"), f"{place}.token")
    return builder.with_end(node, end) if end is not None else node


def exclude_token(builder: TagBuilder, body: Mapping[str, Any], end: FormatEnd, place: str) -> Node:
    return builder.with_end(_other_tokens(builder, body, end, place), end)


def any_tokens(builder: TagBuilder, body: Mapping[str, Any], end: FormatEnd, place: str) -> Node:
    most = read_count(body, "max_tokens", place)
    return builder.with_end(repeat(_other_tokens(builder, body, end, place), 0, most), end)


def token_triggered_tags(builder: TagBuilder, body: Mapping[str, Any], end: FormatEnd, place: str) -> Node:
    for i, name in enumerate(read_list(body.get("trigger_tokens"), f"{place}.trigger_tokens")):
        _token(builder, name, f"{place}.trigger_tokens[{i}]")
    tags = read_list(body.get("tags"), f"{place}.tags")
    tag_node = alt(*(builder.tag_after(read_format(tag, "tag", f"{place}.tags[{i}]"), "", None, f"{place}.tags[{i}]")
                for i, tag in enumerate(tags)))  # fmt: skip
    return _between_tokens(builder, tag_node, body, end, place, loop=not read_flag(body, "stop_after_first", place))


def token_dispatch(builder: TagBuilder, body: Mapping[str, Any], end: FormatEnd, place: str) -> Node:
    ways: list[Node] = []
    for i, (name, spec) in enumerate(read_rules(body, place)):
        opening = _token(builder, name, f"{place}.rules[{i}][0]")
        ways.append(merge_lexemes([opening, builder.build(spec, None, f"{place}.rules[{i}][1]")]))
    tag_node = alt(*ways)
    return _between_tokens(builder, tag_node, body, end, place, loop=read_flag(body, "loop", place, default=True))


def _between_tokens(
    builder: TagBuilder, tag_node: Node, body: Mapping[str, Any], end: FormatEnd, place: str, *, loop: bool
) -> Node:
    """Return free text (which never contains special tokens) with parts that begin with a token."""
    at_least_one = read_flag(body, "at_least_one", place)
    text: Node = Rule("text", ANY)
    last = builder.free_text(ANY, [], end) if not at_least_one or loop else builder.with_end(Seq(()), end)
    if not loop:
        first = tag_node if at_least_one else seq(text, tag_node)
        closed = seq(first, builder.with_end(Seq(()), end))
        return closed if at_least_one else alt(closed, last)
    if at_least_one:
        return seq(tag_node, repeat(seq(text, tag_node), 0, None), last)
    return seq(repeat(seq(text, tag_node), 0, None), last)


def _registry(builder: TagBuilder, message: str, place: str) -> SpecialTokens:
    """Return the token registry; raise `GrammarError` unless the caller is trusted."""
    if not builder.trusted or builder.markers is None:
        raise GrammarError(message, place=place, hint="only a trusted caller may write tokens")
    return builder.markers.tokens


def _token(builder: TagBuilder, name: Any, place: str) -> Tokens:
    tokens = _registry(builder, f"{shown(name)} is a token, not text", place)
    token_id = name if isinstance(name, int) and not isinstance(name, bool) else tokens.id_of(str(name))
    if token_id is None or not 0 <= token_id < tokens.vocab_size:
        raise GrammarError(f"there is no token {shown(name)}", place=place, expected="an added token or an id")
    if token_id in tokens.end_ids:
        raise GrammarError(f"{shown(name)} ends the turn", place=place, hint="every plan ends by itself")
    return marker_token(token_id, str(name))


def _other_tokens(builder: TagBuilder, body: Mapping[str, Any], end: FormatEnd, place: str) -> Node:
    names = read_list(body.get("exclude_tokens", []), f"{place}.exclude_tokens", empty=True)
    tokens = _registry(builder, "tokens are not text", place)
    barred: set[int] = set()
    for i, name in enumerate(names):
        if isinstance(name, bool) or not isinstance(name, int | str):
            raise GrammarError(f"{shown(name)} is not a token", place=f"{place}.exclude_tokens[{i}]",
                               expected="the text of an added token or an id")  # fmt: skip
        token_id = name if isinstance(name, int) else tokens.id_of(name)
        barred |= set() if token_id is None else {token_id}
    barred |= set(tokens.end_ids) | set(range(tokens.vocab_size, tokens.vocab_size + SENTINELS))
    if isinstance(end, Tokens):
        barred |= {i for low, high in end.ranges for i in range(low, high + 1)}
    return tokens_except(barred)
