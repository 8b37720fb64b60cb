"""The budget of an answer: its token limit, whether it must end within it, and what reasoning leaves for the rest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral
from typing import Literal, NamedTuple, get_args

from grammars.plan.plan import Plan, RowPlan
from grammars.reasoning.levels import effort_note
from special_tokens.errors import ContextExceeded, RequestError, shown

__all__ = [
    "Budgeting",
    "LandingOptions",
    "ShortBudget",
    "budgeting",
    "checked_max_tokens",
    "token_limit",
    "with_limit_notes",
]

#: The token limit where neither the call, the plan nor the model's context has one.
_WITHOUT_CONTEXT = 4096

#: If ``max_tokens`` cannot hold the shortest answer: ``cut`` lets the answer be cut, with a note; ``error`` raises.
ShortBudget = Literal["cut", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LandingOptions:
    """The tokens of a budget that reasoning leaves to what follows it, besides the shortest answer.

    While reasoning is written, ``string_tokens`` tokens are reserved for each string of the shortest answer (text after
    the reasoning counts as one), half as many for each number, at most the share ``answer_share`` (0 to 1) of what the
    budget has left beyond that answer.  After the reasoning nothing is reserved: an answer that fits stays as it is.
    Raises `RequestError` for values out of range.
    """

    string_tokens: int = 8
    answer_share: float = 0.5

    def __post_init__(self) -> None:
        value: object = self.string_tokens
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 10_000:
            raise RequestError(
                f"{shown(value)} is out of range", place="landing.string_tokens", expected="an integer from 0 to 10000"
            )
        value = self.answer_share
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise RequestError(f"{shown(value)} is out of range", place="landing.answer_share", expected="0 to 1")


class Budgeting(NamedTuple):
    """The settings of a call; with ``options`` None answers are simply cut at ``max_tokens``."""

    options: LandingOptions | None = LandingOptions()
    must_fit: bool = False


def budgeting(landing: object, short_budget: object) -> Budgeting:
    """Return the settings for a caller's ``landing`` (a boolean or `LandingOptions`) and ``short_budget``.

    Raises `RequestError` for other values.
    """
    if not isinstance(landing, bool | LandingOptions):
        raise RequestError(
            f"{shown(landing)} is not an option", place="landing", expected="true, false, or guided.LandingOptions(...)"
        )
    if short_budget not in get_args(ShortBudget):
        raise RequestError(
            f"{shown(short_budget)} is unknown", place="short_budget", expected=" or ".join(get_args(ShortBudget))
        )
    options = landing if isinstance(landing, LandingOptions) else LandingOptions() if landing else None
    return Budgeting(options, short_budget == "error")


def checked_max_tokens(value: object) -> int:
    """Return ``value``; raise `RequestError` unless it is an integer of at least 1."""
    if not isinstance(value, bool) and isinstance(value, Integral) and int(value) >= 1:
        return int(value)
    raise RequestError(f"{shown(value)} is out of range", place="max_tokens", expected="an integer of 1 or more")


def token_limit(plan: RowPlan, max_tokens: int | None, prompt_tokens: int, context: int | None) -> int:
    """Return the token limit of a row: ``max_tokens`` or the plan's, at most the rest of the context after the prompt.

    ``context`` is the number of tokens that prompt and answer may have, None without a limit.  Raises `ContextExceeded`
    where the prompt leaves no room.
    """
    if max_tokens is None:
        max_tokens = plan.max_tokens if isinstance(plan, Plan) else None
    if context is not None and prompt_tokens >= context:
        is_described = isinstance(plan, Plan) and (plan.response is not None or plan.tools)
        hint = "tools and response format are described in it; in Python describe=False leaves them out"
        raise ContextExceeded(f"the prompt fills the context of {context} tokens", place="messages",
                              expected="a shorter prompt", hint=hint if is_described else "")  # fmt: skip
    limits = [] if context is None else [context - prompt_tokens]
    if max_tokens is not None:
        limits.append(checked_max_tokens(max_tokens))
    return min(limits, default=_WITHOUT_CONTEXT)


def with_limit_notes(row: RowPlan, asked: int | None, limit: int) -> RowPlan:
    """Return ``row`` with notes where ``limit`` is below the effort or the ``asked`` tokens that it is to hold."""
    if not isinstance(row, Plan):
        return row
    notes: list[str] = []
    wanted = row.max_tokens if asked is None else asked
    if wanted is not None and limit < wanted:
        notes.append(f"max_tokens is {limit}, what context and server leave after the prompt, not {wanted}")
    if row.reasoning.effort is not None and row.budgets and limit != row.max_tokens:
        notes += effort_note(row.reasoning.effort, row.budgets[0].max_tokens, limit)
    return replace(row, notes=(*row.notes, *notes)) if notes else row
