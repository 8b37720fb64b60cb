"""A plan: everything that guides one answer, as one immutable value.

A plan is composed from a request (`grammars.compose.compose`).  It holds no function and no object of an engine, a
tokenizer or a model: it can be printed, compared, copied, pickled and sent (`grammars.plan.wire`) without compiling
anything.  It belongs to one vocabulary, which ``fingerprint`` names.  ``grammar`` writes the whole turn; ``regions``
says how to follow the text from region to region, for budgets, stops, parsers and traces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias

from grammars.tree.rendered import Rendered
from grammars.values.format import Format
from grammars.values.report import SchemaReport
from grammars.values.spelling import DEFAULT_SPELLING, Spelling
from grammars.values.tool import Tool
from grammars.values.watchers import CallStep, Watcher
from special_tokens.errors import PlanError, RequestError, shown

__all__ = [
    "ENTRIES",
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
    "RowPlan",
    "Stops",
    "checked_plan",
]

#: Private ids past the vocabulary that plans may use; the engine's tokenizer is built that much larger.  One of them, a
#: *sentinel*, follows each place where the turn may end and is never sampled: when the engine's mask allows it, the
#: answer is complete, and `GuidanceState` allows the end tokens of the region instead.
SENTINELS = 32

#: Marker text as token ids and plain text, see `SpecialTokens.pieces`.
Pieces = tuple[int | str, ...]


class RegionName(StrEnum):
    """The parts of an answer."""

    REASONING = "reasoning"  #: inside the reasoning block
    CONTENT = "content"  #: free text
    RESPONSE = "response"  #: text under a response format
    TOOL_CALLS = "tool_calls"  #: a section of tool calls, markers included
    PROMPT = "prompt"  #: the end of a prompt, written again in other tokens


@dataclass(frozen=True, slots=True)
class Exit:
    """Leave a region when ``trigger`` has been written: go to region number ``to``.

    ``before`` and ``after`` are framing texts around the trigger (``\\n`` before ``</think>``, ``\\n\\n`` after it)
    that belong to the marker and not to the text next to it: the parser drops each of them exactly once.
    ``at_start``: only white space may come before the trigger; later it is text.
    """

    trigger: Pieces
    to: int
    before: str = ""
    after: str = ""
    at_start: bool = False


@dataclass(frozen=True, slots=True)
class QuoteSpan:
    """A span of a region in which its exits are ordinary text; an inner one lies within the last that is not."""

    open: Pieces
    close: Pieces
    escape: str = ""
    is_inner: bool = False


@dataclass(frozen=True, slots=True)
class Region:
    """One row of the table that follows an answer."""

    name: RegionName
    exits: tuple[Exit, ...] = ()
    quotes: tuple[QuoteSpan, ...] = ()


#: The names of entries.
ENTRIES = ("fresh", "inside", "after")


@dataclass(frozen=True, slots=True)
class Entry:
    """A place where an answer may begin, chosen by how the prompt ends.

    ``fresh``: nothing is written yet; ``inside``: the prompt opened the reasoning block; ``after``: it closed it.
    ``region`` is the number of the region that the answer begins in, ``first`` the white space of its framing that
    the answer still has to write.
    """

    name: str
    region: int
    first: str = ""


@dataclass(frozen=True, slots=True)
class End:
    """An end of the turn: where the grammar allows ``sentinel``, any of the tokens ``ids`` may end it."""

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
    """The reasoning that was asked for, and whether it is applied.

    ``start`` and ``end`` are the markers without their white space, as pieces.  ``opened_by``: where a prompt opens
    the block by another text than ``start``, the literal parts of that text, with anything between them.
    """

    effort: str | None = None
    preset: str = "native"
    applied: bool = False
    start: Pieces = ()
    end: Pieces = ()
    opened_by: tuple[Pieces, ...] = ()


@dataclass(frozen=True, slots=True)
class ResponsePlan:
    """The response format: its kind (``json``, ``regex``, ``choice``, ``lark`` ...) and what checks the text.

    ``schema`` for JSON kinds, with the ``documents`` that it refers to by URI and its ``spelling``; ``pattern`` for a
    regex, ``choices`` for a choice, ``source`` for grammars and tags.
    """

    kind: str
    schema: Any = None
    pattern: str | None = None
    choices: tuple[str, ...] = ()
    report: SchemaReport = SchemaReport()
    name: str = ""
    source: str = ""
    documents: Mapping[str, Any] = field(default_factory=dict)
    spelling: Spelling = DEFAULT_SPELLING


@dataclass(frozen=True, slots=True)
class Stops:
    """The stop sequences of a request.  ``strings`` and ``regex`` act on content, ``ids`` on any token.

    ``include`` keeps the stop sequence in the text; with ``everywhere`` strings also act outside content.
    """

    strings: tuple[str, ...] = ()
    ids: tuple[int, ...] = ()
    regex: str | None = None
    include: bool = False
    everywhere: bool = False

    def __post_init__(self) -> None:
        """Take one string or id as a list of one; raises `RequestError` for values of another type."""
        for name, kind in (("strings", str), ("ids", int)):
            value = getattr(self, name)
            if isinstance(value, kind):
                value = (value,)
            if not isinstance(value, Sequence):
                raise RequestError(f"{shown(value)} is not a list", place=f"stop.{name}", expected=f"a list of {name}")
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
                value = shown(getattr(self, name))
                raise RequestError(f"{value} is not a switch", place=f"stop.{name}", expected="true or false")

    def __bool__(self) -> bool:
        return bool(self.strings or self.ids) or self.regex is not None


@dataclass(frozen=True, slots=True, repr=False)
class Plan:
    """The guidance of one request.  ``python_type`` takes no part in comparison and is not sent."""

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
    #: where tool calls hold JSON values, and their watchers
    call_values: tuple[CallStep, ...] = ()
    template_kwargs: tuple[tuple[str, Any], ...] = ()
    max_tokens: int | None = None
    ignored: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    anchors: tuple[tuple[str, int], ...] = ()  #: tags of calls, and the tokens that are written in their places
    python_type: Any = field(default=None, compare=False, repr=False, metadata={"local": True})

    def __hash__(self) -> int:
        return hash((self.fingerprint, self.grammar))  # schemas and tools in the other fields have no hash

    def entry(self, name: str) -> Entry:
        """Return the entry called ``name``, or the first one where the plan has no such entry.

        Raises `PlanError` for a name that no plan's entry has.
        """
        if name not in ENTRIES:
            raise PlanError(f"{shown(name)} is unknown", place="entry", expected=" or ".join(ENTRIES))
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
        """The report of the response format: how much of its schema the masks enforce."""
        return self.response.report if self.response else SchemaReport()

    def end_ids(self) -> frozenset[int]:
        """Every id that may end this answer somewhere."""
        return frozenset(i for end in self.ends for i in end.ids)

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The names of the tools that may be called."""
        return tuple(tool.name for tool in self.tools)

    def __repr__(self) -> str:
        """One line of what is asked for; `lark` is the grammar, the fields are all of the plan."""
        asked: dict[str, Any] = {
            "response": self.response.kind if self.response else None,
            "tools": self.tool_names,
            "tool_choice": self.tool_choice if self.tools else None,
            "reasoning": self.reasoning.effort,
            "stops": self.stops or None,
            "max_tokens": self.max_tokens,
            "notes": self.notes,
        }
        shown = (f"{name}={value!r}" for name, value in asked.items() if value not in (None, ()))
        return f"Plan({', '.join(shown)})"


#: What guides one row: a plan, stops alone (the row's logits stay as they are), or nothing.
RowPlan: TypeAlias = Plan | Stops | None


def checked_plan(plan: object, place: str = "plan") -> Plan:
    """Return ``plan``; raise `PlanError` if it is of another type."""
    if not isinstance(plan, Plan):
        raise PlanError(f"{type(plan).__name__} is not a plan", place=place, expected="what guide.plan() gave")
    return plan
