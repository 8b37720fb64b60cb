"""What a marker is for: the roles that families and grammars speak of, and the categories of tokens."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["PAIRS", "Category", "Role", "Source"]


class Role(StrEnum):
    """The job of one marker in a model's wire format."""

    BOS = "bos"  #: begins a text
    EOS = "eos"  #: the tokenizer's own end of sequence; which ids really end a turn is `SpecialTokens.ends`
    PAD = "pad"  #: fills rows of a batch; never part of an answer
    UNK = "unk"  #: stands for text that the vocabulary cannot write
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


#: Roles that mean something only together: an incomplete pair is not reported at all.
PAIRS: tuple[tuple[Role, Role], ...] = (
    (Role.REASONING_START, Role.REASONING_END),
    (Role.TOOL_CALLS_START, Role.TOOL_CALLS_END),
    (Role.TOOL_CALL_START, Role.TOOL_CALL_END),
    (Role.TOOL_RESULT_START, Role.TOOL_RESULT_END),
)


class Category(StrEnum):
    """The drawer a token belongs to; every token of the registry is in exactly one."""

    EOS = "eos"  #: ends a turn or a text (the semantic set, not everything that looks like an end)
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
    """How the tokenizer holds a token."""

    SPECIAL = "special"  #: added, flagged special: vanishes under ``skip_special_tokens``
    ADDED = "added"  #: added, not flagged special: survives decoding as text
    COMMON = "common"  #: an entry of the base vocabulary
