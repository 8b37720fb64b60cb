"""Anchors: unused tokens that replace the text tags closing an argument and a call.

A raw value that a token ends can contain any text, even the family's closing tags, and masks inside it need not look
for a text marker.  The anchors *replace* the closing tags: after a text tag they could not be reached, because the
lexeme of the value would have swallowed that tag.  They are for models that were tuned with them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from grammars.tool_calls.arguments.parameter_list import ParameterList
from grammars.tool_calls.pattern import CallPattern, Hole, parse_pattern, pattern_text
from grammars.tool_calls.syntaxes.lookup import syntax
from grammars.values.format import Anchor, Format, Option, ToolCallFormat
from special_tokens import SpecialTokens
from special_tokens.errors import ModelError, TokenizerError, shown

__all__ = ["anchor_tokens", "anchored", "with_anchors"]

#: The tag that closes something, with white space before it: ``</name>``, else markers on one line.
_OFF = "leave anchors off"
_TAG = re.compile(r"\s*(?:</[^<>]*>|<[^\n]*>)")


def anchored(format: Format, tokens: SpecialTokens, given: bool | Sequence[int | str] = True) -> Format:
    """Return the format with anchors: two spare tokens, or the ids or texts in ``given``; False changes nothing.

    Raises `ModelError` for a model whose template shows no tools or calls, or in whose calls no text tag closes
    arguments, and `TokenizerError` for tokens that are not spare.
    """
    if given is False:
        return format
    form = format.tool_calls
    if form is None or (format.inputs.tools, format.inputs.tool_calls) != ("native", "native"):
        raise ModelError("the chat template does not show tools and calls", place="anchors", hint=_OFF)
    return replace(format, tool_calls=with_anchors(form, anchor_tokens(tokens, given)))


def with_anchors(form: ToolCallFormat, anchors: tuple[str, str]) -> ToolCallFormat:
    """Return the format with ``anchors`` in place of the text tags that close a call and an argument.

    Raises `ModelError` for a syntax that closes arguments without such a tag.
    """
    module = syntax(form.syntax)
    if not isinstance(module, ParameterList) or form.option("quote_end") is not None or form.anchors:
        raise ModelError(f"syntax {form.syntax!r} has no raw values to anchor", place="anchors", hint=_OFF)
    call = parse_pattern(str(form.option("call", module.call_pattern)))
    parameter = parse_pattern(str(form.option("parameter", module.parameter_pattern)))
    begin, after = _split(call, "parameters")
    ends_in_call = any(isinstance(part, Hole) or part.strip() for part in after)
    of_call = _anchor(anchors[0], (form.call_start, *call), after if ends_in_call else (form.call_end,))
    options: dict[str, Option] = dict(form.options)
    call_end = form.call_end
    if ends_in_call:
        options["call"] = pattern_text((*begin, _closing(of_call, after)))
    else:
        call_end = _closing(of_call, (form.call_end,))
    begin, after = _split(parameter, "value")
    of_parameter = _anchor(anchors[1], parameter, after)
    options["parameter"] = pattern_text((*begin, _closing(of_parameter, after)))
    return replace(form, call_end=call_end, options=tuple(sorted(options.items())), anchors=(of_call, of_parameter))


def _split(pattern: CallPattern, hole: str) -> tuple[CallPattern, CallPattern]:
    at = pattern.index(Hole(hole)) + 1
    return pattern[:at], pattern[at:]


def _anchor(token: str, pattern: CallPattern, after: CallPattern) -> Anchor:
    """The anchor for the tag that begins ``after``; ``pattern`` begins what it closes."""
    first = pattern[: next((i for i, part in enumerate(pattern) if isinstance(part, Hole)), None)]
    opening = "".join(map(str, first)).strip().rpartition("\n")[2]
    tag = _TAG.match(str(after[0])) if len(after) == 1 else None
    if tag is None or not opening:
        raise ModelError("no text tag of its own closes an argument or a call", place="anchors", hint=_OFF)
    return Anchor(token, tag[0], opening)


def _closing(anchor: Anchor, after: CallPattern) -> str:
    """The anchor with the text that follows its tag."""
    return str(after[0]).replace(anchor.closes, anchor.token, 1)


_PAD = re.compile(r"(?i)pad")
_SPARE = re.compile(r"(?i)unused|reserved|extra|placeholder|special_\d|spare")


def _spare_tokens(tokens: SpecialTokens) -> tuple[str, ...]:
    """Return the texts of all markers, by id, other than ends, roles, named tokens and those in the template."""
    used = {end.text for end in tokens.ends} | {marker.text for marker in tokens.roles.values()}
    used |= set(tokens.facts.named.values())
    template = tokens.facts.chat_template
    texts = (token.text for token in tokens.added.values() if token.is_marker)
    return tuple(text for text in texts if text not in used and text not in template)


def anchor_tokens(tokens: SpecialTokens, given: bool | Sequence[int | str] = True) -> tuple[str, str]:
    """Return two spare tokens: the first closes a call, the second an argument.

    ``given`` are their ids or texts; True takes the last two pads by id, else the last two reserved tokens.  Raises
    `TokenizerError` where the vocabulary has no such pair, or for tokens that are not spare.
    """
    free = _spare_tokens(tokens)
    if given is True:
        for looks in (_PAD, _SPARE):
            candidates = [text for text in free if looks.search(text)]
            if len(candidates) >= 2:
                return candidates[-2], candidates[-1]
        raise TokenizerError("the vocabulary has no two spare tokens", place="anchors", hint="leave anchors off")
    if not isinstance(given, list | tuple) or len(given) != 2 or given[0] == given[1]:
        raise TokenizerError(f"{shown(given)} is not possible", place="anchors", expected="True, or two tokens")
    texts = [tokens.added[token].text if isinstance(token, int) and token in tokens.added else token for token in given]
    for text in texts:
        if text not in free:
            raise TokenizerError(
                f"{shown(text)} is not a spare token",
                place="anchors",
                expected="the id or text of a marker that is not an end, not a role and not in the chat template",
            )
    return str(texts[0]), str(texts[1])
