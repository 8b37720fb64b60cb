"""Sample conversations made of words that no template contains, so that they can be found in renderings.

Names, keys and values are ASCII words without quotes or brackets; call ids are nine letters and digits, because some
templates refuse any others; tools have every member that some template requires.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = [
    "ALL_TYPES",
    "ANSWER",
    "BOTH",
    "FRACTION",
    "ID",
    "KEYS",
    "NAME",
    "NEXT",
    "NUMBER",
    "ODD_NAME",
    "OTHER_ID",
    "OTHER_NAME",
    "REASON",
    "RESULT",
    "SYSTEM",
    "TEXT",
    "THIRD_ID",
    "TOOLS",
    "TRICKY",
    "USER",
    "WORD",
    "assistant",
    "call",
    "result",
    "system",
    "user",
]

USER, NEXT, SYSTEM = "Userq1", "Nextq2", "Systemq3"
ANSWER, TEXT, REASON, RESULT = "Answerq4", "Textq5", "Reasonq6", "Resultq7"
NAME, OTHER_NAME = "tool_qa8", "tool_qb9"
#: A name with "-" and ".", which names may contain and some templates replace.
ODD_NAME = "tool-q.c7"
#: Keys in alphabetical order, so that sorting by a template changes nothing.
KEYS = ("karg0", "karg1", "karg2", "karg3", "karg4", "karg5", "karg6", "karg7")
WORD, NUMBER, FRACTION = "Valueq0", 73519, 61.25
ID, OTHER_ID, THIRD_ID = "Callq1234", "Callq5678", "Callq9012"
#: A string with every character that some format escapes, trims or ends a value with.
TRICKY = ' it\'s "q0"\n<b>&\u00e9'

BOTH: Mapping[str, Any] = {KEYS[0]: WORD, KEYS[1]: NUMBER}
#: One value of every JSON type, a string first.
ALL_TYPES: Mapping[str, Any] = {
    KEYS[0]: WORD,
    KEYS[1]: NUMBER,
    KEYS[2]: FRACTION,
    KEYS[3]: True,
    KEYS[4]: None,
    KEYS[5]: {"u": "Cq", "v": [1, {}]},
    KEYS[6]: ["aq"],
    KEYS[7]: TRICKY,
}

#: Only scalar types are declared: some templates recurse without end on arrays.
_TYPES = {KEYS[0]: "string", KEYS[1]: "integer", KEYS[2]: "number", KEYS[3]: "boolean", KEYS[7]: "string"}


def _tool(name: str) -> dict[str, Any]:
    properties = {key: {"type": kind, "description": "A value."} for key, kind in _TYPES.items()}
    parameters = {
        "type": "object",
        "properties": properties,
        "required": [KEYS[0]],
        "additionalProperties": False,
    }
    function = {"name": name, "description": "A tool.", "parameters": parameters}
    return {"type": "function", "function": function}


TOOLS: tuple[dict[str, Any], ...] = (_tool(NAME), _tool(OTHER_NAME))


def user(text: str = USER) -> dict[str, Any]:
    return {"role": "user", "content": text}


def system(text: str = SYSTEM) -> dict[str, Any]:
    return {"role": "system", "content": text}


def assistant(content: Any = "", **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **fields}


def call(name: str, arguments: Any, call_id: str) -> dict[str, Any]:
    return {"type": "function", "id": call_id, "function": {"name": name, "arguments": arguments}}


def result(text: str = RESULT, *, name: str = NAME, call_id: str = ID) -> dict[str, Any]:
    return {"role": "tool", "name": name, "tool_call_id": call_id, "content": text}
