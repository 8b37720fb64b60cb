"""The keyword arguments that `Guide.chat`, `stream`, `generate` and `batch` share, in one place.

A new one is a line in `Keywords`, which type checkers and editors read, and one in `AnswerOptions`, with its default.
"""

from __future__ import annotations

import difflib
import inspect
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import UnionType
from typing import Any, Protocol, TypeAlias, TypedDict, TypeVar

from grammars.compose.compose import Parts
from grammars.json_schema.build import Policy
from grammars.plan.plan import Stops
from grammars.values.constraints import FormatOf
from guided.hf.hidden.settings import HiddenStates
from guided.hf.loop.generation import Streamer
from guided.landing.options import LandingOptions, ShortBudget
from guided.output.message import Message
from guided.rows.sequence import OnError
from guided.sampling import Sampling, sampling_of
from special_tokens.errors import RequestError, shown

__all__ = [
    "OF_PLAN",
    "AnswerOptions",
    "Chat",
    "Chats",
    "Keywords",
    "Kind",
    "PlanKeywords",
    "options_of",
    "with_options",
]

#: Messages of a conversation (dicts, or messages that a guide returned), or the text of one user message.
Chat: TypeAlias = Sequence[Mapping[str, Any] | Message[Any]] | str

#: Several of these, or their prompts as a tokenizer gave them.
Chats: TypeAlias = Sequence[Chat] | Mapping[str, Any]

T = TypeVar("T")
V = TypeVar("V", covariant=True)


class _Pattern(Protocol[V]):
    """A compiled pattern of ``re``."""

    @property
    def pattern(self) -> V: ...


#: A response format: one whose value has a known type, or a schema, texts, a special form (``Literal["a"]``), or none.
Kind: TypeAlias = (
    type[T] | FormatOf[T] | _Pattern[T] | Mapping[str, Any] | Sequence[Any] | UnionType | typing._SpecialForm | None
)

F = TypeVar("F", bound=Callable[..., Any])


class PlanKeywords(TypedDict, total=False):
    """The keywords of `Guide.plan`, ``response_format`` apart."""

    tools: Iterable[Any] | None
    tool_choice: Any
    parallel_tool_calls: bool | None
    reasoning_effort: str | None
    reasoning_preset: str
    thinking: bool | None
    stop: str | Sequence[str] | Stops | None
    max_tokens: int | None
    schema_policy: Policy


class Keywords(PlanKeywords, total=False):
    """The keywords of every method that answers, ``response_format`` apart: it decides the type of the answer."""

    prompt: str | Sequence[Any] | Mapping[str, Any] | None
    temperature: float | None
    top_p: float | None
    top_k: int | None
    min_p: float | None
    repetition_penalty: float | None
    presence_penalty: float | None
    frequency_penalty: float | None
    logit_bias: Mapping[int, float] | None
    seed: int | Sequence[int] | None
    n: int | None
    logprobs: bool | int | None
    top_logprobs: int | None
    sampling: Sampling | Sequence[Sampling] | None
    describe: bool
    trace: bool
    reuse: bool
    on_error: OnError
    streamer: Streamer | None
    retries: int
    prompt_lookup_num_tokens: int | None
    assistant_model: Any
    return_last_hidden_state: bool | HiddenStates
    landing: bool | LandingOptions
    short_budget: ShortBudget


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerOptions:
    """One call's keyword arguments: what the answer must be, its prompt, its sampling, and how the call is made."""

    response_format: Any = None
    tools: Iterable[Any] | None = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: str | None = None
    reasoning_preset: str = "native"
    thinking: bool | None = None
    stop: str | Sequence[str] | Stops | None = None
    #: Of the answer; at most, and by default, the rest of the context.
    max_tokens: int | None = None
    schema_policy: Policy = "warn"

    #: In place of the chat, without a chat template: a text or token ids, in a batch a list of these, or what a
    #: tokenizer gave.  Under a plan its end is healed: the answer may begin with other tokens for it.
    prompt: str | Sequence[Any] | Mapping[str, Any] | None = None

    #: The sampling has OpenAI's meaning and overrides the model's generation config.
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: Mapping[int, float] | None = None
    #: One number, or one for each chat of a batch.
    seed: int | Sequence[int] | None = None
    #: Answers to each chat of a batch.
    n: int | None = None
    logprobs: bool | int | None = None
    top_logprobs: int | None = None
    #: In place of the above; one value, or one for each chat of a batch.
    sampling: Sampling | Sequence[Sampling] | None = None

    #: The model reads of tools and response format in the system message.
    describe: bool = True
    trace: bool = False
    #: Takes what is kept of earlier answers, and keeps these.
    reuse: bool = True
    on_error: OnError = "end"
    streamer: Streamer | None = None
    #: How often at most `chat` and `run` ask again, with what was wrong, while the schema or the Python type refuses.
    retries: int = 0
    #: The most guesses, from prompt and answer, that a forward checks: the same answers, in fewer forwards.
    prompt_lookup_num_tokens: int | None = None
    #: A smaller model of the same vocabulary, or its guide, which guesses instead.
    assistant_model: Any = None
    #: Fills ``message.last_hidden_state``; `guided.hf.HiddenStates` in place of True says how.
    return_last_hidden_state: bool | HiddenStates = False
    #: An answer whose shortest text its budget holds ends within it; see `guided.LandingOptions`.
    landing: bool | LandingOptions = True
    #: ``error`` refuses a budget that cannot hold the shortest answer.
    short_budget: ShortBudget = "cut"

    def parts(self, stop: Stops) -> Parts:
        """Return the parts of a plan, with ``stop`` as its stops."""
        return Parts(stop=stop, **{name: getattr(self, name) for name in OF_PLAN if name != "stop"})

    def plan_keyword(self) -> str:
        """Return the first keyword that says what the answer must be, ``max_tokens`` apart; "" where none does."""
        default = AnswerOptions()
        given = (n for n in OF_PLAN if n != "max_tokens" and getattr(self, n) is not getattr(default, n))
        return next((name for name in given if getattr(self, name) != getattr(default, name)), "")

    def samplings(self) -> Sampling | Sequence[Sampling]:
        """Return the sampling of all rows, or one for each chat, their seeds apart.  Raises `RequestError`."""
        given = {name: getattr(self, name) for name in _OF_SAMPLING if getattr(self, name) is not None}
        if self.sampling is None:
            n = given.pop("n", 1)
            return replace(sampling_of(given), n=n)
        if given:
            raise RequestError(f"{next(iter(given))} together with sampling", place="sampling", expected="one of them")
        return self.sampling


#: Every field; those that `Parts` has as well; those that `guided.Sampling` has, or stand for.
ALL = tuple(field.name for field in fields(AnswerOptions))
OF_PLAN = tuple(field.name for field in fields(Parts) if field.name in ALL)
_OF_SAMPLING = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty",
                "frequency_penalty", "logit_bias", "n", "logprobs", "top_logprobs")  # fmt: skip


#: Words of ``model.generate``, and what is said here instead.
_OF_GENERATE = {
    "do_sample": "temperature=0 is greedy",
    "num_return_sequences": "n=2 gives two answers",
    "num_beams": "model.generate(**guide.batch(chats), num_beams=3) searches with beams",
}


def options_of(place: str, given: Mapping[str, Any], names: Sequence[str] = ALL) -> AnswerOptions:
    """Return the keyword arguments of a call of ``place``; raise `RequestError` for a name that is not in ``names``."""
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(name, ("messages", "chats", "plan", "plans", *names), 1)
            hint = _OF_GENERATE.get(name) or (f"is it {shown(near[0])}?" if near else "")
            hint = "it says how to answer: pass it to guide.chat, stream or generate" if name in ALL else hint
            raise RequestError(f"unknown keyword {shown(name)}", place=place, hint=hint)
    return AnswerOptions(**given)


def with_options(names: Sequence[str] = ALL) -> Callable[[F], F]:
    """Let a method show these fields of `AnswerOptions` for ``**options``."""

    def decorate(method: F) -> F:
        method.__signature__ = _spelled_out(inspect.signature(method), names)  # type: ignore[attr-defined]
        return method

    return decorate


def _spelled_out(signature: inspect.Signature, names: Sequence[str]) -> inspect.Signature:
    """Return ``signature`` with ``names`` in place of ``**options``."""
    before = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    listed = {p.name for p in before}
    more = (
        inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=f.type)
        for f in fields(AnswerOptions)
        if f.name in names and f.name not in listed
    )
    return signature.replace(parameters=[*before, *more])
