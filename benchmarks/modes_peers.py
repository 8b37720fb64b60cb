#!/usr/bin/env python3
"""Benchmark: one JSON schema through each mode of transformers' ``generate``, next to xgrammar and outlines.

    make bench-peers                        # peers in a folder of their own; embedded model, two minutes
    python benchmarks/modes_peers.py --page README.md

Each cell: how many of the answers are objects that the schema allows, judged by ``jsonschema``; or the error that
``generate`` raised.  Every mode gets a new processor, but for *second call*, which uses that of a call before.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import jsonschema
import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import guided  # noqa: E402
from benchmarks.json_schema_tables import table, write_page  # noqa: E402
from benchmarks.loop import _PEERS  # noqa: E402
from guided.hf.generate.call import generate_kwargs  # noqa: E402
from guided.hf.generate.inputs import checked_inputs  # noqa: E402

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
CHATS = ["Alice is 31.", "Bob turned 47 last week.", "My aunt Carol is ninety."]
#: Mode -> the arguments of ``generate``.
MODES: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "four beams": {"do_sample": False, "num_beams": 4},
    "two answers each": {"do_sample": True, "num_return_sequences": 2},
    "prompt lookup": {"do_sample": False, "prompt_lookup_num_tokens": 3},
    "second call": {"do_sample": False},
}


def right(guide: Any, output: Any, width: int) -> str:
    """Return how many of the rows of ``output`` are valid, and of how many."""
    good = 0
    for row in output[:, width:].tolist():
        try:
            value = json.loads(guide.tokenizer.decode(row, skip_special_tokens=True))
            good += jsonschema.Draft202012Validator(SCHEMA).is_valid(value)
        except ValueError:
            pass
    return f"{good} of {len(output)}"


def cell(guide: Any, new: Callable[[], Any], mode: str) -> str:
    """Return what comes of one mode: the sum over calls, or the first error."""
    processors = new()
    chats = [[chat] for chat in CHATS] if mode == "prompt lookup" else [CHATS]  # drafts take one row
    good = rows = 0
    for some in chats:
        plans = [guide.plan(response_format=SCHEMA)] * len(some)
        inputs = checked_inputs(guide.context, some, plans, describe=True)
        processors = new() if mode == "prompt lookup" else processors
        for _ in range(2 if mode == "second call" else 1):
            torch.manual_seed(0)
            try:
                output = guide.model.generate(
                    **inputs, **MODES[mode], **processors, max_new_tokens=80, pad_token_id=guide.context.pad_id
                )
            except Exception as error:  # whatever a peer raises is its result
                return type(error).__name__
        found, _, count = right(guide, output, inputs["input_ids"].shape[1]).partition(" of ")
        good, rows = good + int(found), rows + int(count)
    return f"{good} of {rows}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", type=Path, help="write the table into this page")
    args = parser.parse_args()
    torch.set_num_threads(1)
    guide = guided.demo()
    makers: dict[str, Callable[[], Any]] = {
        f"guided {guided.__version__}": lambda: generate_kwargs(guide.context, None, guide.plan(response_format=SCHEMA))
    }
    for name, of in _PEERS.items():
        try:
            processor_of = of(guide)
            label = f"{name} {version(name)}"
        except (ImportError, PackageNotFoundError):
            continue
        makers[label] = lambda of=processor_of: {"logits_processor": [of(SCHEMA)]}  # type: ignore[misc]
    rows = [(name, *(cell(guide, new, mode) for mode in MODES)) for name, new in makers.items()]
    text = table(("", *MODES), rows)
    if args.page:
        write_page(args.page, "modes", "benchmarks/modes_peers.py", text)
    print(text)


if __name__ == "__main__":
    main()
