"""The transformers adapter: prompts, logits processor, stopping criterion, decode loop, `Guide`."""

from guided.hf.generate.inputs import Inputs
from guided.hf.guide import Guide
from guided.hf.loop.stream import Stream

__all__ = ["Guide", "Inputs", "Stream"]
