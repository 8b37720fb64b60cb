"""The grammar of an argument list: the order of arguments, optional arguments, separators."""

from __future__ import annotations

from collections.abc import Sequence

from grammars.tree.nodes import EMPTY, Node, Rule, alt, is_empty, opt, repeat, seq
from special_tokens.errors import ModelError

__all__ = ["arrange"]


def arrange(named: Sequence[tuple[str, bool, Node]], extra: Node | None, separator: Node, order: str) -> Node:
    """The grammar of an argument list.

    ``named`` holds key, required and node of each argument; ``extra`` is the node of an argument of any other name,
    which may follow the named ones any number of times.  ``order``: ``schema`` keeps the given order, ``sorted`` sorts
    by key.
    """
    if order == "sorted":
        named = sorted(named, key=lambda item: item[0])
    elif order != "schema":
        raise ModelError(f"unknown order {order!r}", place="tool_calls.options", expected="schema or sorted")
    return _in_order([(required, node) for _, required, node in named], extra, separator)


def _in_order(named: Sequence[tuple[bool, Node]], extra: Node | None, separator: Node) -> Node:
    later = EMPTY if extra is None else repeat(seq(separator, extra))  # the rest of the list after an argument
    first = EMPTY if extra is None else opt(extra, later)  # the rest of the list if nothing precedes it
    for required, node in reversed(named):
        written = seq(node, later)
        if is_empty(separator):
            first = later = seq(node if required else opt(node), later)
            continue
        first = written if required else alt(written, first)
        follow = seq(separator, node)
        later = Rule("more_arguments", seq(follow if required else opt(follow), later))
    return first
