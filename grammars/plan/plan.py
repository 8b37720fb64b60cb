"""A plan: everything that guides one answer, as one immutable value.

A plan is composed from a request (`grammars.compose.compose`), can be printed, compared and sent between processes
(`grammars.plan.wire`), and holds no object of an engine, a tokenizer or a model.  It belongs to one vocabulary, which
``fingerprint`` names.

Reading aid.  ``grammar`` writes the whole turn; each place where the turn may end is followed by a *sentinel*, an
id past the vocabulary that is never sampled: when the engine's mask offers it, the answer is complete, and
`GuidanceState` offers the region's real ends instead.  ``regions`` says how to follow the text from region to
region, for budgets, stops, parsers and pictures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, cast

from grammars.call_steps import CallStep
from grammars.values.format import Format
from grammars.json_schema import SchemaReport, Watcher
from grammars.json_schema.document.closed_objects import closed
from grammars.tree.render import Rendered
from grammars.shortest.subschema_texts import ShortestTexts
from grammars.tools.parameters import arguments_schema, ordered
from grammars.values.tool import Tool
from special_tokens.errors import RequestError, ToolError, shown

__all__ = [
    "SENTINELS",
    "Budget",
    "End",
    "Entry",
    "Exit",
    "Pieces",
    "Plan",
    "QuoteSpan",
    "ReasoningPlan",
    "Region",
    "RegionName",
    "ResponsePlan",
    "Stops",
    "when_asked",
]

#: Private ids past the vocabulary that plans may use; the engine's tokenizer is built that much larger.
SENTINELS = 32

#: Marker text as token ids and plain text, see `SpecialTokens.pieces`.
Pieces = tuple[int | str, ...]


class RegionName(StrEnum):
    """The parts of an answer."""

    REASONING = "reasoning"  #: inside the reasoning block
    CONTENT = "content"  #: free text
    RESPONSE = "response"  #: text under a response format
    TOOL_CALLS = "tool_calls"  #: a section of tool calls, markers included


@dataclass(frozen=True, slots=True)
class Exit:
    """Leave a region when ``trigger`` has been written: go to region number ``to``.

    ``before`` and ``after`` are framing texts around the trigger (``\\n`` before ``</think>``, ``\\n\\n`` after it)
    that belong to the marker and not to the text beside it: the parser drops each of them exactly once.
    """

    trigger: Pieces
    to: int
    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True)
class QuoteSpan:
    """A span of a region in which its exits are ordinary text."""

    open: Pieces
    close: Pieces
    escape: str = ""


@dataclass(frozen=True, slots=True)
class Region:
    """One row of the table that follows an answer."""

    name: RegionName
    exits: tuple[Exit, ...] = ()
    quotes: tuple[QuoteSpan, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """A place to begin, chosen by how the prompt ends.

    ``fresh``: nothing is written yet; ``inside``: the prompt opened the reasoning block; ``after``: it closed it.
    ``region`` is the number of the region that the answer begins in, ``first`` the white space that frames it and
    is still to come.
    """

    name: str
    region: int
    first: str = ""


@dataclass(frozen=True, slots=True)
class End:
    """Where the grammar allows ``sentinel``, the turn may end by any of ``ids``."""

    sentinel: int
    region: RegionName
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Budget:
    """At most ``max_tokens`` tokens between the markers of region number ``region``; then ``close`` is forced."""

    region: int
    max_tokens: int
    close: Pieces


@dataclass(frozen=True, slots=True)
class ReasoningPlan:
    """What was asked about reasoning and what came of it.

    ``start`` and ``end`` are the markers without their white space, as pieces; ``opened_by`` are the literal texts,
    with anything between them, by which a prompt opens the block where that is not ``start``.
    """

    effort: str | None = None
    preset: str = "native"
    applied: bool = False
    start: Pieces = ()
    end: Pieces = ()
    opened_by: tuple[Pieces, ...] = ()


class _WhenAsked:
    """A field that holds its value, or what finds it: most requests never ask, and then it costs nothing."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, record: Any, owner: type) -> Any:
        if record is None:
            return None  # the default of the field
        found = record.__dict__[self.name]
        if callable(found):
            found = record.__dict__[self.name] = found()
        return found

    def __set__(self, record: Any, value: Any) -> None:
        record.__dict__[self.name] = value


def when_asked(find: Callable[[], str | None]) -> str | None:
    """A value of `ResponsePlan.shortest` that is found when it is first read."""
    return cast("str | None", find)


@dataclass(frozen=True)
class ResponsePlan:
    """The response format: its kind (``json``, ``regex``, ``choice``, ``lark`` ...) and what checks the text.

    ``schema`` for JSON kinds, with the ``documents`` that it refers to by URI; ``pattern`` for a regex, ``choices`` for
    a choice, ``source`` for grammars and tags; ``shortest`` a shortest legal text where one is known.
    """

    kind: str
    schema: Any = None
    pattern: str | None = None
    choices: tuple[str, ...] = ()
    shortest: str | None = cast("str | None", _WhenAsked())
    report: SchemaReport = SchemaReport()
    name: str = ""
    source: str = ""
    documents: Mapping[str, Any] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        """What copies and other processes get: the text, not what finds it."""
        return {**vars(self), "shortest": self.shortest}


@dataclass(frozen=True, slots=True)
class Stops:
    """Stop sequences of the request.  ``strings`` and ``regex`` act on content, ``ids`` on any token."""

    strings: tuple[str, ...] = ()
    ids: tuple[int, ...] = ()
    regex: str | None = None
    include: bool = False
    everywhere: bool = False

    def __post_init__(self) -> None:
        """One string or id is taken as a list of one; raises `RequestError` for what is neither."""
        for name, kind in (("strings", str), ("ids", int)):
            value = getattr(self, name)
            if isinstance(value, kind):
                value = (value,)
            if not isinstance(value, Sequence):
                raise RequestError(f"{shown(value)} is no list", place=f"stop.{name}", expected=f"a list of {name}")
            object.__setattr__(self, name, tuple(value))
        for i, string in enumerate(self.strings):
            if not isinstance(string, str):
                raise RequestError(f"{shown(string)} is not text", place=f"stop[{i}]", expected="a string")
        for i, token in enumerate(self.ids):
            if isinstance(token, bool) or not isinstance(token, int):
                raise RequestError(f"{shown(token)} is not a token id", place=f"stop.ids[{i}]", expected="an integer")
        if self.regex is not None and not isinstance(self.regex, str):
            raise RequestError(f"{shown(self.regex)} is not text", place="stop.regex", expected="a pattern")
        for name in ("include", "everywhere"):
            if not isinstance(getattr(self, name), bool):
                raise RequestError(f"{shown(getattr(self, name))}", place=f"stop.{name}", expected="true or false")

    def __bool__(self) -> bool:
        return bool(self.strings or self.ids) or self.regex is not None


@dataclass(frozen=True, slots=True)
class Plan:
    """One request's guidance.  ``python_type`` stays in the process and takes no part in comparison or wire."""

    fingerprint: str
    vocab_size: int
    format: Format
    grammar: Rendered
    entries: tuple[Entry, ...]
    regions: tuple[Region, ...]
    ends: tuple[End, ...]
    budgets: tuple[Budget, ...] = ()
    reasoning: ReasoningPlan = ReasoningPlan()
    response: ResponsePlan | None = None
    tools: tuple[Tool, ...] = ()
    tool_choice: str = "auto"
    tool_report: SchemaReport = SchemaReport()
    stops: Stops = Stops()
    watchers: tuple[Watcher, ...] = ()  #: of the response
    shortest_arguments: tuple[tuple[str, str], ...] = ()  #: places of tools' JSON and a shortest text of each, if known
    call_steps: tuple[CallStep, ...] = ()  #: where the JSON values of tool calls stand, and their watchers
    template_kwargs: tuple[tuple[str, Any], ...] = ()
    max_tokens: int | None = None
    ignored: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    python_type: Any = field(default=None, compare=False, repr=False)
    _texts: dict[str | None, Mapping[str, str | None]] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    def entry(self, name: str) -> Entry:
        """The entry called ``name``; the first one where the plan has no such entry."""
        return next((entry for entry in self.entries if entry.name == name), self.entries[0])

    def engine_text(self, entry: str = "") -> str:
        """The grammar that the engine compiles for one entry."""
        return self.grammar.engine_text(entry)

    @property
    def lark(self) -> str:
        """The composed grammar as Lark, for readers."""
        return self.grammar.lark()

    @property
    def schema_report(self) -> SchemaReport:
        """What the masks keep of the response format's schema."""
        return self.response.report if self.response else SchemaReport()

    def shortest_texts(self, tool: str | None = None) -> Mapping[str, str | None]:
        """A shortest text of each subschema of the response format, or of the parameters of ``tool``, by JSON pointer.

        Each is found when it is first asked for, see `ShortestTexts`.  Of formats without a schema there is only the
        whole (``""``), and nothing where there is no response format.  Raises `ToolError` for a tool that the plan
        does not have.
        """
        if tool not in self._texts:
            self._texts[tool] = self._texts_of_response() if tool is None else self._texts_of_tool(tool)
        return self._texts[tool]

    def _texts_of_response(self) -> Mapping[str, str | None]:
        response = self.response
        if response is None or response.kind != "json":
            return {} if response is None else {"": response.shortest}
        return ShortestTexts(response.schema, spelling=self.format.spelling, documents=response.documents)

    def _texts_of_tool(self, name: str) -> Mapping[str, str | None]:
        tool = next((tool for tool in self.tools if tool.name == name), None)
        if tool is None:
            known = ", ".join(self.tool_names()) or "none"
            raise ToolError(f"there is no tool {shown(name)}", place="tool", expected=f"one of the plan's: {known}")
        if tool.kind == "custom":
            return {}
        schema, form = closed(arguments_schema(tool)), self.format.tool_calls
        return ShortestTexts(ordered(form, schema) if form else schema, spelling=self.format.spelling_of_calls)

    def end_ids(self) -> frozenset[int]:
        """Every id that may end this answer somewhere."""
        return frozenset(i for end in self.ends for i in end.ids)

    def tool_names(self) -> Iterable[str]:
        return (tool.name for tool in self.tools)
