"""The table of modes in docs/generate.md is that of the tests in tests/guided/hf."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script() -> Any:
    spec = importlib.util.spec_from_file_location("generate_modes", ROOT / "docs" / "generate_modes.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["generate_modes"] = module
    spec.loader.exec_module(module)
    return module


def test_the_table_is_current(script: Any) -> None:
    _, found, _ = script.parts(script.PAGE.read_text(encoding="utf-8"))
    assert found.startswith(script.table()), "run docs/generate_modes.py"


def test_every_file_that_names_a_mode_is_in_the_table(script: Any) -> None:
    listed = [name for names in script.SECTIONS.values() for name in names]
    assert len(set(listed)) == len(listed)
    naming = {
        path
        for path in (ROOT / "tests" / "guided" / "hf").rglob("test_*.py")
        if "\nMODE = " in path.read_text(encoding="utf-8")
    }
    assert naming == {script.file_of(name) for name in listed}


def test_every_mode_is_right_or_refused_with_a_reason(script: Any) -> None:
    modes = [mode for names in script.SECTIONS.values() for n in names for mode in script.modes_of(script.file_of(n))]
    assert len({mode.name for mode in modes}) == len(modes)
    for mode in modes:
        assert mode.verdict in ("right", "refused")
        assert len(mode.how) > 10
        assert mode.num_tests > 0
