"""guided: constrained decoding on llguidance for Hugging Face models.

Every name is imported on its first use: `Guide` and `demo` need torch and transformers, the others the core alone.
"""

from __future__ import annotations

from guided.shadowing import check_shadowing

check_shadowing()  # first: the imports below would load, or miss, the modules of a foreign package

from importlib import import_module
from typing import TYPE_CHECKING, Any

from special_tokens.errors import (
    AnswerError,
    EmbeddedModelError,
    GrammarError,
    GuidanceError,
    GuidedError,
    LimitExceeded,
    MalformedPlan,
    MatcherFailed,
    ModelError,
    ParseError,
    PlanError,
    RequestError,
    SchemaError,
    TemplateError,
    TokenizerError,
    TokenRefused,
    ToolError,
    WireError,
)

if TYPE_CHECKING:
    from grammars.compose.compose import Parts, compose
    from grammars.plan.plan import Plan, Stops
    from grammars.plan.wire import decode_plan, encode_plan
    from grammars.requests.read import Request, read_request
    from grammars.values.constraints import Choice, Gbnf, JsonSchema, Lark, Regex, StructuralTag
    from grammars.values.format import Format
    from grammars.values.tool import Tool
    from guided.embedded import demo
    from guided.engine.engine import Engine
    from guided.hf import Guide
    from guided.landing.options import LandingOptions
    from guided.output.message import AnswerEnd, Message, ToolCall
    from guided.output.parser import (
        ContentDelta,
        Event,
        OutputParser,
        ReasoningDelta,
        ToolCallArguments,
        ToolCallEnd,
        ToolCallStart,
    )
    from guided.sampling import Sampling
    from guided.state.state import GuidanceState
    from special_tokens import SpecialTokens

__version__ = "0.1.0"

__all__ = [
    "AnswerEnd",
    "AnswerError",
    "Choice",
    "ContentDelta",
    "EmbeddedModelError",
    "Engine",
    "Event",
    "Format",
    "Gbnf",
    "GrammarError",
    "GuidanceError",
    "GuidanceState",
    "Guide",
    "GuidedError",
    "JsonSchema",
    "LandingOptions",
    "Lark",
    "LimitExceeded",
    "MalformedPlan",
    "MatcherFailed",
    "Message",
    "ModelError",
    "OutputParser",
    "ParseError",
    "Parts",
    "Plan",
    "PlanError",
    "ReasoningDelta",
    "Regex",
    "Request",
    "RequestError",
    "Sampling",
    "SchemaError",
    "SpecialTokens",
    "Stops",
    "StructuralTag",
    "TemplateError",
    "TokenRefused",
    "TokenizerError",
    "Tool",
    "ToolCall",
    "ToolCallArguments",
    "ToolCallEnd",
    "ToolCallStart",
    "ToolError",
    "WireError",
    "__version__",
    "compose",
    "decode_plan",
    "demo",
    "encode_plan",
    "read_request",
]

#: Module -> the names that it defines, imported on their first use: `guided --help` loads no engine, `plan` no torch.
_HOMES = {
    "grammars.compose.compose": ("Parts", "compose"),
    "grammars.plan.plan": ("Plan", "Stops"),
    "grammars.plan.wire": ("decode_plan", "encode_plan"),
    "grammars.requests.read": ("Request", "read_request"),
    "grammars.values.constraints": ("Choice", "Gbnf", "JsonSchema", "Lark", "Regex", "StructuralTag"),
    "grammars.values.format": ("Format",),
    "grammars.values.tool": ("Tool",),
    "guided.embedded": ("demo",),
    "guided.engine.engine": ("Engine",),
    "guided.hf": ("Guide",),
    "guided.landing.options": ("LandingOptions",),
    "guided.output.message": ("AnswerEnd", "Message", "ToolCall"),
    "guided.output.parser": (
        "ContentDelta",
        "Event",
        "OutputParser",
        "ReasoningDelta",
        "ToolCallArguments",
        "ToolCallEnd",
        "ToolCallStart",
    ),
    "guided.sampling": ("Sampling",),
    "guided.state.state": ("GuidanceState",),
    "special_tokens": ("SpecialTokens",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'guided' has no attribute {name!r}", name=name)
    value = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
