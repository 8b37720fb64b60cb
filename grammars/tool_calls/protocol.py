"""What every tool-call syntax offers: a grammar, a rendering and a parser from the same `ToolCallFormat`.

One syntax is one module of this package with one class; what differs between families is data in the format.
All delimiters reach a syntax as text and are resolved by `Markers`: tokens where the tokenizer has them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from grammars.call_steps import CallStep
from grammars.values.format import ToolCallFormat
from grammars.tree.markers import Markers
from grammars.values.tool import Call, Tool
from grammars.tree.nodes import Node

__all__ = [
    "ArgumentsDelta",
    "CallEnded",
    "CallEvent",
    "CallStarted",
    "CallsParser",
    "Quote",
    "SchemaNode",
    "StrayText",
    "ToolSyntax",
]

#: JSON schema and a JSON pointer for its report -> the node that writes an instance of it
SchemaNode: TypeAlias = Callable[[Any, str], Node]


@dataclass(frozen=True, slots=True)
class CallStarted:
    """The name of call number ``index`` is known.  ``id`` only where the model itself wrote one."""

    index: int
    name: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class ArgumentsDelta:
    """More of the arguments' JSON text of call ``index``; the deltas of a call concatenate to the whole."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class CallEnded:
    """Call ``index`` is complete: its arguments are whole."""

    index: int


@dataclass(frozen=True, slots=True)
class StrayText:
    """Text among calls that belongs to none of them (an unguided or broken output); never lost."""

    text: str


CallEvent: TypeAlias = CallStarted | ArgumentsDelta | CallEnded | StrayText


@dataclass(frozen=True, slots=True)
class Quote:
    """A span in which the end markers of a call are not looked for: from ``open`` to ``close``.

    ``escape`` is a character that takes the next one with it (``\\`` in JSON strings); empty for raw text.
    All three are marker text.
    """

    open: str
    close: str
    escape: str = ""


class CallsParser(Protocol):
    """Reads one section of calls from marked text (see `Markers.marked`), in pieces of any size.

    ``feed`` gets the text after the trigger that opened the section, the trigger included, and returns what
    became certain.  ``finish`` is called once, at the end of the output: whatever was held back comes out, as a
    call's arguments where it belongs to a call, as `StrayText` otherwise.  The sum of events does not depend on how
    the text was split.
    """

    @property
    def is_done(self) -> bool:
        """The section has ended: text from here on is not a call."""

    @property
    def rest(self) -> str:
        """Marked text that was fed beyond the end of the section."""

    def feed(self, text: str) -> Sequence[CallEvent]: ...

    def finish(self) -> Sequence[CallEvent]: ...


class ToolSyntax(Protocol):
    """One way of writing calls."""

    id: str

    def quotes(self, form: ToolCallFormat) -> tuple[Quote, ...]:
        """Spans in which end markers are ordinary text."""

    def triggers(self, form: ToolCallFormat, tools: Sequence[Tool]) -> tuple[str, ...]:
        """Marker texts any of which begins a section of calls; free content may contain none of them."""

    def call(self, form: ToolCallFormat, tool: Tool, markers: Markers, schema: SchemaNode) -> Node:
        """The grammar of one call of ``tool``, from ``call_start`` to ``call_end``.

        Raises `ToolError` for a name or a parameter that this syntax cannot write.
        """

    def steps(self, form: ToolCallFormat, tools: Sequence[Tool], markers: Markers) -> tuple[CallStep, ...]:
        """How to find the JSON values of calls while they are written; () where this syntax cannot tell."""

    def render(self, form: ToolCallFormat, calls: Sequence[Call], tools: Mapping[str, Tool]) -> str:
        """The whole section as this syntax writes it; raises `ToolError` for a value it cannot carry."""

    def parser(self, form: ToolCallFormat, tools: Mapping[str, Tool], markers: Markers) -> CallsParser:
        """A parser for one section."""
