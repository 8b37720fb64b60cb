"""A short way to the end of a plan, found by walking its masks: what an answer costs at the least.

The number is of the shortest output *found*: first with the shortest texts that the plan holds for its values, then by
several simple policies, each of which closes what is open as soon as it may and opens nothing that it need not.  It
is an upper bound of the true minimum, and exact for most schemas.
"""

from __future__ import annotations

import json
import re
import string
import time
from collections.abc import Sequence
from dataclasses import replace
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from grammars.values.watchers import DigitWatch, UniqueWatch, Watcher
from grammars.plan.plan import Plan, RegionName, ResponsePlan, Stops, when_asked
from guided.state.entry import Begin
from guided.bitmask import allowed_ids, from_ids
from guided.engine.engine import Engine
from guided.watchers.json_scanner import Mode, ScanState, feed
from guided.rows.sequence import read_answer
from guided.state.state import GuidanceState
from guided.validation.validate import judge
from special_tokens.errors import GuidanceError, GuidedError, LimitExceeded, RequestError

__all__ = ["check_max_tokens", "is_valid_text", "min_tokens", "shortest_output", "with_shortest"]

_MOST = 4_000  # tokens that one walk by a policy alone may take
_SECONDS = 1.5  # of this thread's processor time, for all walks of one search that choose for themselves
_MOST_MASKED = 2_000  # tokens of a known text whose masks are all asked; of a longer one the engine alone is
_FIRST_SECONDS = 0.15  # for each of them at first: one that goes astray must not take the time of the others

#: What a policy begins a value with, the first that is allowed; objects and arrays come last in any case.
_DIGITS = tuple(b"%d" % digit for digit in range(10))
_POLICIES: tuple[tuple[bytes, ...], ...] = (
    (*_DIGITS, b"null", b"true", b'"'),
    (*reversed(_DIGITS), b"null", b"true", b'"'),
    (b'"', *_DIGITS, b"null", b"true", b"false"),
    (b"null", b"true", b"false", b"n", b"f", b"t"),
)

_MANY = 8  # words of a mask that have notable tokens
_notables: WeakKeyDictionary[Engine, NDArray[np.int32]] = WeakKeyDictionary()

#: What ends a string and begins what comes next.
_NEXT = frozenset((b'", "', b'",', b'", ', b'","'))


def min_tokens(plan: Plan, engine: Engine, *, entry: str = "fresh") -> int:
    """The number of tokens, the end's included, of the shortest output found."""
    return len(shortest_output(plan, engine, entry=entry))


class _Walked:
    """The shortest valid text of a plan's response: as its format tells it, else by a walk through the masks."""

    def __init__(self, plan: Plan, engine: Engine) -> None:
        self.plan, self.engine = plan, engine

    def __call__(self) -> str | None:
        response = self.plan.response
        assert response is not None
        text = response.shortest
        if text is None or not is_valid_text(text, response):
            text = self._walked()
        return text if text is not None and is_valid_text(text, response) else None

    def _walked(self) -> str | None:
        """Behind the reasoning, where there is some."""
        entry = "after" if len(self.plan.entries) > 1 else self.plan.entries[0].name
        try:
            tokens = shortest_output(self.plan, self.engine, entry=entry)
        except GuidedError:
            return None
        plan = replace(self.plan, stops=Stops())
        return read_answer(tokens, plan, self.engine, begin=Begin(entry)).content


def is_valid_text(text: str, response: ResponsePlan) -> bool:
    """Does no validator object?  What is relaxed the masks may take."""
    if response.kind != "json" or not response.report.relaxed:
        return True
    try:
        verdicts = judge(response.schema, json.loads(text), documents=response.documents)
    except (ValueError, RecursionError):
        return False
    return all(verdict.is_valid is not False for verdict in verdicts)


def with_shortest(plan: Plan, engine: Engine) -> Plan:
    """The same plan, whose ``response.shortest`` is found on ``engine`` where the format alone tells none.

    It is worked out when it is first read: by searches for a text, which may work the schema out once more in full
    (`Limits.seconds`), then by walks of 1.5 s of processor time.
    """
    if plan.response is None:
        return plan
    return replace(plan, response=replace(plan.response, shortest=when_asked(_Walked(plan, engine))))


def _known(plan: Plan) -> str | None:
    """A shortest text of the response, where its format tells one: what a walk begins with."""
    if plan.response is None:
        return None
    held = vars(plan.response)["shortest"]
    return _known(held.plan) if isinstance(held, _Walked) else plan.response.shortest


def check_max_tokens(plan: Plan, engine: Engine, max_tokens: int, *, entry: str = "fresh") -> None:
    """Raises `RequestError` when ``max_tokens`` cannot hold the shortest output found.

    Where a watcher has a say, what is found may be longer than it need be; then the budget must not even hold an
    output that the watcher would refuse, written in the fewest tokens.  Where no output is found, nothing is certain
    of what is needed, and nothing is raised: a request that is possible is not refused for what a search lacks.
    """
    try:
        needed = min_tokens(plan, engine, entry=entry)
        if max_tokens >= needed:
            return
        if plan.watchers:
            unwatched = shortest_output(replace(plan, watchers=()), engine, entry=entry)
            if max_tokens >= min(len(unwatched), _fewest(unwatched, engine)):
                return
    except LimitExceeded:
        return
    raise RequestError(
        f"max_tokens too small: {max_tokens} tokens cannot hold the shortest answer found, which has {needed}",
        place="max_tokens",
        expected=f"at least {needed}",
    )


def shortest_output(plan: Plan, engine: Engine, *, entry: str = "fresh") -> tuple[int, ...]:
    """The tokens of the shortest output found; raises `LimitExceeded` when no walk came to an end in its time."""
    start = GuidanceState(plan, engine, entry=entry)
    found: list[list[int]] = []
    known = _known(plan)
    values = [engine.tokenize(text) for text in (known, *(text for _, text in plan.shortest_arguments)) if text]
    if known and plan.watchers and not _is_watched(known, plan.watchers):
        tokens = _written(replace(plan, watchers=()), engine, entry, values[0])
        if tokens is not None:
            found.append(tokens)
            values = values[1:]
    until = time.thread_time() + _SECONDS
    for seconds in (_FIRST_SECONDS, _SECONDS):
        for policy, texts in (*((_POLICIES[0], values) for _ in values[:1]), *((policy, []) for policy in _POLICIES)):
            most = min((len(tokens) for tokens in found), default=_MOST + sum(map(len, texts)))
            tokens = _walk(start.fork(), policy, texts, most, min(until, time.thread_time() + seconds))
            if tokens is not None:
                found.append(tokens)
        if found:
            break
    if not found:
        raise LimitExceeded(f"no end was found within {_MOST} tokens and {_SECONDS} seconds", place="plan")
    return tuple(sorted(found, key=len)[0])


def _is_watched(known: str, watchers: Sequence[Watcher]) -> bool:
    """May a watcher take a token of the text?  Only one that repeats, or one of very many digits."""
    unique = next((watcher for watcher in watchers if isinstance(watcher, UniqueWatch)), UniqueWatch())
    digits = min((watcher.most for watcher in watchers if isinstance(watcher, DigitWatch)), default=len(known))
    longest = max(map(len, re.findall("[0-9]+", known)), default=0)
    return longest > digits or feed(ScanState(), known.encode(), unique.nodes).repeated


def _written(unwatched: Plan, engine: Engine, entry: str, value: list[int]) -> list[int] | None:
    """An output that writes ``value``, of a plan that asks no watcher: it need not follow a text known to pass."""
    start = GuidanceState(unwatched, engine, entry=entry)
    found = _walk(start, _POLICIES[0], [value], _MOST + len(value), time.thread_time() + _FIRST_SECONDS)
    if found is None or not any(found[at : at + len(value)] == value for at in range(len(found) - len(value) + 1)):
        return None
    return found


def _fewest(tokens: Sequence[int], engine: Engine) -> int:
    """The fewest tokens that write the same text."""
    count, data = 0, b""
    for token in (*tokens, None):
        if token is not None and token not in engine.tokens.marker_ids:
            data += engine.token_bytes(token)
            continue
        least = [0] * (len(data) + 1)
        for at in range(len(data) - 1, -1, -1):
            sizes = {len(engine.token_bytes(i)) for i in engine.tokens_within(data[at : at + 64])}
            least[at] = 1 + min((least[at + size] for size in sizes), default=len(data))
        count += least[0] + (token is not None)
        data = b""
    return count


def _walk(
    state: GuidanceState, policy: tuple[bytes, ...], values: list[list[int]], most: int, until: float
) -> list[int] | None:
    """Writes by one policy, and one of ``values`` where it may be written.

    None when that is not shorter than ``most`` tokens, when the thread's clock has come to ``until``, or when the
    engine fails.
    """
    engine, ends, markers = state.engine, state.plan.end_ids(), state.engine.tokens.marker_ids
    scan, notable = ScanState(), _notable(engine) | from_ids(ends, engine.vocab_size)
    try:
        while not state.is_stopped:
            if state.num_tokens >= most or time.thread_time() > until:
                return None
            ids = _candidates(state, notable)
            # The way out of reasoning and free text is a marker or an end; a response is closed from the inside.
            token = next((i for i in ids if i in ends), None)
            if token is None and state.region is not RegionName.RESPONSE:
                token = next((i for i in ids if i in markers), None)
            begun = time.thread_time()
            behind = next((twin for ids in values if token is None and (twin := _behind_value(state, ids))), None)
            if behind is not None:
                scan = feed(scan, b"".join(map(engine.token_bytes, behind.tokens[state.num_tokens :])), ())
                state, values = behind, []
                until += time.thread_time() - begun  # a long text that is known takes nothing from the search
                continue
            if token is None:
                token = _next(ids, engine, scan, policy)
                if scan.mode is Mode.STRING and scan.frame is not None:
                    token = _behind(state, ids, token, in_array=not scan.frame.is_object)
            if state.region is RegionName.RESPONSE and token not in markers and token not in ends:
                scan = feed(scan, engine.token_bytes(token), ())
            state.commit([token])
    except GuidanceError:
        return None
    return list(state.tokens)


def _candidates(state: GuidanceState, notable: NDArray[np.int32]) -> list[int]:
    """The tokens that a step chooses from: those that are allowed, or of very many the notable ones."""
    words = state.mask()
    return allowed_ids(words & notable if int(np.count_nonzero(words & notable)) > _MANY else words)


def _notable(engine: Engine) -> NDArray[np.int32]:
    """Tokens that close or begin something, single letters, and what ends a part of an answer, as a bitmask."""
    found = _notables.get(engine)
    if found is None:
        data = map(engine.token_bytes, range(engine.vocab_size))
        ids = [i for i, text in enumerate(data) if len(text) < 2 or not text.strip(b' \n"{}[]:,0123456789')]
        found = _notables[engine] = from_ids([*ids, *engine.tokens.marker_ids], engine.vocab_size)
    return found


def _behind(state: GuidanceState, ids: list[int], token: int, *, in_array: bool) -> int:
    """A token of a string: ``token``, or one that comes further.

    Where nothing can be closed behind the quote, it is the one that writes most of what comes next; where the string
    cannot end behind a letter, since an item would come twice, it is another letter.
    """
    data = state.engine.token_bytes(token)
    if data == b'"':
        twin = state.fork()
        twin.commit([token])
        if not any(twin.allows(i) for text in ("]", "}") for i in state.engine.tokenize(text)):
            longer = [i for i in ids if state.engine.token_bytes(i) in _NEXT]
            return max(longer, key=lambda i: len(state.engine.token_bytes(i)), default=token)
        return token
    if not in_array or not state.plan.watchers or b'"' in data:
        return token
    quotes = [i for text in ('"', '"]', '", "') for i in state.engine.tokenize(text)[:1]]
    letters = _letters(state.engine)
    for other in (token, *(i for i in ids if i in letters)):
        twin = state.fork()
        twin.commit([other])
        if any(twin.allows(i) for i in quotes):
            return other
    return token


def _letters(engine: Engine) -> frozenset[int]:
    """Tokens of one letter each."""
    return frozenset(ids[0] for letter in string.ascii_letters if len(ids := engine.tokenize(letter)) == 1)


def _behind_value(state: GuidanceState, tokens: list[int]) -> GuidanceState | None:
    """Behind ``tokens`` as part of a response or a call, where the masks let them pass one after the other."""
    if state.region not in (RegionName.RESPONSE, RegionName.TOOL_CALLS) or not state.allows(tokens[0]):
        return None
    is_long = len(tokens) > _MOST_MASKED
    if (is_long or not state.plan.watchers) and state.validate(tokens) < len(tokens):
        return None
    twin = state.fork()
    for token in tokens:
        if twin.is_stopped or not (is_long or twin.allows(token)):
            return None
        twin.commit([token])
    return twin


def _next(ids: list[int], engine: Engine, scan: ScanState, policy: tuple[bytes, ...]) -> int:
    """The token that closes what is open, or else begins the least."""
    by_bytes = {engine.token_bytes(i): i for i in reversed(ids)}
    wanted: tuple[bytes, ...] = (b"}", b"]", b"}}", b"]}")
    match scan.mode:
        case Mode.STRING:
            wanted = (b'"}', b'"]', b'"')
        case Mode.KEY:
            wanted = (*wanted, b'"')
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
