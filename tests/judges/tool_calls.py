"""Judges of tool-call syntaxes: drive a grammar by its masks, and sum up a parser's events."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from grammars.compose.tool_section import ToolSection
from grammars.json_schema.build import build
from grammars.tool_calls.reader import ArgumentsDelta, CallEnded, CallEvent, CallStarted, CutCall, Reader, StrayText
from grammars.tool_calls.syntaxes.lookup import syntax
from grammars.tree.markers import Markers
from grammars.tree.nodes import Node, seq, token
from grammars.tree.render import render
from grammars.values.format import ToolCallFormat
from grammars.values.tool import Call, Tool
from guided.engine.engine import Engine

_sections: dict[tuple[int, ...], tuple[object, Node]] = {}  # by what they are made of, which stays as long
_texts: dict[tuple[int, int], tuple[Node, str]] = {}  # by node and sentinel


def section(engine: Engine, form: ToolCallFormat, tools: Sequence[Tool]) -> Node:
    """The calls of ``tools`` in a form; for the same ones it is made once."""
    key = (id(engine), id(form), *map(id, tools))
    if key not in _sections:
        _sections[key] = ((engine, form, tuple(tools)), _section(engine, form, tools))
    return _sections[key][1]


def _section(engine: Engine, form: ToolCallFormat, tools: Sequence[Tool]) -> Node:
    def spelled(schema: Any, pointer: str) -> Node:
        return build(schema, spelling=form.spelling).node

    return ToolSection(form, tools, Markers(engine.tokens), spelled).node


def refused_at(engine: Engine, node: Node, text: str, *, complete: bool = True) -> int | None:
    """The character at which the masks refuse ``text``; None where they let all of it through.

    Each bit is read from the mask before its token is committed.  ``complete`` asks for the end as well; then
    a text that may not end counts as refused at its length.
    """
    sentinel = engine.vocab_size
    key = (id(node), sentinel)
    if key not in _texts:
        _texts[key] = (node, render(seq(node, token(sentinel))).engine_text())
    matcher = engine.compile(_texts[key][1]).deep_copy()
    at = 0
    for token_id in engine.tokenize(text):
        if not _is_set(matcher.compute_bitmask(), token_id):
            return at
        assert matcher.consume_token(token_id), matcher.get_error()
        at += len(engine.token_bytes(token_id).decode("utf-8", "replace"))
    if complete and not _is_set(matcher.compute_bitmask(), sentinel):
        return at
    return None


def _is_set(mask: bytes, token_id: int) -> bool:
    return bool(mask[token_id // 8] >> (token_id % 8) & 1)


def read(
    engine: Engine, form: ToolCallFormat, tools: Mapping[str, Tool], text: str, splits: Sequence[int] = ()
) -> tuple[list[Any], str]:
    """Parse ``text`` cut at ``splits``; return the summed-up events and the text beyond the section."""
    markers = Markers(engine.tokens)
    parser: Reader = syntax(form.syntax).parser(form, tools, markers)
    marked = markers.marked(text)
    events: list[CallEvent] = []
    at = 0
    for split in [*sorted(splits), len(marked)]:
        events += parser.feed(marked[at:split])
        at = max(at, split)
    events += parser.finish()
    assert parser.is_done
    return summed(events, markers), markers.plain(parser.trailing_text)


def summed(events: Sequence[CallEvent], markers: Markers) -> list[Any]:
    """Events with neighbouring deltas joined: what does not depend on how the text was cut."""
    out: list[Any] = []
    for event in events:
        if isinstance(event, ArgumentsDelta | StrayText | CutCall):
            event = replace(event, text=markers.plain(event.text))
        last = out[-1] if out else None
        if isinstance(event, ArgumentsDelta | StrayText) and last == replace(event, text=getattr(last, "text", "")):
            out[-1] = replace(event, text=last.text + event.text)
        else:
            out.append(event)
    return out


def calls_of(events: Sequence[Any]) -> list[Call]:
    """The whole calls among the events; raises for anything else there."""
    out: list[Call] = []
    name, call_id, arguments = "", "", ""
    for event in events:
        match event:
            case CallStarted(name=name, id=call_id):
                arguments = ""
            case ArgumentsDelta(text=text):
                arguments += text
            case CallEnded():
                out.append(Call(name, json.loads(arguments), call_id))
            case _:
                raise AssertionError(f"not a call: {event!r}")
    return out
