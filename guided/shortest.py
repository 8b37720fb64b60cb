"""A short way to the end of a plan, found by walking its masks: what an answer costs at the least.

The number is of the shortest output *found*: first with the shortest texts that the plan holds for its values, then by
several simple policies, each of which closes what is open as soon as it may and opens nothing that it need not.  It
is an upper bound of the true minimum, and exact for most schemas.
"""

from __future__ import annotations

from grammars.plan import Plan, RegionName
from guided.bitmask import allowed_ids
from guided.compile import Engine
from guided.json_scanner import Mode, ScanState, feed
from guided.state import GuidanceState
from special_tokens.errors import GuidanceError, LimitExceeded, RequestError

__all__ = ["check_max_tokens", "min_tokens", "shortest_output"]

_MOST = 4_000  # tokens that one walk may take

#: What a policy begins a value with, the first that is allowed; objects and arrays come last in any case.
_DIGITS = tuple(b"%d" % digit for digit in range(10))
_POLICIES: tuple[tuple[bytes, ...], ...] = (
    (*_DIGITS, b"null", b"true", b'"'),
    (*reversed(_DIGITS), b"null", b"true", b'"'),
    (b'"', *_DIGITS, b"null", b"true", b"false"),
    (b"null", b"true", b"false", b"n", b"f", b"t"),
)


def min_tokens(plan: Plan, engine: Engine, *, entry: str = "fresh") -> int:
    """The number of tokens, the end's included, of the shortest output found."""
    return len(shortest_output(plan, engine, entry=entry))


def check_max_tokens(plan: Plan, engine: Engine, max_tokens: int, *, entry: str = "fresh") -> None:
    """Raises `RequestError` when ``max_tokens`` cannot hold the shortest output found."""
    needed = min_tokens(plan, engine, entry=entry)
    if max_tokens < needed:
        raise RequestError(
            f"max_tokens too small: {max_tokens} tokens cannot hold the shortest answer found, which has {needed}",
            place="max_tokens",
            expected=f"at least {needed}",
        )


def shortest_output(plan: Plan, engine: Engine, *, entry: str = "fresh") -> tuple[int, ...]:
    """The tokens of the shortest output found; raises `LimitExceeded` when no policy came to an end."""
    start = GuidanceState(plan, engine, entry=entry)
    found: list[list[int]] = []
    short = [plan.response.shortest] if plan.response is not None else []
    short += [text for _, text in plan.shortest_arguments]
    values = [engine.tokenize(text) for text in short if text]
    for policy, texts in ((_POLICIES[0], values), *((policy, []) for policy in _POLICIES)):
        tokens = _walk(start.fork(), policy, texts, min((len(tokens) for tokens in found), default=_MOST))
        if tokens is not None:
            found.append(tokens)
    if not found:
        raise LimitExceeded(f"no end was found within {_MOST} tokens", place="plan")
    return tuple(sorted(found, key=len)[0])


def _walk(state: GuidanceState, policy: tuple[bytes, ...], values: list[list[int]], most: int) -> list[int] | None:
    """Writes by one policy, and one of ``values`` where it may be written.

    None when that is not shorter than ``most`` tokens, or the engine fails.
    """
    engine, ends, markers = state.engine, state.plan.end_ids(), state.engine.tokens.marker_ids
    scan = ScanState()
    try:
        while not state.is_stopped:
            if state.num_tokens >= most:
                return None
            ids = allowed_ids(state.mask())
            # The way out of reasoning and free text is a marker or an end; a response is closed from the inside.
            token = next((i for i in ids if i in ends), None)
            if token is None and state.region is not RegionName.RESPONSE:
                token = next((i for i in ids if i in markers), None)
            value = next((ids for ids in values if token is None and _may_write(state, ids)), None)
            if value is not None:
                scan = feed(scan, b"".join(map(engine.token_bytes, value)), ())
                state.commit(value)
                values = []
                continue
            if token is None:
                token = _next(ids, engine, scan, policy)
            if state.region is RegionName.RESPONSE and token not in markers and token not in ends:
                scan = feed(scan, engine.token_bytes(token), ())
            state.commit([token])
    except GuidanceError:
        return None
    return list(state.tokens)


def _may_write(state: GuidanceState, tokens: list[int]) -> bool:
    """Do the masks let all of ``tokens`` pass, one after the other, as part of a response or a call?"""
    if state.region not in (RegionName.RESPONSE, RegionName.TOOL_CALLS) or state.validate(tokens) < len(tokens):
        return False
    twin = state.fork()
    for token in tokens:
        if twin.is_stopped or not twin.allows(token):
            return False
        twin.commit([token])
    return True


def _next(ids: list[int], engine: Engine, scan: ScanState, policy: tuple[bytes, ...]) -> int:
    """The token that closes what is open, or else begins the least."""
    by_bytes = {engine.token_bytes(i): i for i in reversed(ids)}
    wanted: tuple[bytes, ...] = (b"}", b"]", b"}}", b"]}")
    match scan.mode:
        case Mode.STRING:
            wanted = (b'"}', b'"]', b'"')
        case Mode.IN_KEY:  # as much of what must follow as one token has
            wanted = tuple(sorted((data for data in by_bytes if data[:1] == b'"'), key=len, reverse=True))
        case Mode.VALUE:
            wanted = (b"]", *policy, b"{}", b"[]", b"{", b"[")
    for data in wanted:
        if data in by_bytes:
            return by_bytes[data]
    closed = [data for data in by_bytes if data and not set(data) & set(b"{[")]
    # Many bytes at once where the text goes on as it must, and of equals always the same.
    choices = closed or list(by_bytes)
    if len(ids) <= 8:
        return by_bytes[max(choices, key=lambda data: (len(data), data))]
    return by_bytes[min(choices, key=lambda data: (len(data), data))]
