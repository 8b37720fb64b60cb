#!/usr/bin/env python3
"""Benchmark: function calling with and without guidance, on independent cases.

    python benchmarks/tool_calls.py                       # first 100 of each category, embedded model
    python benchmarks/tool_calls.py --limit 20 --json out.json
    python benchmarks/tool_calls.py --model NAME_OR_FOLDER

Data: package ``bfcl-eval`` (Berkeley Function Calling Leaderboard, Apache-2.0), installed without its dependencies;
categories simple_python and live_simple: one request, one function, the right call.  Both runs are greedy with the
same prompt and at most ``--max-tokens`` new tokens.

Columns
  parsed   answers from which the plan's parser reads a call; ``lenient`` also accepts, in free text, any JSON object
           that names the function or has its parameters
  schema   answers whose call is valid under the function's JSON schema (the Python package ``jsonschema``)
  right    answers that the data set's own checker accepts
  cut      answers that --max-tokens ended
  tokens, seconds, forwards   totals of the run; rows of one batch share forwards

The exit code is 1, and the cases are named, if a guided answer that ended does not parse or violates its schema.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import sys
import time
import types
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import jsonschema
import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import guided  # noqa: E402
from guided.hf.generate.call import generate_kwargs  # noqa: E402
from guided.hf.generate.inputs import checked_inputs  # noqa: E402
from guided.rows.answer import read_answer  # noqa: E402

CATEGORIES = ("simple_python", "live_simple")
_TYPES = {"dict": "object", "float": "number", "tuple": "array"}


@dataclass
class CallCase:
    """One request: messages, the function in JSON Schema, the data set's description and answer."""

    id: str
    messages: list[dict[str, Any]]
    tool: dict[str, Any]
    description: dict[str, Any]
    answer: dict[str, Any]


@dataclass
class CallScores:
    """One line of the table."""

    category: str
    run: str
    cases: int
    parsed: int = 0
    schema: int = 0
    right: int = 0
    cut: int = 0
    tokens: int = 0
    seconds: float = 0.0
    forwards: int = 0
    broken: list[str] = field(default_factory=list)  #: answers that ended without a call that is valid under its schema


# ---------------------------------------------------------------- data and judge


def data_folder() -> Path:
    found = importlib.util.find_spec("bfcl_eval")
    if found is None or not found.submodule_search_locations:
        sys.exit("the data is not installed; run: pip install --no-deps bfcl-eval==2026.3.23")
    return Path(next(iter(found.submodule_search_locations))) / "data"


def load_cases(category: str, limit: int) -> list[CallCase]:
    """Return the first ``limit`` cases of a category."""
    folder = data_folder()
    questions = [json.loads(line) for line in (folder / f"BFCL_v4_{category}.json").open(encoding="utf-8")]
    answers = {
        record["id"]: record["ground_truth"]
        for record in map(json.loads, (folder / "possible_answer" / f"BFCL_v4_{category}.json").open(encoding="utf-8"))
    }
    cases = []
    for record in questions[:limit]:
        function = record["function"][0]
        tool = {"type": "function", "function": {**function, "parameters": to_json_schema(function["parameters"])}}
        cases.append(CallCase(record["id"], record["question"][0], tool, function, answers[record["id"]][0]))
    return cases


def to_json_schema(node: Any) -> Any:
    """Return the data set's parameter description as JSON Schema: its type names mapped, ``any`` unconstrained.

    An ``enum`` of scalars on an array is meant for its items, as the data set's answers show; as JSON Schema no value
    would satisfy it.
    """
    if isinstance(node, list):
        return [to_json_schema(item) for item in node]
    if not isinstance(node, dict):
        return node
    out = {}
    if node.get("type") in ("array", "tuple") and not any(isinstance(v, list) for v in node.get("enum", [[]])):
        node = {**node, "items": {**node.get("items", {}), "enum": node["enum"]}}
        del node["enum"]
    for key, value in node.items():
        if key == "type" and isinstance(value, str):
            if value != "any":
                out[key] = _TYPES.get(value, value)
        elif key == "properties":
            out[key] = {name: to_json_schema(sub) for name, sub in value.items()}
        elif key in ("default", "enum", "required", "description", "example"):
            out[key] = value
        else:
            out[key] = to_json_schema(value)
    return out


def load_checker() -> Any:
    """Load the data set's own checker with a table of one model: the original one needs many packages."""
    stub = types.ModuleType("bfcl_eval.constants.model_config")
    stub.MODEL_CONFIG_MAPPING = {"guided": types.SimpleNamespace(underscore_to_dot=False)}  # type: ignore[attr-defined]
    sys.modules["bfcl_eval.constants.model_config"] = stub
    from bfcl_eval.constants.enums import Language
    from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker

    def is_right(case: CallCase, name: str, arguments: Any) -> bool:
        with contextlib.suppress(Exception):  # the checker raises for values it did not expect
            result = ast_checker(
                [case.description], [{name: arguments}], [case.answer], Language.PYTHON, "simple", "guided"
            )
            return bool(result["valid"])
        return False

    return is_right


def obeys(case: CallCase, name: str, arguments: Any) -> bool:
    schema = case.tool["function"]["parameters"]
    return name == case.tool["function"]["name"] and jsonschema.Draft202012Validator(schema).is_valid(arguments)


def lenient_call(text: str, case: CallCase) -> tuple[str, Any] | None:
    """Return the first JSON object in ``text`` that names the function, or whose keys are its parameters."""
    name = case.tool["function"]["name"]
    properties = case.tool["function"]["parameters"].get("properties", {})
    decoder = json.JSONDecoder()
    for at, char in enumerate(text):
        if char != "{":
            continue
        with contextlib.suppress(ValueError):
            value, _ = decoder.raw_decode(text, at)
            for key in ("arguments", "parameters"):
                if isinstance(value.get(key), dict) and value.get("name") == name:
                    return name, value[key]
            if value and set(value) <= set(properties):
                return name, value
    return None


# ---------------------------------------------------------------- runs


class Forwards:
    """Counts forward passes of a model."""

    def __init__(self, model: Any) -> None:
        self.count = 0
        model.register_forward_pre_hook(self._add)

    def _add(self, *_: Any) -> None:
        self.count += 1


def batches(cases: Sequence[CallCase], size: int) -> Iterator[Sequence[CallCase]]:
    for at in range(0, len(cases), size):
        yield cases[at : at + size]


def run(
    guide: Any, cases: Sequence[CallCase], args: argparse.Namespace, *, guided_run: bool, is_right: Any
) -> list[CallScores]:
    """Run one category; the free run is scored twice, strictly and leniently."""
    category = cases[0].id.rsplit("_", 1)[0] if cases else ""
    rows = [CallScores(category, "guided" if guided_run else "free", len(cases))]
    if not guided_run:
        rows.append(CallScores(category, "free, lenient", len(cases)))
    forwards = Forwards(guide.model)
    for batch in batches(cases, args.batch):
        plans = [guide.plan(tools=[c.tool], tool_choice="required", parallel_tool_calls=False) for c in batch]
        inputs = checked_inputs(guide.context, [c.messages for c in batch], plans, describe=True)
        before, began = forwards.count, time.perf_counter()
        kwargs: dict[str, Any] = {"max_new_tokens": args.max_tokens}
        if guided_run:  # the limit is in its keywords: a call ends within it
            kwargs = generate_kwargs(guide.context, inputs, plans, max_tokens=args.max_tokens)
        output = guide.model.generate(**inputs, do_sample=False, pad_token_id=guide.context.pad_id, **kwargs)
        seconds = time.perf_counter() - began
        for row in rows:
            row.seconds += seconds
            row.forwards += forwards.count - before
        for r, (case, plan) in enumerate(zip(batch, plans, strict=True)):
            tokens = output[r, inputs.prompt_len :].tolist()
            message = read_answer(tokens, plan, guide.engine)
            call = message.tool_calls[0] if message.tool_calls else None
            parsed = (call.name, call.parsed) if call is not None and isinstance(call.parsed, dict) else None
            score(rows[0], case, message, parsed, is_right)
            if not guided_run:
                text = guide.tokenizer.decode(tokens, skip_special_tokens=True)
                score(rows[1], case, message, parsed or lenient_call(text, case), is_right)
        if args.verbose:
            print(f"  {rows[0]}", file=sys.stderr, flush=True)
    return rows


def score(row: CallScores, case: CallCase, message: Any, call: tuple[str, Any] | None, is_right: Any) -> None:
    row.tokens += message.usage.completion_tokens
    row.cut += message.finish_reason == "length"
    if message.finish_reason != "length" and (call is None or not obeys(case, *call)):
        row.broken.append(case.id)
    if call is None:
        return
    row.parsed += 1
    row.schema += obeys(case, *call)
    row.right += is_right(case, *call)


def table(rows: Sequence[CallScores]) -> str:
    """Return the rows as a Markdown table."""
    lines = [
        "| category | run | parsed | obeys schema | exactly right | cut | tokens | seconds | forwards |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        share = [f"{100 * n / row.cases:.0f} %" for n in (row.parsed, row.schema, row.right)]
        totals = [str(row.cut), f"{row.tokens:,}", f"{row.seconds:,.0f}", f"{row.forwards:,}"]
        lines.append(f"| {row.category} | {row.run} | {' | '.join(share + totals)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int, default=100, help="cases of each category (default 100)")
    parser.add_argument("--category", choices=CATEGORIES, help="one category alone")
    parser.add_argument("--max-tokens", type=int, default=256)
    parser.add_argument("--batch", type=int, default=8, help="rows per generate call (default 8)")
    parser.add_argument("--threads", type=int, default=0, help="torch threads (default: torch's own)")
    parser.add_argument("--model", help="any chat model instead of the embedded one")
    parser.add_argument("--json", type=Path, help="write the rows to this file as well")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    guide = guided.Guide.from_pretrained(args.model) if args.model else guided.demo()
    is_right = load_checker()
    rows: list[CallScores] = []
    for category in [args.category] if args.category else CATEGORIES:
        cases = load_cases(category, args.limit)
        for guided_run in (False, True):
            rows += run(guide, cases, args, guided_run=guided_run, is_right=is_right)
            print(table(rows[-2 + guided_run :]), file=sys.stderr, flush=True)
    print(table(rows))
    broken = [case for row in rows if row.run == "guided" for case in row.broken]
    if args.json:
        args.json.write_text(json.dumps([asdict(row) for row in rows], indent=1), encoding="utf-8")
    if broken:
        sys.exit(f"guided answers that ended and do not obey their schema: {', '.join(broken)}")


if __name__ == "__main__":
    main()
