#!/usr/bin/env python3
"""Benchmark: the search for the nearest end of an answer, from its beginning and from random places.

    python benchmarks/landing.py                    # 150 archive schemas by seed, the embedded model's vocabulary
    python benchmarks/landing.py --schemas 30 --vocabulary qwen3

Schemas are those of the shared data (``../shared`` or GUIDED_SHARED), as are regexes (patterns in the schemas) and
choices (lists of texts); next to them are Lark grammars made from the seed, every call syntax, and all levels of both
presets of effort.  Other vocabularies than the embedded model's are those of `make tokenizers`.  *start*: CPU time of
one search from the beginning, compiled grammars kept; *places*: after random allowed tokens.  Every landing is checked
by the masks.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import guided  # noqa: E402
from benchmarks.json_schema_tables import table  # noqa: E402
from grammars.compose.compose import Parts, compose  # noqa: E402
from grammars.plan.plan import Plan  # noqa: E402
from grammars.values.constraints import JsonSchema  # noqa: E402
from grammars.values.format import Ends  # noqa: E402
from guided.bitmask import allowed_ids  # noqa: E402
from guided.engine.engine import Engine  # noqa: E402
from guided.hf.model.tokenizer import facts_of  # noqa: E402
from guided.hf.model.tokenizer_files import TokenizerFiles, configurations  # noqa: E402
from guided.landing.landing import LandingSearch  # noqa: E402
from guided.state.state import GuidanceState  # noqa: E402
from special_tokens.errors import GuidedError  # noqa: E402
from special_tokens.registry import SpecialTokens  # noqa: E402
from tests.judges.plans import END, FORMAT, walk  # noqa: E402
from tests.judges.schema_scorer import scorer_module  # noqa: E402
from tests.made_up.wire_forms import FORMS, TOOLS  # noqa: E402

LEVELS = ("low", "medium", "high")


@dataclass
class SearchTimes:
    """The measurements of one kind of plan; times in ms."""

    plans: int = 0
    found: int = 0
    start: list[float] = field(default_factory=list)
    places: list[float] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)


def engine_of(vocabulary: str) -> Engine:
    """Return the engine of the embedded model, or of a vocabulary of `make tokenizers`."""
    if vocabulary == "embedded":
        return guided.demo().engine
    base = Path(os.environ.get("GUIDED_TOKENIZERS", Path.home() / ".cache" / "guided" / "tokenizers"))
    folder = base / vocabulary
    facts = facts_of(TokenizerFiles(folder), model=configurations(folder))
    return Engine((folder / "tokenizer.json").read_text(), SpecialTokens(facts))


def plans(engine: Engine, number: int, chance: random.Random) -> Iterator[tuple[str, str, Plan]]:
    """Yield a kind, a name and a plan."""
    end = END if engine.tokens.id_of(END) is not None else engine.tokens.facts.named["eos_token"]
    like = replace(FORMAT, ends=Ends((end,)))

    def made(form: str = "", **parts: object) -> Plan:
        format = like if not form else replace(like, tool_calls=FORMS[form])
        return compose(Parts(**parts), tokens=engine.tokens, format=format)  # type: ignore[arg-type]

    scorer = scorer_module()
    records = scorer.load_bench(scorer.DATA / "jsonschemabench.tar.xz")
    for record in chance.sample(records, number):
        try:
            yield "archive schemas", record["name"], made(response_format=JsonSchema(record["schema"]))
        except GuidedError:
            continue  # refused when it is planned
    few = max(1, 2 * number // 15)
    patterns, choices = _written(record["schema"] for record in records)
    larks = (_lark(chance) for _ in range(1_000))
    for kind, formats in (
        ("regexes", map(guided.Regex, chance.sample(patterns, len(patterns)))),
        ("choices", map(guided.Choice, chance.sample(choices, len(choices)))),
        ("Lark", map(guided.Lark, larks)),
    ):
        count = 0
        for format in formats:
            if count < few:
                try:
                    plan = made(response_format=format)
                except GuidedError:
                    continue
                yield kind, str(format), plan
                count += 1
    for name in FORMS:
        tools = [tool.to_openai() for tool in TOOLS.values()]
        yield "call syntaxes", name, made(name, tools=tools, tool_choice="required")
    person = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
              "required": ["name", "age"]}  # fmt: skip
    for preset in ("native", "structured"):
        for level in LEVELS:
            options = {"reasoning_effort": level, "reasoning_preset": preset}
            yield f"effort, {preset}", level, made(response_format=JsonSchema(person), **options)


def _written(schemas: Iterator[Any]) -> tuple[list[str], list[list[str]]]:
    """Return the patterns in the schemas, and the lists of several texts, each once."""
    patterns: dict[str, None] = {}
    choices: dict[tuple[str, ...], None] = {}
    todo = list(schemas)
    while todo:
        node = todo.pop()
        if isinstance(node, Mapping):
            pattern, texts = node.get("pattern"), node.get("enum")
            if isinstance(pattern, str):
                patterns[pattern] = None
            if isinstance(texts, list) and len(texts) > 1 and all(isinstance(text, str) and text for text in texts):
                choices[tuple(texts)] = None
            todo += node.values()
        elif isinstance(node, list):
            todo += node
    return sorted(patterns), [list(texts) for texts in sorted(choices)]


def _lark(chance: random.Random) -> str:
    """Return a grammar of a few rules that call each other; the last alternative of each ends."""
    rules = "abcd"[: chance.randint(1, 4)]
    words = ["let", "if", "(", ")", "+", "=", ";", "end", "->", "[", "]", ", "]

    def part() -> str:
        kind = chance.random()
        if kind < 0.4:
            return f'"{chance.choice(words)}"'
        if kind < 0.6:
            return chance.choice(["/[a-z]{2,5}/", "/[0-9]+/", "/[A-Z][a-z]*/"])
        if kind < 0.9:
            return chance.choice(rules)
        return f'("{chance.choice(words)}" {chance.choice(rules)}){chance.choice("?*+")}'

    lines = [f"start: {rules[0]}"]
    for rule in rules:
        alternatives = [" ".join(part() for _ in range(chance.randint(1, 4))) for _ in range(chance.randint(0, 2))]
        lines.append(f"{rule}: " + " | ".join([*alternatives, f'"{chance.choice(words)}" /[0-9]+/ "!"']))
    return "\n".join(lines)


def measure(row: SearchTimes, name: str, plan: Plan, engine: Engine, chance: random.Random) -> None:
    """Add one plan to a row."""
    row.plans += 1
    try:
        search, state = LandingSearch(plan, engine), GuidanceState(plan, engine)
    except GuidedError as error:
        row.lost.append(f"{name}: {error}")
        return
    search.shortest_end(state)  # compiles and derives what is kept
    gc.freeze()  # the benchmark's own data is not walked by the garbage collector in a search
    begun = time.thread_time()
    landing = search.shortest_end(state)
    row.start.append(1e3 * (time.thread_time() - begun))
    if landing.tokens is None:
        row.lost.append(f"{name}: {landing.reason}")
    else:
        assert walk(plan, engine, landing.tokens).is_whole, name
        row.found += 1
    for steps in (3, 12, 40):
        here = strayed(plan, engine, chance, steps)
        begun = time.thread_time()
        landing = search.shortest_end(here)
        row.places.append(1e3 * (time.thread_time() - begun))
        if landing.tokens is None:
            row.lost.append(f"{name}, after {here.num_tokens} tokens: {landing.reason}")
        else:
            assert walk(plan, engine, [*here.tokens, *landing.tokens]).is_whole, name


def strayed(plan: Plan, engine: Engine, chance: random.Random, steps: int) -> GuidanceState:
    """Return a state after random allowed tokens, more than half of them by their first byte."""
    state, ends = GuidanceState(plan, engine), plan.end_ids()
    for _ in range(steps):
        ids = [i for i in allowed_ids(state.mask()) if i not in ends]
        if not ids:
            break
        if chance.random() < 0.6:
            first = chance.choice(sorted({engine.token_bytes(i)[:1] for i in ids}))
            ids = [i for i in ids if engine.token_bytes(i)[:1] == first]
        state.commit([chance.choice(ids)])
    return state


def _quantiles(values: list[float]) -> str:
    ordered = sorted(values) or [0.0]
    return " / ".join(f"{ordered[min(len(ordered) - 1, int(share * len(ordered)))]:.1f}" for share in (0.5, 0.99))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schemas", type=int, default=150)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--vocabulary", default="embedded", help="embedded, smollm2, qwen3, llama2 ...")
    options = parser.parse_args()
    chance, engine = random.Random(options.seed), engine_of(options.vocabulary)
    rows: dict[str, SearchTimes] = {}
    for kind, name, plan in plans(engine, options.schemas, chance):
        measure(rows.setdefault(kind, SearchTimes()), name, plan, engine, chance)
    head = ("plans", "number", "found", "start ms, p50 / p99", "places ms")
    body = [(kind, row.plans, row.found, *map(_quantiles, (row.start, row.places))) for kind, row in rows.items()]
    print(table(head, body))
    for row in rows.values():
        for line in row.lost:
            print(f"- {line}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
