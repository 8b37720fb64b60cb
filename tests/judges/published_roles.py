"""The facts that publishers' own files state of eight families: role -> text and id, and the end tokens.

Written down from the publishers' ``tokenizer_config.json``, ``added_tokens``, chat templates and
``generation_config.json``, not produced by this repository.  ``folder`` is the name of the tokenizer package that
the tests load.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Upstream:
    folder: str
    #: role -> (text, id); a role that is not listed must not be reported
    roles: dict[str, tuple[str, int]]
    #: ``eos_token_id`` of the published generation_config.json
    generation_eos: tuple[int, ...]
    #: ids that must end a turn, given that generation config
    ends: tuple[int, ...]
    #: texts that look like an end and must never be one
    never: tuple[str, ...] = ()
    #: a few tokens by category
    categories: dict[str, tuple[str, ...]] = field(default_factory=dict)


_QWEN = {
    "turn_start": "<|im_start|>",
    "turn_end": "<|im_end|>",
    "reasoning_start": "<think>",
    "reasoning_end": "</think>",
    "tool_call_start": "<tool_call>",
    "tool_call_end": "</tool_call>",
    "tool_result_start": "<tool_response>",
    "tool_result_end": "</tool_response>",
    "eos": "<|im_end|>",
    "pad": "<|endoftext|>",
}
_QWEN3_IDS = (151644, 151645, 151667, 151668, 151657, 151658, 151665, 151666, 151645, 151643)
_QWEN35_IDS = (248045, 248046, 248068, 248069, 248058, 248059, 248066, 248067, 248046, 248044)

_DEEPSEEK = {
    "bos": ("<｜begin▁of▁sentence｜>", 0),
    "eos": ("<｜end▁of▁sentence｜>", 1),
    "pad": ("<｜end▁of▁sentence｜>", 1),
    "tool_calls_start": ("<｜tool▁calls▁begin｜>", 128806),
    "tool_calls_end": ("<｜tool▁calls▁end｜>", 128807),
    "tool_call_start": ("<｜tool▁call▁begin｜>", 128808),
    "tool_call_end": ("<｜tool▁call▁end｜>", 128809),
    "tool_result_start": ("<｜tool▁output▁begin｜>", 128812),
    "tool_result_end": ("<｜tool▁output▁end｜>", 128813),
}

UPSTREAM = (
    Upstream(
        "qwen3",
        dict(zip(_QWEN, zip(_QWEN.values(), _QWEN3_IDS, strict=True), strict=True)),
        (151645, 151643),
        (151643, 151645),
        ("<|vision_end|>", "<|object_ref_end|>", "<|box_end|>", "<|quad_end|>"),
        {
            "reasoning": ("<think>", "</think>"),
            "tool": ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"),
            "content_type": ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>"),
            "mask": ("<|fim_prefix|>", "<|fim_pad|>"),
            "role": ("<|im_start|>",),
        },
    ),
    Upstream(
        "qwen3_5",
        dict(zip(_QWEN, zip(_QWEN.values(), _QWEN35_IDS, strict=True), strict=True)),
        (248046, 248044),
        (248044, 248046),
        ("<|audio_end|>", "<|vision_end|>"),
    ),
    Upstream(
        "gptoss",
        {
            "bos": ("<|startoftext|>", 199998),
            "eos": ("<|return|>", 200002),
            "pad": ("<|endoftext|>", 199999),
            "turn_start": ("<|start|>", 200006),
            "turn_end": ("<|end|>", 200007),
        },
        (200002, 199999, 200012),
        (199999, 200002, 200012),
        ("<|end|>",),
        {"role": ("<|start|>", "<|end|>", "<|message|>"), "content_type": ("<|channel|>", "<|constrain|>")},
    ),
    Upstream(
        "llama3_1",
        {
            "bos": ("<|begin_of_text|>", 128000),
            "eos": ("<|eot_id|>", 128009),
            "turn_start": ("<|start_header_id|>", 128006),
            "turn_end": ("<|eot_id|>", 128009),
        },
        (128001, 128009),
        (128001, 128009),
        ("<|end_header_id|>",),
        {"eos": ("<|end_of_text|>", "<|eot_id|>"), "role": ("<|start_header_id|>", "<|end_header_id|>")},
    ),
    Upstream(
        "gemma3",
        {
            "bos": ("<bos>", 2),
            "eos": ("<end_of_turn>", 106),
            "pad": ("<pad>", 0),
            "unk": ("<unk>", 3),
            "turn_start": ("<start_of_turn>", 105),
            "turn_end": ("<end_of_turn>", 106),
        },
        (1, 106),
        (1, 106),
        ("<end_of_image>", "</s>"),
        {"content_type": ("<start_of_image>", "<end_of_image>"), "mask": ("<mask>",)},
    ),
    Upstream(
        "deepseek_v3",
        _DEEPSEEK,
        (1,),
        (1,),
        ("<｜tool▁calls▁end｜>", "<|EOT|>"),
        {"role": ("<｜User｜>", "<｜Assistant｜>"), "mask": ("<｜fim▁hole｜>",), "tool": ("<｜tool▁sep｜>",)},
    ),
    Upstream(
        "deepseek_v4",
        _DEEPSEEK | {"reasoning_start": ("<think>", 128821), "reasoning_end": ("</think>", 128822)},
        (1,),
        (1,),
        ("</think>", "<|EOT|>"),
    ),
    Upstream(
        "mistral",
        {
            "bos": ("<s>", 1),
            "eos": ("</s>", 2),
            "pad": ("<pad>", 11),
            "unk": ("<unk>", 0),
            "reasoning_start": ("[THINK]", 34),
            "reasoning_end": ("[/THINK]", 35),
            "tool_result_start": ("[TOOL_RESULTS]", 7),
            "tool_result_end": ("[/TOOL_RESULTS]", 8),
        },
        (2,),
        (2,),
        ("[/INST]",),
        {"tool": ("[TOOL_CALLS]", "[AVAILABLE_TOOLS]"), "role": ("[INST]", "[/INST]"), "parameter": ("[ARGS]",)},
    ),
)
