"""A foreign package with the name of one of ours is reported by ``import guided``, with its path and the cure."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def imported(folder: Path, code: str = "import guided") -> subprocess.CompletedProcess[str]:
    """A fresh process that has ``folder`` and then this repository first on ``sys.path``."""
    start = f"import sys; sys.path[:0] = [{str(folder)!r}, {str(ROOT)!r}]; {code}"
    return subprocess.run([sys.executable, "-c", start], capture_output=True, text=True, cwd=folder, check=False)


@pytest.mark.parametrize("name", ["grammars", "special_tokens"])
@pytest.mark.parametrize("file", ["{}/__init__.py", "{}.py"])
@pytest.mark.parametrize("code", ["import guided", "import {}; import guided", "import guided.cli", "import guided.hf"])
def test_a_foreign_package_that_hides_ours_is_an_import_error_with_its_path_and_the_cure(
    tmp_path: Path, name: str, file: str, code: str
) -> None:
    foreign = tmp_path / file.format(name)
    foreign.parent.mkdir(exist_ok=True)
    foreign.write_text("", encoding="utf-8")
    done = imported(tmp_path, code.format(name))
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1
    assert last.startswith(f"ImportError: {foreign} hides the package '{name}' of guided")
    assert "rename it" in last
    assert f"take {tmp_path} off sys.path" in last


@pytest.mark.parametrize("file", ["special_tokens/__init__.py", "special_tokens.py"])
def test_grammars_without_guided_says_what_hides_special_tokens(tmp_path: Path, file: str) -> None:
    foreign = tmp_path / file
    foreign.parent.mkdir(exist_ok=True)
    foreign.write_text("", encoding="utf-8")
    last = imported(tmp_path, "import grammars.plan.plan").stderr.strip().splitlines()[-1]
    assert last.startswith(f"ImportError: {foreign} hides the package 'special_tokens' of guided")
    assert "rename it" in last


@pytest.mark.parametrize("name", ["grammars", "special_tokens"])
def test_a_foreign_package_is_not_executed(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.py").write_text("raise SystemExit('executed')", encoding="utf-8")
    assert "executed" not in imported(tmp_path).stderr


@pytest.mark.parametrize("name", ["grammars", "special_tokens"])
def test_a_folder_of_data_hides_nothing(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    assert imported(tmp_path).returncode == 0
