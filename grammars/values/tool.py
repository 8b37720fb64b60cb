"""Tools and calls as values, in whichever form a client passed them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from grammars.values.report import ReportRow

__all__ = ["Call", "PythonTool", "Tool"]


class PythonTool(Protocol):
    """The Python side of a tool: it reads the arguments of a call, and runs with them."""

    def read(self, arguments: str) -> Any: ...

    def run(self, parsed: Any) -> Any: ...


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool.  ``parameters`` is the JSON schema of its arguments object.

    ``kind`` is ``custom`` for a tool whose argument is text under its own ``grammar``: a pair of syntax (``lark``,
    ``regex`` or ``text``) and definition.  ``rows`` say what its Python types ask for and no schema can say;
    ``python`` takes no part in comparison and is not sent.
    """

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    strict: bool | None = None
    kind: Literal["function", "custom"] = "function"
    grammar: tuple[str, str] | None = None
    rows: tuple[ReportRow, ...] = ()
    python: PythonTool | None = field(default=None, compare=False, repr=False, metadata={"local": True})

    def to_openai(self) -> dict[str, Any]:
        """Return the tool as chat templates expect it; a custom tool becomes a function of one text."""
        function = {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}
        if self.kind == "custom":
            text = (
                {"type": "string"} if self.grammar is None else {"type": "string", "description": self._grammar_text()}
            )
            function["parameters"] = {"type": "object", "properties": {"input": text}, "required": ["input"]}
        return {"type": "function", "function": function}

    def _grammar_text(self) -> str:
        syntax, definition = self.grammar or ("text", "")
        return f"text of this {'regular expression' if syntax == 'regex' else 'Lark grammar'}: {definition}"


@dataclass(frozen=True, slots=True)
class Call:
    """A call: arguments as a JSON object, or the raw text of a custom tool."""

    name: str
    arguments: Mapping[str, Any] | str
    id: str = ""
