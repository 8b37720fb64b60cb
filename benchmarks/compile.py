#!/usr/bin/env python3
"""Benchmark: the cost of a plan, composed and compiled cold, found again by equal parts, and used again.

    python benchmarks/compile.py                              # the embedded model's vocabulary (49k)
    python benchmarks/compile.py --tokenizer ~/.cache/guided/tokenizers/qwen3     # and another one (152k)

A request is an effort, three tools and a response format.  *cold*: names and schemas that are new, so that no cache of
a text, a pattern or a grammar can help; split into composing (ours) and compiling (the engine's, with its first mask).
*equal parts*: a request equal to an earlier one that shares no object with it.  *same plan*: a new matcher of an
existing plan; *state*: the whole `GuidanceState` of one more sequence.  Medians over repeats, with the 90th
percentile; CPU time of one thread, because wall time on a shared machine includes other processes.  *memory*: growth of
the process per grammar, for a few hundred different ones that are kept, after one mask each and after 60 tokens each,
and the sizes that the caches report.
"""

from __future__ import annotations

import argparse
import copy
import gc
import json
import multiprocessing
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from grammars.compose.compose import Parts, compose  # noqa: E402
from grammars.compose.plan_cache import PlanCache  # noqa: E402
from grammars.plan.plan import Plan  # noqa: E402
from grammars.requests.read import read_request  # noqa: E402
from grammars.values.constraints import Choice, Lark, Regex  # noqa: E402
from grammars.values.format import Format, ReasoningFormat, ToolCallFormat  # noqa: E402
from guided.bitmask import allocate_bitmask, allowed_ids  # noqa: E402
from guided.engine.engine import Engine  # noqa: E402
from guided.hf.model.tokenizer import facts_of  # noqa: E402
from guided.hf.model.tokenizer_files import TokenizerFiles, configurations  # noqa: E402
from guided.state.state import GuidanceState  # noqa: E402
from special_tokens import SpecialTokens  # noqa: E402

#: Name -> the maximum that the design allows, in milliseconds; missed ones are marked in the output.
TARGETS = {"cold": 20.0, "equal parts": 0.5, "same plan": 0.05}
T = TypeVar("T")
COLUMNS = ("cold", "composing", "compiling", "equal parts", "same plan", "state")
FORMAT = Format(
    "json in tags",
    ReasoningFormat("<think>\n", "\n</think>\n\n", default_on=True),
    tool_calls=ToolCallFormat("json_in_tags", call_start="<tool_call>\n", call_end="\n</tool_call>", between="\n"),
)


def words(draw: random.Random, count: int) -> list[str]:
    return ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=9)) for _ in range(count)]


def schema(draw: random.Random) -> dict[str, Any]:
    """Return a typical object schema: strings, numbers, an enum, a nested list, a pattern."""
    a, b, c, d, e, f, g, h = words(draw, 8)
    item = {"type": "object", "properties": {f: {"type": "string"}, g: {"type": "number"}}, "required": [f]}
    return {
        "type": "object",
        "properties": {
            a: {"type": "string"},
            b: {"type": "integer", "minimum": 0, "maximum": draw.randint(99, 9_999)},
            c: {"enum": words(draw, 5)},
            d: {"type": "array", "items": item, "maxItems": draw.randint(3, 30)},
            e: {"anyOf": [{"type": "string", "maxLength": draw.randint(20, 90)}, {"type": "null"}]},
            h: {"type": "string", "pattern": f"^{a[:2]}-[0-9]{{{draw.randint(2, 9)}}}$"},
        },
        "required": [a, b, c],
        "additionalProperties": False,
    }


def tools(draw: random.Random) -> list[dict[str, Any]]:
    functions = [
        {"name": name, "description": " ".join(words(draw, 8)), "parameters": schema(draw)} for name in words(draw, 3)
    ]
    return [{"type": "function", "function": function} for function in functions]


KINDS: dict[str, Callable[[random.Random], Any]] = {
    "JSON schema": schema,
    "choice": lambda draw: Choice(words(draw, 20)),
    "regex": lambda draw: Regex(f"{words(draw, 1)[0]}-[0-9]{{2,5}}"),
    "Lark": lambda draw: Lark(f'start: "{words(draw, 1)[0]}" (item ",")* item\nitem: /[a-z]+/ "=" /[0-9]+/'),
}


def request(kind: str, number: int, *, preset: str = "native") -> dict[str, Any]:
    draw = random.Random(f"{kind} {number}")
    return {
        "response_format": KINDS[kind](draw),
        "tools": tools(draw),
        "reasoning_effort": "high",
        "reasoning_preset": preset,
    }


def timed(run: Callable[..., T], *arguments: Any) -> tuple[float, T]:
    """Return the CPU time of one call in milliseconds, and its result."""
    began = time.process_time_ns()
    found = run(*arguments)
    return (time.process_time_ns() - began) / 1e6, found


def often(run: Callable[..., Any], *arguments: Any, times: int) -> float:
    """Return the mean time of many calls in milliseconds."""
    return timed(lambda: [run(*arguments) for _ in range(times)])[0] / times


def row(what: str, values: list[float]) -> dict[str, Any]:
    values = sorted(values)
    return {"what": what, "median_ms": statistics.median(values), "p90_ms": values[int(len(values) * 0.9)]}


def rows_of(engine: Engine, tokens: SpecialTokens, format: Format, repeats: int) -> list[dict[str, Any]]:
    out = []
    warm(engine, tokens, format)
    for kind in KINDS:
        for preset in ("native", "structured"):
            found = rows_of_kind(engine, tokens, format, kind, preset, repeats)
            out += [entry | {"format": kind, "preset": preset} for entry in found]
    return out


def warm(engine: Engine, tokens: SpecialTokens, format: Format) -> None:
    """Run a first request, which pays once per process: imports, tables of Unicode classes, templates of levels."""
    for kind in KINDS:
        for preset in ("native", "structured"):
            plan = compose(Parts(**request(kind, -1, preset=preset)), tokens=tokens, format=format)
            engine.pristine(plan, plan.entries[0].name)


def rows_of_kind(
    engine: Engine, tokens: SpecialTokens, format: Format, kind: str, preset: str, repeats: int
) -> list[dict[str, Any]]:
    plans: list[Plan] = []
    cache = PlanCache()
    found: dict[str, list[float]] = {what: [] for what in COLUMNS}

    def made(parts: Parts) -> Plan:
        return compose(parts, tokens=tokens, format=format)

    for number in range(repeats):
        parts = Parts(**request(kind, number, preset=preset))
        gc.collect()
        spent, plan = timed(cache.get, parts, made)
        plans.append(plan)
        found["composing"].append(spent)
        found["compiling"].append(timed(engine.pristine, plan, plan.entries[0].name)[0])
    for number in range(repeats):
        again = Parts(**copy.deepcopy(request(kind, number, preset=preset)))
        found["equal parts"].append(timed(cache.get, again, made)[0])
    assert cache.info().hits == repeats, "equal parts were not found"
    for plan in plans:
        found["same plan"].append(often(lambda plan: engine.pristine(plan).deep_copy(), plan, times=100))
        found["state"].append(often(GuidanceState, plan, engine, times=20))
    found["cold"] = [a + b for a, b in zip(found["composing"], found["compiling"], strict=True)]
    return [row(what, values) for what, values in found.items()]


def fifty_tools(tokens: SpecialTokens, format: Format, engine: Engine) -> dict[str, Any]:
    """Measure fifty tools with different schemas."""
    draw = random.Random(50)
    many = [tool for _ in range(17) for tool in tools(draw)][:50]
    parts = Parts(tools=many, tool_choice="required")
    ours, plan = timed(lambda: compose(parts, tokens=tokens, format=format))
    return {"composing_ms": ours, "compiling_ms": timed(engine.pristine, plan)[0]}


def whole_bodies(repeats: int) -> dict[str, Any]:
    """Measure reading a client's request body, which every request pays."""
    draw = random.Random(7)
    bodies = [
        {
            "model": "m",
            "messages": [{"role": "user", "content": "x"}],
            "tools": tools(draw),
            "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema(draw)}},
            "reasoning_effort": "low",
            "temperature": 0.2,
            "user": "u",
        }
        for _ in range(repeats)
    ]
    return row("reading a body", [timed(read_request, body)[0] for body in bodies])


def memory(folder: Path, count: int) -> dict[str, Any]:
    """Return the growth of a new process per kept grammar, in bytes."""
    engine, tokens = open_vocabulary(folder)
    warm(engine, tokens, FORMAT)
    plans = [compose(Parts(**request("JSON schema", 10_000 + i)), tokens=tokens, format=FORMAT) for i in range(count)]
    gc.collect()
    before = resident()
    for plan in plans:
        engine.pristine(plan, plan.entries[0].name)
    masked = resident()
    mask, draw = allocate_bitmask(1, engine.vocab_size), random.Random(0)
    for plan in plans:
        state = GuidanceState(plan, engine)
        while not state.is_stopped and len(state.tokens) < 60:
            state.fill_bitmask(mask)
            state.commit([draw.choice(allowed_ids(mask[0]))])
    walked = resident()
    info = engine.cache_info()
    return {
        "grammars": count,
        "kept": info.entries,
        "capacity": info.capacity,
        "estimated_bytes": info.size_bytes,
        "capacity_bytes": info.capacity_bytes,
        "bytes_a_grammar_compiled": (masked - before) / count,
        "bytes_a_grammar_used": (walked - before) / count,
    }


def resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


def open_vocabulary(folder: Path) -> tuple[Engine, SpecialTokens]:
    text = (folder / "tokenizer.json").read_text(encoding="utf-8")
    tokens = SpecialTokens(facts_of(TokenizerFiles(folder), model=configurations(folder)))
    return Engine(text, tokens), tokens


def show(name: str, result: dict[str, Any]) -> None:
    print(f"\n## {name}: {result['vocab_size']:,} ids\n")
    print("| format | preset | " + " | ".join(COLUMNS) + " |")
    print("|---" * (len(COLUMNS) + 2) + "|")
    groups: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for entry in result["rows"]:
        groups.setdefault((entry["format"], entry["preset"]), {})[entry["what"]] = entry
    for (kind, preset), found in groups.items():
        cells = [f"{found[what]['median_ms']:.3g} ({found[what]['p90_ms']:.3g})" for what in COLUMNS]
        print(f"| {kind} | {preset} | " + " | ".join(cells) + " |")
    worst = {what: max(f[what]["median_ms"] for f in groups.values()) for what in TARGETS}
    for what, most in TARGETS.items():
        verdict = "met" if worst[what] <= most else "MISSED"
        print(f"\n{what}: worst median {worst[what]:.3g} ms, target {most:g} ms: {verdict}", end="")
    many, m = result["fifty_tools"], result["memory"]
    print(f"\n\n50 tools: {many['composing_ms']:.0f} ms ours, {many['compiling_ms']:.0f} ms the engine's")
    print(f"reading a body: {result['body']['median_ms']:.3g} ms")
    print(
        f"memory: {m['kept']} grammars kept of at most {m['capacity']}, by the cache's estimate "
        f"{m['estimated_bytes'] / m['kept'] / 1e3:.0f} kB each and at most {m['capacity_bytes'] / 1e6:.0f} MB in all; "
        f"the process grew by {m['bytes_a_grammar_compiled'] / 1e3:.0f} kB a grammar compiled and by "
        f"{m['bytes_a_grammar_used'] / 1e3:.0f} kB after 60 tokens each"
    )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument(
        "--tokenizer", type=Path, action="append", default=[], help="another folder; repeat for more"
    )
    arguments.add_argument("--repeats", type=int, default=30)
    arguments.add_argument("--grammars", type=int, default=200, help="of the memory's measurement")
    arguments.add_argument("--json", type=Path, help="write the numbers there")
    options = arguments.parse_args()
    from guided.embedded import model_folder

    packages = ", ".join(f"{name} {version(name)}" for name in ("llguidance", "lark", "msgpack"))
    print(f"{platform.platform()}, Python {platform.python_version()}, {packages}; CPU ms, median (p90)")
    results = {}
    # In this process memory freed by earlier measurements would be reused and hide the growth.
    fresh = multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1)
    for folder in [model_folder(), *options.tokenizer]:
        engine, tokens = open_vocabulary(folder)
        result = {
            "vocab_size": tokens.vocab_size,
            "rows": rows_of(engine, tokens, FORMAT, options.repeats),
            "fifty_tools": fifty_tools(tokens, FORMAT, engine),
            "body": whole_bodies(options.repeats),
            "memory": fresh.apply(memory, (folder, options.grammars)),
        }
        results[folder.name] = result
        show(folder.name, result)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
