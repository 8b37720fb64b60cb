"""The tests of every module are found by its path."""

from __future__ import annotations

import pytest

from tests.where import CLOSEST, ROOT, files_for

#: Entry points of processes, which tests start instead of importing.
STARTED = {
    "guided/cli/__main__.py",
    "guided/engine/compile_job.py",
    "guided/engine/worker_child.py",
    "guided/validation/validation_job.py",
}


@pytest.mark.parametrize("package", ["guided", "grammars", "special_tokens"])
def test_every_module_has_tests(package: str) -> None:
    files = {str(file.relative_to(ROOT)) for file in (ROOT / package).rglob("*.py") if file.name != "__init__.py"}
    assert {file for file in files if not files_for(file)} <= STARTED


def test_the_table_of_closest_tests_names_modules_without_a_file_of_their_own() -> None:
    for module, named in CLOSEST.items():
        assert (ROOT / module).exists()
        assert files_for(module)[: len(named)] == [f"tests/{path}" for path in named], (
            "the module has a file of its own"
        )
        assert all((ROOT / "tests" / path).exists() for path in named)


def test_the_file_of_the_same_name_comes_first_and_the_folder_next() -> None:
    assert files_for("grammars/plan/wire.py")[0] == "tests/grammars/plan/test_wire.py"
    assert "tests/guided/state/test_state.py" in files_for("guided/state/mask.py")
    assert files_for("guided/no_such_module.py") == []
