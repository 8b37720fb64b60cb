"""OpenAI-style request bodies to the parts of a plan."""

from grammars.requests.keys import CONSTRAINT_ALIASES, GUIDANCE, HARMLESS, PROMPT, SAMPLING, UNSUPPORTED
from grammars.requests.read import Request, read_request
from grammars.requests.sources import STRUCTURED_OUTPUTS

__all__ = [
    "CONSTRAINT_ALIASES",
    "GUIDANCE",
    "HARMLESS",
    "PROMPT",
    "SAMPLING",
    "STRUCTURED_OUTPUTS",
    "UNSUPPORTED",
    "Request",
    "read_request",
]
