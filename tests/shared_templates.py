"""Chat templates that no one here wrote, in the folder of shared data; a test that asks for one skips without it."""

from __future__ import annotations

from functools import cache

import pytest

from grammars.formats.infer import Inference
from guided.hf.model.wire_format import inference_of_template
from tests.conftest import SHARED

__all__ = ["shared_inference", "shared_template", "template_names"]


def template_names() -> list[str]:
    """Return the names of all templates; without the folder one name, for which `shared_template` skips."""
    return sorted(path.stem for path in (SHARED / "data" / "templates").glob("*.jinja")) or ["absent"]


def shared_template(name: str) -> str:
    """Return the text of the template."""
    path = SHARED / "data" / "templates" / f"{name}.jinja"
    if not path.is_file():
        pytest.skip("needs the shared chat templates, which are absent")
    return path.read_text(encoding="utf-8")


@cache
def shared_inference(name: str) -> Inference:
    """Return what is inferred from the template alone."""
    return inference_of_template(shared_template(name))[0]
