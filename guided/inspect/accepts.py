"""The verdict of a plan on a text: accepted, cut, or refused at a place."""

from __future__ import annotations

import re
from dataclasses import dataclass

from grammars.plan.plan import Plan
from guided.bitmask import allowed_ids, is_allowed
from guided.engine.engine import Engine
from guided.state.entry import FRESH, Begin
from guided.state.state import GuidanceState
from special_tokens.errors import RequestError

__all__ = ["Acceptance", "acceptance"]

#: Texts that may follow, at most.
MAX_EXPECTED = 12


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The verdict on a text; true if it is a whole answer.

    ``refused_at`` is the index of the first character that cannot follow those before it.  It is the length of the text
    if all of it may be written but the answer is not complete (``is_cut``), and None if it is.  ``expected`` are some
    texts that may follow at that place.
    """

    refused_at: int | None = None
    is_cut: bool = False
    expected: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.refused_at is None


def acceptance(plan: Plan, text: str, engine: Engine, begin: Begin = FRESH) -> Acceptance:
    """Return the verdict on ``text`` as the whole answer, without an end token, in tokens that the masks allow.

    If the text spells a marker at a place where the marker is allowed, it is read as the marker.
    """
    if not isinstance(text, str):
        raise RequestError(f"{type(text).__name__} is not text", place="accepts", expected="the text of an answer")
    state = GuidanceState(plan, engine, entry=begin.entry)
    data = text.encode("utf-8", "surrogatepass")
    markers = sorted((engine.token_bytes(i), i) for i in engine.tokens.marker_ids)
    names = [re.escape(name) for name, _ in markers if name]
    spelled = re.compile(b"|".join(names[::-1])) if names else None
    at = 0
    while at < len(data) and not state.is_stopped:
        tail = data[at:]
        matching = [i for name, i in markers if name and tail.startswith(name)]
        words = state.mask()
        border = spelled.search(tail, 1) if spelled is not None else None
        before = engine.tokens_within(tail[: border.start()]) if border else []  # none that joins a marker's beginning
        candidates = [*matching[::-1], *before[::-1], *engine.tokens_within(tail)[::-1]]
        token = next((i for i in candidates if is_allowed(words, i)), None)
        if token is None:
            break
        state.commit([token])
        at += len(engine.token_bytes(token))
    if at == len(data) and state.is_accepting:
        return Acceptance()
    refused = len(data[:at].decode("utf-8", "ignore"))
    return Acceptance(refused, at == len(data), () if state.is_stopped else _expected(state, engine))


def _expected(state: GuidanceState, engine: Engine) -> tuple[str, ...]:
    """Return the longest texts of tokens that are allowed now; none is a prefix of another."""
    ids = set(allowed_ids(state.mask())) - set(state.open_end_ids())
    texts = {engine.token_bytes(i).decode("utf-8", "ignore") for i in ids}
    kept: list[str] = []
    for text in sorted(texts - {""}, reverse=True):
        if not any(other.startswith(text) for other in kept[-1:]):
            kept.append(text)
    return tuple(sorted(kept)[:MAX_EXPECTED])
