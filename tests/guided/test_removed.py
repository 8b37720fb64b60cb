"""A name that left the public face raises an error that names where its job is done now, and that road leads there."""

from __future__ import annotations

import importlib
from typing import Any
from unittest.mock import MagicMock

import pytest

import guided
import guided.hf
from guided.removed import METHODS, NAMES, NAMES_OF_HF
from tests.conftest import make_tiny_guide


@pytest.mark.parametrize(
    ("module", "name", "road"),
    [("guided", name, road) for name, road in NAMES.items()]
    + [("guided.hf", name, road) for name, road in NAMES_OF_HF.items()],
)
def test_a_removed_name_says_where_it_is_now(module: str, name: str, road: str) -> None:
    face = importlib.import_module(module)
    assert name not in face.__all__
    assert not hasattr(face, name)
    words = f"module '{module}' has no attribute '{name}'; use {road}"
    with pytest.raises(AttributeError) as missing:
        getattr(face, name)
    with pytest.raises(ImportError) as refused:
        exec(f"from {module} import {name}")
    assert str(missing.value) == str(refused.value) == words
    home, _, attribute = road.split(";")[0].split(",")[0].rpartition(".")
    assert hasattr(importlib.import_module(home), attribute)


@pytest.mark.parametrize("name", METHODS)
def test_a_removed_method_says_what_does_its_job(tiny_guide: Any, name: str) -> None:
    assert not hasattr(guided.Guide, name)
    with pytest.raises(AttributeError, match=f"'Guide' object has no attribute '{name}'; use "):
        getattr(tiny_guide, name)


def test_other_names_are_unknown_as_anywhere(tiny_guide: Any) -> None:
    for face in (guided, guided.hf):
        with pytest.raises(AttributeError, match=f"^module '{face.__name__}' has no attribute 'Nothing'$"):
            _ = face.Nothing
    with pytest.raises(AttributeError, match="^'Guide' object has no attribute 'nothing'$"):
        _ = tiny_guide.nothing


def test_a_property_that_fails_shows_its_own_error(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = MagicMock(side_effect=AttributeError("no to_str"))
    monkeypatch.setattr("guided.hf.model.tokenizer_context.tokenizer_json", failing)
    with pytest.raises(AttributeError, match="^no to_str$"):
        _ = make_tiny_guide().engine


def test_counters_build_no_engine() -> None:
    guide = make_tiny_guide()
    unbuilt = guide.stats().grammars
    assert "engine" not in vars(guide.context)
    assert guide.engine.cache_info() == unbuilt == guide.stats().grammars
