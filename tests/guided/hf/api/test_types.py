"""The types that users see, judged by mypy and basedpyright in their strict modes."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "typed_program.py"
ROOT = PROGRAM.parents[4]
WRONG = {i for i, line in enumerate(PROGRAM.read_text().splitlines(), 1) if line.endswith("# error")}

pytestmark = pytest.mark.slow


def run(command: list[str], folder: Path) -> str:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "MYPYPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False).stdout


def test_mypy_strict_refuses_the_wrong_lines_alone(tmp_path: Path) -> None:
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("needs the type checker mypy, which is not installed")
    settings = ["--strict", "--python-version=3.11", "--follow-untyped-imports", "--cache-dir", str(tmp_path / "cache")]
    said = run([sys.executable, "-m", "mypy", *settings, "--no-pretty", str(PROGRAM)], tmp_path)
    found = re.findall(r"typed_program\.py:(\d+): error: (.*)", said)
    assert {int(line) for line, _ in found} == WRONG, said


def test_basedpyright_strict_refuses_the_wrong_lines_alone(tmp_path: Path) -> None:
    checker = os.environ.get("GUIDED_BASEDPYRIGHT") or shutil.which("basedpyright")
    if checker is None or not Path(checker).is_file():
        pytest.skip("needs the type checker basedpyright (on PATH or in GUIDED_BASEDPYRIGHT), which is absent")
    config = tmp_path / "pyrightconfig.json"
    settings = {"typeCheckingMode": "strict", "extraPaths": [str(ROOT)], "include": [str(PROGRAM)]}
    config.write_text(json.dumps(settings | {"pythonVersion": "3.11"}))
    said = run([checker, "--project", str(config), "--pythonpath", sys.executable, "--outputjson"], tmp_path)
    errors = [d for d in json.loads(said)["generalDiagnostics"] if d["severity"] == "error"]
    assert {d["range"]["start"]["line"] + 1 for d in errors} == WRONG, errors
