"""docs/architecture.md names files that exist, and every room."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PACKAGES = ("special_tokens", "grammars", "guided")


def _rows(text: str) -> list[list[str]]:
    """The cells of table rows that begin with a path."""
    return [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `")]


def test_files_that_the_page_names_exist() -> None:
    named = re.findall(r"`((?:tests|docs|special_tokens|grammars|guided)/[\w/.]+)`", PAGE)
    assert len(named) > 50
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_a_question_is_answered_within_three_files() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and "? |" in line]
    assert len(rows) > 30
    assert [row for row in rows if not 1 <= len(re.findall(r"`[a-z_]+/[\w/.]+`", row)) <= 3] == []


def test_every_room_has_a_row_with_what_its_package_says() -> None:
    rooms = {
        str(folder.relative_to(ROOT)): _first_sentences(folder / "__init__.py")
        for package in PACKAGES
        for folder in [ROOT / package, *(ROOT / package).rglob("*")]
        if len(list(folder.glob("*.py"))) > 1
    }
    assert {room.strip("`"): " ".join(noun.split()) for room, noun in _rows(PAGE)} == rooms


def _first_sentences(package: Path) -> str:
    docstring = ast.get_docstring(ast.parse(package.read_text(encoding="utf-8"))) or ""
    return " ".join(docstring.split("\n\n")[0].split())
