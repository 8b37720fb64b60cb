"""The transformers adapter: prompts, logits processor, stopping criterion, decode loop, `Guide`."""

from guided.hf.guide import Guide
from guided.hf.inputs import Inputs
from guided.hf.stream import Stream

__all__ = ["Guide", "Inputs", "Stream"]
