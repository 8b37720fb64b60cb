"""The shortest text and the shortest output of a plan: what an answer costs at least.

Texts are found in the schema (`grammars.shortest.plan_texts`), else with the output.  Outputs are searched byte by
byte (`guided.landing`) and walked through the masks with the texts known for the plan's values; the shortest counts.
Walks are limited by the number of masks, so that a busy machine finds the same.
Where the search finds none, and where keys or items must differ, several simple policies walk, each of which closes
what is open as soon as it may and opens nothing that it need not.  What is found is an upper bound of the true minimum,
and exact for most schemas.  Nothing is kept: each call searches anew.
"""

from __future__ import annotations

import json
import string
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from grammars.limits.time_limits import time_limits
from grammars.plan.plan import Plan, RegionName, ResponsePlan, Stops
from grammars.shortest.plan_texts import response_text, subschema_texts
from grammars.values.watchers import UniqueWatch, Watcher
from guided.bitmask import allowed_ids, from_ids
from guided.engine.engine import Engine
from guided.landing.effort import Effort, SearchLimits
from guided.landing.landing import LandingSearch
from guided.rows.answer import read_answer
from guided.state.entry import Begin
from guided.state.state import GuidanceState
from guided.validation.validate import judge
from guided.watchers.json_scanner import ScanState, feed
from guided.watchers.persistent_set import Mode
from special_tokens.errors import GuidanceError, LimitExceeded, RequestError

__all__ = ["check_max_tokens", "is_valid_text", "min_tokens", "shortest", "shortest_output", "shortest_texts"]

_MOST = 4_000  # tokens of one walk by a policy alone
_FIRST_MASKS = 1_000  # masks of each walk while no end is known: one that gets lost must not take all
_MASKS = 2_500  # masks of each walk where an end is known
_ALL_MASKS = 8_000  # masks of all walks of one search
_A_TRY = 0.3  # masks that take as long as trying a letter
_MOST_MASKED = 2_000  # tokens of a known text that masks check one by one; a longer text is checked by the engine alone

#: The texts that a policy begins a value with, in order of preference; objects and arrays come last in any case.
_DIGITS = tuple(b"%d" % digit for digit in range(10))
_POLICIES: tuple[tuple[bytes, ...], ...] = (
    (*_DIGITS, b"null", b"true", b'"'),
    (*reversed(_DIGITS), b"null", b"true", b'"'),
    (b'"', *_DIGITS, b"null", b"true", b"false"),
    (b"null", b"true", b"false", b"n", b"f", b"t"),
)

_MANY = 8  # words of a mask with notable tokens: above it only these are considered

#: Tokens that end a string and begin the next value.
_NEXT = frozenset((b'", "', b'",', b'", ', b'","'))


def shortest(plan: Plan, engine: Engine) -> str | None:
    """Return a shortest valid text of the plan's response format; None without a format or where none is found.

    Searches in the schema, which may be worked out once more in full (`Limits.seconds`), then in the masks for at
    most 4 s of this thread's processor time.  Raises `PlanError` where masks are needed and the plan belongs to
    another vocabulary.
    """
    response = plan.response
    if response is None:
        return None
    known = _known(plan)
    if known is not None and is_valid_text(known, response):
        return known
    text = _walked_text(plan, engine, known)
    return text if text is not None and is_valid_text(text, response) else None


def shortest_texts(plan: Plan, engine: Engine, tool: str | None = None) -> Mapping[str, str | None]:
    """Return a shortest text of each subschema of the response format, or of ``tool``'s parameters, by JSON pointer.

    Each is found when it is first read from the mapping and kept there, see `ShortestTexts`.  Of formats without a
    schema there is only the whole (``""``), and nothing where there is no response format.  Raises `ToolError` for a
    tool that the plan does not have.
    """
    if tool is None and plan.response is not None and plan.response.kind != "json":
        return {"": shortest(plan, engine)}
    return subschema_texts(plan, tool)


def _known(plan: Plan) -> str | None:
    """A shortest text of the response, where its format alone shows one: what a walk begins with."""
    return None if plan.response is None else response_text(plan.response)


def _walked_text(plan: Plan, engine: Engine, known: str | None) -> str | None:
    """The response of the shortest output found, begun after the reasoning where there is some."""
    entry = "after" if len(plan.entries) > 1 else plan.entries[0].name
    try:
        tokens = _output(plan, engine, entry, known)
    except (GuidanceError, RequestError):
        return None
    return read_answer(tokens, replace(plan, stops=Stops()), engine, begin=Begin(entry)).content


def min_tokens(plan: Plan, engine: Engine, *, entry: str = "fresh") -> int:
    """Return the number of tokens, the end's included, of the shortest output found.

    Raises `LimitExceeded` with the reason where neither the search nor a walk comes to an end; together they take up to
    6 s of this thread's processor time (`TimeLimits.landing_cpu_s`, `TimeLimits.shortest_cpu_s`).
    """
    return len(shortest_output(plan, engine, entry=entry))


def is_valid_text(text: str, response: ResponsePlan) -> bool:
    """Whether no validator objects to ``text``; only masks of a relaxed schema allow invalid texts."""
    if response.kind != "json" or not response.report.relaxed:
        return True
    try:
        verdicts = judge(response.schema, json.loads(text), documents=response.documents)
    except (ValueError, RecursionError):
        return False
    return all(verdict.is_valid is not False for verdict in verdicts)


def check_max_tokens(plan: Plan, engine: Engine, max_tokens: int, *, entry: str = "fresh") -> None:
    """Raise `RequestError` when ``max_tokens`` cannot hold the shortest output found.

    Under a watcher what is found may be longer than necessary; then ``max_tokens`` must be too small even for an
    output that the watcher would refuse, written in the fewest tokens.  Where no output is found nothing is raised: a
    request that is possible is not refused because a search gave up.
    """
    known = _known(plan)
    try:
        needed = len(_output(plan, engine, entry, known))
        if max_tokens >= needed:
            return
        if plan.watchers:
            unwatched = _output(replace(plan, watchers=()), engine, entry, known)
            if max_tokens >= min(len(unwatched), _fewest(unwatched, engine)):
                return
    except LimitExceeded:
        return
    raise RequestError(
        f"{max_tokens} tokens cannot hold the shortest answer found, which has {needed}",
        place="max_tokens",
        expected=f"at least {needed}",
    )


def shortest_output(plan: Plan, engine: Engine, *, entry: str = "fresh") -> tuple[int, ...]:
    """Return the tokens of the shortest output found; raises `LimitExceeded` when no walk came to an end in time."""
    return _output(plan, engine, entry, _known(plan))


def _output(plan: Plan, engine: Engine, entry: str, known: str | None) -> tuple[int, ...]:
    """As `shortest_output`; ``known`` is a text of the response that a first walk writes."""
    start = GuidanceState(plan, engine, entry=entry)
    found: list[list[int]] = []
    searched = LandingSearch(plan, engine, entry=entry).shortest_end(start)
    if searched.tokens is not None:
        found.append(list(searched.tokens))
    effort = Effort(SearchLimits(cpu_s=time_limits().shortest_cpu_s, expansions=_ALL_MASKS))
    values = [engine.tokenize(text) for text in (known, *(text for _, text in plan.shortest_arguments)) if text]
    if known and plan.watchers and not _is_watched(known, plan.watchers):
        tokens = _written(replace(plan, watchers=()), engine, entry, values[0], _least(found, _MOST), effort)
        if tokens is not None:
            found.append(tokens)
            values = values[1:]
    must_differ = any(isinstance(watcher, UniqueWatch) for watcher in plan.watchers)
    policies = _POLICIES if not found or must_differ else ()
    for masks in (_FIRST_MASKS, _ALL_MASKS):
        for policy, texts in (*((_POLICIES[0], values) for _ in values[:1]), *((policy, []) for policy in policies)):
            part = effort.part(_MASKS if found else masks)
            tokens = _walk(start.fork(), policy, texts, _least(found, _MOST + sum(map(len, texts))), part)
            effort.left += part.left
            if tokens is not None:
                found.append(tokens)
        if found:
            break
    if not found:
        most = f"{_MOST:,} tokens, {_ALL_MASKS:,} masks and {time_limits().shortest_cpu_s} s of processor time"
        raise LimitExceeded(f"no end was found within {most}; byte by byte: {searched.reason}", place="plan")
    return tuple(sorted(found, key=len)[0])


def _least(found: Sequence[Sequence[int]], most: int) -> int:
    """The fewest tokens found, ``most`` where none are."""
    return min(map(len, found), default=most)


def _is_watched(known: str, watchers: Sequence[Watcher]) -> bool:
    """Whether a watcher may forbid a token of the text: it has a repeat."""
    unique = next((watcher for watcher in watchers if isinstance(watcher, UniqueWatch)), UniqueWatch())
    return feed(ScanState(), known.encode(), unique.nodes).is_duplicate


def _written(
    unwatched: Plan, engine: Engine, entry: str, value: list[int], most: int, effort: Effort
) -> list[int] | None:
    """An output that contains ``value``, of a plan without watchers, where ``value`` is known to pass them."""
    start, part = GuidanceState(unwatched, engine, entry=entry), effort.part(_FIRST_MASKS)
    found = _walk(start, _POLICIES[0], [value], most + len(value), part)
    effort.left += part.left
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
    state: GuidanceState, policy: tuple[bytes, ...], values: list[list[int]], most: int, effort: Effort
) -> list[int] | None:
    """The tokens of a walk by one policy, which writes one of ``values`` where it is allowed.

    None when the walk has ``most`` tokens, when ``effort`` is spent, one place for each mask, or when the engine fails.
    Writing a long known text does not count.
    """
    engine, ends, markers = state.engine, state.plan.end_ids(), state.engine.tokens.marker_ids
    scan, notable = ScanState(), engine.derived(_notable) | from_ids(ends, engine.vocab_size)
    try:
        while not state.is_stopped:
            if state.num_tokens >= most or effort.is_spent:
                return None
            effort.spend(1)
            ids = _candidates(state, notable)
            # Reasoning and free text end by a marker or an end token; a response is closed from the inside.
            token = next((i for i in ids if i in ends), None)
            if token is None and state.region is not RegionName.RESPONSE:
                token = next((i for i in ids if i in markers), None)
            after = next((twin for ids in values if token is None and (twin := _after_value(state, ids))), None)
            if after is not None:
                scan = feed(scan, b"".join(map(engine.token_bytes, after.tokens[state.num_tokens :])), ())
                state, values = after, []
                continue
            if token is None:
                token = _next(ids, engine, scan, policy)
                if scan.mode is Mode.STRING and scan.frame is not None:
                    token = _in_string(state, ids, token, effort, in_array=not scan.frame.is_object)
            if state.region is RegionName.RESPONSE and token not in markers and token not in ends:
                scan = feed(scan, engine.token_bytes(token), ())
            state.commit([token])
    except GuidanceError:
        return None
    return list(state.tokens)


def _candidates(state: GuidanceState, notable: NDArray[np.int32]) -> list[int]:
    """The tokens that a step chooses from: the allowed ones, or of very many the notable ones."""
    words = state.mask()
    return allowed_ids(words & notable if int(np.count_nonzero(words & notable)) > _MANY else words)


def _notable(engine: Engine) -> NDArray[np.int32]:
    """Tokens that close or begin something, single letters and markers, as a bitmask."""
    data = map(engine.token_bytes, range(engine.vocab_size))
    ids = [i for i, text in enumerate(data) if len(text) < 2 or not text.strip(b' \n"{}[]:,0123456789')]
    return from_ids([*ids, *engine.tokens.marker_ids], engine.vocab_size)


def _in_string(state: GuidanceState, ids: list[int], token: int, effort: Effort, *, in_array: bool) -> int:
    """A token of a string: ``token``, or a better one.

    Where nothing can be closed after the quote, it is the one that writes most of the text that must follow; where the
    string cannot end after a letter, since an item would occur twice, it is another letter.
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
        effort.spend(_A_TRY)
        if any(twin.allows(i) for i in quotes):
            return other
    return token


def _letters(engine: Engine) -> frozenset[int]:
    """Tokens of one letter each."""
    return frozenset(ids[0] for letter in string.ascii_letters if len(ids := engine.tokenize(letter)) == 1)


def _after_value(state: GuidanceState, tokens: list[int]) -> GuidanceState | None:
    """The state after ``tokens`` as part of a response or a call; None where the masks do not allow them."""
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
    """The token that closes what is open, or else begins the shortest value."""
    by_bytes = {engine.token_bytes(i): i for i in reversed(ids)}
    wanted: tuple[bytes, ...] = (b"}", b"]", b"}}", b"]}")
    match scan.mode:
        case Mode.STRING:
            wanted = (b'"}', b'"]', b'"')
        case Mode.KEY:
            wanted = (*wanted, b'"')
        case Mode.IN_KEY:  # as much as possible of the text that must follow
            wanted = tuple(sorted((data for data in by_bytes if data[:1] == b'"'), key=len, reverse=True))
        case Mode.VALUE:
            wanted = (b"]", *policy, b"{}", b"[]", b"{", b"[")
    for data in wanted:
        if data in by_bytes:
            return by_bytes[data]
    closed = [data for data in by_bytes if data and not set(data) & set(b"{[")]
    # The longest token where the text is nearly forced; ties are broken by the bytes, so that a walk is deterministic.
    choices = closed or list(by_bytes)
    if len(ids) <= 8:
        return by_bytes[max(choices, key=lambda data: (len(data), data))]
    return by_bytes[min(choices, key=lambda data: (len(data), data))]
