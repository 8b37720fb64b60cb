"""Check a format of tool calls against the sample calls that the template renders.

This part of the cross-check needs no engine: the text that the format writes around values must equal the template's,
and the format's parser must read the rendered sample calls back.  `guided.inspect.format_check` then checks the token
masks with the same texts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from grammars.formats.probe import samples as s
from grammars.formats.probe.json_spelling import with_default_spelling
from grammars.formats.probe.sample_calls import CallTexts
from grammars.tool_calls.reader import ArgumentsDelta, CallEnded, CallEvent, CallStarted
from grammars.tool_calls.syntaxes.lookup import syntax
from grammars.tree.markers import Markers
from grammars.values.format import ToolCallFormat
from grammars.values.tool import Call, Tool
from special_tokens import SpecialTokens
from special_tokens.errors import ToolError

__all__ = ["TYPED_TOOLS", "differences", "read_calls"]

_PROPERTIES = {
    s.KEYS[0]: {"type": "string"},
    s.KEYS[1]: {"type": "integer"},
    s.KEYS[2]: {"type": "number"},
    s.KEYS[3]: {"type": "boolean"},
    s.KEYS[4]: {"type": "null"},
    s.KEYS[5]: {"type": "object"},
    s.KEYS[6]: {"type": "array", "items": {"type": "string"}},
    s.KEYS[7]: {"type": "string"},
}
#: The sample tools with the types of all their arguments.
TYPED_TOOLS: Mapping[str, Tool] = {
    name: Tool(name, parameters={"type": "object", "properties": _PROPERTIES}) for name in (s.NAME, s.OTHER_NAME)
}


def differences(form: ToolCallFormat, texts: CallTexts, tokens: SpecialTokens) -> tuple[str, ...]:
    """The differences between the format and the template, as sentences; () if they agree."""
    problems: list[str] = []
    if _ends_by_white_space(form):
        return ("only white space ends a value, and raw text may contain it",)
    if not texts.keeps_names and _can_write(form, Call(s.ODD_NAME, {})):
        problems.append(f"the name {s.ODD_NAME!r} is written differently")
    for what, text, calls in _samples(form, texts):
        if text is None:
            continue
        read = read_calls(form, text, tokens)
        if form.option("items") is not None:
            read, calls = _as_elements(read), _as_elements(calls)
        if not _same(read, calls):
            problems.append(f"{what} reads back as {_shown(read)}")
    calls = [Call(s.NAME, s.BOTH, s.ID), Call(s.OTHER_NAME, {}, s.OTHER_ID), Call(s.NAME, s.BOTH, s.THIRD_ID)]
    several = [(texts.two, 2), (texts.three, 3)] if form.max_calls is None else []
    for text, number in several:
        problems += _framing(form, text, calls[:number]) if text is not None else []
    if any(text is not None for text, _ in several):
        form = replace(form, section_end="")  # some templates close a section only after several calls
    problems += _framing(form, texts.both, calls[:1])
    return tuple(problems)


def _ends_by_white_space(form: ToolCallFormat) -> bool:
    """Whether raw strings have no marker after them, so that only white space ends them."""
    parameter = form.option("parameter")
    has_end = form.option("strings") == "json" or form.option("quote_end") is not None
    if parameter is None or has_end or form.syntax not in ("xml_equals", "invoke", "key_tags"):
        return False
    return not str(parameter).split("$value")[-1].strip()


def _samples(form: ToolCallFormat, texts: CallTexts) -> Iterator[tuple[str, str | None, list[Call]]]:
    yield "a call", texts.both, [Call(s.NAME, s.BOTH)]
    yield "a call with one argument", texts.word, [Call(s.NAME, dict([next(iter(s.BOTH.items()))]))]
    yield "a call without arguments", texts.none, [Call(s.NAME, {})]
    yield "a call with values of all types", texts.all_types, [Call(s.NAME, s.ALL_TYPES)]
    if form.max_calls is None:
        calls = [Call(s.NAME, s.BOTH), Call(s.OTHER_NAME, {}), Call(s.NAME, s.BOTH)]
        yield "two calls", texts.two, calls[:2]
        yield "three calls", texts.three, calls


def _same(read: Sequence[Call], calls: Sequence[Call]) -> bool:
    if [call.name for call in read] != [call.name for call in calls]:
        return False
    return all(_trimmed(a.arguments) == _trimmed(b.arguments) for a, b in zip(read, calls, strict=True))


def _as_elements(value: Any) -> Any:
    """The value as far as elements state it without a schema: without null, and with one empty value for all types."""
    match value:
        case Call(name, arguments):
            return Call(name, _as_elements(arguments))
        case Mapping():
            return {key: _as_elements(inner) for key, inner in value.items() if inner is not None} or ""
        case list():
            return [_as_elements(inner) for inner in value] or ""
    return value


def _trimmed(arguments: Any) -> Any:
    """Strip strings: some templates trim values, which is not a difference of the format."""
    if not isinstance(arguments, Mapping):
        return arguments
    return {key: value.strip() if isinstance(value, str) else value for key, value in arguments.items()}


def _shown(calls: Sequence[Call]) -> str:
    return json.dumps([[call.name, call.arguments] for call in calls], ensure_ascii=False, default=str)[:200]


def read_calls(form: ToolCallFormat, text: str, tokens: SpecialTokens) -> list[Call]:
    """The complete calls at the beginning of ``text`` (with the white space before them)."""
    markers = Markers(tokens)
    parser = syntax(form.syntax).parser(form, TYPED_TOOLS, markers)
    lead = form.gap_without_text
    events = [*parser.feed(markers.marked(text.removeprefix(lead))), *parser.finish()]
    return _calls(events, markers)


def _calls(events: Sequence[CallEvent], markers: Markers) -> list[Call]:
    out: list[Call] = []
    name, text = "", ""
    for event in events:
        match event:
            case CallStarted(name=name):
                text = ""
            case ArgumentsDelta(text=more):
                text += more
            case CallEnded():
                try:
                    arguments = json.loads(markers.plain(text))
                except ValueError:
                    arguments = text
                out.append(Call(name, arguments))
    return out


def _can_write(form: ToolCallFormat, call: Call) -> bool:
    try:
        syntax(form.syntax).render(form, [call], {call.name: Tool(call.name)})
    except ToolError:
        return False
    return True


def _framing(form: ToolCallFormat, text: str, calls: Sequence[Call]) -> list[str]:
    """Differences between the calls as the format and as the template write them, ignoring quotes around values."""
    try:
        written = syntax(form.syntax).render(form, calls, TYPED_TOOLS)
    except ToolError as error:
        return [f"the format cannot write the sample call: {error}"]
    theirs = with_default_spelling(text.removeprefix(form.gap_without_text), form.spelling)
    ours, theirs = _bare(written), _bare(theirs)
    return [] if theirs.startswith(ours) else [f"the format writes {ours!r}, the template {theirs!r}"]


def _bare(text: str) -> str:
    """The text without quotes around sample values."""
    for value in (s.WORD, str(s.NUMBER)):
        for quote in ('"', "'"):
            text = text.replace(quote + value + quote, value)
    return text
