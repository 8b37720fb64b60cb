"""Compose and compile plans for one model, with a cache by their parts."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic

from typing_extensions import TypeVar

from grammars.compose.compose import Parts, compose
from grammars.compose.plan_cache import PlanCache
from grammars.limits.deadline import deadline
from grammars.plan.plan import Plan, Stops
from grammars.requests.read import Request
from guided.engine.engine import Engine
from guided.hf.model.tokenizer_context import TokenizerContext
from guided.hf.model.tool_rendering import check_tools
from guided.sampling import Sampling, check_bias
from guided.stops.request import check_stops, stops_of
from special_tokens.errors import RequestError

if TYPE_CHECKING:
    from guided.hf.model.context import ModelContext

__all__ = ["Planner", "checked_stops"]

log = logging.getLogger("guided")

#: The context of a loaded model, or of its tokenizer alone.
C = TypeVar("C", bound=TokenizerContext, default="ModelContext", covariant=True)


@dataclass(frozen=True)
class Planner(Generic[C]):
    """Makes the plans of ``context``'s model; prompt and answer together have at most ``most_tokens``."""

    context: C
    plans: PlanCache = field(default_factory=PlanCache)
    most_tokens: int | None = None

    def plan(self, parts: Parts) -> Plan:
        """Return the plan of ``parts``, whose stops were checked; a new one logs its notes.  Raises `RequestError`."""
        if parts.tools is not None and not isinstance(parts.tools, str | bytes | Mapping | list | tuple):
            try:
                parts = replace(parts, tools=list(parts.tools))  # iterated twice
            except TypeError:
                raise RequestError(
                    f"{type(parts.tools).__name__} is not a list", place="tools", expected="a list of tools"
                ) from None
        return self.plans.get(parts, self._composed)

    def plan_request(self, request: Request) -> Plan:
        """Return the plan of a request as read.  Raises `RequestError`."""
        self.check(request)
        stop = checked_stops(request.parts.stop, self.context.engine)
        return self.plan(replace(request.parts, stop=stop))

    def check(self, request: Request) -> None:
        """Raise `RequestError` for settings that this model, or its host, does not take; nothing is composed yet."""
        check_bias(Sampling(**request.sampling), self.context.tokens.vocab_size)

    def compose(self, parts: Parts) -> Plan:
        """Return the plan of ``parts``, not compiled."""
        return compose(parts, tokens=self.context.tokens, format=self.context.format)

    def _composed(self, parts: Parts) -> Plan:
        context = self.context
        with deadline():  # one deadline for composing and compiling
            plan = self.compose(parts)
            check_tools(context.tokenizer, context.format, plan, context.tokens)
            context.engine.pristine(plan, plan.entries[0].name)
        for note in plan.notes:  # once: an equal request finds its plan in the cache
            log.warning("%s", note)
        return plan


def checked_stops(stop: str | Sequence[str] | Stops | None, engine: Engine) -> Stops:
    """Return the stops of a request; raise `RequestError` for malformed ones."""
    stops = stops_of(stop)
    check_stops(stops, engine.tokens)
    return stops
