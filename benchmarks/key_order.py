#!/usr/bin/env python3
"""Benchmark: objects whose keys come in any order, next to the schema's order; the embedded model's vocabulary.

    python benchmarks/key_order.py

*plan*, *compile*: processor time from the request to a plan, and of the engine's grammar, ms; *mask*: of a step, mask
and commit, us.  Half of the keys are required.  The median of five schemas that differ in their keys.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import guided  # noqa: E402
from benchmarks.json_schema_tables import table  # noqa: E402
from grammars.compose.compose import Parts, compose  # noqa: E402
from guided.bitmask import allocate_bitmask  # noqa: E402
from guided.embedded import model_folder  # noqa: E402
from guided.hf.model.vocabulary import context_of  # noqa: E402
from guided.state.state import GuidanceState  # noqa: E402

VALUES: list[tuple[str, Any]] = [("integer", 12), ("string", "some text"), ("boolean", True)]


def times(engine: Any, format: Any, keys: list[str], order: Literal["any", "schema"]) -> tuple[float, float, float]:
    """Return the seconds of plan and compile, and of one step of an object with all keys."""
    schema = {
        "type": "object",
        "properties": {key: {"type": VALUES[i % 3][0]} for i, key in enumerate(keys)},
        "required": keys[::2],
        "additionalProperties": False,
    }
    value = {key: VALUES[i % 3][1] for i, key in enumerate(keys)}
    begun = time.process_time()
    parts = Parts(response_format=guided.JsonSchema(schema, key_order=order))
    plan = compose(parts, tokens=engine.tokens, format=format)
    planned = time.process_time()
    engine.pristine(plan, plan.entries[0].name)
    compiled = time.process_time()
    text = json.dumps(dict(reversed(value.items())) if order == "any" else value)
    ids, state, mask = engine.tokenize(text), GuidanceState(plan, engine), allocate_bitmask(1, engine.vocab_size)
    stepping = time.process_time()
    for token in ids:
        state.fill_bitmask(mask)
        state.commit([token])
    assert state.is_accepting
    return planned - begun, compiled - planned, (time.process_time() - stepping) / len(ids)


def main() -> None:
    context = context_of(model_folder(weights=False))
    engine, format = context.engine, context.format
    rows = []
    for count in (2, 12, 63):
        for order in ("schema", "any"):
            runs = [times(engine, format, [f"{run}_key{i}" for i in range(count)], order) for run in range(5)]
            plan, compiled, step = (statistics.median(column) for column in zip(*runs, strict=True))
            rows.append((count, order, f"{1e3 * plan:.1f}", f"{1e3 * compiled:.1f}", f"{1e6 * step:.0f}"))
    print(table(("keys", "order", "plan", "compile", "mask"), rows))


if __name__ == "__main__":
    main()
