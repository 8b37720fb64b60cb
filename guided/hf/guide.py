"""`Guide`: a model and its tokenizer, ready to write exactly what was asked for."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from grammars.compose.compose import Parts, compose
from grammars.values.constraints import Choice
from grammars.deadline import deadline
from grammars.prompt.describe import add_system_text, describe_plan
from grammars.values.format import Format
from grammars.json_schema import Policy
from grammars.plan.plan import Plan, Stops
from grammars.requests import read_request
from guided.state.entry import FRESH, begin_of
from guided.engine.engine import CacheInfo, Engine
from guided.hf.generate.call import Rows, check_rows, generate_kwargs, read_messages
from guided.hf.loop.choices import choice_probabilities
from guided.hf.loop.decode import Streamer
from guided.hf.model.wire_format import format_of
from guided.hf.loop.generation import Generation
from guided.hf.generate.inputs import Inputs, pad_left
from guided.hf.loop.settings import row_samplings, token_limit
from guided.hf.loop.stream import Stream
from guided.hf.model.chat_template import messages_of, render_chat
from guided.hf.model.tokenizer import facts_of, first_line, logits_widths, tokenizer_json
from guided.output.message import Message
from guided.engine.plan_cache import PlanCache
from guided.sampling import ChoiceProbability, Sampling, check_bias, sampling_of
from guided.rows.sequence import OnError, RowPlan
from guided.inspect.shortest import check_max_tokens, min_tokens, with_shortest
from guided.stop import check_stops, stops_of
from guided.stops.vocabulary import check_writable_stops
from special_tokens import SpecialTokens
from special_tokens.errors import ModelError, PlanError, RequestError, shown

__all__ = ["Guide"]

log = logging.getLogger("guided")

Chat = Sequence[Mapping[str, Any]] | str


class Guide:
    """A transformers causal language model under guidance.

    ``format`` overrides what guided infers about the model's wire format.  Building a guide takes about a second
    (the engine's tokenizer); plans and threads share it.
    """

    def __init__(self, model: Any, tokenizer: Any, *, format: Format | None = None) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.tokens = SpecialTokens(facts_of(tokenizer, model=model))
        self._check_width()
        self.format = format or format_of(tokenizer, self.tokens)
        self.plans = PlanCache()

    @classmethod
    def from_pretrained(cls, name: str | Path, *, format: Format | None = None, **model_kwargs: Any) -> Guide:
        """The guide of any chat model that transformers can load; raises `ModelError` when it cannot."""
        from transformers import AutoModelForCausalLM, AutoTokenizer

        try:
            tokenizer = AutoTokenizer.from_pretrained(name)
            model = AutoModelForCausalLM.from_pretrained(name, **model_kwargs).eval()
        except Exception as error:  # files of strangers make loaders raise anything
            raise ModelError(
                f"cannot load {shown(str(name))}: {first_line(error)}",
                place="model",
                expected="a model name or a folder with config.json, weights and tokenizer.json",
            ) from error
        return cls(model, tokenizer, format=format)

    @cached_property
    def engine(self) -> Engine:
        """The engine of this vocabulary, built on first use."""
        return Engine(tokenizer_json(self.tokenizer), self.tokens)

    def cache_info(self) -> CacheInfo:
        """Counters of the compile cache; those of the cache of plans are ``guide.plans.info()``."""
        return self.engine.cache_info()

    def _check_width(self) -> None:
        widths, vocabulary = logits_widths(self.model), self.tokens.facts.vocab_size
        logits = min(widths, default=vocabulary)  # a last layer may be narrower than the config says
        if logits < vocabulary:
            raise ModelError(
                f"the model's logits are {logits} wide, the tokenizer has ids up to {vocabulary - 1}",
                place="tokenizer",
                hint="resize the model's embeddings, or load the tokenizer that belongs to it",
            )

    # -- plans

    def plan(
        self,
        *,
        response_format: Any = None,
        tools: Iterable[Any] | None = None,
        tool_choice: Any = None,
        parallel_tool_calls: bool = True,
        reasoning_effort: str | None = None,
        reasoning_preset: str = "native",
        thinking: bool | None = None,
        stop: str | Sequence[str] | Stops | None = None,
        max_tokens: int | None = None,
        schema_policy: Policy = "warn",
    ) -> Plan:
        """Compose and compile the plan for one request.

        Raises `RequestError` or one of its subclasses for what cannot be honoured; nothing is ignored.
        """
        parts = Parts(
            response_format=response_format,
            tools=tools,
            tool_choice=tool_choice,
            parallel_tool_calls=parallel_tool_calls,
            reasoning_effort=reasoning_effort,
            reasoning_preset=reasoning_preset,
            thinking=thinking,
            stop=checked_stops(stop, self.engine),
            max_tokens=max_tokens,
            schema_policy=schema_policy,
        )
        return self._planned(parts)

    def plan_from_request(
        self, body: Mapping[str, Any], *, trusted: bool = False, ignore_unknown: bool = False
    ) -> Plan:
        """The plan for a request body as OpenAI's clients and those of other servers send it.

        Every key is read, listed in ``plan.ignored``, or refused (`RequestError`); see docs/requests.md.  ``trusted``
        lets its grammars write tokens; ``ignore_unknown`` lists keys that nobody knows instead of refusing them.
        Sampling keys are checked; `guided.read_request` hands them out.
        """
        request = read_request(body, trusted=trusted, ignore_unknown=ignore_unknown)
        check_bias(Sampling(**request.sampling), self.tokens.vocab_size)
        parts = request.parts
        return self._planned(replace(parts, stop=checked_stops(parts.stop, self.engine)))

    def _planned(self, parts: Parts) -> Plan:
        if parts.tools is not None and not isinstance(parts.tools, str | bytes | Mapping | list | tuple):
            try:
                parts = replace(parts, tools=list(parts.tools))  # they are looked at twice
            except TypeError:
                raise RequestError(
                    f"{type(parts.tools).__name__} is no list", place="tools", expected="a list of tools"
                ) from None
        plan = self.plans.get(parts, self._composed)
        for note in plan.notes:
            log.warning("%s", note)
        return plan

    def _composed(self, parts: Parts) -> Plan:
        with deadline():  # one for both
            plan = compose(parts, tokens=self.tokens, format=self.format)
            self.engine.prepare(plan, plan.entries[0].name)
        return with_shortest(plan, self.engine)

    def min_tokens(self, plan: Plan) -> int:
        """Tokens of the shortest answer found for ``plan``, its end included; found anew at each call.

        Raises `LimitExceeded` where no text is known and walks of 1.5 s of processor time find none.
        """
        return min_tokens(plan, self.engine)

    def check_max_tokens(self, plan: Plan, max_tokens: int | None = None) -> None:
        """Raise `RequestError` when ``max_tokens`` (the plan's own by default) cannot hold that answer.

        Nothing else asks: an answer that ``max_tokens`` cuts has ``finish_reason == "length"``, as with OpenAI.
        """
        most = plan.max_tokens if max_tokens is None else max_tokens
        if most is not None:
            check_max_tokens(plan, self.engine, most)

    # -- the low-level path: inputs, generate, messages

    def inputs(
        self, chats: Sequence[Chat], plans: Sequence[RowPlan] | None = None, *, describe: bool = False
    ) -> Inputs:
        """The chats as a left-padded batch, each rendered with its plan's template switches.

        ``describe`` adds what `chat` tells the model of tools and response format; by default nothing is added.
        """
        if isinstance(chats, str | Mapping):
            raise PlanError("chats is one chat", place="inputs", expected="a list of chats")
        if not chats:
            raise PlanError("there are no chats", place="inputs", expected="at least one chat")
        plans = check_rows(plans, len(chats))
        prompts = [self._prompt_ids(chat, plan, describe) for chat, plan in zip(chats, plans, strict=True)]
        begins = [
            begin_of(plan, ids, self.engine) if isinstance(plan, Plan) else FRESH
            for plan, ids in zip(plans, prompts, strict=True)
        ]
        batch = pad_left(prompts, self.pad_id)
        return Inputs({key: value.to(self.model.device) for key, value in batch.items()}, prompts, begins)

    def _prompt_ids(self, chat: Chat, row: RowPlan, describe: bool) -> list[int]:
        messages = messages_of(chat)
        plan = row if isinstance(row, Plan) else None
        if plan is not None and describe:
            messages = add_system_text(messages, describe_plan(plan))
        return render_chat(self.tokenizer, messages, self.format, plan, self.tokens)

    @property
    def pad_id(self) -> int:
        """The id that fills short rows: the tokenizer's pad token, else an end."""
        for candidate in (self.tokenizer.pad_token_id, self.tokenizer.eos_token_id, *self.tokens.end_ids):
            if candidate is not None:
                return int(candidate)
        return 0

    def generate_kwargs(
        self,
        inputs: Inputs | None,
        plans: Sequence[RowPlan] | RowPlan,
        *,
        expand: int | None = None,
        on_error: OnError = "end",
        max_rollbacks: int | None = None,
        in_place: bool = False,
    ) -> dict[str, Any]:
        """What to pass to ``model.generate`` beside ``inputs``, for any number of calls one after the other.

        A row of ``plans`` is a plan, stops alone (its logits stay untouched), or None.  A batch of None gets nothing
        at all.  ``expand`` is num_beams or num_return_sequences, taken from the call itself by default.  Without
        ``inputs`` one plan guides every row of whatever prompts come, as in a pipeline.  ``max_rollbacks`` ends a row
        that a search or drafts take back more often.  ``in_place`` writes masks into the very tensor that ``generate``
        hands over, which spares a copy of all scores and leaves ``output_logits`` masked.
        """
        return generate_kwargs(self, inputs, plans, Rows(expand, on_error, max_rollbacks, in_place))

    def messages(self, output: Any, inputs: Inputs, plans: Sequence[RowPlan]) -> list[Message]:
        """The messages of what ``generate`` returned (a tensor or its output object) for these inputs and plans.

        Counters are those of the last `generate_kwargs` of ``inputs``.  Raises `PlanError` for an output that does not
        belong to ``inputs``.
        """
        return read_messages(self, output, inputs, plans)

    # -- the high-level path

    def generate(
        self,
        chats: Sequence[Chat],
        plans: Sequence[RowPlan] | None = None,
        *,
        sampling: Sampling | Sequence[Sampling] | None = None,
        seed: int | Sequence[int] | None = None,
        max_tokens: int | None = None,
        describe: bool = False,
        on_error: OnError = "end",
        trace: bool = False,
        streamer: Streamer | None = None,
    ) -> list[Message]:
        """The answers to a batch of chats, written by our own loop.

        ``plans`` has a plan, stops alone or None per chat; ``sampling`` is one for all or one per chat.  ``seed``
        goes before the samplings' own: one for all chats, or one per chat.  A sampling with ``n`` above 1 gives that
        many messages side by side.  Raises `RequestError` and its subclasses, `PlanError` for rows that do not fit.
        """
        inputs = self.inputs(chats, plans, describe=describe)
        rows = check_rows(plans, inputs.num_rows)
        samplings = row_samplings(sampling, seed, inputs.num_rows, self.model, self.tokens.vocab_size)
        limits = [token_limit(plan, max_tokens, inputs, self.model) for plan in rows]
        counts = [len(group) for group in samplings]
        index = [r for r, count in enumerate(counts) for _ in range(count)]
        run = Generation(
            self,
            inputs.repeated(counts),
            [rows[r] for r in index],
            [row for group in samplings for row in group],
            [limits[r] for r in index],
            on_error=on_error,
            trace=trace,
            streamer=streamer,
        )
        for _ in run.steps():
            pass
        return run.messages()

    def chat(self, chat: Chat, plan: RowPlan = None, *, describe: bool = True, **options: Any) -> Message:
        """One answer.  ``options`` are those of `plan` and of `stream`."""
        stream = self.stream(chat, plan, describe=describe, **options)
        for _ in stream:
            pass
        return stream.message

    def stream(
        self, chat: Chat, plan: RowPlan = None, *, describe: bool = True, trace: bool = False, **options: Any
    ) -> Stream:
        """The answer as events while it is written; ``stream.message`` when it is done.

        The fields of `guided.Sampling` (``temperature``, ``top_p``, ``seed``, ``logprobs`` ...) and ``max_tokens``
        have OpenAI's meaning; what is left open the model's own generation config decides.  No answer is longer than
        the context leaves room for.  ``plan`` may be stops alone: then the answer is free text up to them.
        """
        sampling = sampling_of(options)
        max_tokens = options.get("max_tokens")
        if plan is None:
            plan = self._plan_of(options)
        elif set(options) - {"max_tokens"}:
            raise RequestError(
                f"{shown(sorted(set(options) - {'max_tokens'})[0])} beside a finished plan",
                place="chat",
                hint="pass it to guide.plan()",
            )
        inputs = self.inputs([chat], [plan], describe=describe)
        (rows,) = row_samplings(sampling, None, 1, self.model, self.tokens.vocab_size)
        limit = token_limit(plan, max_tokens, inputs, self.model)
        return Stream(Generation(self, inputs, [plan], rows, [limit], trace=trace))

    def choice_probabilities(
        self, chat: Chat, choices: Sequence[str], *, describe: bool = True
    ) -> tuple[ChoiceProbability, ...]:
        """How probable each of ``choices`` is as the whole answer, from one pass over all of them.

        With ``describe`` the model is told of the choices.  Raises `RequestError` for what `plan` would refuse.
        """
        plan = self.plan(response_format=Choice(choices))
        inputs = self.inputs([chat], [plan], describe=describe)
        return choice_probabilities(self, inputs.prompt_ids[0], plan)

    def _plan_of(self, options: dict[str, Any]) -> Plan:
        try:
            return self.plan(**options)
        except TypeError as error:
            if "unexpected keyword" in str(error):
                raise RequestError(str(error).split("() ")[-1], place="chat") from None
            raise


def checked_stops(stop: str | Sequence[str] | Stops | None, engine: Engine) -> Stops:
    """The stops of a request; raises `RequestError` for those that cannot be."""
    stops = stops_of(stop)
    check_stops(stops, engine.tokens)
    check_writable_stops(stops, engine)
    return stops
