"""The keys of a request in tables: read, without effect, not supported.

A key that is not supported and would change the answer is an error, unless it has the value that changes nothing;
keys without effect are accepted and listed in the plan.  A key in no table is refused, with the key that was probably
meant.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["CONSTRAINT_ALIASES", "GUIDANCE", "HARMLESS", "PROMPT", "SAMPLING", "UNSUPPORTED", "known_keys"]

#: The prompt, the model and the transport: not read here.
PROMPT = ("messages", "prompt", "input", "instructions", "model", "stream", "stream_options", "include_usage")

#: Key -> what it does to the plan.
GUIDANCE: Mapping[str, str] = {
    "response_format": "the response format, as OpenAI's object (any of our own forms from Python)",
    "text": "the response format of the Responses API, under `format`",
    "structured_outputs": "one of choice, regex, json, json_object, grammar, structural_tag",
    "constraint": "a constraint as text; `constraint_type` says of which kind",
    "constraint_type": "regex (when absent), lark, json_schema, json, or llguidance (with `trusted=True`)",
    "tools": "the tools, in any form",
    "tool_choice": "none, auto, required, a tool by name, or allowed_tools",
    "parallel_tool_calls": "false: at most one call in a turn; unset: several under `auto` alone",
    "functions": "OpenAI's older name of tools",
    "function_call": "OpenAI's older name of tool_choice",
    "reasoning_effort": "a level, one of its other names, or custom:LARK",
    "reasoning": "the effort of the Responses API, under `effort`",
    "reasoning_preset": "native or structured",
    "thinking": "true or false, or an object with a type; wins over the effort",
    "enable_thinking": "the same",
    "chat_template_kwargs": "enable_thinking or thinking, the same",
    "stop": "a stop sequence or a list of them",
    "stop_token_ids": "token ids that stop the answer",
    "include_stop_str_in_output": "true: the stop sequence stays in the text",
    "max_tokens": "most tokens of the answer",
    "max_completion_tokens": "the same",
    "max_output_tokens": "the same, in the Responses API",
    "landing": "false: the answer is cut at `max_tokens`, not ended within it",
    "short_budget": "error: refuse a `max_tokens` that cannot hold the shortest answer; cut (when absent): go on",
    "return_hidden_states": "true or last: each choice has `hidden_states`, the state at its last token as numbers",
    "verbosity": "low or high: a line of the system text of `guide.complete`; also `text.verbosity`",
    "schema_policy": "strict: refuse what the masks cannot enforce",
    "extra_body": "keys that the client could not put elsewhere; read as if they were in the body",
}

#: Other servers' names of constraints -> the field of `structured_outputs` that they mean.
CONSTRAINT_ALIASES: Mapping[str, str] = {
    "guided_json": "json",
    "guided_regex": "regex",
    "guided_choice": "choice",
    "guided_grammar": "grammar",
    "json_schema": "json",
    "regex": "regex",
    "ebnf": "grammar",
    "grammar": "grammar",
    "structural_tag": "structural_tag",
}

#: Sampling keys, as `guided.Sampling` takes them.
SAMPLING = (
    "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty", "seed",
    "n", "logprobs", "top_logprobs", "logit_bias",
)  # fmt: skip

#: Accepted, without effect on the answer, and listed in ``plan.ignored``.
HARMLESS = (
    "user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_options",
    "prompt_cache_retention", "prediction", "moderation", "request_id", "priority", "guided_decoding_backend",
    "cache_salt",
)  # fmt: skip

#: Not supported, with the values that change nothing.
UNSUPPORTED: Mapping[str, tuple[Any, ...]] = {
    "audio": (),
    "modalities": (["text"],),
    "web_search_options": (),
    "previous_response_id": (),
    "conversation": (),
    "background": (False,),
    "truncation": ("disabled",),
    "include": ([],),
    "max_tool_calls": (),
    "echo": (False,),
    "suffix": ("",),
    "best_of": (1,),
    "use_beam_search": (False,),
    "length_penalty": (1, 1.0),
    "ignore_eos": (False,),
    "min_tokens": (0,),
    "bad_words": ([],),
    "allowed_token_ids": (),
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True,),
    "prompt_logprobs": (0,),
    "thinking_token_budget": (-1,),
    "thinking_budget": (-1,),
    "guided_whitespace_pattern": (),
    "custom_params": ({},),
    "logits_processors": ([],),
}


def known_keys() -> tuple[str, ...]:
    """Every key of every table."""
    return (*PROMPT, *GUIDANCE, *CONSTRAINT_ALIASES, *SAMPLING, *HARMLESS, *UNSUPPORTED)
