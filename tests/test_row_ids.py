"""The table of row ids in tests/README.md names every id of a test, and the files where it is used."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

TESTS = Path(__file__).resolve().parent
_ROW = re.compile(r"^\| ([A-Z]\d+) \| (.+\.) \| (.+) \|$", re.MULTILINE)
_ID = re.compile(r"test_([A-Za-z]\d+)_")


def _ids_used() -> dict[str, set[str]]:
    """Row id -> the files that have a test with it in its name."""
    used: dict[str, set[str]] = defaultdict(set)
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and (found := _ID.match(node.name)):
                used[found[1]].add(path.relative_to(TESTS).as_posix())
    return used


def test_every_row_id_has_its_promise_and_its_files() -> None:
    rows = _ROW.findall((TESTS / "README.md").read_text(encoding="utf-8"))
    assert len(rows) == len({row_id for row_id, _, _ in rows})
    assert {row_id: set(files.split(", ")) for row_id, _, files in rows} == _ids_used()
