"""The table of modes in docs/generate.md is that of the tests in tests/guided/hf."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import ROOT, load_script


@pytest.fixture(scope="module")
def script() -> Any:
    return load_script("docs/generate_modes.py")


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
