"""The wheel holds all three packages with their data, and works where nothing of the checkout is."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

CODE = """
import pathlib, guided, grammars, special_tokens
assert "site" in pathlib.Path(guided.__file__).parts, guided.__file__
from special_tokens import AddedToken, SpecialTokens, TokenizerFacts, families
assert families(), "no family files in the wheel"
added = (AddedToken(0, "<|im_end|>", True),)
tokens = SpecialTokens(TokenizerFacts(added, 300, generation_eos=(0,)))
plan = guided.compose(guided.Parts(response_format=guided.Choice(["a"])), tokens=tokens, format=guided.Format("plain"))
print(plan.lark)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(folder.glob("guided_decoding-*.whl"))


def test_the_wheel_holds_packages_data_and_licence(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for package in ("guided", "grammars", "special_tokens"):
        assert f"{package}/py.typed" in names
    tracked = subprocess.run(
        ["git", "ls-files", "guided", "grammars", "special_tokens"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    data = [name for name in tracked if not name.endswith((".py", ".pyi"))]
    assert any(name.endswith(".toml") for name in data)
    assert set(data) <= names
    assert any(name.endswith("LICENSE") for name in names)
    assert not any(name.startswith(("tests/", "docs/", "benchmarks/")) for name in names)


def test_the_installed_wheel_runs_elsewhere(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site), str(wheel)]
    subprocess.run(command, check=True, capture_output=True)
    env = {**os.environ, "PYTHONPATH": str(site)}
    run = subprocess.run(
        [sys.executable, "-c", CODE], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert '"a"' in run.stdout
    script = subprocess.run(
        [sys.executable, "-m", "guided.cli", "--help"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "generate" in script.stdout
