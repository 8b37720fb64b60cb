"""Read the tool-call format from an example in the prompt, for templates that never write a call themselves.

Many prompts show an example between tags: ``<tool_call>{"name": <function-name>, "arguments": <args>}</tool_call>``.
"""

from __future__ import annotations

import re

from grammars.formats.probe.marker_pairs import is_pair
from grammars.values.format import ToolCallFormat

__all__ = ["read_declared"]

_EXAMPLE = re.compile(
    r"(?P<open><[^<>\s/]+>|\[[A-Z_]+\])(?P<lead>\s*)"
    r"\{\s*\"(?P<name>\w+)\"\s*:\s*[^{}]*?,\s*\"(?P<arguments>\w+)\"\s*:[^{}]*(?:\{[^{}]*\})?[^{}]*\}"
    r"(?P<trail>\s*)(?P<close></[^<>\s]+>|<\|[^<>\s]+\|>|\[/[A-Z_]+\])"
)
_NAMES = ("name", "tool_name", "tool", "function", "function_name")
_ARGUMENTS = ("arguments", "parameters", "args", "params", "input", "kwargs")


def read_declared(prompt: str) -> ToolCallFormat | None:
    """The format of the first such example in a prompt; None if there is none."""
    for example in _EXAMPLE.finditer(prompt):
        if (
            example["name"] in _NAMES
            and example["arguments"] in _ARGUMENTS
            and is_pair(example["open"], example["close"])
        ):
            lead, trail = ("\n" if "\n" in example[part] else "" for part in ("lead", "trail"))
            return ToolCallFormat(
                "json_in_tags",
                call_start=example["open"] + lead,
                call_end=trail + example["close"],
                between="\n" if lead else "",
                gap="\n" if lead else "",
                options=(("args_key", example["arguments"]), ("name_key", example["name"])),
            )
    return None
