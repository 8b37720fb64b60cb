"""The protocol of a tool-call syntax: a grammar, a rendering and a parser made from one `ToolCallFormat`.

Each syntax is a class in a module of `grammars.tool_calls.syntaxes`; differences between model families are data in the
format.  A syntax gets all delimiters as text; `Markers` resolves them to tokens if the tokenizer has them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from grammars.tool_calls.reader import Reader
from grammars.tree.markers import Markers
from grammars.tree.nodes import Node
from grammars.values.format import ToolCallFormat
from grammars.values.tool import Call, Tool
from grammars.values.watchers import CallStep

__all__ = ["Quote", "SchemaNode", "ToolSyntax"]

#: (JSON schema, JSON pointer for its report) -> grammar node of its instances
SchemaNode: TypeAlias = Callable[[Any, str], Node]


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

    def parser(self, form: ToolCallFormat, tools: Mapping[str, Tool], markers: Markers) -> Reader:
        """Return a new parser of one section."""
