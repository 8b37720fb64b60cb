"""guided: constrained decoding on llguidance for Hugging Face models.

Importing this package loads the core; `Guide` and `demo`, which need torch and transformers, are loaded on first use.
"""

from __future__ import annotations

from guided.shadowing import check_shadowing

check_shadowing()  # first: the imports below would load, or miss, the modules of a foreign package

from typing import TYPE_CHECKING, Any

from grammars.compose.compose import Parts, compose
from grammars.json_schema.build import ReportRow, SchemaReport
from grammars.plan.plan import Plan, RegionName, Stops
from grammars.plan.wire import decode_plan, encode_plan
from grammars.requests.read import Request, read_request
from grammars.values.constraints import Choice, Gbnf, JsonSchema, Lark, Llguidance, Regex, StructuralTag
from grammars.values.format import Format
from grammars.values.tool import Tool
from guided.engine.counters import Guidance
from guided.engine.engine import CacheInfo, Engine
from guided.output.message import Message, ToolCall, Usage
from guided.output.parser import (
    ContentDelta,
    Event,
    OutputParser,
    ReasoningDelta,
    ToolCallArguments,
    ToolCallEnd,
    ToolCallStart,
    UnfinishedMarkup,
)
from guided.output.trace_records import Trace
from guided.sampling import ChoiceProbability, Sampling, TokenLogprob
from guided.state.state import GuidanceState
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
    "UnfinishedMarkup",
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

#: Name -> the package that defines it; the only lazy imports, since they need torch and transformers.
_LAZY = {"Guide": "guided.hf", "demo": "guided.embedded"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        import importlib

        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'guided' has no attribute {name!r}")
