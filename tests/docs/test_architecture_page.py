"""docs/architecture.md names files that exist, and every room."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PLACES, MOVED = PAGE.split("<!-- moved modules -->")
PACKAGES = ("special_tokens", "grammars", "guided")


def _rows(text: str) -> list[list[str]]:
    """The cells of table rows that begin with a path."""
    return [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `")]


def test_files_that_the_page_names_exist() -> None:
    named = re.findall(r"`((?:tests|special_tokens|grammars|guided)/[\w/.]+)`", PLACES)
    assert len(named) > 50
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_room_has_a_row_with_its_number_of_modules() -> None:
    rooms = {
        str(folder.relative_to(ROOT)): len(list(folder.glob("*.py"))) - 1
        for package in PACKAGES
        for folder in [ROOT / package, *(ROOT / package).rglob("*")]
        if len(list(folder.glob("*.py"))) > 1
    }
    assert {cells[0].strip("`"): int(cells[1]) for cells in _rows(PLACES)} == rooms


@pytest.mark.parametrize(("room", "noun"), [(cells[0].strip("`"), cells[2]) for cells in _rows(PLACES)])
def test_the_noun_of_a_room_is_what_its_package_says(room: str, noun: str) -> None:
    docstring = ast.get_docstring(ast.parse((ROOT / room / "__init__.py").read_text(encoding="utf-8")))
    assert docstring is not None
    assert noun.split() == docstring.split("\n\n")[0].split()


def test_modules_that_moved_are_where_the_table_says() -> None:
    rows = _rows(MOVED)
    moved = [(room.strip("`"), item.strip("`")) for room, items in rows for item in items.split(", ")]
    assert len(moved) > 200
    for room, item in moved:
        old, _, new = item.partition(" → ")
        name = new or old.rpartition("/")[2]
        assert (ROOT / room / f"{name}.py").is_file(), item
