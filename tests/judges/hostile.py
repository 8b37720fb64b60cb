"""Build and compile one hostile schema, and compute one mask, under one deadline."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from grammars.json_schema.build import SchemaReport, build
from grammars.limits.deadline import deadline
from grammars.tree.render import render
from guided.engine.engine import compile_grammar
from special_tokens.errors import GuidedError
from tests.judges.hostile_cases import Case

__all__ = ["HostileResult", "run"]


@dataclass(frozen=True)
class HostileResult:
    error: GuidedError | None
    report: SchemaReport
    seconds: float


def run(case: Case, tokenizer: Any, seconds: float | None = None) -> HostileResult:
    """Builds, compiles and computes one mask; anything but a typed error is raised as it is.

    All of it under one deadline, of ``seconds`` or the usual one.
    """
    schema = case.make()
    begin = time.perf_counter()
    report = SchemaReport()
    try:
        with deadline(seconds):
            built = build(schema, watch=True)
            report = built.report
            compile_grammar(tokenizer, render(built.node).engine_text())
    except GuidedError as error:
        return HostileResult(error, report, time.perf_counter() - begin)
    return HostileResult(None, report, time.perf_counter() - begin)
