"""Judges of whole plans: walk a text under our own masks, and write at random until the end.

A text is *accepted* when each of its tokens has its bit in the mask that `GuidanceState` fills just before it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from grammars.compose.compose import Parts, compose
from grammars.plan.plan import Plan
from grammars.values.format import Ends, Format, ReasoningFormat, Switch, ToolCallFormat
from guided.bitmask import allocate_bitmask, allowed_ids, is_allowed
from guided.engine.engine import Engine
from guided.state.state import GuidanceState

__all__ = [
    "END", "FORMAT", "MAY_REASON", "PLAIN", "THINKING", "Walk", "accepts", "drawn", "plan_of", "texts_written", "walk",
    "whole_repr", "write_to_the_end",
]  # fmt: skip

END = "<|im_end|>"

THINKING = ReasoningFormat(
    "<think>\n", "\n</think>\n\n", "<think>\n\n</think>\n\n", default_on=True, switch=Switch("enable_thinking")
)
#: The wire format of Qwen-like models: blocks and calls between tokens.
FORMAT = Format(
    "qwen-like",
    THINKING,
    tool_calls=ToolCallFormat(
        "json_in_tags", call_start="<tool_call>\n", call_end="\n</tool_call>", between="\n", gap="\n"
    ),
    ends=Ends((END,)),
)
#: The same for a model that does not reason.
PLAIN = replace(FORMAT, reasoning=None)
#: A format without calls, whose reasoning is off unless it is asked for.
MAY_REASON = Format(
    "thinking", ReasoningFormat("<think>\n", "\n</think>\n\n", default_on=False), ends=Ends(("<|im_end|>",))
)


def plan_of(engine: Engine, format: Format = FORMAT, **parts: Any) -> Plan:
    return compose(Parts(**parts), tokens=engine.tokens, format=format)


@dataclass(frozen=True)
class Walk:
    """The result of a walk: ``refused_at`` is the index of the first token without its bit, None if all had it."""

    refused_at: int | None
    ended: bool  #: may the answer end there, or has it?
    text: bytes  #: what was written

    @property
    def is_whole(self) -> bool:
        return self.refused_at is None and self.ended


def walk(plan: Plan, engine: Engine, tokens: Sequence[int] | str, entry: str = "fresh") -> Walk:
    """Commits the tokens (or a text's canonical ones) as far as the masks allow."""
    ids = engine.tokenize(tokens) if isinstance(tokens, str) else list(tokens)
    state = GuidanceState(plan, engine, entry=entry)
    mask = allocate_bitmask(1, engine.vocab_size)
    for at, token in enumerate(ids):
        if state.is_stopped:
            return Walk(at, True, _text(engine, ids[:at]))
        state.fill_bitmask(mask)
        if not is_allowed(mask[0], token):
            return Walk(at, False, _text(engine, ids[:at]))
        state.commit([token])
    return Walk(None, state.is_accepting, _text(engine, ids))


def whole_repr(plan: Plan) -> str:
    """The plan with all of its fields as text, in which 1 and True, tuple and list differ."""
    return repr([(field.name, getattr(plan, field.name)) for field in fields(plan) if field.repr])


def accepts(plan: Plan, engine: Engine, tokens: Sequence[int] | str, entry: str = "fresh") -> bool:
    """Whether the whole text is allowed and may end there."""
    return walk(plan, engine, tokens, entry).is_whole


def texts_written(plan: Plan, engine: Engine, alphabet: str, longest: int, entry: str = "fresh") -> set[str]:
    """All texts of at most ``longest`` of the letters that may be written under the masks, byte by byte, as a whole."""
    found = set()
    todo = [("", GuidanceState(plan, engine, entry=entry))]
    while todo:
        text, state = todo.pop()
        if state.is_accepting:
            found.add(text)
        for char in alphabet if len(text) < longest else "":
            after = state.fork()
            for byte in char.encode():
                (token,) = engine.tokens_within(bytes((byte,)))
                if not is_allowed(after.mask(), token):
                    break
                after.commit([token])
            else:
                todo.append((text + char, after))
    return found


def _text(engine: Engine, ids: Sequence[int]) -> bytes:
    return b"".join(engine.token_bytes(i) for i in ids)


def _first_bytes(engine: Engine) -> Any:
    """The first byte of each token, int16 ``[vocab]``; -1 for a token without any."""
    return np.array([next(iter(engine.token_bytes(i)), -1) for i in range(engine.vocab_size)], dtype=np.int16)


def drawn(ids: Sequence[int], engine: Engine, chance: random.Random) -> Iterator[int]:
    """The tokens in the order in which a model that never wants to end would sample them, a few of them.

    More than half are drawn by their first byte, or text would come too often.
    """
    array = np.asarray(ids)
    first = engine.derived(_first_bytes)[array]
    every = np.unique(first)
    for _ in range(6):
        pool = array[first == chance.choice(every)] if chance.random() < 0.6 else array
        yield int(chance.choice(pool))


def write_to_the_end(
    plan: Plan,
    engine: Engine,
    rng: random.Random,
    *,
    entry: str = "fresh",
    wander: int = 60,
    closers: Sequence[str | bytes] = (),
    openers: Sequence[str] = (),
    most: int = 1_500,
) -> list[int]:
    """Random tokens under the masks, ends and closing tokens at a fifth or more, and soon nothing but closing ones.

    ``closers`` are texts that leave free text (closing tags); bytes are written one by one.  ``openers`` are texts that
    begin calls, written early where they may be.  Fails when no end comes within ``most`` tokens.
    """
    state = GuidanceState(plan, engine, entry=entry)
    mask = allocate_bitmask(1, engine.vocab_size)
    outwards = (b"}", b"]", b")", b'"', b";.")  # the outermost first: it is the shortest way out
    bytes_out = ([i for byte in group for i in engine.tokens_within(bytes((byte,)))] for group in outwards)
    ways_out = [sorted(group) for group in (plan.end_ids(), engine.tokens.marker_ids, *bytes_out)]
    texts = [engine.tokenize(text) if isinstance(text, str) else list(text) for text in closers]
    begins = [engine.tokenize(text) for text in openers]
    while not state.is_stopped and len(state.tokens) < most:
        state.fill_bitmask(mask)
        ids = allowed_ids(mask[0])
        assert ids, f"an empty mask after {_text(engine, state.tokens)!r}"
        late = len(state.tokens) >= wander
        if begins and not late and rng.random() < 0.1 and _closed_by(state, begins, rng):
            continue
        ending, *others = ([i for i in group if is_allowed(mask[0], i)] for group in ways_out)
        if late and ending:  # another call could follow, and another
            state.commit([rng.choice(ending)])
            continue
        closing = ending or next(filter(None, others), [])
        if late and rng.random() < 0.5 and _closed_by(state, texts, rng):
            continue
        if closing and (late or rng.random() < 0.25):
            state.commit([rng.choice(closing)])
        else:
            state.commit([rng.choice(ids)])
    assert state.is_stopped, f"no end after {most} tokens: ...{_text(engine, state.tokens[-60:])!r}"
    return list(state.tokens)


def _closed_by(state: GuidanceState, texts: Sequence[list[int]], rng: random.Random) -> bool:
    """Writes one of the closing texts where all of it may be written."""
    for ids in rng.sample(list(texts), len(texts)):
        if state.validate(ids) == len(ids):
            state.commit(ids)
            return True
    return False
