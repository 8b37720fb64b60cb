"""docs/families.md says what the code and the data say; its script writes it again, word for word."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def check(*folders: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "docs" / "families.py"), *map(str, folders), "--check"]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})


def test_the_table_of_family_files_is_current() -> None:
    assert check().returncode == 0


def test_the_tables_of_templates_are_current(shared: Path) -> None:
    done = check(shared / "data" / "templates")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_table_of_tokenizers_is_current(shared: Path, tokenizer_folder: Callable[[str], Path]) -> None:
    done = check(shared / "data" / "templates", tokenizer_folder("qwen3").parent)
    assert done.returncode == 0, done.stderr


def test_the_check_notices_a_changed_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    spec = importlib.util.spec_from_file_location("families_page", ROOT / "docs" / "families.py")
    assert spec is not None
    assert spec.loader is not None
    page = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(page)
    changed = tmp_path / "families.md"
    changed.write_text(page.PAGE.read_text(encoding="utf-8").replace("<end_of_turn>", "<end_of_urn>"), encoding="utf-8")
    monkeypatch.setattr(page, "PAGE", changed)
    monkeypatch.setattr(sys, "argv", ["families.py", "--check"])
    assert page.main() == 1
