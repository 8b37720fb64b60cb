"""Compose, compile and time the plan of each request body in a folder.  A bad file does not end the run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from grammars.limits.deadline import deadline
from grammars.plan.plan import Plan
from grammars.values.format import Format
from guided.cli.inputs import parse_json, read_text
from guided.engine.engine import Engine
from guided.inspect.check import check_request
from guided.stops.vocabulary import check_writable_stops
from special_tokens.errors import GuidedError, RequestError, shown

__all__ = ["PlannedFile", "plan_folder", "requests_in"]


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """One file of the folder; ``error`` is why it was not read, composed (then ``plan`` is None) or compiled.

    ``compose_s`` and ``compile_s`` are elapsed seconds without any cache, the latter for all entries together; None for
    a step that was not reached.  ``num_bytes`` is the size of the grammars that the engine compiles.
    """

    file: str
    plan: Plan | None = None
    num_bytes: int = 0
    compose_s: float | None = None
    compile_s: float | None = None
    error: GuidedError | None = None

    @property
    def asks_for(self) -> str:
        """The parts of the request in a few words."""
        if self.plan is None:
            return ""
        plan = self.plan
        parts = [plan.response.kind] if plan.response else []
        if plan.tools and plan.tool_choice != "none":
            parts.append(f"{len(plan.tools)} tools ({plan.tool_choice})")
        if plan.reasoning.applied:
            parts.append(f"effort {plan.reasoning.effort}" if plan.reasoning.effort else "reasoning")
        return " + ".join(parts) or "text"


def requests_in(folder: Path) -> list[Path]:
    """Return all ``*.json`` files in and below ``folder``, by name.

    Raises `RequestError` where there is no such folder, or no such file in it.
    """
    if not folder.is_dir():
        raise RequestError(f"there is no folder {shown(str(folder))}", place="--all", expected="a folder of requests")
    paths = sorted(path for path in folder.rglob("*.json") if path.is_file())
    if not paths:
        raise RequestError(f"no request in {shown(str(folder))}", place="--all", expected="request bodies as *.json")
    return paths


def plan_folder(folder: Path, paths: Iterable[Path], engine: Engine, format: Format) -> Iterator[PlannedFile]:
    """Yield the plans of the files ``paths`` below ``folder``."""
    _planned("", "{}", engine, format)  # loads everything that is loaded on first use, so that no file is timed with it
    for path in paths:
        name = path.relative_to(folder).as_posix()
        try:
            text = read_text(path, "--all")
        except RequestError as error:
            yield PlannedFile(name, error=error)
        else:
            yield _planned(name, text, engine, format)


def _planned(name: str, text: str, engine: Engine, format: Format) -> PlannedFile:
    plan, num_bytes, composed = None, 0, None
    try:
        body = parse_json(text, name)
        with deadline():
            begun = perf_counter()
            plan = check_request(body, tokens=engine.tokens, format=format).plan
            composed = perf_counter() - begun
            check_writable_stops(plan.stops, engine)
            begun = perf_counter()
            for entry in plan.entries:
                num_bytes += len(plan.engine_text(entry.name).encode())
                engine.compile_private(plan, entry.name)
            return PlannedFile(name, plan, num_bytes, composed, perf_counter() - begun)
    except GuidedError as error:
        return PlannedFile(name, plan, num_bytes, composed, error=error)
