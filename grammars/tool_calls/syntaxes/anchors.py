"""Anchors: unused tokens (pads) that replace the text tags closing an argument and a call.

A raw value that a token ends can contain any text, even the family's closing tags, and masks inside it need not look
for a text marker.  The anchors *replace* the closing tags: after a text tag they could not be reached, because the
lexeme of the value would have swallowed that tag.
"""

from __future__ import annotations

import re
from dataclasses import replace

from grammars.tool_calls.arguments.parameter_list import ParameterList
from grammars.tool_calls.pattern import Hole, parse_pattern, pattern_text
from grammars.tool_calls.syntaxes.lookup import syntax
from grammars.values.format import Option, ToolCallFormat
from special_tokens import SpecialTokens
from special_tokens.errors import ModelError, TokenizerError

__all__ = ["anchor_tokens", "with_anchors"]

_PAD = re.compile(r"(?i)pad")
_SPARE = re.compile(r"(?i)unused|reserved|extra|placeholder|special_\d|spare")


def anchor_tokens(tokens: SpecialTokens) -> tuple[str, str]:
    """Return two marker tokens that the template does not use: the last two pads by id, else the last two spare ones.

    The first closes a call, the second an argument.  Raises `TokenizerError` if the vocabulary has no such pair.
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
    """The format with ``anchors`` as the closing markers of a call and of an argument.

    Raises `ModelError` for a syntax that does not write arguments one by one.
    """
    call, parameter = _patterns(form)
    options: dict[str, Option] = dict(form.options)
    options["call"] = _closed_by(call, "parameters", anchors[0])
    options["parameter"] = _closed_by(parameter, "value", anchors[1])
    return replace(form, options=tuple(sorted(options.items())))


def _patterns(form: ToolCallFormat) -> tuple[str, str]:
    module = syntax(form.syntax)
    if not isinstance(module, ParameterList):
        raise ModelError(f"syntax {form.syntax!r} has no raw values to anchor", place="anchors")
    return str(form.option("call", module.call_pattern)), str(form.option("parameter", module.parameter_pattern))


def _closed_by(pattern: str, hole: str, anchor: str) -> str:
    """The pattern with ``anchor`` in place of everything after ``hole`` except a final line break."""
    parts = list(parse_pattern(pattern))
    at = parts.index(Hole(hole))
    literal = parts[-1]
    break_ = "\n" if isinstance(literal, str) and literal.endswith("\n") else ""
    parts[at + 1 :] = [anchor + break_]
    return pattern_text(parts)
