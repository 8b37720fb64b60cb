"""Check a plan, or a response format or a whole request without a model's weights, as ``guided check`` does.

Format and request are composed for a vocabulary and compiled.  A request needs a wire format as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from grammars.compose.compose import Parts, compose
from grammars.json_schema.build import Policy, ReportRow, SchemaReport
from grammars.limits.deadline import deadline
from grammars.plan.plan import Plan
from grammars.requests.chat import read_delivery
from grammars.requests.read import Request, read_request
from grammars.values.format import Format
from guided.engine.engine import Engine
from guided.inspect.shortest import min_tokens, shortest
from guided.sampling import Sampling, check_bias
from guided.stops.request import check_stops
from special_tokens import SpecialTokens
from special_tokens.errors import LimitExceeded, RequestError

__all__ = ["CheckedFormat", "CheckedRequest", "PlanCheck", "check_format", "check_plan", "check_request"]


@dataclass(frozen=True, slots=True)
class PlanCheck:
    """The facts about a plan's answers before one is generated.

    ``min_tokens`` counts the shortest answer found, its end included: an upper bound, exact for most plans.  None where
    no end is found; the last note says why.  ``shortest`` is the response of such an answer, which is valid; None
    without a response format or where none is found.  ``report`` says which keywords of the JSON schema the masks keep.
    """

    shortest: str | None
    min_tokens: int | None
    report: SchemaReport
    notes: tuple[str, ...]


def check_plan(plan: Plan, engine: Engine, *, entry: str = "fresh") -> PlanCheck:
    """Return what is known of the answers that begin at ``entry`` of ``plan``; raises `PlanError`."""
    engine.pristine(plan, entry)  # refuses a plan of another vocabulary
    notes, least = plan.notes, None
    try:
        least = min_tokens(plan, engine, entry=entry)
    except LimitExceeded as error:
        notes += (str(error),)
    return PlanCheck(shortest(plan, engine), least, plan.schema_report, notes)


@dataclass(frozen=True, slots=True)
class CheckedFormat:
    """A response format that can be enforced: its kind, the rows of its schema report, a shortest text if found."""

    kind: str
    rows: tuple[ReportRow, ...] = ()
    shortest: str | None = None
    num_bytes: int = 0  #: of the grammar that the engine compiles


@dataclass(frozen=True, slots=True)
class CheckedRequest:
    """A request that can be honoured.

    ``source`` names the place of its constraint.  ``rows`` and ``tool_rows`` are the rows of its schema reports.
    """

    plan: Plan
    source: str = ""
    sampling: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> tuple[ReportRow, ...]:
        return self.plan.schema_report.rows

    @property
    def tool_rows(self) -> tuple[ReportRow, ...]:
        return self.plan.tool_report.rows

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        plan = self.plan
        return {
            "source": self.source,
            "kind": plan.response.kind if plan.response else None,
            "tools": list(plan.tool_names),
            "tool_choice": plan.tool_choice if plan.tools else None,
            "reasoning": {"effort": plan.reasoning.effort, "applied": plan.reasoning.applied},
            "sampling": dict(self.sampling),
            "max_tokens": plan.max_tokens,
            "stop": list(plan.stops.strings),
            "ignored": list(plan.ignored),
            "notes": list(plan.notes),
            "report": [_row(row) for row in self.rows],
            "tool_report": [_row(row) for row in self.tool_rows],
        }


def check_format(response_format: Any, engine: Engine, *, policy: Policy = "warn") -> CheckedFormat:
    """Compose and compile one response format of any kind; raises `RequestError` if it is refused."""
    parts = Parts(response_format=response_format, schema_policy=policy)
    plan = compose(parts, tokens=engine.tokens, format=Format("response alone"))
    if plan.response is None:
        raise RequestError("plain text has nothing to check", place="response_format", expected="a constraint")
    engine.pristine(plan)
    num_bytes = len(plan.engine_text().encode())
    return CheckedFormat(plan.response.kind, plan.response.report.rows, shortest(plan, engine), num_bytes)


def check_request(
    body: Any,
    *,
    tokens: SpecialTokens,
    format: Format,
    engine: Engine | None = None,
    trusted: bool = False,
    ignore_unknown: bool = False,
) -> CheckedRequest:
    """Read, compose and (with an engine) compile a whole request; raises `RequestError` if it is refused."""
    request = read_request(body, trusted=trusted, ignore_unknown=ignore_unknown)
    read_delivery(request, ignore_unknown=ignore_unknown)
    with deadline():  # one for all of it
        return _checked(request, tokens, format, engine)


def _checked(request: Request, tokens: SpecialTokens, format: Format, engine: Engine | None) -> CheckedRequest:
    check_bias(Sampling(**request.sampling), tokens.vocab_size)
    plan = compose(request.parts, tokens=tokens, format=format)
    check_stops(plan.stops, tokens)
    if engine is not None:
        for entry in plan.entries:
            engine.pristine(plan, entry.name)
    return CheckedRequest(plan, request.source, request.sampling)


def _row(row: ReportRow) -> dict[str, str]:
    return {"pointer": row.pointer, "keyword": row.keyword, "outcome": row.outcome.value, "reason": row.reason}
