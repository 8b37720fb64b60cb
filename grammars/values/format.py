"""A model's wire format as one immutable value: how it thinks, answers, calls tools and ends its turn.

A `Format` holds text only, never token ids: a marker is written as the tokenizer spells it (``<think>``), and
`grammars.tree.markers` decides per tokenizer whether it is a token or plain text.  The grammar that writes a format
and the parser that reads it are both built from the same value.

The assistant's turn, after the generation prompt, in this notation::

    turn      = [reasoning] answer end
    reasoning = reasoning.start TEXT reasoning.end
    answer    = content | [content gap] calls [content]
    content   = content.start TEXT content.end
    calls     = section_start call (between call)* section_end
    call      = call_start ... call_end            (the inside belongs to the syntax)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from grammars.values.spelling import DEFAULT_SPELLING, Spelling

__all__ = [
    "ContentFormat",
    "EffortSwitch",
    "Ends",
    "Format",
    "InputNeeds",
    "ReasoningFormat",
    "Switch",
    "ToolCallFormat",
]

Option = str | int | bool | None


@dataclass(frozen=True, slots=True)
class Switch:
    """A chat-template argument that turns reasoning on and off; None stands for leaving it out."""

    name: str  #: ``enable_thinking``, ``thinking``, ``reasoning`` ...
    on: Any = True
    off: Any = False


@dataclass(frozen=True, slots=True)
class EffortSwitch:
    """A chat-template argument that takes an effort level; it changes the prompt's text, never the framing."""

    name: str  #: ``reasoning_effort``, ``thinking_effort`` ...
    values: tuple[str, ...]  #: legal values, weakest first


@dataclass(frozen=True, slots=True)
class ReasoningFormat:
    """How the reasoning block is framed; white space is the framing's own, exactly as templates render it."""

    start: str  #: ``<think>\\n``
    end: str  #: ``\\n</think>\\n\\n``
    empty: str = ""  #: what stands for "no reasoning" (``<think>\\n\\n</think>\\n\\n``); empty: nothing is written
    default_on: bool = False  #: does the model reason when nobody asks?
    can_be_off: bool = True  #: gpt-oss cannot: then "none" goes straight to the content's own start
    switch: Switch | None = None
    effort_switch: EffortSwitch | None = None
    ends_by_call: bool = False  #: a tool call may end the block without its end marker
    prompt_on: str = ""  #: what the generation prompt adds after the assistant's header when reasoning is on
    prompt_off: str = ""  #: the same when it is off: the empty block, or nothing
    closed_lead: str = ""  #: white space that an answer begins with behind a block that the prompt closed
    opened_by: str = ""  #: how a prompt opens the block if not by ``start``: a pattern, ``<think budget="$value">``


@dataclass(frozen=True, slots=True)
class ContentFormat:
    """Markers around the answer's text (harmony's final channel); most families have none.

    ``opening`` is white space that every answer begins with behind the generation prompt; it belongs to the header.
    Where text before calls is framed in a way of its own (harmony's preamble), ``lead_start`` and ``lead_end`` are
    that frame; without one, text in front of calls ends where these begin.
    """

    opening: str = ""
    start: str = ""
    end: str = ""
    lead_start: str = ""
    lead_end: str = ""


@dataclass(frozen=True, slots=True)
class ToolCallFormat:
    """How calls are written: which syntax module, and every delimiter as data.

    ``options`` are read by the syntax module alone (``name_key``, ``args_key``, ``separator`` ...), sorted pairs.
    """

    syntax: str  #: id of a module in `grammars.tool_calls`
    section_start: str = ""
    section_end: str = ""
    call_start: str = ""
    call_end: str = ""
    between: str = ""  #: between two calls of one section
    gap: str = ""  #: between text and the first call
    gap_without_text: str = ""  #: before the first call when there is no text
    max_calls: int | None = None  #: the most that one turn can write; None: any number
    text_before: bool = True  #: may text stand before calls?
    text_after: bool = False  #: may text stand after calls?
    id_style: str = ""  #: how ids are made: "" (``call_`` + 24), "alnum9", "functions.$name:$index"
    options: tuple[tuple[str, Option], ...] = ()
    spelling: Spelling = DEFAULT_SPELLING  #: of the JSON that calls hold, where the template writes it otherwise

    def option(self, name: str, default: Option = None) -> Any:
        """The syntax's own option ``name``."""
        return dict(self.options).get(name, default)


@dataclass(frozen=True, slots=True)
class Ends:
    """Which markers end the turn, by what they end; text that looks like an end but is not, apart."""

    content: tuple[str, ...] = ()  #: after an answer
    calls: tuple[str, ...] = ()  #: after tool calls; empty: the same as ``content``
    not_ends: tuple[str, ...] = ()  #: close a part (``<|end|>`` of harmony), never the turn


@dataclass(frozen=True, slots=True)
class InputNeeds:
    """What the template demands of messages, so that clients' messages can be brought into its form."""

    arguments: Literal["object", "string"] = "object"  #: how ``tool_calls[].function.arguments`` must be passed
    content_of_calls: Literal["empty", "none"] = "empty"  #: content beside calls when there is no text
    content_parts: bool = False  #: takes lists of parts; else text parts are joined first
    content_as: Literal["text", "parts"] = "text"  #: plain text as it is, or as a list of one part
    developer_role: bool = False  #: knows the role ``developer``; else it becomes ``system``
    system_role: bool = True  #: knows the role ``system``; else its text goes into the first user message
    tools: Literal["native", "described"] = "described"  #: does the template itself show the tools?
    reasoning: Literal["native", "described"] = "native"  #: was the model trained to reason, or must it be told?
    tool_calls: Literal["native", "described"] = "described"  #: does the template render calls, or are they text?
    tool_results: Literal["native", "described"] = "described"  #: does the template render role ``tool``?
    kwargs: tuple[tuple[str, Any], ...] = ()  #: template arguments that rendering needs
    tools_as: str = "tools"  #: the template argument that takes tools
    tools_are_text: bool = False  #: it takes them as JSON text, not as a list
    reasoning_as: str = ""  #: the field of messages that carries reasoning, or ``parts``; "": it is never rendered
    #: what becomes of text in a message with calls: it may also vanish, follow them, take their place, be thought, or
    #: stand in a message of its own
    text_beside_calls: Literal["kept", "dropped", "after", "instead", "thought", "apart"] = "kept"


@dataclass(frozen=True, slots=True)
class Format:
    """Everything guided needs to know about how one model writes.

    ``evidence`` pairs each field with how it is known (``override``, ``response_template``, ``rendering``,
    ``vocabulary``, ``family NAME``, ``fallback``).
    """

    name: str  #: the family's id, or ``inferred``
    reasoning: ReasoningFormat | None = None
    content: ContentFormat = ContentFormat()
    tool_calls: ToolCallFormat | None = None
    ends: Ends = Ends()
    inputs: InputNeeds = InputNeeds()
    spelling: Spelling = DEFAULT_SPELLING
    evidence: tuple[tuple[str, str], ...] = field(default=(), compare=False)

    @property
    def spelling_of_calls(self) -> Spelling:
        """Of the JSON in calls: their own where they have one."""
        form = self.tool_calls
        return self.spelling if form is None or form.spelling == DEFAULT_SPELLING else form.spelling

    def to_json(self) -> Mapping[str, Any]:
        """The format as JSON values, for printing and for family files."""
        return asdict(self)
