"""`Guide`: the public face of guided for a transformers model and its tokenizer."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from grammars.compose.compose import Parts, compose
from grammars.compose.tool_section import with_text_after_calls
from grammars.json_schema.build import Policy
from grammars.limits.deadline import deadline
from grammars.plan.plan import Plan, RowPlan, Stops
from grammars.requests.read import read_request
from grammars.tool_calls.syntaxes.anchors import anchored
from grammars.values.constraints import Choice
from grammars.values.format import Format
from guided.engine.engine import CacheInfo, Engine
from guided.engine.plan_cache import PlanCache
from guided.hf.cache.prefix_pool import CacheStats, PrefixPool, checked_cache_bytes
from guided.hf.drafts.settings import draft_settings
from guided.hf.generate.call import Rows, check_rows, generate_kwargs, read_messages
from guided.hf.generate.inputs import Inputs, inputs_of
from guided.hf.hidden.messages import StateKind, answer_states, with_last_states
from guided.hf.hidden.settings import HiddenStates, hidden_settings
from guided.hf.loop.choices import choice_probabilities
from guided.hf.loop.generation import Generation, Streamer
from guided.hf.loop.settings import row_samplings, token_limit
from guided.hf.loop.stream import Stream
from guided.hf.model.chat_template import chat_digests, forgotten_chat, messages_of
from guided.hf.model.context import ModelContext
from guided.hf.model.registry import registry_of
from guided.hf.model.tokenizer import first_line
from guided.hf.model.tool_rendering import check_tools
from guided.hf.model.wire_format import format_of
from guided.hidden_state import Vectors
from guided.inspect.shortest import check_max_tokens, min_tokens, shortest, shortest_texts
from guided.output.message import Message
from guided.rows.sequence import OnError
from guided.sampling import ChoiceProbability, Sampling, check_bias, sampling_of
from guided.stops.request import check_stops, stops_of
from guided.stops.vocabulary import check_writable_stops
from special_tokens import SpecialTokens
from special_tokens.errors import ModelError, PlanError, RequestError, shown

__all__ = ["Guide"]

log = logging.getLogger("guided")

Chat = Sequence[Mapping[str, Any]] | str
Anchors = bool | Sequence[int | str]


class Guide:
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
        tokenizer: Any,
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
        self.plans = PlanCache()

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path,
        *,
        format: Format | None = None,
        anchors: Anchors = False,
        text_after_calls: bool | None = None,
        **model_kwargs: Any,
    ) -> Guide:
        """Return the guide of a chat model that transformers can load; raise `ModelError` when it cannot be loaded."""
        from transformers import AutoModelForCausalLM, AutoTokenizer

        try:
            tokenizer = AutoTokenizer.from_pretrained(name)
            model = AutoModelForCausalLM.from_pretrained(name, **model_kwargs).eval()
        except Exception as error:  # loaders may raise anything for files of unknown origin
            raise ModelError(
                f"cannot load {shown(str(name))}: {first_line(error)}",
                place="model",
                expected="a model name or a folder with config.json, weights and tokenizer.json",
            ) from error
        return cls(model, tokenizer, format=format, anchors=anchors, text_after_calls=text_after_calls)

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

    def cache_stats(self) -> CacheStats:
        """Return the counters of the rows that are kept of answers, so that a conversation is not computed twice."""
        return self.context.pool.stats()

    def forget(self, messages: Chat | None = None) -> int:
        """Drop the kept rows of the conversation that begins with ``messages``, all with None; return how many.

        Messages of the system do not count: whatever they say, the rows are found.  Raises `RequestError` where no
        others are given.
        """
        return self.context.pool.forget(None if messages is None else forgotten_chat(messages))

    def cache_info(self) -> CacheInfo:
        """Return the counters of the engine's compile cache; those of the plan cache are ``guide.plans.info()``."""
        return self.engine.cache_info()

    # -- plans

    def plan(
        self,
        *,
        response_format: Any = None,
        tools: Iterable[Any] | None = None,
        tool_choice: Any = None,
        parallel_tool_calls: bool | None = None,
        reasoning_effort: str | None = None,
        reasoning_preset: str = "native",
        thinking: bool | None = None,
        stop: str | Sequence[str] | Stops | None = None,
        max_tokens: int | None = None,
        schema_policy: Policy = "warn",
    ) -> Plan:
        """Compose and compile the plan for one request.

        No argument is ignored: what cannot be enforced raises `RequestError` or one of its subclasses.
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
        """Compose and compile the plan for a request body in OpenAI's form, with other servers' extensions.

        Every key is used, listed in ``plan.ignored``, or refused (`RequestError`); see docs/requests.md.  ``trusted``
        lets the body's grammars name special tokens; ``ignore_unknown`` lists unknown keys instead of refusing them.
        Sampling keys are only checked here; `guided.read_request` returns them.
        """
        request = read_request(body, trusted=trusted, ignore_unknown=ignore_unknown)
        check_bias(Sampling(**request.sampling), self.tokens.vocab_size)
        parts = request.parts
        return self._planned(replace(parts, stop=checked_stops(parts.stop, self.engine)))

    def _planned(self, parts: Parts) -> Plan:
        if parts.tools is not None and not isinstance(parts.tools, str | bytes | Mapping | list | tuple):
            try:
                parts = replace(parts, tools=list(parts.tools))  # iterated twice
            except TypeError:
                raise RequestError(
                    f"{type(parts.tools).__name__} is not a list", place="tools", expected="a list of tools"
                ) from None
        plan = self.plans.get(parts, self._composed)
        for note in plan.notes:
            log.warning("%s", note)
        return plan

    def _composed(self, parts: Parts) -> Plan:
        with deadline():  # one deadline for composing and compiling
            plan = compose(parts, tokens=self.tokens, format=self.format)
            check_tools(self.tokenizer, self.format, plan, self.tokens)
            self.engine.prepare(plan, plan.entries[0].name)
        return plan

    def shortest(self, plan: Plan) -> str | None:
        """Return a shortest valid text of the plan's response format; None without a format or where none is found.

        Searches anew at each call: in the schema, for up to some seconds (`grammars.limits.deadline`), then in the
        masks for at most 1.5 s of this thread's processor time.  Where words are so intricate that a search for the
        shortest gives up, the text is valid and may be longer.  Raises `PlanError` where masks are needed and the plan
        belongs to another vocabulary.
        """
        return shortest(checked_plan(plan, "shortest"), self.engine)

    def shortest_texts(self, plan: Plan, tool: str | None = None) -> Mapping[str, str | None]:
        """Return shortest texts of subschemas by JSON pointer: of the response format, or of ``tool``'s parameters.

        Each text is searched when it is first read from the mapping, and kept there; None where no value is valid,
        none was found, or a keyword within is relaxed.  A format without a schema has only the whole (``""``); empty
        without a format.  Raises `ToolError` for a tool that the plan does not have; reading raises `KeyError` for an
        unknown pointer and `SchemaError` past the deadline of the thread.
        """
        return shortest_texts(checked_plan(plan, "shortest_texts"), self.engine, tool)

    def min_tokens(self, plan: Plan) -> int:
        """Return the number of tokens of the shortest answer found for ``plan``, its end included.

        Searches anew at each call, as `shortest` does, and byte by byte (`guided.landing`) for every kind of plan.
        Raises `LimitExceeded` with the reason where no end is found.
        """
        return min_tokens(checked_plan(plan, "min_tokens"), self.engine)

    def check_max_tokens(self, plan: Plan, max_tokens: int | None = None) -> None:
        """Raise `RequestError` when ``max_tokens`` (default: the plan's own) is less than `min_tokens`.

        No other method checks this: an answer that ``max_tokens`` cuts has ``finish_reason == "length"``, as with
        OpenAI.
        """
        most = checked_plan(plan, "check_max_tokens").max_tokens if max_tokens is None else max_tokens
        if most is not None:
            check_max_tokens(plan, self.engine, most)

    # -- the low-level path: inputs, generate, messages

    def inputs(
        self, chats: Sequence[Chat], plans: Sequence[RowPlan] | None = None, *, describe: bool = False
    ) -> Inputs:
        """Return the chats as a left-padded batch, each rendered with its plan's chat template arguments.

        ``describe`` adds the system text with which `chat` describes tools and response format to the model.
        """
        if isinstance(chats, str | Mapping):
            raise PlanError("chats is one chat", place="inputs", expected="a list of chats")
        if not chats:
            raise PlanError("there are no chats", place="inputs", expected="at least one chat")
        plans = check_rows(plans, len(chats))
        return inputs_of(self.context, chats, plans, describe=describe)

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
        """Return the keyword arguments for ``model.generate(**inputs, ...)``; reusable for one call after another.

        A row of ``plans`` is a plan, stops alone (its logits stay untouched), or None; when all rows are None the
        result is empty.  ``expand`` is num_beams or num_return_sequences; by default it is read off the call.  Without
        ``inputs``, one plan guides every row of any prompts, as in a pipeline.  ``max_rollbacks`` fails a row that beam
        search or drafts roll back more often.  ``in_place`` writes masks into the tensor that ``generate`` passes:
        this saves a copy of all scores and leaves ``output_logits`` masked.
        """
        return generate_kwargs(self.context, inputs, plans, Rows(expand, on_error, max_rollbacks, in_place))

    def messages(
        self,
        output: Any,
        inputs: Inputs,
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
        reuse: bool = True,
        prompt_lookup_num_tokens: int | None = None,
        return_last_hidden_state: bool | HiddenStates = False,
    ) -> list[Message]:
        """Generate the answers to a batch of chats with guided's own decode loop.

        ``plans`` has a plan, stops alone or None per chat; ``sampling`` and ``seed`` are one value for all chats or
        one per chat, and ``seed`` overrides the samplings' own.  A sampling with ``n`` above 1 gives n adjacent
        messages.  ``reuse`` takes what is kept of earlier answers, and keeps these.  ``prompt_lookup_num_tokens`` lets
        each forward check at most that many tokens that are guessed from prompt and answer: the same answers, in
        fewer forwards where they repeat the prompt.  ``return_last_hidden_state`` fills ``message.last_hidden_state``;
        `guided.HiddenStates` in place of True says how.  Raises `RequestError` and its subclasses, `PlanError` when the
        number of plans is wrong, `ModelError` for a model that shows no hidden states.
        """
        drafts = draft_settings(prompt_lookup_num_tokens)
        hidden = hidden_settings(return_last_hidden_state, self.model)
        inputs = self.inputs(chats, plans, describe=describe)
        rows = check_rows(plans, inputs.num_rows)
        samplings = row_samplings(sampling, seed, inputs.num_rows, self.model, self.tokens.vocab_size)
        limits = [
            token_limit(plan, max_tokens, ids, self.model) for plan, ids in zip(rows, inputs.prompt_ids, strict=True)
        ]
        counts = [len(group) for group in samplings]
        index = [r for r, count in enumerate(counts) for _ in range(count)]
        run = Generation(
            self.context,
            inputs.repeated(counts),
            [rows[r] for r in index],
            [row for group in samplings for row in group],
            [limits[r] for r in index],
            on_error=on_error,
            trace=trace,
            streamer=streamer,
            reuse=reuse,
            drafts=drafts,
            hidden=hidden,
        )
        for _ in run.steps():
            pass
        return run.messages()

    def chat(self, chat: Chat, plan: RowPlan = None, *, describe: bool = True, **options: Any) -> Message:
        """Return one answer.  ``options`` are those of `plan` and of `stream`."""
        stream = self.stream(chat, plan, describe=describe, **options)
        for _ in stream:
            pass
        return stream.message

    def stream(
        self,
        chat: Chat,
        plan: RowPlan = None,
        *,
        describe: bool = True,
        trace: bool = False,
        reuse: bool = True,
        prompt_lookup_num_tokens: int | None = None,
        return_last_hidden_state: bool | HiddenStates = False,
        **options: Any,
    ) -> Stream:
        """Return an iterator over the events of one answer as it is generated; it holds the message at the end.

        The fields of `guided.Sampling` (``temperature``, ``top_p``, ``seed``, ``logprobs`` ...) and ``max_tokens``
        have OpenAI's meaning; the model's generation config decides what is not given.  An answer never exceeds the
        rest of the context.  ``plan`` may be stops alone: then the answer is free text up to a stop.  ``reuse`` takes
        what is kept of earlier turns, and keeps this one.  ``prompt_lookup_num_tokens`` and
        ``return_last_hidden_state`` as in `generate`.
        """
        drafts = draft_settings(prompt_lookup_num_tokens)
        hidden = hidden_settings(return_last_hidden_state, self.model)
        sampling = sampling_of(options)
        max_tokens = options.get("max_tokens")
        if plan is None:
            plan = self._plan_of(options)
        elif set(options) - {"max_tokens"}:
            raise RequestError(
                f"{shown(sorted(set(options) - {'max_tokens'})[0])} together with a finished plan",
                place="chat",
                hint="pass it to guide.plan()",
            )
        inputs = self.inputs([chat], [plan], describe=describe)
        (rows,) = row_samplings(sampling, None, 1, self.model, self.tokens.vocab_size)
        limit = token_limit(plan, max_tokens, inputs.prompt_ids[0], self.model)
        run = Generation(
            self.context, inputs, [plan], rows, [limit], trace=trace, reuse=reuse, drafts=drafts, hidden=hidden
        )
        return Stream(run)

    def hidden_states(
        self, chat: Chat, message: Message, *, positions: Sequence[int] | int = (-1,), state: StateKind = "at_token"
    ) -> Vectors:
        """Return the last layer's states after the final norm at tokens of an answer, ``[positions, hidden size]``.

        ``positions`` are indices into ``message.token_ids``, negative ones from its end.  ``state="producing"`` asks
        for the states from which these tokens were chosen, each one position earlier.  What is kept of the answer is
        not computed again.  ``chat`` is what ``message`` answers, and may have gone on since.  Raises `RequestError`
        for an index out of range or a message of another chat, `ModelError` for a model that shows no hidden states.
        """
        return answer_states(self.model, message, chat_digests(messages_of(chat)), positions, state, self.context.pool)

    def choice_probabilities(
        self, chat: Chat, choices: Sequence[str], *, describe: bool = True
    ) -> tuple[ChoiceProbability, ...]:
        """Return the probability of each of ``choices`` as the whole answer, from one pass over all of them.

        With ``describe`` the prompt lists the choices.  Raises `RequestError` for choices that `plan` would refuse.
        """
        plan = self.plan(response_format=Choice(choices))
        inputs = self.inputs([chat], [plan], describe=describe)
        return choice_probabilities(self.context, inputs.prompt_ids[0], plan)

    def _plan_of(self, options: dict[str, Any]) -> Plan:
        try:
            return self.plan(**options)
        except TypeError as error:
            if "unexpected keyword" in str(error):
                raise RequestError(str(error).split("() ")[-1], place="chat") from None
            raise


def checked_plan(plan: object, place: str) -> Plan:
    """Return ``plan``; raise `PlanError` for what is none."""
    if not isinstance(plan, Plan):
        raise PlanError(f"{type(plan).__name__} is no plan", place=place, expected="what guide.plan() gave")
    return plan


def checked_stops(stop: str | Sequence[str] | Stops | None, engine: Engine) -> Stops:
    """Return the stops of a request; raise `RequestError` for stops that are malformed or can never be written."""
    stops = stops_of(stop)
    check_stops(stops, engine.tokens)
    check_writable_stops(stops, engine)
    return stops
