"""What marker texts mean wherever they turn up: pairs by role, and the drawer that a text belongs in.

Last in the order of evidence: named tokens, the family file and the ends of the configurations speak first.
Texts are compared in one spelling, see `plain`: DeepSeek's fullwidth bars and low lines count as ``|`` and ``_``.
"""

from __future__ import annotations

import re
from functools import cache

from special_tokens.roles import Category, Role

__all__ = ["CATEGORY_TEXTS", "HTML_TAGS", "KNOWN_PAIRS", "KNOWN_TURNS", "category_of_text", "plain"]

_TAGS = """
a abbr address article aside b blockquote body br button caption cite code col colgroup dd del details div dl dt
em figcaption figure footer form h1 h2 h3 h4 h5 h6 head header hr html i img input ins kbd label li link main
mark meta nav ol option p pre q s samp script section select small span strong style sub summary sup table tbody
td textarea tfoot th thead time title tr u ul var video
"""
#: Tags of HTML: a vocabulary may have them as tokens of their own, and an answer may hold them all the same.
HTML_TAGS = frozenset(_TAGS.split())

Pair = tuple[str, str]

#: Pairs of roles and the texts known for them, in order of preference; a pair counts only when both are there.
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

#: What opens and closes a message; the opening stands only beside its closing.
KNOWN_TURNS: tuple[Pair, ...] = (
    ("<|im_start|>", "<|im_end|>"),
    ("<|start_header_id|>", "<|eot_id|>"),
    ("<start_of_turn>", "<end_of_turn>"),
    ("<|turn>", "<turn|>"),
    ("<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>"),
    ("<|start|>", "<|end|>"),
    ("<|start_of_role|>", "<|end_of_text|>"),
)

#: Category -> regular expression over the plain inside of a marker, tried in this order; EOS is never decided by text.
CATEGORY_TEXTS: tuple[tuple[Category, re.Pattern[str]], ...] = tuple(
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


def plain(text: str) -> str:
    """A marker's inside in one spelling: ``<｜tool▁calls▁begin｜>`` and ``</TOOL_CALLS_BEGIN>`` are both
    ``tool_calls_begin``; empty for text that is not framed as a marker."""
    match = _INSIDE.fullmatch(text.translate(_FULLWIDTH))
    return (match[1] or match[2] or "").lower() if match else ""


@cache
def category_of_text(text: str) -> Category:
    """The drawer that the text alone suggests; `Category.OTHER` where it suggests none."""
    inside = plain(text)
    if not inside:
        return Category.TOOL if plain(f"<{text}>") == "dsml" else Category.OTHER
    return next((category for category, pattern in CATEGORY_TEXTS if pattern.fullmatch(inside)), Category.OTHER)
