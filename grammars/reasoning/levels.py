"""Reasoning effort: the levels, their other names, and the token budgets of the ``native`` preset."""

from __future__ import annotations

from special_tokens.errors import RequestError, shown

__all__ = ["ALIASES", "LEVELS", "NATIVE_BUDGETS", "effort_note", "normal_effort"]

#: The levels of OpenAI's ``reasoning_effort``, weakest first, and ``chain_of_thought``, which is always a template.
LEVELS = ("none", "minimal", "low", "medium", "high", "xhigh", "max", "chain_of_thought")

ALIASES = {"normal": "medium", "cot": "chain_of_thought", "cove": "chain_of_thought"}

#: Most tokens between the reasoning markers; None: as many as max_tokens leaves.
NATIVE_BUDGETS: dict[str, int | None] = {
    "none": 0,
    "minimal": 64,
    "low": 256,
    "medium": 1024,
    "high": 4096,
    "xhigh": 16384,
    "max": None,
}


def effort_note(effort: str | None, budget: int, max_tokens: int) -> tuple[str, ...]:
    """Return a note where ``max_tokens`` holds less than the ``budget`` of this effort; () where it holds more."""
    if budget < max_tokens:
        return ()
    name = f"reasoning_effort={shown(effort)}" if effort else "the reasoning"
    return (f"{name} may take {budget} tokens, max_tokens is {max_tokens}: the answer is reserved a part of them",)


def normal_effort(effort: str | None) -> str | None:
    """Return the level that ``effort`` names, upper or lower case; ``custom:...`` is returned as it is.

    Raises `RequestError` for any other text: an unknown level never becomes a default silently.
    """
    if effort is None:
        return None
    if not isinstance(effort, str):
        raise RequestError(f"{shown(effort)} is not a level", place="reasoning_effort", expected=", ".join(LEVELS))
    if effort[:7].lower() == "custom:":
        return "custom:" + effort[7:]
    level = ALIASES.get(effort.strip().lower(), effort.strip().lower())
    if level not in LEVELS:
        names = ", ".join((*LEVELS, *ALIASES))
        raise RequestError(
            f"unknown level {shown(effort)}", place="reasoning_effort", expected=f"{names} or custom:LARK"
        )
    return level
