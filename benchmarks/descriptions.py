#!/usr/bin/env python3
"""Benchmark: three descriptions of a JSON schema for the model: the schema, a type in TypeScript, an example.

    python benchmarks/descriptions.py                      # 30 cases of three tables in three styles: half an hour
    python benchmarks/descriptions.py --only extraction --style TypeScript --limit 100

Exactly right answers of guided greedy runs, the same masks for all styles: texts of `benchmarks/extraction_cases.py`
and the two tables of `benchmarks/tool_calls.py`, whose functions are described in the system message.  ``--page``
writes the table of all runs in the ``--json`` file into docs/response_formats.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import guided  # noqa: E402
from benchmarks.description_styles import STYLES  # noqa: E402
from benchmarks.extraction import measure  # noqa: E402
from benchmarks.extraction_cases import extraction_cases  # noqa: E402
from benchmarks.json_schema_tables import table, write_page  # noqa: E402
from benchmarks.tool_calls import load_cases, load_checker  # noqa: E402
from grammars.prompt import describe  # noqa: E402

TABLES = ("extraction", "simple_python", "live_simple")
HEAD = ("described by", *(f"{name}: right / answers" for name in TABLES), "prompt tokens")


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


def run(guide: Any, name: str, style: str, limit: int, batch: int) -> dict[str, Any]:
    with (
        mock.patch.object(describe, "_response", described_response(style)),
        mock.patch.object(describe, "_tools", described_tools(style)),
    ):
        if name == "extraction":
            row = measure(guide, extraction_cases(limit), style, batch=batch)[0]
            found = {"right": row.right, "cases": row.cases, "values": row.values, "all_values": row.all_values}
            return {**found, "prompt_tokens": row.prompt_tokens, "tokens": row.tokens, "seconds": row.seconds}
        is_right = load_checker()
        cases = load_cases(name, limit)
        found = {"right": 0, "cases": len(cases), "prompt_tokens": 0, "tokens": 0}
        for at in range(0, len(cases), batch):
            some = cases[at : at + batch]
            plans = [guide.plan(tools=[c.tool], tool_choice="required", parallel_tool_calls=False) for c in some]
            messages = guide.generate(
                [c.messages for c in some], plans, sampling=guided.Sampling(temperature=0.0), describe=True,
                max_tokens=256,
            )  # fmt: skip
            for case, message in zip(some, messages, strict=True):
                call = message.tool_calls[0] if message.tool_calls else None
                found["right"] += bool(
                    call and isinstance(call.parsed, dict) and is_right(case, call.name, call.parsed)
                )
                found["prompt_tokens"] += message.usage.prompt_tokens
                found["tokens"] += message.usage.completion_tokens
        return found


def page_table(found: dict[str, Any]) -> str:
    rows = []
    for style in STYLES:
        cells, prompt, answers = [], 0, 0
        for name in TABLES:
            one = found.get(f"{style}, {name}")
            cells.append(f"{one['right']} / {one['cases']}" if one else "-")
            prompt += one["prompt_tokens"] if one else 0
            answers += one["cases"] if one else 0
        rows.append((style, *cells, round(prompt / answers) if answers else "-"))
    return table(HEAD, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=TABLES, help="one table alone")
    parser.add_argument("--style", choices=list(STYLES), help="one style alone")
    parser.add_argument("--limit", type=int, default=30, help="cases of each table (default 30)")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "descriptions.json", help="the runs, added to")
    parser.add_argument("--page", action="store_true", help="write the table of the file's runs, and run nothing")
    args = parser.parse_args()
    found = json.loads(args.json.read_text(encoding="utf-8")) if args.json.exists() else {}
    if not args.page:
        guide = guided.demo()
        for name in [args.only] if args.only else TABLES:
            for style in [args.style] if args.style else STYLES:
                found[f"{style}, {name}"] = run(guide, name, style, args.limit, args.batch)
                args.json.parent.mkdir(parents=True, exist_ok=True)
                args.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
                print(style, name, found[f"{style}, {name}"], file=sys.stderr, flush=True)
    else:
        write_page(
            ROOT / "docs" / "response_formats.md", "descriptions", "benchmarks/descriptions.py", page_table(found)
        )
    print(page_table(found))


if __name__ == "__main__":
    main()
