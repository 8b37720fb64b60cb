#!/usr/bin/env python3
"""Benchmark: answers that end within their budgets, of random sampling and of the embedded model.

    python benchmarks/landing_answers.py random      # plans of benchmarks/landing.py, sampled at random
    python benchmarks/landing_answers.py embedded    # the same plans written by the embedded model
    python benchmarks/landing_answers.py batch       # texts of benchmarks/extraction.py, 32 rows in one batch
    python benchmarks/landing_answers.py reserve     # reasoning and JSON, the least number of tokens and 40 more
    python benchmarks/landing_answers.py extraction  # texts of benchmarks/extraction.py at 40, 80 and 160 tokens
    python benchmarks/landing_answers.py calls       # calls of benchmarks/tool_calls.py at 40, 80 and 160 tokens

*random*: tokens are drawn evenly under the masks, more than half of them by their first byte; *whole*: answers that
ended and that validators accept (where the schema's report says that the masks enforce all of it).  *near*: mean
processor time in us of what landing does in a step in which tokens are tried; *far*: in all others, by the tokens that
the shortest answer leaves over at the beginning.  *embedded*: the embedded model at temperature 1, ``--limit`` answers
a budget, each of a plan drawn from all kinds; processor time of a near step, and of a forward of one token.  In both
the garbage collector does not walk what the process holds before an answer (``gc.freeze``): walks of all that has been
imported take a quarter of a second, and come with any work that allocates.  *no limit*: a row without a limit.
*batch*: the share of a batch's processor time that landing takes, its 32 rows together.
*reserve*: required strings that the answer leaves empty, without and with what is kept for them.  *extraction* and
*calls*: answers that are whole, of those whose shortest answer fits, and answers that are whole and exactly right, with
landing and without; those that are right as far as they go but were cut (``message.ok`` is False) are counted apart.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import guided  # noqa: E402
import guided.hf.loop.landing as loop_landing  # noqa: E402
import guided.hf.loop.row_loop as row_loop  # noqa: E402
from benchmarks.extraction import answers  # noqa: E402
from benchmarks.extraction_cases import extraction_cases, is_right  # noqa: E402
from benchmarks.json_schema_tables import table  # noqa: E402
from benchmarks.landing import engine_of, plans  # noqa: E402
from benchmarks.tool_calls import CATEGORIES, load_cases, load_checker  # noqa: E402
from grammars.plan.plan import Plan  # noqa: E402
from guided.engine.engine import Engine  # noqa: E402
from guided.inspect.shortest import min_tokens  # noqa: E402
from guided.landing.row_landing import row_landing  # noqa: E402
from guided.rows.answer import read_answer  # noqa: E402
from guided.rows.sequence import RowSequence  # noqa: E402
from guided.state.entry import FRESH  # noqa: E402
from special_tokens.errors import GuidedError  # noqa: E402

BUDGETS = (0, 1, 2, 3, 5, 10, 30, 100, 400, 1500)
DRAWS = 8
SLACKS = ((30, "30-100"), (100, "100-1,000"), (1_000, "more"))


def first_bytes(engine: Engine) -> NDArray[np.int16]:
    """Return the first byte of each token, -1 for those that write nothing."""
    return np.array([(*engine.token_bytes(i)[:1], -1)[0] for i in range(engine.vocab_size)], dtype=np.int16)


def drawn(words: NDArray[np.int32], engine: Engine, chance: random.Random) -> list[int]:
    """Return tokens that a mask allows, in the order in which they are tried."""
    all_ids = np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little"))
    firsts = engine.derived(first_bytes)[all_ids]
    kinds = np.unique(firsts)
    found = []
    for _ in range(DRAWS):
        pool = all_ids[firsts == chance.choice(kinds)] if chance.random() < 0.6 else all_ids
        found.append(int(chance.choice(pool)))
    return found


def write(
    plan: Plan, engine: Engine, extra: int, least: int, chance: random.Random, us: dict[str, list[float]]
) -> bool:
    """Write one answer; return whether it is whole, and add the times of its steps to ``us``."""
    most = least + extra
    landing = row_landing(plan, engine, FRESH, most)
    if landing.control is None:
        return False
    row = RowSequence(plan, engine, landing=landing)
    far = next((name for slack, name in reversed(SLACKS) if extra >= slack), "")
    tokens: list[int] = []
    while not row.is_done and len(tokens) < most:
        mask = row.token_mask()
        assert mask is not None, row.error
        order = drawn(mask.words, engine, chance)
        begun = time.thread_time()
        is_tried, token = row.is_landing(), order[0]
        if is_tried:
            effort = landing.control.step_effort()
            chosen = next((i for i in order if row.lands(i, effort, is_own=i == token)), None)
            token = row.landing_token() if chosen is None else chosen  # type: ignore[assignment]
            if token != order[0]:
                row.note_landing(order[0])
        is_near = is_tried and landing.control._here.credit <= 0
        us["near" if is_near else far].append(1e6 * (time.thread_time() - begun))
        us["changed" if token != order[0] else "kept"].append(not is_near)
        row.extend([token])
        tokens.append(token)
    if row.error is not None or not row.state.is_stopped:
        return False
    message = read_answer(tokens, plan, engine, sequence=row)
    is_exact = plan.response is None or not plan.response.report.relaxed
    return message.finish_reason in ("stop", "tool_calls") and not (is_exact and message.violations)


def unlimited_us(plan: Plan, engine: Engine) -> float:
    """Return the time in us of what landing does in a step of a row without a limit."""
    row, begun = RowSequence(plan, engine), time.thread_time()
    for _ in range(10_000):
        row.is_landing()
    return 1e2 * (time.thread_time() - begun)


def random_answers(options: argparse.Namespace) -> None:
    chance, engine = random.Random(options.seed), engine_of(options.vocabulary)
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    us: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    lost: list[str] = []
    known = list(plans(engine, options.limit, chance))  # all at first: answers must not change them
    gc.collect()
    for kind, name, plan in known:
        if options.kind not in kind:
            continue
        try:
            least = min_tokens(plan, engine)
        except GuidedError as error:
            lost.append(f"{name}: {error}")
            continue
        if least > 400:
            rows[kind]["long"] += 1
            continue
        gc.freeze()
        rows[kind]["plans"] += 1
        for extra in chance.sample(options.budgets, min(options.draws, len(options.budgets))):
            rows[kind]["answers"] += 1
            is_whole = write(plan, engine, extra, least, chance, us[kind])
            rows[kind]["whole"] += is_whole
            if not is_whole:
                lost.append(f"{kind}, {name}, least {least} + {extra}")
    head = ("plans", "number", "answers", "whole", "near, us", "at most", *(f"far, {name}" for _, name in SLACKS))
    body = []
    names = ("near", *(name for _, name in SLACKS))
    us["all"] = {name: [one for kind in rows for one in us[kind][name]] for name in names}
    rows["all"] = sum(rows.values(), Counter())
    for kind, row in rows.items():
        near, *far = (us[kind][name] for name in names)
        times = [f"{sum(found) / len(found):,.0f}" if found else "-" for found in (near, *far)]
        most = f"{max(near, default=0):,.0f}"
        body.append((kind, row["plans"], row["answers"], row["whole"], times[0], most, *times[1:]))
    print(table(head, body))
    if rows["all"]["long"]:
        print(f"- {rows['all']['long']} plans whose shortest answers have more than 400 tokens were left out")
    print(f"- far, no limit: {unlimited_us(known[0][2], engine):.2f}")
    for line in lost:
        print(f"- not whole: {line}")


def reserve(options: argparse.Namespace) -> None:
    guide = guided.demo()
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in ("answer", "reason", "source")},
              "required": ["answer", "reason", "source"], "additionalProperties": False}  # fmt: skip
    plan = guide.plan(response_format=schema, reasoning_effort="low")
    most = guide.check(plan).min_tokens + 40
    cases = extraction_cases(options.limit, seed=options.seed)
    body = []
    for kept in (0, 8):
        landing = guided.LandingOptions(string_tokens=kept)
        found = [guide.chat(case.prompt, plan, max_tokens=most, temperature=0.0, landing=landing) for case in cases]
        values = [value for message in found for value in json.loads(message.content or "").values()]
        body.append((kept, len(found), sum(not value for value in values), len(values)))
    print(table(("tokens kept for a string", "answers", "strings empty", "of"), body))


class Watch:
    """The processor time of calls in us, one number for each; if given, for each during which ``counted`` has grown."""

    def __init__(self, call: Callable[..., Any], counted: list[float] | None = None) -> None:
        self.us: list[float] = []
        self._call = call
        self._counted = counted

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        size, begun = len(self._counted or ()), time.thread_time()
        found = self._call(*args, **kwargs)
        if self._counted is None or len(self._counted) > size:
            self.us.append(1e6 * (time.thread_time() - begun))
        return found


def embedded(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    guide, chance = guided.demo(), random.Random(options.seed)
    known = [(kind, name, plan) for kind, name, plan in plans(guide.engine, 30, chance)]
    one, tried = Watch(guide.model.forward), Watch(loop_landing._landed)
    near = Watch(loop_landing.land, tried.us)
    loop_landing._landed, row_loop.land = tried, near  # type: ignore[assignment]
    ids = torch.tensor([guide.engine.tokenize("Please answer.")[:1]])
    cache = guide.model(ids, use_cache=True).past_key_values
    body, lost = [], []
    every: list[float] = []
    for extra in (0, 1, 2, 3, 5, 10, 30, 100):
        whole = landed = asked = 0
        near.us.clear()
        for kind, name, plan in chance.sample(known, min(options.limit, len(known))):
            try:
                most = guide.check(plan).min_tokens + extra
            except GuidedError as error:
                lost.append(f"{kind}, {name}: {error}")
                continue
            gc.freeze()
            message = guide.chat("Please answer.", plan, max_tokens=most, temperature=1.0, seed=chance.randrange(99))
            one(ids, past_key_values=cache, use_cache=True)  # next to the steps, since others use the machine
            is_exact = plan.response is None or not plan.response.report.relaxed
            is_whole = message.complete and not (is_exact and message.violations)
            whole, landed, asked = whole + is_whole, landed + (message.landed is not None), asked + 1
            if not is_whole:
                lost.append(f"{kind}, {name}, {most} tokens: {message.finish_reason}, {message.violations}")
        body.append(
            (extra, asked, whole, landed, f"{sum(near.us) / max(1, len(near.us)):,.0f}", f"{max(near.us):,.0f}")
        )
        every += near.us
    print(table(("more than the least", "answers", "whole", "landed", "near, us", "at most"), body))
    forward, mean = sorted(one.us)[len(one.us) // 2], sum(every) / len(every)
    print(f"- a forward of one token: {forward:,.0f} us (median of {len(one.us)})")
    print(f"- near: {mean:,.0f} us (mean of {len(every)} steps), {mean / forward:.2%} of a forward")
    for line in lost:
        print(f"- not whole: {line}")


def batch(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    guide, cases = guided.demo(), extraction_cases(32, seed=options.seed)
    chats, plan_of = [case.prompt for case in cases], [guide.plan(response_format=case.schema) for case in cases]
    near = row_loop.land = Watch(loop_landing.land)  # type: ignore[assignment]
    guide.generate(chats, plan_of, max_tokens=1, landing=False)  # the prompts are kept, the plans compiled
    body = []
    for most in (40, 100):
        near.us.clear()
        begun = time.thread_time()
        found = guide.generate(chats, plan_of, max_tokens=most, temperature=1.0, seed=options.seed)
        spent, tokens = 1e6 * (time.thread_time() - begun), sum(len(message.token_ids) for message in found)
        landed = sum(message.landed is not None for message in found)
        body.append((most, landed, f"{sum(near.us) / tokens:,.0f}", f"{sum(near.us) / spent:.1%}"))
    print(table(("max_tokens", "of 32 landed", "landing, us a token", "of all time"), body))


def at_budgets(guide: Any, plan_of: dict[str, Plan], run: Callable[..., Iterator[tuple[str, Any, bool]]]) -> str:
    """Return the table of whole and right answers at three budgets; ``run`` yields a case's id, answer and verdict."""
    least = {case: guide.check(plan).min_tokens for case, plan in plan_of.items()}
    body = []
    for most in (40, 80, 160):
        row: list[object] = [most, sum(size <= most for size in least.values())]
        for landing in (True, False):
            whole = right = cut = 0
            for case, message, is_right_one in run(max_tokens=most, landing=landing):
                whole += message.complete and least[case] <= most
                right += is_right_one and message.complete
                cut += is_right_one and not message.complete
            row += [whole, right, cut]
        body.append(row)
    names = ("whole", "right", "cut where right")
    return table(("max_tokens", "fits", *names, *(f"{name}, landing=False" for name in names)), body)


def extraction(options: argparse.Namespace) -> None:
    guide, cases = guided.demo(), extraction_cases(options.limit, seed=options.seed)

    def run(**settings: Any) -> Iterator[tuple[str, Any, bool]]:
        for case, message, _ in answers(guide, cases, **settings):
            yield case.id, message, is_right(case, message.parsed)

    print(at_budgets(guide, {case.id: guide.plan(response_format=case.schema) for case in cases}, run))


def calls(options: argparse.Namespace) -> None:
    guide, is_right_call = guided.demo(), load_checker()
    cases = [case for name in CATEGORIES for case in load_cases(name, options.limit // len(CATEGORIES))]
    plan_of = {
        case.id: guide.plan(tools=[case.tool], tool_choice="required", parallel_tool_calls=False) for case in cases
    }

    def run(**settings: Any) -> Iterator[tuple[str, Any, bool]]:
        for at in range(0, len(cases), 4):
            some = cases[at : at + 4]
            chats, some_plans = [case.messages for case in some], [plan_of[case.id] for case in some]
            greedy = guided.Sampling(temperature=0.0)
            found = guide.generate(chats, some_plans, sampling=greedy, describe=True, **settings)
            for case, message in zip(some, found, strict=True):
                call = message.tool_calls[0] if message.tool_calls else None
                is_call = call is not None and isinstance(call.parsed, dict)
                yield case.id, message, is_call and is_right_call(case, call.name, call.parsed)

    print(at_budgets(guide, plan_of, run))


PARTS = {"random": random_answers, "embedded": embedded, "batch": batch, "reserve": reserve, "extraction": extraction,
         "calls": calls}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=tuple(PARTS))
    parser.add_argument("--limit", type=int, default=20, help="schemas or texts (default 20)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--vocabulary", default="embedded", help="of random: embedded, smollm2, qwen3, llama2 ...")
    parser.add_argument("--kind", default="", help="of random: only kinds of plans with this in their names")
    parser.add_argument("--draws", type=int, default=len(BUDGETS), help="of random: budgets of each plan, at random")
    parser.add_argument("--budgets", type=int, nargs="+", default=BUDGETS, help="tokens more than the least")
    options = parser.parse_args()
    PARTS[options.part](options)


if __name__ == "__main__":
    main()
