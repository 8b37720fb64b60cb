"""guided: a Hugging Face model writes exactly what it was asked for.

The core is here; what needs torch and transformers (`Guide`, `demo`) is loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grammars.compose.compose import Parts, compose
from grammars.values.constraints import Choice, Gbnf, JsonSchema, Lark, Llguidance, Regex, StructuralTag
from grammars.values.format import Format
from grammars.json_schema import ReportRow, SchemaReport
from grammars.plan.plan import Plan, RegionName, Stops
from grammars.requests import Request, read_request
from grammars.values.tool import Tool
from grammars.plan.wire import decode_plan, encode_plan
from guided.engine.engine import CacheInfo, Engine
from guided.output.message import Guidance, Message, ToolCall, Usage
from guided.output.parser import (
    ContentDelta,
    Event,
    OutputParser,
    ReasoningDelta,
    ToolCallArguments,
    ToolCallEnd,
    ToolCallStart,
)
from guided.sampling import ChoiceProbability, Sampling, TokenLogprob
from guided.state.state import GuidanceState
from guided.inspect.trace import Trace
from special_tokens import SpecialTokens
from special_tokens.errors import (
    EmbeddedModelError,
    GrammarError,
    GuidanceError,
    GuidedError,
    LimitExceeded,
    MalformedPlan,
    MatcherFailed,
    ModelError,
    NotMsgpack,
    PlanError,
    RequestError,
    SchemaError,
    TemplateError,
    TokenizerError,
    TokenRefused,
    ToolError,
    UnknownVersion,
    WireError,
)

if TYPE_CHECKING:
    from guided.embedded import demo
    from guided.hf import Guide

__version__ = "0.1.0"

__all__ = [
    "CacheInfo",
    "Choice",
    "ChoiceProbability",
    "ContentDelta",
    "EmbeddedModelError",
    "Engine",
    "Event",
    "Format",
    "Gbnf",
    "GrammarError",
    "Guidance",
    "GuidanceError",
    "GuidanceState",
    "Guide",
    "GuidedError",
    "JsonSchema",
    "Lark",
    "LimitExceeded",
    "Llguidance",
    "MalformedPlan",
    "MatcherFailed",
    "Message",
    "ModelError",
    "NotMsgpack",
    "OutputParser",
    "Parts",
    "Plan",
    "PlanError",
    "ReasoningDelta",
    "Regex",
    "RegionName",
    "ReportRow",
    "Request",
    "RequestError",
    "Sampling",
    "SchemaError",
    "SchemaReport",
    "SpecialTokens",
    "Stops",
    "StructuralTag",
    "TemplateError",
    "TokenLogprob",
    "TokenRefused",
    "TokenizerError",
    "Tool",
    "ToolCall",
    "ToolCallArguments",
    "ToolCallEnd",
    "ToolCallStart",
    "ToolError",
    "Trace",
    "UnknownVersion",
    "Usage",
    "WireError",
    "__version__",
    "compose",
    "decode_plan",
    "demo",
    "encode_plan",
    "read_request",
]

#: The only lazy imports: what needs torch and transformers.
_LAZY = {"Guide": "guided.hf", "demo": "guided.embedded"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        import importlib

        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'guided' has no attribute {name!r}")
