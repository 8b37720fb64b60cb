"""The enums of the registry: roles of markers, categories of tokens, and sources of tokens."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["PAIRS", "Category", "Role", "Source"]


class Role(StrEnum):
    """The role of a marker in a model's wire format."""

    BOS = "bos"  #: begins a text
    EOS = "eos"  #: the tokenizer's end of sequence; the ids that really end a turn are `SpecialTokens.ends`
    PAD = "pad"  #: pads the rows of a batch; never part of an answer
    UNK = "unk"  #: replaces text that the vocabulary cannot encode
    TURN_START = "turn_start"  #: opens a message
    TURN_END = "turn_end"  #: closes a message
    REASONING_START = "reasoning_start"  #: opens the block in which the model thinks
    REASONING_END = "reasoning_end"  #: closes that block
    TOOL_CALLS_START = "tool_calls_start"  #: opens a section of several calls
    TOOL_CALLS_END = "tool_calls_end"  #: closes that section
    TOOL_CALL_START = "tool_call_start"  #: opens one call
    TOOL_CALL_END = "tool_call_end"  #: closes that call
    TOOL_RESULT_START = "tool_result_start"  #: opens the result of a call (never written by the model)
    TOOL_RESULT_END = "tool_result_end"  #: closes that result


#: Pairs of roles; a model that has only one marker of a pair is treated as having neither.
PAIRS: tuple[tuple[Role, Role], ...] = (
    (Role.REASONING_START, Role.REASONING_END),
    (Role.TOOL_CALLS_START, Role.TOOL_CALLS_END),
    (Role.TOOL_CALL_START, Role.TOOL_CALL_END),
    (Role.TOOL_RESULT_START, Role.TOOL_RESULT_END),
)


class Category(StrEnum):
    """The category of a token; every token of the registry has exactly one."""

    EOS = "eos"  #: really ends a turn or a text; looking like an end is not enough
    PAD = "pad"  #: padding
    BOS = "bos"  #: begins a text
    SEP = "sep"  #: separates segments
    CLS = "cls"  #: classification slot
    MASK = "mask"  #: masked-language-model and fill-in-the-middle slots
    TOOL = "tool"  #: frames tool calls and their results
    FUNCTION = "function"  #: frames the name of a called function
    PARAMETER = "parameter"  #: frames one argument
    ROLE = "role"  #: opens or closes a message, or names who speaks
    CONTENT_TYPE = "content_type"  #: announces an image, audio, video or another kind of content
    REASONING = "reasoning"  #: frames reasoning
    OTHER = "other"  #: none of the above


class Source(StrEnum):
    """The place that defines the token: the added tokens or the base vocabulary."""

    SPECIAL = "special"  #: added, flagged special: ``skip_special_tokens`` drops it when decoding
    ADDED = "added"  #: added, not flagged special: decoding keeps it as text
    COMMON = "common"  #: a well-known text in the base vocabulary that no file of the model names: ordinary text
