"""`Guide`: the public face of guided for a transformers model and its tokenizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import Unpack

from grammars.compose.tool_section import with_text_after_calls
from grammars.plan.plan import Plan, RowPlan
from grammars.tool_calls.syntaxes.anchors import anchored
from grammars.values.format import Format
from guided.engine.engine import SEND_PLANS, CacheInfo, Engine
from guided.engine.plan_cache import PlanCache
from guided.hf.answering import plan_of
from guided.hf.async_methods import AsyncMethods, WorkerThread
from guided.hf.cache.prefix_pool import CacheStats, PrefixPool, checked_cache_bytes
from guided.hf.generate.call import Rows, generate_kwargs, parsed_answer, read_messages
from guided.hf.generate.inputs import Inputs, checked_inputs
from guided.hf.hidden.messages import with_last_states
from guided.hf.hidden.settings import HiddenStates, hidden_settings
from guided.hf.model.chat_template import forgotten_chat
from guided.hf.model.context import ModelContext
from guided.hf.model.hub import check_reachable
from guided.hf.model.registry import registry_of
from guided.hf.model.tokenizer import first_line
from guided.hf.model.wire_format import format_of
from guided.hf.options import OF_PLAN, Chat, PlanKeywords, options_of, with_options
from guided.hf.planning import Planner, checked_plan
from guided.inspect.accepts import Acceptance, acceptance
from guided.inspect.shortest import check_max_tokens, min_tokens, shortest
from guided.landing.options import LandingOptions, ShortBudget, budgeting, checked_max_tokens
from guided.output.message import Message
from guided.rows.sequence import OnError
from special_tokens import SpecialTokens
from special_tokens.errors import GuidedError, ModelError, shown

if TYPE_CHECKING:
    from transformers import BatchEncoding

__all__ = ["Guide"]

Anchors = bool | Sequence[int | str]


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
        tokens = registry_of(model, tokenizer, tokens)
        format = anchored(format or format_of(tokenizer, tokens), tokens, anchors)
        format = with_text_after_calls(format, text_after_calls)
        self.context = ModelContext(model, tokenizer, tokens, format, PrefixPool(checked_cache_bytes(cache_bytes)))
        self.planner = Planner(self.context)
        self.worker = WorkerThread()

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
        found = object.__new__(type(self))
        vars(found).update(vars(self))
        return found

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

    @property
    def pad_id(self) -> int:
        """The id that fills short rows: the tokenizer's pad token, else an end token."""
        return self.context.pad_id

    @property
    def plans(self) -> PlanCache:
        """The cache of plans."""
        return self.planner.plans

    def cache_stats(self) -> CacheStats:
        """Return the counters of the rows that are kept of answers, so that a conversation is not computed twice."""
        return self.context.pool.stats()

    def forget(self, messages: Chat | None = None) -> int:
        """Drop the kept rows of the conversation that begins with ``messages``, all with None; return how many.

        Roles, content and calls are compared, in whatever form they are sent, messages of the system or developer left
        out.  Rows of a shorter conversation that ``messages`` go on from are dropped too.  An empty text is a message
        as any other.  No text of a prompt is kept afterwards.  Raises `RequestError` where no messages are given.
        """
        chat = None if messages is None else forgotten_chat(messages)
        self.context.tokenised.forget()
        return self.context.pool.forget(chat)

    def cache_info(self) -> CacheInfo:
        """Return the counters of the engine's compile cache; those of the plan cache are ``guide.plans.info()``."""
        return self.engine.cache_info()

    # -- plans

    @with_options(OF_PLAN)
    def plan(self, *, response_format: Any = None, **options: Unpack[PlanKeywords]) -> Plan:
        """Compose and compile the plan for one request.

        No argument is ignored: what cannot be enforced raises `RequestError` or one of its subclasses.
        """
        return plan_of(self.planner, options_of("plan", {"response_format": response_format, **options}, OF_PLAN))

    def plan_from_request(
        self, body: Mapping[str, Any], *, trusted: bool = False, ignore_unknown: bool = False
    ) -> Plan:
        """Compose and compile the plan for a request body in OpenAI's form, with other servers' extensions.

        Every key is used, listed in ``plan.ignored``, or refused (`RequestError`); see docs/requests.md.  ``trusted``
        lets the body's grammars name special tokens; ``ignore_unknown`` lists unknown keys instead of refusing them.
        Sampling keys are only checked here; `guided.read_request` returns them.
        """
        return self.planner.request(body, trusted=trusted, ignore_unknown=ignore_unknown)[1]

    def shortest(self, plan: Plan) -> str | None:
        """Return the response of the shortest answer found; None without a response format or where none is found.

        It is valid, and shortest in tokens as far as the search finds (`min_tokens`).  Searches anew at each call.
        Raises `PlanError` where the plan belongs to another vocabulary.
        """
        return shortest(checked_plan(plan, "shortest"), self.engine)

    def min_tokens(self, plan: Plan) -> int:
        """Return the number of tokens of the shortest answer found for ``plan``, its end included.

        It begins where the chat template lets an answer begin: reasoning that the prompt has opened must be closed.
        Searches at each call, in milliseconds for most plans, byte by byte (`guided.landing`) for every kind of plan.
        Raises `LimitExceeded` with the reason where no end is found.
        """
        plan = checked_plan(plan, "min_tokens")
        return min_tokens(plan, self.engine, entry=self.context.usual_begin(plan).entry)

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

    def check_max_tokens(self, plan: Plan, max_tokens: int | None = None) -> None:
        """Raise `RequestError` when ``max_tokens`` (default: the plan's own) is less than `min_tokens`.

        A request checks this itself where it says ``short_budget="error"``; else such an answer is cut, with a note
        and ``finish_reason == "length"``, as with OpenAI.
        """
        plan = checked_plan(plan, "check_max_tokens")
        most = plan.max_tokens if max_tokens is None else max_tokens
        if most is not None:
            entry = self.context.usual_begin(plan).entry
            check_max_tokens(plan, self.engine, checked_max_tokens(most), entry=entry)

    # -- the low-level path: inputs, generate, messages

    def inputs(
        self, chats: Sequence[Chat], plans: Sequence[RowPlan] | None = None, *, describe: bool = False
    ) -> Inputs:
        """Return the chats as a left-padded batch, each rendered with its plan's chat template arguments.

        ``describe`` adds the system text with which `chat` describes tools and response format to the model.
        """
        return checked_inputs(self.context, chats, plans, describe=describe)

    def generate_kwargs(
        self,
        inputs: Inputs | BatchEncoding | None,
        plans: Sequence[RowPlan] | RowPlan,
        *,
        expand: int | None = None,
        on_error: OnError = "end",
        max_rollbacks: int | None = None,
        in_place: bool = False,
        max_tokens: int | None = None,
        landing: bool | LandingOptions = True,
        short_budget: ShortBudget = "cut",
    ) -> dict[str, Any]:
        """Return the keyword arguments for ``model.generate(**inputs, ...)``; reusable for one call after another.

        A row of ``plans`` is a plan, stops alone (its logits stay untouched), or None; when all rows are None the
        result is empty.  ``expand`` is num_beams or num_return_sequences; by default it is read off the call.  Without
        ``inputs``, one plan guides every row of any prompts, as in a pipeline.  ``max_rollbacks`` fails a row that beam
        search or drafts roll back more often.  ``in_place`` writes masks into the tensor that ``generate`` passes:
        this saves a copy of all scores and leaves ``output_logits`` masked.  Answers end within ``max_tokens``, which
        ``generate`` gets as ``max_new_tokens``, see `guided.hf.options.AnswerOptions`.
        """
        budget = budgeting(landing, short_budget)
        rows = Rows(expand, on_error, max_rollbacks, in_place, max_tokens, budget)
        return generate_kwargs(self.context, inputs, plans, rows)

    def messages(
        self,
        output: Any,
        inputs: Inputs | BatchEncoding,
        plans: Sequence[RowPlan],
        *,
        return_last_hidden_state: bool | HiddenStates = False,
    ) -> list[Message]:
        """Return the messages of ``output``, which ``model.generate`` returned for these inputs and plans.

        ``output`` is a tensor or an output object of transformers.  Counters are those of the last `generate_kwargs`
        call for ``inputs``.  ``return_last_hidden_state`` as in `generate`, of what was returned.  Raises
        `PlanError` for an output that does not belong to ``inputs``.
        """
        hidden = hidden_settings(return_last_hidden_state, self.model)
        found = read_messages(self.context, output, inputs, plans)
        return found if hidden is None else with_last_states(self.model, found, hidden)
