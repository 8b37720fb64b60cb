"""The place where an answer ends, read from its token ids alone.

In some families the token that ends a turn also begins a call (``<|message_sep|>`` of GigaChat 3).  Such a token is
not an end where the text that opens a call follows it.
"""

from __future__ import annotations

from collections.abc import Sequence

from grammars.plan.plan import Plan, RowPlan
from guided.engine.engine import Engine

__all__ = ["AnswerEnds", "end_of_answer"]


class AnswerEnds:
    """The ends of answers under one plan; a ``separator`` is none where it opens a call."""

    def __init__(self, plan: RowPlan, engine: Engine) -> None:
        self.ids = plan.end_ids() if isinstance(plan, Plan) else frozenset(engine.tokens.end_ids)
        self._engine = engine
        form = plan.format.tool_calls if isinstance(plan, Plan) and plan.tools else None
        opening = (form.section_start + form.call_start).lstrip() if form is not None else ""
        first, *following = engine.tokens.pieces(opening) if opening else (None,)
        self.separator = first if first in self.ids else None
        self._wanted = b"".join(p.encode() if isinstance(p, str) else engine.token_bytes(p) for p in following)

    def find(self, tokens: Sequence[int], first: int = 0) -> tuple[int | None, bool]:
        """Return the index of the first token, at ``first`` or later, that is an end or may be one, None without any.

        Whether it is an end is the second value: not while what follows it may become the opening of a call.
        """
        for i in range(first, len(tokens)):
            if tokens[i] in self.ids:
                follows = tokens[i] == self.separator and self._follows(tokens, i)
                if follows is not True:
                    return i, follows is False
        return None, False

    def _follows(self, tokens: Sequence[int], i: int) -> bool | None:
        """Whether ``tokens`` go on after index ``i`` as a call does; None while they may."""
        written = b""
        for token in tokens[i + 1 :]:
            if len(written) >= len(self._wanted):
                break
            written += self._engine.token_bytes(token)
        if not written:
            return None if self._wanted and i + 1 == len(tokens) else False
        if len(written) < len(self._wanted):
            return None if self._wanted.startswith(written) else False
        return written.startswith(self._wanted)


def end_of_answer(tokens: Sequence[int], plan: RowPlan, engine: Engine, *, first: int = 0) -> int | None:
    """Return the index of the token that ends the answer, at ``first`` or later; None if there is none.

    ``first`` is the number of tokens that are known not to be an end.
    """
    at, is_end = AnswerEnds(plan, engine).find(tokens, first)
    return at if is_end or (at is not None and at == len(tokens) - 1) else None
