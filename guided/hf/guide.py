"""`Guide`: the public face of guided for a transformers model and its tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typing_extensions import Unpack

from grammars.compose.tool_section import with_text_after_calls
from grammars.limits.bounded_cache import BoundedCache, CacheInfo
from grammars.plan.plan import Plan, RowPlan, checked_plan
from grammars.requests.read import Request
from grammars.tool_calls.syntaxes.anchors import anchored
from grammars.values.format import Format
from guided.engine.engine import CACHE_BYTES, CACHE_SIZE, SEND_PLANS, Engine
from guided.hf.answering import plan_of
from guided.hf.async_methods import AsyncMethods, WorkerThread
from guided.hf.cache.prefix_pool import CacheStats, PrefixPool, checked_cache_bytes
from guided.hf.generate.call import parsed_answer
from guided.hf.model.context import ModelContext
from guided.hf.model.hub import check_reachable
from guided.hf.model.tokenizer import facts_of, first_line, logits_widths
from guided.hf.model.wire_format import format_of
from guided.hf.options import OF_PLAN, AnswerOptions, PlanKeywords, options_of, with_options
from guided.hf.planning import Planner
from guided.inspect.accepts import Acceptance, acceptance
from guided.inspect.check import PlanCheck, check_plan
from guided.output.message import Message
from special_tokens import SpecialTokens
from special_tokens.errors import GuidedError, ModelError, RequestError, TokenizerError, shown

__all__ = ["Guide"]

Anchors = bool | Sequence[int | str]


@dataclass(frozen=True, slots=True)
class GuideStats:
    """Counters of a guide's caches: of plans, of compiled grammars, and of rows kept of answers."""

    plans: CacheInfo
    grammars: CacheInfo
    kept: CacheStats


class Guide(AsyncMethods):
    """A transformers causal language model whose output follows plans.

    ``format`` overrides the wire format that guided infers from the chat template, and ``tokens`` the registry of
    special tokens (see `with_tokens`).  ``anchors`` is for models that were tuned with them: two unused tokens, by id
    or text, or True for spare ones, which close calls and arguments in place of text tags.  ``text_after_calls`` allows
    or forbids text after calls; None: as the family writes.  The engine's tokenizer is built on first use, in about a
    second.  One guide serves any number of plans and threads.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        *,
        format: Format | None = None,
        tokens: SpecialTokens | None = None,
        anchors: Anchors = False,
        text_after_calls: bool | None = None,
        cache_bytes: int | None = None,
    ) -> None:
        tokens = _registry_of(model, tokenizer, tokens)
        format = anchored(format or format_of(tokenizer, tokens), tokens, anchors)
        format = with_text_after_calls(format, text_after_calls)
        pool = PrefixPool(checked_cache_bytes(cache_bytes))
        self.context = ModelContext(tokenizer, tokens, format, model=model, pool=pool)
        self.planner = Planner(self.context)
        self._worker = WorkerThread()

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path,
        *,
        format: Format | None = None,
        anchors: Anchors = False,
        text_after_calls: bool | None = None,
        cache_bytes: int | None = None,
        **model_kwargs: Any,
    ) -> Guide:
        """Return the guide of a chat model that transformers can load; raise `ModelError` when it cannot be loaded."""
        from transformers import AutoModelForCausalLM, AutoTokenizer

        check_reachable(name, **model_kwargs)
        try:
            tokenizer = AutoTokenizer.from_pretrained(name)
            model = AutoModelForCausalLM.from_pretrained(name, **model_kwargs).eval()
        except Exception as error:  # loaders may raise anything for files of unknown origin
            raise ModelError(
                f"cannot load {shown(str(name))}: {first_line(error)}",
                place="model",
                expected="a model name or a folder with config.json, weights and tokenizer.json",
            ) from error
        return cls(
            model,
            tokenizer,
            format=format,
            anchors=anchors,
            text_after_calls=text_after_calls,
            cache_bytes=cache_bytes,
        )

    def __repr__(self) -> str:
        return f"Guide({type(self.model).__name__}, format={self.format.name!r}, {self.tokens.vocab_size} token ids)"

    def __copy__(self) -> Guide:
        """Return a guide of the same model, tokenizer, engine and caches, none of which is copied."""
        copied = object.__new__(type(self))
        vars(copied).update(vars(self))
        return copied

    def __deepcopy__(self, memo: object) -> Guide:
        return self.__copy__()

    def __reduce__(self) -> Any:
        """Raises `GuidedError`: weights, caches and threads stay in their process."""
        raise GuidedError("a guide cannot be pickled", place="guide", hint=SEND_PLANS)

    def with_tokens(self, tokens: SpecialTokens) -> Guide:
        """Return a guide of the same model and format with another registry: ``guide.tokens.add_end(...)``, say.

        Its plans, plan cache and engine are its own: its answers end where ``tokens`` says, those of this guide as
        before.  Raises `TokenizerError` for the registry of another tokenizer.
        """
        most = self.context.pool.max_bytes
        return Guide(self.model, self.tokenizer, format=self.format, tokens=tokens, cache_bytes=most)

    @property
    def model(self) -> Any:
        """The transformers model."""
        return self.context.model

    @property
    def tokenizer(self) -> Any:
        """The model's tokenizer."""
        return self.context.tokenizer

    @property
    def tokens(self) -> SpecialTokens:
        """The special tokens of tokenizer and model, with their roles."""
        return self.context.tokens

    @property
    def format(self) -> Format:
        """The model's wire format: inferred, or what the caller passed."""
        return self.context.format

    @property
    def engine(self) -> Engine:
        """The engine of this vocabulary, built on first use."""
        return self.context.engine

    def stats(self) -> GuideStats:
        """Return the counters of plans, compiled grammars and kept rows of answers; callable from any thread."""
        engine = vars(self.context).get("engine")  # counters alone do not build it
        grammars = BoundedCache(CACHE_SIZE, CACHE_BYTES).info() if engine is None else engine.cache_info()
        return GuideStats(self.planner.plans.info(), grammars, self.context.pool.stats())

    def forget(self) -> int:
        """Drop the kept rows of all answers; return how many."""
        return self.context.pool.forget()

    @with_options(OF_PLAN)
    def plan(
        self, request: Request | None = None, *, response_format: Any = None, **options: Unpack[PlanKeywords]
    ) -> Plan:
        """Compose and compile the plan for one request: of keywords, or of a body that `guided.read_request` read.

        No argument is ignored: what cannot be enforced raises `RequestError` or one of its subclasses.  The sampling
        of a body is only checked here.
        """
        asked = options_of("plan", {"response_format": response_format, **options}, OF_PLAN)
        if request is None:
            return plan_of(self.planner, asked)
        if not isinstance(request, Request):
            raise RequestError(f"{type(request).__name__} is not a request that was read", place="plan",
                               expected="keywords (response_format=...), or guided.read_request(body)")  # fmt: skip
        if asked != AnswerOptions():
            raise RequestError("a request together with keywords", place="plan", expected="one of the two")
        return self.planner.plan_request(request)

    def check(self, plan: Plan) -> PlanCheck:
        """Return the shortest answer to ``plan``, its number of tokens, the schema report and the notes.

        The answer begins where the chat template lets one begin: reasoning that the prompt has opened must be closed.
        Searches at each call, in milliseconds for most plans.  Raises `PlanError` for a plan of another vocabulary.
        """
        plan = checked_plan(plan, "check")
        return check_plan(plan, self.engine, entry=self.context.usual_begin(plan).entry)

    def accepts(self, plan: Plan, text: str) -> Acceptance:
        """Return whether ``text`` is a whole answer under ``plan``, and if not where it is refused.

        It begins where the chat template lets an answer begin, and has no end token.  Stops and ``max_tokens`` take no
        part.
        """
        plan = checked_plan(plan, "accepts")
        return acceptance(plan, text, self.engine, self.context.usual_begin(plan))

    def parse(self, ids: Sequence[int] | Any, plan: RowPlan = None) -> Message:
        """Return the message of token ids (a list, or a tensor of one row) that anything wrote after a prompt.

        The answer begins where the chat template lets one begin.  Counters of guidance are 0.
        """
        return parsed_answer(self.context, ids, plan)


def _registry_of(model: Any, tokenizer: Any, tokens: SpecialTokens | None = None) -> SpecialTokens:
    """Return ``tokens``, by default those of tokenizer and model.

    Raises `ModelError` for what is not a model or one whose logits are narrower than the tokenizer's vocabulary, and
    `TokenizerError` for what is not a tokenizer or when ``tokens`` are those of another one.
    """
    _check_model(model)
    registry = SpecialTokens(facts_of(tokenizer, model=model))
    _check_logits_width(model, registry)
    if tokens is None:
        return registry
    if isinstance(tokens, SpecialTokens) and tokens.fingerprint == registry.fingerprint:
        return tokens
    raise TokenizerError(
        "the registry is not one of this guide's tokenizer and model",
        place="tokens",
        expected=f"the added tokens and sizes of vocabulary {registry.fingerprint}",
        hint="make it from the guide's own: guide.tokens.add_end(...)",
    )


def _check_model(model: Any) -> None:
    if not all(hasattr(model, name) for name in ("generate", "config", "generation_config", "forward")):
        raise ModelError(
            f"{type(model).__name__} is not a language model of transformers",
            place="model",
            expected="what AutoModelForCausalLM.from_pretrained gives",
            hint="guided.Guide.from_pretrained(name) loads model and tokenizer",
        )


def _check_logits_width(model: Any, tokens: SpecialTokens) -> None:
    vocabulary = tokens.facts.vocab_size
    logits = min(logits_widths(model), default=vocabulary)  # a last layer may be narrower than the config says
    if logits < vocabulary:
        raise ModelError(
            f"the model's logits are {logits} wide, the tokenizer has ids up to {vocabulary - 1}",
            place="tokenizer",
            hint="resize the model's embeddings, or load the tokenizer that belongs to it",
        )
