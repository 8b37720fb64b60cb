#!/usr/bin/env python3
"""Benchmark: the time from a loaded tokenizer to the first guided step (registry, format inference, plan, mask).

    python benchmarks/first_step.py TEMPLATES_FOLDER TOKENIZERS_FOLDER

Each row is a new process, so that no cache helps.  *tokenizer* is loading the tokenizer itself: transformers' object
and llguidance's vocabulary tables, built by llguidance's function; both are needed without this project too.  *engine*
is the time of our engine beyond those tables; *registry*, *inference* (with its check by masks), *plan* (a tool, a
format and an effort) and *mask* (compiling and the first mask) are ours.  CPU time of one thread, without imports.  The
last line is the inference alone, cold, over all templates without a tokenizer.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("OMP_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

#: The maximum that the design allows, in milliseconds: beyond loading the tokenizer, and for the inference.
MOST_OVER, MOST_INFERENCE = 300.0, 200.0
PAIRS = {
    "qwen3": "qwen3",
    "qwen3_5": "qwen3_5",
    "gptoss": "gpt_oss",
    "deepseek_v4": "deepseek_v4",
    "mistral": "ministral3_reasoning",
    "llama3_1": "llama3_1",
    "gemma3": "gemma3",
    "smollm2": "smollm3",
}
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}}
T = TypeVar("T")


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """Return the result of a call and its CPU time in milliseconds."""
    begin = time.process_time()
    return work(), (time.process_time() - begin) * 1000


def one(arguments: tuple[str, str, str]) -> dict[str, Any]:
    """Return the times of one tokenizer with one template; call it once per process."""
    folder, name, template = arguments
    import llguidance.hf
    import torch
    from transformers import AutoTokenizer

    from grammars.compose.compose import Parts, compose
    from guided.bitmask import allocate_bitmask
    from guided.engine.engine import Engine
    from guided.hf.model.tokenizer import facts_of, tokenizer_json
    from guided.hf.model.wire_format import inference_of
    from guided.state.state import GuidanceState
    from special_tokens import SpecialTokens

    torch.set_num_threads(1)
    tokenizer, load = timed(lambda: AutoTokenizer.from_pretrained(folder))
    tokenizer.chat_template = template
    _, tables = timed(lambda: llguidance.hf.from_tokenizer(tokenizer))
    tokens, registry = timed(lambda: SpecialTokens(facts_of(tokenizer)))
    inference, inferring = timed(lambda: inference_of(tokenizer, tokens))
    engine, whole = timed(lambda: Engine(tokenizer_json(tokenizer), tokens))
    effort = "low" if inference.format.reasoning else None
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA}}
    parts = Parts(response_format=form, tools=[TOOL], reasoning_effort=effort)
    plan, composing = timed(lambda: compose(parts, tokens=tokens, format=inference.format))

    def first_mask() -> None:
        state = GuidanceState(plan, engine)
        state.fill_bitmask(allocate_bitmask(1, engine.vocab_size))

    _, masking = timed(first_mask)
    over = max(whole - tables, 0.0)
    ours = {"engine": over, "registry": registry, "inference": inferring, "plan": composing, "mask": masking}
    return {"name": name, "load": load, "tables": tables, **ours, "over": sum(ours.values())}


def inference_alone(folder: Path) -> list[float]:
    """Return the cold times of every template's inference and check without a tokenizer, in milliseconds."""
    from guided.hf.model import wire_format as formats

    templates = [path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.jinja"))]
    formats.inference_of_template(templates[0] + " ")  # pay for imports and the start of the template sandbox
    return [timed(lambda text=text: formats.inference_of_template(text))[1] for text in templates]  # type: ignore[misc]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("templates", type=Path)
    parser.add_argument("tokenizers", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    jobs = [
        (str(options.tokenizers / name), name, (options.templates / f"{template}.jinja").read_text(encoding="utf-8"))
        for name, template in PAIRS.items()
    ]
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        rows = list(pool.imap(one, jobs))
    alone = inference_alone(options.templates)
    if options.json:
        print(json.dumps({"rows": rows, "inference": alone}))
        return
    head = (
        f"{'ms':12}{'tokenizer':>10}{'tables':>9} |{'engine':>8}{'registry':>9}{'inference':>10}{'plan':>7}{'mask':>7}"
    )
    print(f"{head} |{'over':>7}{'ratio':>7}")
    for row in rows:
        ratio = row["over"] / (row["load"] + row["tables"])
        print(
            f"{row['name']:12}{row['load']:10.0f}{row['tables']:9.0f} |{row['engine']:8.0f}{row['registry']:9.0f}"
            f"{row['inference']:10.0f}{row['plan']:7.0f}{row['mask']:7.0f} |{row['over']:7.0f}{ratio:7.2f}"
        )
    worst = max(row["over"] for row in rows)
    print(f"over the tokenizer's own load: at most {worst:.0f} ms (to reach: {MOST_OVER:.0f})")
    print(
        f"inference of {len(alone)} templates, cold: median {statistics.median(alone):.0f} ms, "
        f"most {max(alone):.0f} ms (to reach: {MOST_INFERENCE:.0f})"
    )


if __name__ == "__main__":
    main()
