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
from guided.hf.drafts import drafts
from guided.hf.generate.inputs import checked_inputs
from guided.rows.answer import RowAnswer

__all__ = ["PROSE", "assistant_rows", "draft_rows"]

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
        for case in extraction_cases(limit, seed=1)  # look-up's rates were chosen on those of seed 0
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
    """Return rows: forwards per written token without and with look-up, and with the best pick of each occurrence.

    Then CPU time against none, guesses that were right, and answers that changed.

    Each pair of calls runs one after the other, the order alternating; CPU seconds of this process.
    """
    rows: list[tuple[str, ...]] = []
    for name, jobs in _jobs(guide, limit, max_tokens).items():
        if only and name not in only:
            continue
        ratios: list[float] = []
        plain = with_drafts = best = tokens = drafted = accepted = changed = 0
        _call(guide, jobs[0], GUESSES)  # the measured cost of columns, and tables of the vocabulary
        for n, job in enumerate(jobs):
            order = (None, GUESSES) if n % 2 else (GUESSES, None)
            found = {guesses: _call(guide, job, guesses) for guesses in order}
            (without, message), (seconds, other) = found[None], found[GUESSES]
            ratios.append(seconds / without)
            plain += message.usage.forwards
            with_drafts += other.usage.forwards
            best += best_pick(guide, job, message)
            tokens += other.usage.completion_tokens
            drafted += other.usage.drafted_tokens
            accepted += other.usage.accepted_tokens
            changed += message.token_ids != other.token_ids
        right = f"{accepted} of {drafted}"
        shares = [f"{forwards / tokens:.3f}" for forwards in (plain, with_drafts, best)]
        rows.append((name, *shares, shown(ratios), right, str(changed)))
        print("\n", rows[-1], flush=True)
    return rows


def assistant_rows(guide: Any, limit: int, max_tokens: int) -> list[tuple[str, ...]]:
    """Return rows of counts with the model as its own assistant, rarely wrong: about the most that one can save.

    An assistant as slow as the model guesses nothing, so its time is set to nothing.
    """
    rows: list[tuple[str, ...]] = []
    found, drafts.relative_cost = drafts.relative_cost, lambda assistant, model: 1e-9
    try:
        for name, jobs in _jobs(guide, limit, max_tokens).items():
            messages = [_call(guide, job, None, assistant_model=guide.model)[1] for job in jobs[:limit]]
            total = [sum(getattr(message.usage, field) for message in messages) for field in _COUNTS]
            rows.append((name, f"{total[0] / total[1]:.3f}", f"{total[2]} of {total[3]}"))
    finally:
        drafts.relative_cost = found
    return rows


_COUNTS = ("forwards", "completion_tokens", "accepted_tokens", "drafted_tokens")


def _call(guide: Any, job: Job, guesses: int | None, **more: Any) -> tuple[float, Any]:
    chat, plan, options = job
    began = time.process_time()
    (message,) = guide.generate(
        [chat], [plan], sampling=GREEDY, reuse=False, prompt_lookup_num_tokens=guesses, **options, **more
    )
    return time.process_time() - began, message


def best_pick(guide: Any, job: Job, message: Any) -> int:
    """Return the forwards of an answer if each draft were the longest text of ``GUESSES`` guesses found before it.

    No rule that takes one place for a draft does better.  Forced runs are free, as in the loop; no time is measured.
    """
    chat, plan, _ = job
    inputs = checked_inputs(guide.context, [chat], [plan], describe=True)
    answer = RowAnswer(plan, guide.engine, begin=inputs.begins[0], prompt_tokens=len(inputs.prompt_ids[0]))
    ids, parts = message.token_ids, []
    run = answer.push_forced(len(ids))
    before = _text(guide, [*inputs.prompt_ids[0], *run])
    while not answer.is_done and len(answer.tokens) < len(ids):
        token = ids[len(answer.tokens)]
        answer.push(token)
        parts.append((_text(guide, [token]), _text(guide, answer.push_forced(len(ids) - len(answer.tokens)))))
    at = forwards = 0
    while at < len(parts):
        end, text = at, b""
        while end < min(at + GUESSES, len(parts) - 1) and text + parts[end][0] in before:
            text += b"".join(parts[end])
            end += 1
        before += b"".join(map(b"".join, parts[at : end + 1]))
        at, forwards = end + 1, forwards + 1
    return forwards


def _text(guide: Any, tokens: Sequence[int]) -> bytes:
    return b"".join(map(guide.engine.token_bytes, tokens))
