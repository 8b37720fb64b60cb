"""A model's wire format as one immutable value: how it thinks, answers, calls tools and ends its turn.

A `Format` holds text only, never token ids: a marker is written as the tokenizer spells it (``<think>``), and
`grammars.tree.markers` decides per tokenizer whether it is a token or plain text.  The grammar that writes a format
and the parser that reads it are both built from the same value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

from grammars.values.spelling import DEFAULT_SPELLING, Spelling

__all__ = [
    "PARTS",
    "Anchor",
    "ContentFormat",
    "EffortSwitch",
    "Ends",
    "Evidence",
    "Format",
    "InputNeeds",
    "ReasoningFormat",
    "Switch",
    "ToolCallFormat",
]

Option = str | int | bool | None
#: Pairs of a part of a format and the sources of its values.
Evidence: TypeAlias = tuple[tuple[str, str], ...]

#: The parts of a format, in the order in which they are shown.
PARTS = ("reasoning", "content", "tool_calls", "ends", "inputs")


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
    """The frame of the reasoning block; white space belongs to it, exactly as templates render it."""

    start: str  #: ``<think>\\n``
    end: str  #: ``\\n</think>\\n\\n``
    empty: str = ""  #: the text that means "no reasoning" (``<think>\\n\\n</think>\\n\\n``); empty: nothing is written
    default_on: bool = False  #: whether the model reasons when the request does not ask for it
    can_be_off: bool = True  #: false for gpt-oss: then "none" goes straight to the content's own start
    switch: Switch | None = None
    effort_switch: EffortSwitch | None = None
    ends_by_call: bool = False  #: a tool call may end the block without its end marker
    prompt_on: str = ""  #: what the generation prompt adds after the assistant's header when reasoning is on
    prompt_off: str = ""  #: the same when it is off: the empty block, or nothing
    closed_lead: str = ""  #: white space that begins an answer after a block that the prompt closed
    opened_by: str = ""  #: how a prompt opens the block if not by ``start``: a pattern, ``<think budget="$value">``


@dataclass(frozen=True, slots=True)
class ContentFormat:
    """Markers around the answer's text (harmony's final channel); most families have none.

    ``opening`` is white space that begins every answer after the generation prompt; it belongs to the header.
    ``lead_start`` and ``lead_end`` frame text before calls where it has a frame of its own (harmony's preamble);
    without one, such text ends where the calls begin.
    """

    opening: str = ""
    start: str = ""
    end: str = ""
    lead_start: str = ""
    lead_end: str = ""


@dataclass(frozen=True, slots=True)
class Anchor:
    """A token that stands in prompts and answers where the chat template itself writes a text tag."""

    token: str  #: the text of a token that nothing else uses
    closes: str  #: the tag in whose place it stands, and white space before it
    opening: str  #: the text that begins what the tag closes


@dataclass(frozen=True, slots=True)
class ToolCallFormat:
    """The form of tool calls: the id of their syntax, and every delimiter as data.

    ``options`` are read by the syntax module alone (``name_key``, ``args_key``, ``separator`` ...), sorted pairs.
    """

    syntax: str  #: id of a module in `grammars.tool_calls.syntaxes.lookup`
    section_start: str = ""
    section_end: str = ""
    call_start: str = ""
    call_end: str = ""
    between: str = ""  #: between two calls of one section
    gap: str = ""  #: between text and the first call
    gap_without_text: str = ""  #: before the first call when there is no text
    max_calls: int | None = None  #: limit for one turn; None: any number
    text_before: bool = True  #: whether text may precede calls
    text_after: bool = False  #: whether text may follow calls; ``Guide(..., text_after_calls=...)`` sets it
    id_style: str = ""  #: form of ids: "" (``call_`` + 24), "alnum9", "functions.$name:$index"
    options: tuple[tuple[str, Option], ...] = ()
    anchors: tuple[Anchor, ...] = ()  #: of a call and of an argument, for models that were tuned with such tokens
    spelling: Spelling = DEFAULT_SPELLING  #: of the JSON in calls, where the template writes it otherwise

    def option(self, name: str, default: Option = None) -> Any:
        """Return the syntax's own option ``name``, or ``default``."""
        return dict(self.options).get(name, default)


@dataclass(frozen=True, slots=True)
class Ends:
    """The markers that end the turn, and those that only look like it."""

    content: tuple[str, ...] = ()  #: after an answer
    calls: tuple[str, ...] = ()  #: after tool calls; empty: the same as ``content``
    not_ends: tuple[str, ...] = ()  #: end a part (``<|end|>`` of harmony), never the turn


@dataclass(frozen=True, slots=True)
class InputNeeds:
    """The form of messages that the template needs; clients' messages are converted to it."""

    arguments: Literal["object", "string"] = "object"  #: how ``tool_calls[].function.arguments`` must be passed
    content_of_calls: Literal["empty", "none"] = "empty"  #: content of a message with calls and no text
    content_as: Literal["text", "parts"] = "text"  #: plain text as it is, or as a list of one part
    developer_role: bool = False  #: accepts the role ``developer``; else it becomes ``system``
    system_role: bool = True  #: accepts the role ``system``; else its text goes into the first user message
    tools: Literal["native", "described"] = "described"  #: whether the template itself shows the tools
    reasoning: Literal["native", "described"] = "native"  #: whether it was trained to reason, or needs an instruction
    tool_calls: Literal["native", "described"] = "described"  #: whether it renders calls, or takes them as text
    tool_results: Literal["native", "described"] = "described"  #: whether the template renders the role ``tool``
    kwargs: tuple[tuple[str, Any], ...] = ()  #: template arguments that rendering needs
    tools_as: str = "tools"  #: the template argument that takes tools
    tools_are_text: bool = False  #: it takes them as JSON text, not as a list
    reasoning_as: str = ""  #: the field of messages that carries reasoning, or ``parts``; "": it is never rendered
    #: what the template does with text in a message with calls: it may also drop it, write it after them or instead of
    #: them, render it as reasoning, or put it into a message of its own
    text_beside_calls: Literal["kept", "dropped", "after", "instead", "thought", "apart"] = "kept"


# The assistant's turn, after the generation prompt:
#   turn      = [reasoning] answer end
#   reasoning = reasoning.start TEXT reasoning.end
#   answer    = content | [content gap] calls [content]
#   content   = content.start TEXT content.end
#   calls     = section_start call (between call)* section_end
#   call      = call_start ... call_end            (the inside belongs to the syntax)
@dataclass(frozen=True, slots=True)
class Format:
    """The wire format of one model.

    ``evidence`` pairs each part with the sources of its values (``rendering``, ``vocabulary``,
    ``family NAME``, ``fallback``).
    """

    name: str  #: the family's id, or ``inferred``
    reasoning: ReasoningFormat | None = None
    content: ContentFormat = ContentFormat()
    tool_calls: ToolCallFormat | None = None
    ends: Ends = Ends()
    inputs: InputNeeds = InputNeeds()
    spelling: Spelling = DEFAULT_SPELLING
    evidence: Evidence = field(default=(), compare=False)

    @property
    def spelling_of_calls(self) -> Spelling:
        """Of the JSON in calls: their own where they have one."""
        form = self.tool_calls
        return self.spelling if form is None or form.spelling == DEFAULT_SPELLING else form.spelling

    def to_json(self) -> Mapping[str, Any]:
        """The format as JSON values, for printing and for family files."""
        return asdict(self)
