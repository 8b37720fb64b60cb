"""A name that left the public face raises an error that names where its job is done now, and that road leads there."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import guided
import guided.hf
from guided.removed import METHODS, NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_removed_name_says_where_it_is_now(name: str) -> None:
    assert name not in guided.__all__
    with pytest.raises(AttributeError, match=f"module 'guided' has no attribute '{name}'; use ") as error:
        getattr(guided, name)
    road = str(error.value).split("; use ")[1].split(";")[0].split(",")[0]
    module, _, attribute = road.removesuffix("()").rpartition(".")
    if module.startswith(("guided", "grammars")):
        assert hasattr(importlib.import_module(module), attribute)


@pytest.mark.parametrize("name", METHODS)
def test_a_removed_method_says_what_does_its_job(tiny_guide: Any, name: str) -> None:
    assert not hasattr(guided.Guide, name)
    with pytest.raises(AttributeError, match=f"'Guide' object has no attribute '{name}'; use "):
        getattr(tiny_guide, name)


def test_other_names_are_unknown_as_anywhere(tiny_guide: Any) -> None:
    with pytest.raises(AttributeError, match="^module 'guided' has no attribute 'Nothing'$"):
        _ = guided.Nothing
    with pytest.raises(AttributeError, match="^'Guide' object has no attribute 'nothing'$"):
        _ = tiny_guide.nothing
