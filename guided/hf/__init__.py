"""The transformers adapter: prompts, logits processor, stopping criterion, decode loop, `Guide`.

Its names are imported on their first use, since a model's facts are read without torch and transformers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from guided.hf.generate.inputs import Inputs
    from guided.hf.guide import Guide
    from guided.hf.loop.stream import Stream

__all__ = ["Guide", "Inputs", "Stream"]

_HOME_OF = {"Guide": "guided.hf.guide", "Inputs": "guided.hf.generate.inputs", "Stream": "guided.hf.loop.stream"}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'guided.hf' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
    return value
