"""The drafts table of `benchmarks/loop.py`: prompt look-up on top of forced runs, and where it helps nothing.

A measurement apart for its length; ``python benchmarks/loop.py --only drafts`` prints it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import guided
from benchmarks.extraction_cases import extraction_cases
from benchmarks.tool_calls import CATEGORIES, load_cases

__all__ = ["PROSE", "draft_rows"]

GREEDY = guided.Sampling(temperature=0)

#: Guesses of one draft.
GUESSES = 10

#: Prompts that ask for nothing that they quote.
PROSE = (
    "Tell a short story about a lighthouse.", "Describe the sea at night.", "Write about an old friend.",
    "What does a good day look like?", "Describe a city in the rain.", "Write a letter from a mountain.",
    "Tell of a journey by train.", "Describe a kitchen early in the morning.",
)  # fmt: skip

Job = tuple[Any, Any, dict[str, Any]]


def _jobs(guide: Any, limit: int, max_tokens: int) -> dict[str, list[Job]]:
    """Return chats, plans and options by the name of a row."""
    jobs: dict[str, list[Job]] = {}
    for category in CATEGORIES:
        plans = [
            (case.messages, guide.plan(tools=[case.tool], tool_choice="required", parallel_tool_calls=False))
            for case in load_cases(category, limit)
        ]
        jobs[f"calls: {category}"] = [(chat, plan, {"max_tokens": max_tokens}) for chat, plan in plans]
    jobs["extraction"] = [
        (case.prompt, guide.plan(response_format=case.schema), {"max_tokens": max_tokens})
        for case in extraction_cases(limit)
    ]
    jobs["free prose"] = [(chat, None, {"max_tokens": 48}) for chat in PROSE]
    return jobs


def draft_rows(
    guide: Any,
    limit: int,
    max_tokens: int,
    shown: Callable[[Sequence[float]], str],
    only: Sequence[str] = (),
) -> list[tuple[str, ...]]:
    """Return rows: forwards per written token without and with look-up, CPU time against none, guesses that were right.

    Each pair of calls runs one after the other, the order alternating; CPU seconds of this process.
    """
    rows: list[tuple[str, ...]] = []
    for name, jobs in _jobs(guide, limit, max_tokens).items():
        if only and name not in only:
            continue
        ratios: list[float] = []
        plain = with_drafts = tokens = drafted = accepted = changed = 0
        _call(guide, jobs[0], GUESSES)  # the measured cost of columns, and tables of the vocabulary
        for n, job in enumerate(jobs):
            order = (None, GUESSES) if n % 2 else (GUESSES, None)
            found = {guesses: _call(guide, job, guesses) for guesses in order}
            (without, message), (seconds, other) = found[None], found[GUESSES]
            ratios.append(seconds / without)
            plain += message.usage.forwards
            with_drafts += other.usage.forwards
            tokens += other.usage.completion_tokens
            drafted += other.usage.drafted_tokens
            accepted += other.usage.accepted_tokens
            changed += message.token_ids != other.token_ids
        right = f"{accepted} of {drafted}"
        rows.append((name, f"{plain / tokens:.3f}", f"{with_drafts / tokens:.3f}", shown(ratios), right, str(changed)))
        print("\n", rows[-1], flush=True)
    return rows


def _call(guide: Any, job: Job, guesses: int | None) -> tuple[float, Any]:
    chat, plan, options = job
    began = time.process_time()
    (message,) = guide.generate(
        [chat], [plan], sampling=GREEDY, reuse=False, prompt_lookup_num_tokens=guesses, **options
    )
    return time.process_time() - began, message
