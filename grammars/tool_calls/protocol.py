"""The protocol of a tool-call syntax: a grammar, a rendering and a parser made from one `ToolCallFormat`.

Each syntax is a class in a module of `grammars.tool_calls.syntaxes`; differences between model families are data in the
format.  A syntax gets all delimiters as text; `Markers` resolves them to tokens if the tokenizer has them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from grammars.tree.markers import Markers
from grammars.tree.nodes import Node
from grammars.values.call_values import CallStep
from grammars.values.format import ToolCallFormat
from grammars.values.tool import Call, Tool

__all__ = [
    "ArgumentsDelta",
    "CallEnded",
    "CallEvent",
    "CallStarted",
    "CallsParser",
    "CutCall",
    "Quote",
    "SchemaNode",
    "StrayText",
    "ToolSyntax",
]

#: (JSON schema, JSON pointer for its report) -> grammar node of its instances
SchemaNode: TypeAlias = Callable[[Any, str], Node]


@dataclass(frozen=True, slots=True)
class CallStarted:
    """The name of call ``index`` (from 0) is known.  ``id`` is "" unless the model wrote one."""

    index: int
    name: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class ArgumentsDelta:
    """A further piece of the JSON text of call ``index``'s arguments; concatenated, the pieces are the whole text."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class CallEnded:
    """Call ``index`` and its arguments are complete."""

    index: int


@dataclass(frozen=True, slots=True)
class StrayText:
    """Text between calls that belongs to none of them, as in unguided output; it is never dropped."""

    text: str


@dataclass(frozen=True, slots=True)
class CutCall:
    """The output ended within a call: ``text`` is what was written of it and is in no other event.

    ``name`` is the name of its tool where that was read, else "".
    """

    text: str
    name: str = ""


CallEvent: TypeAlias = CallStarted | ArgumentsDelta | CallEnded | StrayText | CutCall


@dataclass(frozen=True, slots=True)
class Quote:
    """A span from ``open`` to ``close`` in which end markers of a call are ordinary text.

    ``escape`` is the character that escapes the next one (``\\`` in JSON strings); "" for raw text.  All three are
    text that may spell markers.  An inner span lies within the last one that is not.
    """

    open: str
    close: str
    escape: str = ""
    is_inner: bool = False


class CallsParser(Protocol):
    """An incremental parser of one section of calls.

    Its input is marked text (see `Markers.marked`) in pieces of any size, beginning with the trigger that opened the
    section.  ``feed`` returns the events that became certain.  ``finish`` is called once, at the end of the output, and
    returns the text held back so far: as arguments or a `CutCall` if it belongs to a call, else as `StrayText`.  The
    concatenated events do not depend on how the text was split.
    """

    @property
    def is_done(self) -> bool:
        """Whether the section has ended; later text is not part of a call."""

    @property
    def trailing_text(self) -> str:
        """Marked text that was fed after the end of the section."""

    def feed(self, text: str) -> Sequence[CallEvent]: ...

    def finish(self) -> Sequence[CallEvent]: ...


class ToolSyntax(Protocol):
    """One syntax of tool calls."""

    id: str

    def quotes(self, form: ToolCallFormat) -> tuple[Quote, ...]:
        """The spans in which end markers are ordinary text."""

    def triggers(self, form: ToolCallFormat, tools: Sequence[Tool]) -> tuple[str, ...]:
        """The texts that begin a section of calls; free content cannot contain any of them."""

    def call(self, form: ToolCallFormat, tool: Tool, markers: Markers, schema: SchemaNode) -> Node:
        """The grammar of one call of ``tool``, from ``call_start`` to ``call_end``.

        Raises `ToolError` if this syntax cannot write the tool's name or a parameter.
        """

    def value_table(self, form: ToolCallFormat, tools: Sequence[Tool], markers: Markers) -> tuple[CallStep, ...]:
        """The table by which JSON values are found while calls are written; () if this syntax has none."""

    def render(self, form: ToolCallFormat, calls: Sequence[Call], tools: Mapping[str, Tool]) -> str:
        """Write a whole section; raises `ToolError` for a value that this syntax cannot write."""

    def parser(self, form: ToolCallFormat, tools: Mapping[str, Tool], markers: Markers) -> CallsParser:
        """Return a new parser of one section."""
