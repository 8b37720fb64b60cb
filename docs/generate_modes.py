#!/usr/bin/env python3
"""Writes the table of modes in docs/generate.md from the tests that hold them.

    python docs/generate_modes.py            # runs the tests, then writes the table
    python docs/generate_modes.py --check    # says whether the table is current; runs nothing

Each test file that is listed here names its modes: ``MODE = (mode, "right" or "refused", how)``, and ``MODES`` for
more of them.  A table is written only when the tests of every file in it pass.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests" / "guided" / "hf" / "generate"
PAGE = ROOT / "docs" / "generate.md"
BEGIN, END = "<!-- modes: written by docs/generate_modes.py -->", "<!-- end of modes -->"

#: Section of the table -> its test files below `TESTS` in the order in which one looks for them.
SECTIONS = {
    "ways to search": (
        "search/greedy", "search/sampling", "search/beams", "search/drafts", "search/guidance_scale",
        "search/custom_generate", "search/refused_by_transformers",
    ),
    "inputs and caches": ("inputs/mixed_batch", "inputs/inputs_embeds", "inputs/static_cache"),
    "the same objects again": ("reuse/reuse", "reuse/interrupted", "reuse/threads", "reuse/pipeline"),
    "outputs": ("outputs/outputs",),
    "what goes wrong": (
        "other_processors/forbidding_processors", "other_processors/stops_of_others", "failures/failing_rows",
        "failures/vocabulary",
    ),
    "machines": ("../masks/accelerator", "other_processors/deferred_stop", "reuse/memory"),
}  # fmt: skip


@dataclass(frozen=True)
class GenerateMode:
    """One mode: what is done in it, and how many tests hold it there."""

    name: str
    verdict: str
    how: str
    file: Path
    num_tests: int


def modes_of(path: Path) -> list[GenerateMode]:
    """The modes that a test file names, without importing it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assigned = [node for node in tree.body if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)]
    named = {node.targets[0].id: node.value for node in assigned}  # type: ignore[attr-defined]
    rows = [named["MODE"], *getattr(named.get("MODES"), "elts", [])]
    count = sum(isinstance(node, ast.FunctionDef) and node.name.startswith("test_") for node in tree.body)
    return [GenerateMode(*ast.literal_eval(row), path, count) for row in rows]


def file_of(name: str) -> Path:
    """The test file of a name in `SECTIONS`."""
    folder, _, stem = name.rpartition("/")
    return (TESTS / folder / f"test_{stem}.py").resolve()


def table() -> str:
    """The whole table, Markdown."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield "| | right | refused |"
    yield "|---|---|---|"
    for section, names in SECTIONS.items():
        modes = [mode for name in names for mode in modes_of(file_of(name))]
        right = "; ".join(mode.name for mode in modes if mode.verdict == "right")
        refused = "; ".join(f"{mode.name}: {mode.how}" for mode in modes if mode.verdict == "refused")
        yield f"| {section} | {right} | {refused} |"


def parts(page: str) -> tuple[str, str, str]:
    """The page before the table, the table, and the page after it."""
    before, rest = page.split(BEGIN)
    middle, after = rest.split(END)
    return before + BEGIN, middle.strip(), END + after


def tested_with() -> str:
    """The line that says what the tests ran with."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("transformers", "torch", "llguidance"))
    return f"Tested with {packages}."


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--check", action="store_true")
    options = arguments.parse_args()
    before, old, after = parts(PAGE.read_text(encoding="utf-8"))
    if options.check:
        sys.exit(None if old.startswith(table()) else f"{PAGE} is out of date: run {Path(__file__).name}")
    tests = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        *sorted({str(file_of(name).parent) for names in SECTIONS.values() for name in names}),
    ]
    if subprocess.run(tests, check=False, cwd=ROOT).returncode:
        sys.exit("some tests fail: no table")
    PAGE.write_text(f"{before}\n{table()}\n\n{tested_with()}\n{after}", encoding="utf-8")
    print(f"{PAGE}: {len(table().splitlines())} lines, {tested_with()}")


if __name__ == "__main__":
    main()
