"""The place where an answer ends, read from its token ids alone.

In some families the token that ends a turn also begins a call (``<|message_sep|>`` of GigaChat 3).  Such a token is
not an end where the text that opens a call follows it.
"""

from __future__ import annotations

from collections.abc import Sequence

from grammars.plan.plan import Plan, RowPlan
from guided.engine.engine import Engine

__all__ = ["end_of_answer"]


def end_of_answer(tokens: Sequence[int], plan: RowPlan, engine: Engine, *, first: int = 0) -> int | None:
    """Return the index of the token that ends the answer, at ``first`` or later; None if there is none.

    ``first`` is the number of tokens that are known not to be an end.
    """
    ends = plan.end_ids() if isinstance(plan, Plan) else frozenset(engine.tokens.end_ids)
    opening = _opening(plan, engine) if isinstance(plan, Plan) else ()
    for i in range(first, len(tokens)):
        if tokens[i] in ends and not (opening and tokens[i] == opening[0] and _follows(tokens, i, opening, engine)):
            return i
    return None


def _opening(plan: Plan, engine: Engine) -> tuple[int | str, ...]:
    """The tokens and texts that open a call, if the plan allows calls."""
    form = plan.format.tool_calls if plan.tools else None
    return tuple(engine.tokens.pieces((form.section_start + form.call_start).lstrip())) if form is not None else ()


def _follows(tokens: Sequence[int], i: int, opening: Sequence[int | str], engine: Engine) -> bool:
    """Whether ``tokens`` go on after index ``i`` as ``opening`` does after its first piece, as far as both reach."""
    wanted = b"".join(p.encode() if isinstance(p, str) else engine.token_bytes(p) for p in opening[1:])
    written = b""
    for token in tokens[i + 1 :]:
        if len(written) >= len(wanted):
            break
        written += engine.token_bytes(token)
    size = min(len(written), len(wanted))
    return size > 0 and written[:size] == wanted[:size]
