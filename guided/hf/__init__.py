"""The transformers adapter: prompts, logits processor, stopping criterion, decode loop, `Guide`.

Its names are imported on their first use, since a model's facts are read without torch and transformers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from guided.hf.batch import Batch
    from guided.hf.guide import Guide
    from guided.hf.hidden.settings import HiddenStates
    from guided.hf.loop.stream import Stream
    from guided.hf.states import hidden_states
    from guided.hf.tool_loop import ToolRun
    from guided.hidden_state import LastHiddenState

__all__ = ["Batch", "Guide", "HiddenStates", "LastHiddenState", "Stream", "ToolRun", "hidden_states"]

_HOME_OF = {
    "Batch": "guided.hf.batch",
    "Guide": "guided.hf.guide",
    "HiddenStates": "guided.hf.hidden.settings",
    "LastHiddenState": "guided.hidden_state",
    "Stream": "guided.hf.loop.stream",
    "ToolRun": "guided.hf.tool_loop",
    "hidden_states": "guided.hf.states",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'guided.hf' has no attribute {name!r}", name=name)
    value = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
    return value
