"""Pad anchors: spare tokens instead of the text tags that close an argument and a call.

A raw value that ends by a token can hold any text at all, also the family's own closing tags, and no position in
it pays for looking out for a text marker.  The anchors *replace* the closing tags: behind a text tag they could
never be reached, because the value's lexeme would already have swallowed it.
"""

from __future__ import annotations

import re
from dataclasses import replace

from grammars.values.format import Option, ToolCallFormat
from grammars.tool_calls import syntax
from grammars.tool_calls.arguments.parameter_list import ParameterList
from grammars.tool_calls.pattern import Hole, parse_pattern, pattern_text
from special_tokens import SpecialTokens
from special_tokens.errors import ModelError, TokenizerError

__all__ = ["anchor_tokens", "with_anchors"]

_PAD = re.compile(r"(?i)pad")
_SPARE = re.compile(r"(?i)unused|reserved|extra|placeholder|special_\d|spare")


def anchor_tokens(tokens: SpecialTokens) -> tuple[str, str]:
    """Two marker tokens that no template writes: the last two pads by id, else the last two spare ones.

    The first closes a call, the second an argument.  Raises `TokenizerError` where the vocabulary has none.
    """
    template = tokens.facts.chat_template
    ends = set(tokens.end_ids) | {tokens.id_of(text) for text in tokens.facts.named.values()}
    free = [
        token.text
        for token in tokens.added.values()
        if token.is_marker and token.id not in ends and token.text not in template
    ]
    for looks in (_PAD, _SPARE):
        found = [text for text in free if looks.search(text)]
        if len(found) >= 2:
            return found[-2], found[-1]
    raise TokenizerError("the vocabulary has no two spare tokens", place="anchors", hint="leave anchors off")


def with_anchors(form: ToolCallFormat, anchors: tuple[str, str]) -> ToolCallFormat:
    """The format with these tokens as closing marks, of the call and of its arguments.

    Raises `ModelError` for a syntax that does not write raw values one by one.
    """
    call, parameter = _patterns(form)
    options: dict[str, Option] = dict(form.options)
    options["call"] = _behind(call, "parameters", anchors[0])
    options["parameter"] = _behind(parameter, "value", anchors[1])
    return replace(form, options=tuple(sorted(options.items())))


def _patterns(form: ToolCallFormat) -> tuple[str, str]:
    module = syntax(form.syntax)
    if not isinstance(module, ParameterList):
        raise ModelError(f"syntax {form.syntax!r} has no raw values to anchor", place="anchors")
    return str(form.option("call", module.call_pattern)), str(form.option("parameter", module.parameter_pattern))


def _behind(pattern: str, hole: str, anchor: str) -> str:
    """The pattern with ``anchor`` instead of what stands behind ``hole``; the line break at its end stays."""
    parts = list(parse_pattern(pattern))
    at = parts.index(Hole(hole))
    literal = parts[-1]
    break_ = "\n" if isinstance(literal, str) and literal.endswith("\n") else ""
    parts[at + 1 :] = [anchor + break_]
    return pattern_text(parts)
