#!/usr/bin/env python3
"""Benchmark: objects read out of texts, exactly right or not, by kind of text.

    python benchmarks/extraction.py                         # 100 texts, embedded model, about ten minutes on two cores
    python benchmarks/extraction.py --limit 20 --free       # and the same prompts without guidance
    python benchmarks/extraction.py --model NAME_OR_FOLDER

Texts and gold objects: `benchmarks/extraction_cases.py`, made from a seed.  Answers are greedy.  *right*: the whole
object equals the gold one; *values*: the share of its scalars that stand at their places; *cut*: answers that
``--max-tokens`` ended; *free* takes the first JSON object anywhere in the text.  Another benchmark calls `answers`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import guided  # noqa: E402
from benchmarks.extraction_cases import ExtractionCase, extraction_cases, is_right, right_leaves  # noqa: E402
from benchmarks.json_schema_tables import percent, table  # noqa: E402
from guided.hf.generate.call import read_messages  # noqa: E402
from guided.hf.generate.inputs import checked_inputs  # noqa: E402


@dataclass
class ExtractionScores:
    """One line of the table."""

    name: str
    cases: int = 0
    right: int = 0
    values: int = 0
    all_values: int = 0
    cut: int = 0
    tokens: int = 0
    prompt_tokens: int = 0
    seconds: float = 0.0

    def add(self, case: ExtractionCase, value: Any, message: Any) -> None:
        right, all_values = right_leaves(case, value)
        self.cases += 1
        self.right += is_right(case, value)
        self.values += right
        self.all_values += all_values
        self.cut += message.finish_reason == "length"
        self.tokens += message.usage.completion_tokens
        self.prompt_tokens += message.usage.prompt_tokens

    def cells(self) -> tuple[object, ...]:
        values = percent(self.values, self.all_values)
        return self.name, self.cases, self.right, values, self.cut, f"{self.tokens:,}", f"{self.seconds:,.0f}"


HEAD = ("texts", "answers", "right", "values right, %", "cut", "tokens", "seconds")


def answers(
    guide: Any,
    cases: Sequence[ExtractionCase],
    *,
    batch: int = 4,
    max_tokens: int = 256,
    guided_run: bool = True,
    plan_of: Callable[[ExtractionCase], Any] | None = None,
    **options: Any,
) -> Iterator[tuple[ExtractionCase, Any, float]]:
    """Yield each case with its message and its share of the seconds of its batch.

    ``plan_of`` makes the plan of a case (default: its schema as response format); ``options`` go to `guide.generate`.
    The free run has the same prompts: each is rendered and described with its plan.
    """
    plan_of = plan_of or (lambda case: guide.plan(response_format=case.schema))
    for at in range(0, len(cases), batch):
        some = cases[at : at + batch]
        began = time.perf_counter()
        plans: list[Any] = [plan_of(case) for case in some]
        if guided_run:
            options = {"sampling": guided.Sampling(temperature=0.0), "describe": True, **options}
            messages = guide.generate([case.prompt for case in some], plans, max_tokens=max_tokens, **options)
        else:
            inputs = checked_inputs(guide.context, [case.prompt for case in some], plans, describe=True)
            output = guide.model.generate(
                **inputs, max_new_tokens=max_tokens, do_sample=False, pad_token_id=guide.context.pad_id
            )
            messages = read_messages(guide.context, output, inputs, [None] * len(some))
        seconds = (time.perf_counter() - began) / len(some)
        for case, message in zip(some, messages, strict=True):
            yield case, message, seconds


def first_object(text: str) -> Any:
    """Return the first JSON object in ``text``; None without one."""
    for at, char in enumerate(text):
        if char == "{":
            with contextlib.suppress(ValueError):
                return json.JSONDecoder().raw_decode(text, at)[0]
    return None


def measure(guide: Any, cases: Sequence[ExtractionCase], name: str, **options: Any) -> list[ExtractionScores]:
    """Return a row for all cases and one for each kind."""
    rows: dict[str, ExtractionScores] = {}
    for case, message, seconds in answers(guide, cases, **options):
        value = message.parsed if options.get("guided_run", True) else first_object(message.content or "")
        for row in (
            rows.setdefault(name, ExtractionScores(name)),
            rows.setdefault(case.kind, ExtractionScores(f"{name}, {case.kind}")),
        ):
            row.add(case, value, message)
            row.seconds += seconds
    return list(rows.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int, default=100, help="texts (default 100)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--free", action="store_true", help="the same prompts without guidance as well")
    parser.add_argument("--max-tokens", type=int, default=256)
    parser.add_argument("--batch", type=int, default=4, help="rows per call (default 4)")
    parser.add_argument("--model", help="any chat model instead of the embedded one")
    parser.add_argument("--json", type=Path, help="write the rows to this file as well")
    args = parser.parse_args()
    guide = guided.Guide.from_pretrained(args.model) if args.model else guided.demo()
    cases = extraction_cases(args.limit, seed=args.seed)
    rows: list[ExtractionScores] = []
    for guided_run in (True, False) if args.free else (True,):
        name = "guided" if guided_run else "free"
        rows += measure(guide, cases, name, guided_run=guided_run, batch=args.batch, max_tokens=args.max_tokens)
    print(table(HEAD, [row.cells() for row in rows]))
    if args.json:
        args.json.write_text(json.dumps([asdict(row) for row in rows], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
