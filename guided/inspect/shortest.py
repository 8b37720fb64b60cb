"""The shortest output of a plan, and the text of its response: what an answer costs at least.

Both are found by landing's search for ends (`guided.landing`), from the beginning of the answer.  What is found is an
upper bound of the true minimum, and exact for most schemas.  Nothing is kept: each call searches anew.
"""

from __future__ import annotations

import json
from dataclasses import replace

from grammars.plan.plan import Plan, ResponsePlan, Stops
from guided.engine.engine import Engine
from guided.landing.row_landing import shortest_output
from guided.rows.answer import read_answer
from guided.state.entry import Begin
from guided.validation.validate import judge
from special_tokens.errors import GuidanceError, RequestError

__all__ = ["min_tokens", "shortest"]


def shortest(plan: Plan, engine: Engine) -> str | None:
    """Return the response of the shortest output found; None without a response format or where none is found.

    It is valid: where the schema report is relaxed, the validators are asked, and a text that one refuses is None.
    Raises `PlanError` where the plan belongs to another vocabulary.
    """
    response = plan.response
    if response is None:
        return None
    entry = "after" if len(plan.entries) > 1 else plan.entries[0].name
    try:
        tokens = shortest_output(plan, engine, entry=entry)
    except (GuidanceError, RequestError):
        return None
    text = read_answer(tokens, replace(plan, stops=Stops()), engine, begin=Begin(entry)).content
    return text if text is not None and _is_valid(text, response) else None


def min_tokens(plan: Plan, engine: Engine, *, entry: str = "fresh") -> int:
    """Return the number of tokens, the end's included, of the shortest output found.

    Takes up to 2 s of this thread's processor time (`TimeLimits.landing_cpu_s`); raises `LimitExceeded` with the reason
    where no end is found.
    """
    return len(shortest_output(plan, engine, entry=entry))


def _is_valid(text: str, response: ResponsePlan) -> bool:
    """Whether no validator objects to ``text``; only masks of a relaxed schema allow invalid texts."""
    if response.kind != "json" or not response.report.relaxed:
        return True
    try:
        verdicts = judge(response.schema, json.loads(text), documents=response.documents)
    except (ValueError, RecursionError):
        return False
    return all(verdict.is_valid is not False for verdict in verdicts)
