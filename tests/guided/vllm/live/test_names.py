"""The names of vLLM that guided uses are there, and a changed one is refused by its name."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("vllm", reason="needs vllm in an environment of its own (`make test-vllm`)")

from guided.vllm import names
from guided.vllm.hooks import _load_endpoint


def test_the_installed_vllm_has_every_name() -> None:
    names.check()


@pytest.mark.parametrize("version", ["0.29.0", "0.30.1", "0.32.0", "0.32.1rc1+cpu"])
def test_versions_that_were_tried(version: str) -> None:
    names.check_version(version)


@pytest.mark.parametrize("module", ["llguidance", "guided.vllm.hooks"])
def test_what_cannot_be_imported_ends_the_start(module: str) -> None:
    code = f"import sys; sys.modules[{module!r}] = None; from vllm.plugins import load_general_plugins as load; load()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode
    assert f"{module} halted; None in sys.modules" in done.stderr.splitlines()[-1]


def test_an_endpoint_that_cannot_be_imported_ends_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    plugins = SimpleNamespace(load_endpoint_plugins=list)
    _load_endpoint(plugins)
    monkeypatch.setitem(sys.modules, "guided.vllm.endpoint", None)
    with pytest.raises(ModuleNotFoundError):
        plugins.load_endpoint_plugins()


def test_a_method_with_other_parameters_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def grammar_init(self: Any, asked: Any) -> None: ...

    changed = [(grammar_init, "self request") if function is names.Manager.grammar_init else (function, text) for
               function, text in names._PARAMETERS]  # fmt: skip
    monkeypatch.setattr(names, "_PARAMETERS", changed)
    with pytest.raises(names.UnsupportedVllm, match="grammar_init without request"):
        names.check()


def test_a_grammar_with_one_method_more_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "_METHODS", names._METHODS - {"reset"})
    with pytest.raises(names.UnsupportedVllm, match="StructuredOutputGrammar with other methods"):
        names.check()
