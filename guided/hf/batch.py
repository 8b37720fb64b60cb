"""A batch for ``model.generate``: prompts, guidance and sampling as keyword arguments, and its output as messages."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Sequence
from typing import Any, Generic

from typing_extensions import TypeVar

from grammars.plan.plan import Plan, RowPlan
from guided.hf.generate.call import generate_kwargs, read_messages
from guided.hf.generate.inputs import Inputs
from guided.hf.hidden.messages import with_last_states
from guided.hf.hidden.settings import HiddenStates, hidden_settings
from guided.hf.model.context import ModelContext
from guided.hf.options import AnswerOptions
from guided.output.message import Message
from guided.sampling import LEAST_TEMPERATURE, Sampling
from special_tokens.errors import PlanError, RequestError

__all__ = ["Batch", "batch_of"]

T = TypeVar("T", default=Any)

_CANNOT = "model.generate cannot follow it"

#: Keywords that ``model.generate`` cannot follow, with their neutral values.
_OURS_ALONE = {
    "trace": (False,),
    "reuse": (True,),
    "seed": (None,),
    "logprobs": (None, False),
    "top_logprobs": (None,),
}


class Batch(UserDict[str, Any], Generic[T]):
    """The keyword arguments of ``model.generate(**batch)``; `messages` reads what it returns.

    ``inputs`` are the bound prompts, with ``input_ids`` and ``attention_mask`` int64 ``[rows, length]``, and ``plans``
    the plan of each.  Answers land within the batch's ``max_tokens``, as in our own loop; a ``max_new_tokens`` that is
    given to ``generate`` alone cuts them.  One call of ``generate`` after another may use a batch, not two at once.
    """

    def __init__(
        self,
        context: ModelContext,
        inputs: Inputs | None,
        plans: Sequence[RowPlan],
        kwargs: dict[str, Any],
        hidden: HiddenStates | None = None,
    ) -> None:
        super().__init__({**(inputs or {}), **kwargs})
        self.inputs = inputs
        self.plans = tuple(plans)
        self._context = context
        self._hidden = hidden

    def messages(self, output: Any) -> list[Message[T]]:
        """Return the messages of ``output``, a tensor or an output object of ``model.generate(**batch, ...)``.

        Raises `PlanError` for the output of another batch, and for a batch without prompts.
        """
        if self.inputs is None:
            raise PlanError("the batch has no prompts", place="messages", hint="read token ids with guide.parse")
        messages = read_messages(self._context, output, self.inputs, self.plans)
        return messages if self._hidden is None else with_last_states(self._context.model, messages, self._hidden)


def batch_of(
    context: ModelContext, inputs: Inputs | None, plans: Sequence[RowPlan] | RowPlan, asked: AnswerOptions, **how: Any
) -> Batch:
    """Return the batch of these rows, ``how`` as in `generate_kwargs`; without ``inputs``, of one plan for all rows.

    Raises `RequestError` for keywords that ``model.generate`` cannot follow.
    """
    for name, neutral in _OURS_ALONE.items():
        if getattr(asked, name) not in neutral:
            hint = "use torch.manual_seed, or guide.generate" if name == "seed" else "use guide.generate"
            raise RequestError(_CANNOT, place=name, hint=hint)
    if inputs is None and asked.return_last_hidden_state:
        raise RequestError("the batch has no prompts", place="return_last_hidden_state", expected="chats, or prompt=")
    hidden = hidden_settings(asked.return_last_hidden_state, context.model)
    rows: Any = [plans] if inputs is None else plans
    words = _other_words(rows, asked)
    how |= {"on_error": asked.on_error, "landing": asked.landing, "short_budget": asked.short_budget}
    kwargs = generate_kwargs(context, inputs, plans, max_tokens=words.get("max_new_tokens"), **how)
    return Batch(context, inputs, rows, kwargs | _sampling_words(asked) | words, hidden)


def _sampling_words(asked: AnswerOptions) -> dict[str, Any]:
    """Return the sampling as arguments of ``generate``; open settings are left to the model's generation config."""
    sampling = asked.samplings()
    if not isinstance(sampling, Sampling):
        raise RequestError("a sampling for each chat", place="sampling", hint="use guide.generate")
    for name in ("presence_penalty", "frequency_penalty"):
        if getattr(sampling, name):
            raise RequestError(_CANNOT, place=name, hint="use guide.generate")
    if sampling.seed is not None or sampling.logprobs is not None:
        raise RequestError(_CANNOT, place="seed and logprobs", hint="use guide.generate")
    words: dict[str, Any] = {}
    names = ("temperature", "top_p", "top_k", "min_p")
    given = {name: getattr(sampling, name) for name in names if getattr(sampling, name) is not None}
    if given.get("temperature", 1.0) < LEAST_TEMPERATURE or given.get("top_k") == 1:
        words["do_sample"] = False
        if sampling.n > 1:
            raise RequestError("greedy answers are all the same", place="n", hint="sample, or use guide.generate")
    elif given or sampling.n > 1:
        words |= {"do_sample": True, **given}
    if sampling.repetition_penalty is not None:
        words["repetition_penalty"] = float(sampling.repetition_penalty)
    if sampling.logit_bias:
        words["sequence_bias"] = {(int(token),): float(bias) for token, bias in sampling.logit_bias.items()}
    if sampling.n > 1:
        words["num_return_sequences"] = sampling.n
    return words


def _other_words(plans: Sequence[RowPlan], asked: AnswerOptions) -> dict[str, Any]:
    words: dict[str, Any] = {}
    limits = {plan.max_tokens if isinstance(plan, Plan) else None for plan in plans}
    most = asked.max_tokens if asked.max_tokens is not None else next(iter(limits))
    if asked.max_tokens is None and len(limits) > 1:
        raise RequestError("the plans have different limits", place="max_tokens", hint="give one for the batch")
    if most is not None:
        words["max_new_tokens"] = most
    for name in ("prompt_lookup_num_tokens", "assistant_model", "streamer"):
        if getattr(asked, name) is not None:
            words[name] = getattr(asked, name)
    return words
