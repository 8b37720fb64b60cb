"""Judges of guided generation that do not use the session under test.

Each judge replays a *fresh* state from the prompt's end for every question, so that it can neither inherit nor lose
a step: `replay` for finished rows, `allowed_after` for single places, and `judge_kwargs` for a whole ``generate`` call
(transformers' own ``prefix_allowed_tokens_fn`` with fresh masks).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import jsonschema
import torch

from grammars.plan.plan import Plan
from grammars.values.constraints import Choice, Regex
from guided.bitmask import allocate_bitmask, allowed_ids
from guided.hf.generate.call import generate_kwargs, read_messages
from guided.hf.generate.inputs import checked_inputs
from guided.output.message import Message
from guided.state.state import GuidanceState
from special_tokens.errors import GuidanceError
from tests.made_up.schemas import closed

CHATS = ["tell me a thing", "why?", "a longer question than the others, so that they are padded", "x"]

SCHEMA: dict[str, Any] = closed({"ok": {"type": "boolean"}, "n": {"type": "integer", "minimum": 0, "maximum": 99}})
CHOICES = ["yes", "yesterday", "no", "perhaps", "never"]
PATTERN = r"[a-c]{2,6}x?"


def _is_json(text: str) -> bool:
    jsonschema.validate(json.loads(text), SCHEMA)
    return True


#: Name -> (response format, does this whole text obey it?).  Random models end all of them within 40 tokens.
FORMATS: dict[str, tuple[Any, Callable[[str], bool]]] = {
    "json": (SCHEMA, _is_json),
    "choice": (Choice(CHOICES), lambda text: text in CHOICES),
    "regex": (Regex(PATTERN), lambda text: re.fullmatch(PATTERN, text) is not None),
}


def plan_of(guide: Any, name: str) -> Plan:
    return guide.plan(response_format=FORMATS[name][0])


def allowed_after(guide: Any, plan: Plan, tokens: Sequence[int], *, entry: str = "fresh") -> list[int] | None:
    """The tokens allowed after ``tokens`` in a fresh state; the end again after an end, None if they are illegal."""
    state = GuidanceState(plan, guide.engine, entry=entry)
    words = allocate_bitmask(1, guide.engine.vocab_size)
    for token in tokens:
        if state.is_stopped:
            break
        state.fill_bitmask(words)
        if token not in allowed_ids(words[0]):
            return None
        try:
            state.commit([token])
        except GuidanceError:
            return None
    state.fill_bitmask(words)
    return allowed_ids(words[0])


def replay(guide: Any, plan: Plan, tokens: Sequence[int], *, entry: str = "fresh") -> GuidanceState:
    """A fresh state after ``tokens`` (except padding after the end), each of which its mask must allow."""
    state = GuidanceState(plan, guide.engine, entry=entry)
    words = allocate_bitmask(1, guide.engine.vocab_size)
    for i, token in enumerate(tokens):
        if state.is_stopped:
            break
        state.fill_bitmask(words)
        assert token in allowed_ids(words[0]), (i, token, list(tokens))
        state.commit([token])
    return state


def check_answer(guide: Any, name: str, tokens: Sequence[int], message: Message) -> None:
    """The row is legal from its first token to its last, and a finished answer obeys its format."""
    state = replay(guide, plan_of(guide, name), tokens)
    assert message.error is None
    assert message.finish_reason == ("stop" if state.is_stopped else "length")
    if state.is_stopped:
        assert FORMATS[name][1](message.content or ""), message.content
    size = state.num_tokens
    assert message.token_ids == tuple(tokens[:size])


class GuidedCall:
    """A guided call of ``model.generate``: its inputs and kwargs, which a test may change before it runs.

    ``rows``: a plan, or the name of a format, for each chat; None for a plain row.  ``bound``: whether the kwargs know
    the inputs; else they are those of the one plan.  ``options`` are those of `generate_kwargs`.
    """

    def __init__(
        self,
        guide: Any,
        chats: Sequence[str],
        rows: Sequence[Any],
        *,
        bound: bool = True,
        describe: bool = False,
        **options: Any,
    ) -> None:
        self.guide = guide
        self.plans = [plan_of(guide, row) if isinstance(row, str) else row for row in rows]
        self.inputs = checked_inputs(guide.context, chats, self.plans, describe=describe)
        asked = (self.inputs, self.plans) if bound else (None, *self.plans)
        self.kwargs = generate_kwargs(guide.context, *asked, **options)
        if not bound:
            self.inputs.session = self.kwargs["logits_processor"][0].session

    def generate(self, **options: Any) -> Any:
        """Return what the model returns; greedy, and 40 tokens, where the options say nothing else."""
        chosen = {"max_new_tokens": 40, "do_sample": False, **self.inputs, **self.kwargs, **options}
        return self.guide.model.generate(**chosen)

    def read(self, out: Any) -> list[Message]:
        return read_messages(self.guide.context, out, self.inputs, self.plans)

    def run(self, **options: Any) -> tuple[list[list[int]], list[Message]]:
        """Return the tokens after the prompts, and the messages."""
        out = self.generate(**options)
        return out[:, self.inputs.prompt_len :].tolist(), self.read(out)


def generate(guide: Any, chats: Sequence[str], rows: Sequence[Any], **options: Any) -> tuple[Any, ...]:
    """(inputs, plans, output, messages) of one guided call; ``rows`` as of `GuidedCall`."""
    call = GuidedCall(guide, chats, rows)
    out = call.generate(**options)
    return call.inputs, call.plans, out, call.read(out)


def check_all(guide: Any, names: Sequence[str | None], result: tuple[Any, ...]) -> None:
    """Every guided row of `generate`'s result is right."""
    inputs, _, out, messages = result
    sequences = out if isinstance(out, torch.Tensor) else out.sequences
    expand = len(messages) // len(names)
    for r, message in enumerate(messages):
        name = names[r // expand]
        if name is not None:
            check_answer(guide, name, sequences[r, inputs.prompt_len :].tolist(), message)


def check_greedy(guide: Any, names: Sequence[str | None], result: tuple[Any, ...]) -> None:
    """Every guided row of `generate`'s result is right, and that of the greedy search without cache or memory."""
    check_all(guide, names, result)
    inputs, plans, _, messages = result
    for r, plan in enumerate(plans):
        if plan is not None:
            assert list(messages[r].token_ids) == greedy(guide, inputs.prompt_ids[r], plan)


def judge_kwargs(guide: Any, inputs: Any, plans: Sequence[Plan | None]) -> dict[str, Any]:
    """Kwargs that make ``generate`` itself obey the plans, with a fresh state for every row and step."""
    everything = list(range(guide.engine.vocab_size))
    known: dict[tuple[int, tuple[int, ...]], list[int]] = {}

    def allowed(prompt: int, ids: torch.Tensor) -> list[int]:
        plan = plans[prompt]
        if plan is None:
            return everything
        tokens = tuple(ids[inputs.prompt_len :].tolist())
        if (prompt, tokens) not in known:
            found = allowed_after(guide, plan, tokens)
            known[prompt, tokens] = found if found is not None else list(guide.tokens.end_ids[:1])
        return known[prompt, tokens]

    return {"prefix_allowed_tokens_fn": allowed}


@cache
def greedy(guide: Any, prompt: Sequence[int], plan: Plan, max_new_tokens: int = 40) -> list[int]:
    """The greedy answer, by whole forwards without any cache and a fresh state for every token."""
    out: list[int] = []
    while len(out) < max_new_tokens:
        allowed = allowed_after(guide, plan, out)
        with torch.no_grad():
            logits = guide.model(torch.tensor([[*prompt, *out]], device=guide.model.device)).logits[0, -1].float()
        assert allowed
        out.append(max(allowed, key=lambda i: (float(logits[i]), -i)))
        if out[-1] in plan.end_ids():
            break
    return out


class Spy:
    """A processor after ours: sees the scores that the sampler gets, and that no row is -inf throughout."""

    def __init__(self) -> None:
        self.scores: list[torch.Tensor] = []

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        assert bool((scores > float("-inf")).any(dim=-1).all()), "a row without any legal token"
        self.scores.append(scores.clone())
        return scores


def with_spy(kwargs: dict[str, Any]) -> tuple[dict[str, Any], Spy]:
    """The kwargs of a guided call with a spy after our processor."""
    spy = Spy()
    return kwargs | {"logits_processor": kwargs.get("logits_processor", []) + [spy]}, spy  # noqa: RUF005 - else a copy
