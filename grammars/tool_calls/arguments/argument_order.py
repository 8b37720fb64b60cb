"""The grammar of an argument list: the order of arguments, optional arguments, separators."""

from __future__ import annotations

from collections.abc import Sequence

from grammars.tree.nodes import EMPTY, Group, Node, Ref, Rule, RuleDef, When, alt, is_empty, opt, repeat, seq
from special_tokens.errors import ModelError, ToolError

__all__ = ["MAX_ANY_ORDER", "arrange"]

#: The parameter of llguidance's parametric rules has 64 bits, one per argument.
MAX_ANY_ORDER = 64


def arrange(named: Sequence[tuple[str, bool, Node]], extra: Node | None, separator: Node, order: str) -> Node:
    """The grammar of an argument list.

    ``named`` holds key, required and node of each argument; ``extra`` is the node of an argument of any other name,
    which may follow the named ones any number of times.  ``order``: ``schema`` keeps the given order, ``sorted`` sorts
    by key, ``any`` leaves the order to the model.
    """
    if order == "sorted":
        named = sorted(named, key=lambda item: item[0])
    elif order == "any" and len(named) > 1:
        return _any_order(named, extra, separator)
    elif order not in ("schema", "any"):
        raise ModelError(f"unknown order {order!r}", place="tool_calls.options", expected="schema, sorted or any")
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


def _any_order(named: Sequence[tuple[str, bool, Node]], extra: Node | None, separator: Node) -> Node:
    """A parametric rule whose bits record the arguments written so far; bits of required arguments come first."""
    if len(named) > MAX_ANY_ORDER:
        raise ToolError(f"{len(named)} arguments in any order", place="tools", expected=f"at most {MAX_ANY_ORDER}")
    ordered = sorted(named, key=lambda item: not item[1])
    num_required = sum(required for _, required, _ in ordered)

    def choices(lead: Node) -> list[Node]:
        out: list[Node] = [
            When(seq(lead, node, Ref("rest", f"set_bit({i})")), f"bit_clear({i})")
            for i, (_, _, node) in enumerate(ordered)
        ]
        if extra is not None:
            out.append(seq(lead, extra, Ref("rest", "_")))
        done: Node = EMPTY
        return [When(done, f"is_ones([0:{num_required}])") if num_required else done, *out]

    rules = {"rest": RuleDef(alt(*choices(separator)), parametric=True)}
    if is_empty(separator):
        return Group("arguments", Ref("rest", "0x0"), rules)
    rules["begin"] = RuleDef(alt(*choices(EMPTY)), parametric=True)
    return Group("arguments", Ref("begin", "0x0"), rules)
