"""The names of vLLM that guided uses are there, and a changed one is refused by its name."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("vllm", reason="needs vllm in an environment of its own (`make test-vllm`)")

from guided.vllm import names


def test_the_installed_vllm_has_every_name() -> None:
    names.check()


@pytest.mark.parametrize("version", ["0.29.0", "0.30.1", "0.32.0", "0.32.1rc1+cpu"])
def test_versions_that_were_tried(version: str) -> None:
    names.check_version(version)


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
