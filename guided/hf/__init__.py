"""The transformers adapter: prompts, logits processor, stopping criterion, decode loop, `Guide`."""

from guided.hf.guide import Guide, Stream
from guided.hf.inputs import Inputs

__all__ = ["Guide", "Inputs", "Stream"]
