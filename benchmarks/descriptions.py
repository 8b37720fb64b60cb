#!/usr/bin/env python3
"""Benchmark: three descriptions of a JSON schema for the model: the schema, a type in TypeScript, an example.

    python benchmarks/descriptions.py                      # 100 cases of three tables in three styles: an hour
    python benchmarks/descriptions.py --seconds 500        # a part of it; the next run goes on where it stopped
    python benchmarks/descriptions.py --page

Exactly right answers of guided greedy runs, the same masks for all styles: texts of `benchmarks/extraction_cases.py`
and the two tables of `benchmarks/tool_calls.py`, whose functions are described in the system message.  ``--page``
writes the table of all runs in the ``--json`` file into benchmarks/answers.md.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import guided  # noqa: E402
from benchmarks.description_styles import STYLES  # noqa: E402
from benchmarks.extraction_cases import extraction_cases, right_leaves  # noqa: E402
from benchmarks.extraction_cases import is_right as is_object_right  # noqa: E402
from benchmarks.json_schema_tables import percent, table, write_page  # noqa: E402
from benchmarks.tool_calls import load_cases, load_checker  # noqa: E402
from grammars.prompt import describe  # noqa: E402

TABLES = ("extraction", "simple_python", "live_simple")
HEAD = (
    "described by",
    "extraction: right / answers",
    "values right, %",
    *(f"{name}: right / answers" for name in TABLES[1:]),
    "tokens of a prompt",
)


def described_response(style: str) -> Any:
    sentence, write = STYLES[style]
    usual = describe._response

    def text(response: Any) -> str:
        return f"{sentence}\n{write(response.schema)}" if response.kind == "json" else usual(response)

    return text


def described_tools(style: str) -> Any:
    _, write = STYLES[style]
    usual = describe._tools

    def text(tools: Any, format: Any, *, required: bool) -> str:
        said = usual(tools, format, required=required)
        for tool in tools:
            function = tool.to_openai()["function"]
            parameters = write(function["parameters"])
            if style == "JSON Schema":
                continue
            as_json = json.dumps(function, ensure_ascii=False)
            assert as_json in said
            said = said.replace(as_json, f"{function['name']}({parameters}): {function.get('description', '')}")
        return said

    return text


def answered(guide: Any, table_name: str, style: str, cases: list[Any], is_right: Any) -> dict[str, dict[str, int]]:
    """Return what came of each case, by its id."""
    with (
        mock.patch.object(describe, "_response", described_response(style)),
        mock.patch.object(describe, "_tools", described_tools(style)),
    ):
        if table_name == "extraction":
            plans = [guide.plan(response_format=case.schema) for case in cases]
            chats: list[Any] = [case.prompt for case in cases]
        else:
            plans = [guide.plan(tools=[c.tool], tool_choice="required", parallel_tool_calls=False) for c in cases]
            chats = [case.messages for case in cases]
        greedy = guided.Sampling(temperature=0.0)
        messages = guide.generate(chats, plans, sampling=greedy, describe=True, max_tokens=256)
    found = {}
    for case, message in zip(cases, messages, strict=True):
        right, values, all_values = 0, 0, 0
        if table_name == "extraction":
            right = is_object_right(case, message.parsed)
            values, all_values = right_leaves(case, message.parsed)
        elif message.tool_calls and isinstance(message.tool_calls[0].parsed, dict):
            right = is_right(case, message.tool_calls[0].name, message.tool_calls[0].parsed)
        usage = message.usage
        found[case.id] = {"right": int(right), "values": values, "all_values": all_values,
                          "prompt": usage.prompt_tokens, "tokens": usage.completion_tokens}  # fmt: skip
    return found


def page_table(found: dict[str, dict[str, dict[str, int]]]) -> str:
    """Return the table over the cases that were answered in all styles."""
    rows = []
    for style in STYLES:
        cells, prompt, answers = [], 0, 0
        for name in TABLES:
            runs = [found.get(f"{other}, {name}", {}) for other in STYLES]
            shared = set(runs[0]).intersection(*runs)
            mine = [found[f"{style}, {name}"][case] for case in shared]
            total = {key: sum(one[key] for one in mine) for key in ("right", "values", "all_values", "prompt")}
            cells.append(f"{total['right']} / {len(mine)}")
            if name == "extraction":
                cells.append(percent(total["values"], total["all_values"]))
            prompt, answers = prompt + total["prompt"], answers + len(mine)
        rows.append((style, *cells, round(prompt / answers) if answers else "-"))
    return table(HEAD, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int, default=100, help="cases of each table (default 100)")
    parser.add_argument("--batch", type=int, default=5)
    parser.add_argument(
        "--seconds", type=float, default=1e9, help="begin no batch after this time; a later run goes on"
    )
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "descriptions.json", help="the runs, added to")
    parser.add_argument("--page", action="store_true", help="write the table of the file's runs, and run nothing")
    args = parser.parse_args()
    found = json.loads(args.json.read_text(encoding="utf-8")) if args.json.exists() else {}
    if args.page:
        write_page(ROOT / "benchmarks" / "answers.md", "descriptions", "benchmarks/descriptions.py", page_table(found))
        return
    guide, is_right, began = guided.demo(), load_checker(), time.perf_counter()
    cases: dict[str, Any] = {"extraction": extraction_cases(args.limit)}
    cases |= {name: load_cases(name, args.limit) for name in TABLES[1:]}
    for at in range(0, args.limit, args.batch):
        for name in TABLES:
            for style in STYLES:  # the same cases in every style before the next ones
                known = found.setdefault(f"{style}, {name}", {})
                todo = [case for case in cases[name][at : at + args.batch] if case.id not in known]
                if todo and time.perf_counter() - began < args.seconds:
                    known.update(answered(guide, name, style, todo, is_right))
                    args.json.parent.mkdir(parents=True, exist_ok=True)
                    args.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    print(page_table(found))


if __name__ == "__main__":
    main()
