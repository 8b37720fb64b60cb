"""docs/families.md says what the code and the data say; its script writes it again, word for word."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import load_script


@pytest.fixture
def page() -> Any:
    return load_script("docs/families.py")


@pytest.fixture
def check(page: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    def call(*folders: Path) -> int:
        monkeypatch.setattr(sys, "argv", ["families.py", *map(str, folders), "--check"])
        return int(page.main())

    return call


def test_the_table_of_family_files_is_current(check: Callable[..., int]) -> None:
    assert check() == 0


@pytest.mark.slow
def test_the_tables_of_templates_are_current(shared: Path, check: Callable[..., int]) -> None:
    assert check(shared / "data" / "templates") == 0


def test_the_check_notices_a_changed_table(
    page: Any, check: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = tmp_path / "families.md"
    changed.write_text(page.PAGE.read_text(encoding="utf-8").replace("<end_of_turn>", "<end_of_urn>"), encoding="utf-8")
    monkeypatch.setattr(page, "PAGE", changed)
    assert check() == 1
