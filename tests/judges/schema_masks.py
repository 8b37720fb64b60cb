"""The masks' verdict on a text: a schema becomes a plan as in a request, and the masks judge each token."""

from __future__ import annotations

import random
from typing import Any

from grammars.compose.compose import Parts, compose
from grammars.json_schema.build import Policy
from grammars.plan.plan import Plan
from grammars.values.constraints import JsonSchema
from grammars.values.format import Format
from guided.bitmask import allowed_ids, is_allowed
from guided.engine.engine import Engine
from guided.hf.model.tokenizer import facts_of, tokenizer_json
from guided.state.state import GuidanceState
from special_tokens import SpecialTokens

__all__ = ["Compiled", "Judge", "walked"]


class Compiled:
    """One schema's plan on one engine; ``accepts`` is what the scorer asks."""

    def __init__(self, plan: Plan, engine: Engine, tokenizer: Any) -> None:
        self.plan = plan
        self.start = GuidanceState(plan, engine)
        self.start.mask()
        self._tokenizer = tokenizer

    def accepts(self, text: str) -> bool:
        """Whether ``text`` can be written under our masks and the answer may end there."""
        return self.written(text) is None

    def explain(self, text: str) -> str:
        """Say where the masks stop the text."""
        at = self.written(text)
        if at is None:
            return "accepted"
        data = text.encode()
        return f"stopped after {data[max(0, at - 80) : at]!r}, refused {data[at : at + 20]!r}"

    def written(self, text: str) -> int | None:
        """Byte at which the masks stop the text, its length where it may not end there; None when it is accepted.

        The text is cut as the tokenizer cuts it, and where the mask forces another cut (the engine allows only the
        canonical token of forced bytes) by the longest token that is allowed and begins what is left.
        """
        data = text.encode()
        ids = list(self._tokenizer.encode(text, add_special_tokens=False))
        state, engine = self.start.fork(), self.start.engine
        at = 0
        while at < len(data):
            if state.is_stopped:
                return at
            mask = state.mask()
            token = ids.pop(0) if ids else -1
            piece = engine.token_bytes(token) if token >= 0 else b""
            if not piece or not data.startswith(piece, at) or not is_allowed(mask, token):
                choices = [i for i in engine.tokens_within(data[at : at + 64]) if is_allowed(mask, i)]
                if not choices:
                    return at
                token = max(choices, key=lambda i: len(engine.token_bytes(i)))
                piece = engine.token_bytes(token)
                rest = data[at + len(piece) :].decode("utf-8", "replace")
                ids = list(self._tokenizer.encode(rest, add_special_tokens=False))
            state.commit([token])
            at += len(piece)
        return None if state.is_accepting else at


class Judge:
    """Schemas to `Compiled` objects on one tokenizer; ``documents`` are what references may lead to."""

    def __init__(self, tokenizer: Any, documents: dict[str, Any] | None = None) -> None:
        self.tokenizer = tokenizer
        self.documents = documents
        self.tokens = SpecialTokens(facts_of(tokenizer))
        self.engine = Engine(tokenizer_json(tokenizer), self.tokens)

    def plan(self, schema: Any, policy: Policy = "warn") -> Plan:
        """The plan of a request for this schema, as `Guide.plan` composes it."""
        wanted = JsonSchema(schema, documents=self.documents)
        return compose(Parts(response_format=wanted, schema_policy=policy), tokens=self.tokens, format=Format("bench"))

    def compiled(self, schema: Any, policy: Policy = "warn") -> Compiled:
        return Compiled(self.plan(schema, policy), self.engine, self.tokenizer)


def walked(found: Compiled, seed: int, most: int = 400) -> str | None:
    """A random answer that keeps to the masks; None where it does not end in time."""
    rng, state, engine = random.Random(seed), found.start.fork(), found.start.engine
    out = bytearray()
    for _ in range(most):
        if state.is_accepting and rng.random() < 0.4:
            return out.decode()
        ids = [i for i in allowed_ids(state.mask()) if i not in found.plan.end_ids()]
        if not ids:
            return out.decode() if state.is_accepting else None
        closing = [i for i in ids if engine.token_bytes(i) in (b'"', b"}", b"]")]
        token = rng.choice(closing) if closing and rng.random() < 0.2 else rng.choice(ids)
        state.commit([token])
        out += engine.token_bytes(token)
    return None
