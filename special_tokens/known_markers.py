"""Markers that many model families share: known pairs by role, and the category that a marker's text suggests.

This is the weakest evidence: named tokens, the family file and the ends of the config files take precedence.
Texts are compared by `marker_name`, in which DeepSeek's fullwidth bars and low lines count as ``|`` and ``_``.
"""

from __future__ import annotations

import re
from functools import cache

from special_tokens.roles import Category, Role

__all__ = [
    "CATEGORY_PATTERNS",
    "HTML_TAGS",
    "KNOWN_PAIRS",
    "KNOWN_TOKENS",
    "KNOWN_TURNS",
    "category_of_text",
    "marker_name",
]

_TAGS = """
a abbr address article aside b blockquote body br button caption cite code col colgroup dd del details div dl dt
em figcaption figure footer form h1 h2 h3 h4 h5 h6 head header hr html i img input ins kbd label li link main
mark meta nav ol option p pre q s samp script section select small span strong style sub summary sup table tbody
td textarea tfoot th thead time title tr u ul var video
"""
#: HTML tags: a vocabulary may have them as single tokens, yet they are ordinary text of an answer.
HTML_TAGS = frozenset(_TAGS.split())

Pair = tuple[str, str]

#: Pairs of roles and the known texts for them, in order of preference; a pair counts only if both tokens exist.
KNOWN_PAIRS: tuple[tuple[Role, Role, tuple[Pair, ...]], ...] = (
    (
        Role.REASONING_START,
        Role.REASONING_END,
        (
            ("<think>", "</think>"),
            ("[THINK]", "[/THINK]"),
            ("<|START_THINKING|>", "<|END_THINKING|>"),
            ("<seed:think>", "</seed:think>"),
            ("<|inner_prefix|>", "<|inner_suffix|>"),
            ("<thinking>", "</thinking>"),
            ("<|thinking|>", "<|/thinking|>"),
            ("<reasoning>", "</reasoning>"),
            ("<thought>", "</thought>"),
            ("<reflection>", "</reflection>"),
        ),
    ),
    (
        Role.TOOL_CALLS_START,
        Role.TOOL_CALLS_END,
        (
            ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
            ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
            ("<|START_ACTION|>", "<|END_ACTION|>"),
            ("<|tools_prefix|>", "<|tools_suffix|>"),
        ),
    ),
    (
        Role.TOOL_CALL_START,
        Role.TOOL_CALL_END,
        (
            ("<tool_call>", "</tool_call>"),
            ("<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"),
            ("<|tool_call_begin|>", "<|tool_call_end|>"),
            ("<|tool_call_start|>", "<|tool_call_end|>"),
            ("<|tool_call>", "<tool_call|>"),
            ("<minimax:tool_call>", "</minimax:tool_call>"),
            ("<seed:tool_call>", "</seed:tool_call>"),
            ("<TOOLCALL>", "</TOOLCALL>"),
        ),
    ),
    (
        Role.TOOL_RESULT_START,
        Role.TOOL_RESULT_END,
        (
            ("<tool_response>", "</tool_response>"),
            ("<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>"),
            ("[TOOL_RESULTS]", "[/TOOL_RESULTS]"),
            ("<|START_TOOL_RESULT|>", "<|END_TOOL_RESULT|>"),
            ("<|tool_response>", "<tool_response|>"),
        ),
    ),
)

#: Markers that open and close a message; only complete pairs count.
KNOWN_TURNS: tuple[Pair, ...] = (
    ("<|im_start|>", "<|im_end|>"),
    ("<|start_header_id|>", "<|eot_id|>"),
    ("<start_of_turn>", "<end_of_turn>"),
    ("<|turn>", "<turn|>"),
    ("<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>"),
    ("<|start|>", "<|end|>"),
    ("<|start_of_role|>", "<|end_of_text|>"),
)

_NAMES = """
<s> </s> <unk> <pad> <bos> <eos> <sep> <cls> <mask> [UNK] [PAD] [BOS] [EOS] [SEP] [CLS] [MASK] [INST] [/INST]
<<SYS>> <</SYS>> <|endoftext|> <|startoftext|> <|begin_of_text|> <|end_of_text|> <|eot_id|> <|eom_id|> <|pad|>
<|system|> <|user|> <|assistant|> <|fim_prefix|> <|fim_middle|> <|fim_suffix|> <fim_prefix> <fim_middle> <fim_suffix>
"""
#: Texts of the special tokens that tokenizers of many families have, apart from the markers above.
KNOWN_TOKENS = frozenset(_NAMES.split())

#: Category -> regular expression over `marker_name`, tried in this order; no text alone suggests EOS.
CATEGORY_PATTERNS: tuple[tuple[Category, re.Pattern[str]], ...] = tuple(
    (category, re.compile(pattern))
    for category, pattern in (
        (Category.PAD, r"_?pad_?|finetune_right_pad_id"),
        (Category.BOS, r"bos|bos_token|begin_of_text|startoftext|start_of_text|begin_of_sentence"),
        (Category.SEP, r"sep|message_sep|file_sep|role_sep"),
        (Category.CLS, r"cls"),
        (Category.MASK, r"mask|fim_\w+|prefix|middle|suffix|fill_in\w*"),
        (Category.PARAMETER, r"parameters?|args?|arg_\w+|argument\w*"),
        (Category.FUNCTION, r"function|functions|function_name|invoke"),
        (
            Category.TOOL,
            r"(?:\w+:)?(?:tools?|toolcall|tool_\w+|\w+_tools?|tools_\w+|\w+_tool_result)|function_calls?|(?:\w+:)?call|"
            r"call_id|python_tag|plugin|action_(?:start|end)|(?:start|end)_action|dsml",
        ),
        (
            Category.ROLE,
            r"im_(?:start|end|sep|middle|user|assistant|system)|(?:start|end)_header_id|eo[tm]_id|(?:start|end)_of_turn|"
            r"turn|(?:start|end)_of_turn_token|(?:start|end)_of_role|(?:user|assistant|system|developer|observation|human|"
            r"chatbot|bot)(?:_token|_start|_end)?|inst|system_prompt|start|end|message|return|end_of_msg|endofprompt",
        ),
        (
            Category.CONTENT_TYPE,
            r"(?:(?:start|end)_of_)?(?:image|audio|video|img|vision)(?:_\w+)?|(?:object_ref|box|quad|vision)_\w+|multimodal|"
            r"tts_\w+|channel|constrain|(?:start|end)_(?:response|text)|soft_token|image_\w+",
        ),
        (
            Category.REASONING,
            r"(?:\w+:)?(?:think|thinking|thought|reasoning|reflection|internal)|(?:start|end)_thinking|think_\w+|inner_\w+|"
            r"(?:\w+:)?cot_\w+",
        ),
    )
)

_FULLWIDTH = str.maketrans({"｜": "|", "▁": "_"})
_INSIDE = re.compile(r"<\|?/?(.*?)\|?>|\[/?(.*?)\]")


def marker_name(text: str) -> str:
    """Return a marker's name in a normalised spelling; "" if the text is not bracketed like a marker.

    ``<｜tool▁calls▁begin｜>`` and ``</TOOL_CALLS_BEGIN>`` both give ``tool_calls_begin``.
    """
    match = _INSIDE.fullmatch(text.translate(_FULLWIDTH))
    return (match[1] or match[2] or "").lower() if match else ""


@cache
def category_of_text(text: str) -> Category:
    """The category that the text alone suggests; `Category.OTHER` if it suggests none."""
    name = marker_name(text)
    if not name:
        return Category.TOOL if marker_name(f"<{text}>") == "dsml" else Category.OTHER
    return next((category for category, pattern in CATEGORY_PATTERNS if pattern.fullmatch(name)), Category.OTHER)
