"""Landing: the tokens that end an answer from where it is, found over bytes and verified on the answer's state.

A `LandingSearch` belongs to one plan and entry and holds nothing of a sequence; `LandingSearch.shortest_end` takes a
state and leaves it as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from typing import NamedTuple

from grammars.limits.time_limits import time_limits
from grammars.plan.plan import Plan, ResponsePlan
from grammars.shortest.grammar_texts import grammar_texts
from grammars.shortest.plan_texts import response_text
from grammars.text_grammars.schemas import schemas_in
from grammars.tree.markers import Markers
from guided.engine.engine import Engine
from guided.landing.byte_classes import Classes
from guided.landing.byte_twin import ByteMatcher, ByteTwin
from guided.landing.candidates import Candidates, Preference
from guided.landing.effort import Effort, SearchLimits
from guided.landing.known_texts import (
    closing_texts,
    exit_ids,
    member_names,
    rule_rests,
    string_texts,
    value_ends,
)
from guided.landing.place import AnswerPlace, PlaceMap
from guided.landing.search import SearchTree, search
from guided.landing.way import NOTHING, Way
from guided.state.state import GuidanceState
from special_tokens.errors import GuidanceError, LimitExceeded, TokenRefused

__all__ = ["Landing", "LandingSearch", "write"]

#: Preferences of the searches, each of which is tried: the answer of fewest tokens wins.
_PREFERENCES = (
    Preference({}),
    Preference(dict.fromkeys(b"0123456789-", 2.0) | dict.fromkeys(b"tfn", 1.0), forced_cost=1.0),
    Preference(dict.fromkeys(b'0123456789-"', 2.0)),
    Preference({}, takes_known=True),
)


#: When an end has been found, other searches try this many times its places, and at least the second number of places.
_TIMES, _FEW = 3, 100
#: Places of the first search, after which the shortest text of the response is worked out from its format.
_SHORT = 100
#: Tokens before a search in which what closes a text may have been begun.
_LAST_TOKENS = 32
#: Schemas of one tag or grammar of which texts are worked out, and arguments that are tried in any place.
_MOST_SCHEMAS, _MOST_ARGUMENTS = 16, 16
#: Texts whose tokens are kept.
_TEXTS = 4_096


class Landing(NamedTuple):
    """Tokens that end an answer, its end token included; None with a ``reason`` where no end was found."""

    tokens: tuple[int, ...] | None
    reason: str = ""
    expansions: int = 0


class LandingSearch:
    """The search for the ends of one plan's answers.

    ``response_text`` is a text of the response that is known, "" if none can be worked out.
    Raises `GrammarError` or `LimitExceeded` where the byte twin refuses the grammar.
    """

    def __init__(self, plan: Plan, engine: Engine, *, entry: str = "fresh", response_text: str | None = None) -> None:
        self._engine = engine
        self._begin = engine.derived(ByteTwin).matcher(plan, plan.entry(entry).name)
        self._places: PlaceMap | None = None
        self._plan = plan
        #: texts to try where a value begins: by step of a tool call's table, -1: the response
        self._known: dict[int, list[bytes]] = {}
        response, whole = plan.response, response_text
        if response is not None and response.kind in ("lark", "gbnf"):
            whole = grammar_texts(response.kind, response.source).whole
        self._known[-1] = [whole.encode()] if whole else []
        self._is_learned = response is None or response_text is not None
        is_exact = plan.response is not None and not plan.response.report.relaxed
        self._candidates = Candidates(
            closing_texts(plan),
            value_ends(plan, Markers(engine.tokens)),
            rule_rests(plan),
            member_names(plan),
            exit_ids(plan),
            partial(string_texts, plan),
            self._arguments,
            self._known,
            may_change=is_exact,
        )

    def shortest_end(
        self,
        state: GuidanceState,
        *,
        limits: SearchLimits | None = None,
        preferences: int = len(_PREFERENCES),
        classes: Classes | None = None,
    ) -> Landing:
        """Return the fewest tokens found that end ``state``, each of them allowed by its masks.

        ``preferences`` is the number of preferences tried; 1 is the quickest.  Nothing is raised: if no end is found,
        or if the state refuses the end found, the reason says so.
        """
        response, limits = self._plan.response, limits or SearchLimits(cpu_s=time_limits().landing_cpu_s)
        try:
            matcher, place, places = self._follow(state)
        except GuidanceError as error:
            return Landing(None, str(error))
        tree = self.tree(state, matcher, place, Classes() if classes is None else classes)
        best, reason, tried, repeats = None, "", 0, False
        written: set[tuple[int, ...]] = set()
        order = self._preferences()[:preferences]
        # A first try, after which a text of the response is worked out; the fewest bytes of choices say too little.
        is_short = len(order) > 1 and not state.tokens and not (response and response.kind == "choice")
        effort, most = Effort(limits), _SHORT if is_short else limits.expansions
        while order:
            preference = order.pop(0)
            if preference.values_alone and not tree.has_values:
                continue  # it would find the same
            part = effort.part(min(most, effort.left // 2))
            found = next(search(tree, preference, part))
            effort.left += part.left
            tried += found.expansions
            if found.symbols is None and is_short and not effort.is_spent:
                self._learn_response()
                order = sorted(self._preferences(), key=lambda preference: not preference.takes_known)[:preferences]
                most, is_short = limits.expansions, False
                continue
            is_short = False
            if found.symbols is None:
                reason = reason or found.reason
                continue
            if found.symbols in written:
                continue
            written.add(found.symbols)
            tokens = write(state, found.symbols)
            if tokens is None:
                reason = reason or "the masks refuse the text that was found"
                continue
            most = max(_FEW, _TIMES * found.expansions)
            is_repeat = places.refuses(place, found.symbols)
            if best is None or (is_repeat, len(tokens)) < (repeats, len(best)):
                best, repeats = tokens, is_repeat
        return Landing(best, "" if best is not None else reason, tried)

    def tree(self, state: GuidanceState, matcher: ByteMatcher, place: AnswerPlace, classes: Classes) -> SearchTree:
        """Return the places of all searches from that of ``state``, ``matcher`` and ``place``.

        ``classes`` is what the caller remembers of bytes.
        """
        last = [symbol for token in state.tokens[-_LAST_TOKENS:] for symbol in state.regions.symbols(token)]
        begun = next((len(last) - i for i, symbol in enumerate(reversed(last)) if symbol >= 256), 0)
        return SearchTree(matcher, place, self.places(state), self._candidates, classes, bytes(last[begun:]))

    def ends(
        self, tree: SearchTree, effort: Effort, hint: Way = NOTHING, rest: int = -1, *, in_haste: bool
    ) -> Iterator[Way]:
        """Yield the ways found, see `search`, their tokens not known; ``in_haste``: of one search alone."""
        for preference in self._preferences()[: 1 if in_haste else None]:
            for found in search(tree, preference, effort, hint, rest):
                if found.symbols is not None:
                    kept = (value for value in hint.values if value[0] <= found.from_hint)
                    yield Way(found.symbols, None, (*found.values, *kept))

    def matcher(self) -> ByteMatcher:
        """Return the twin's matcher at the beginning of the answer."""
        return self._begin.copy()

    def places(self, state: GuidanceState) -> PlaceMap:
        """Return the places of the plan; ``state`` is any under it."""
        if self._places is None:
            places = PlaceMap(self._plan, self._engine, state.regions)
            for i, step in enumerate(places.steps):
                self._known[i] = [text.encode() for where, text in self._plan.shortest_arguments if where == step.place]
            self._places = places
        return self._places

    def _arguments(self) -> Sequence[str]:
        """Return some short arguments of calls, where no table shows the places at which they begin."""
        assert self._places is not None  # a tree has asked for them
        texts = () if self._places.steps else self._plan.shortest_arguments
        return [*dict.fromkeys(text for _, text in texts)][:_MOST_ARGUMENTS]

    def _learn_response(self) -> None:
        """Work out a text of the response, or of the values in it, from its format, if none is known."""
        response = self._plan.response
        if response is None or self._is_learned:
            return
        self._is_learned = True
        for part in _values(response):
            with suppress(GuidanceError):
                if text := response_text(part):
                    self._known[-1].append(text.encode())

    def _preferences(self) -> list[Preference]:
        has_known = any(self._known.values())
        return [preference for preference in _PREFERENCES if has_known or not preference.takes_known]

    def _follow(self, state: GuidanceState) -> tuple[ByteMatcher, AnswerPlace, PlaceMap]:
        """Return the twin's matcher and the place after the state's tokens."""
        places, matcher = self.places(state), self.matcher()
        symbols = [symbol for token in state.tokens for symbol in state.regions.symbols(token)]
        if not matcher.feed(symbols):
            raise LimitExceeded("the byte twin refuses the answer so far", place=f"token {state.num_tokens}")
        return matcher, places.of(state), places


def _values(response: ResponsePlan) -> list[ResponsePlan]:
    """The response, and the JSON values in it, of which texts can be worked out."""
    schemas = schemas_in(response.kind, response.source)[:_MOST_SCHEMAS]
    values = [ResponsePlan("json", schema, spelling=response.spelling) for schema in schemas]
    return values or [response]


def write(state: GuidanceState, symbols: Sequence[int], most: int | None = None) -> tuple[int, ...] | None:
    """Return the tokens that write ``symbols`` and an end after ``state``; None if the masks allow none that do.

    Canonical tokens are taken where the masks allow them, else the longest allowed one; None also if the canonical ones
    are more than ``most``.  Watchers are not asked: a search goes where they forbid nothing if it finds such an end.
    The state stays as it is.
    """
    engine, rest = state.engine, tuple(symbols)
    planned = _tokens(engine, rest)
    if most is not None and len(planned) >= most + (not state.plan.end_ids()):
        return None
    twin = state.fork(is_watched=False)
    done: list[int] = []
    try:
        while rest:
            token = twin.forced_next()
            if token is not None:
                planned = planned[1:] if planned and planned[0] == token else []
            else:
                planned = planned or _tokens(engine, rest)
                token = planned.pop(0)
            written = state.regions.symbols(token)
            if not _commits(twin, token):
                fitting = [i for i in engine.tokens_within(_text(rest)) if twin.allows(i)]
                token, planned = max(fitting, key=lambda i: len(engine.token_bytes(i)), default=token), []
                written = state.regions.symbols(token)
                twin.commit([token])
            if rest[: len(written)] != written or not written:
                return None
            rest = rest[len(written) :]
            done.append(token)
            if twin.is_stopped:
                return tuple(done) if not rest else None
        end = twin.end_id()
        return None if end is None else (*done, end)
    except GuidanceError:
        return None


def _commits(state: GuidanceState, token: int) -> bool:
    """Whether a token was committed; the grammar may refuse it."""
    try:
        state.commit([token])
    except TokenRefused:
        return False
    return True


def _tokens(engine: Engine, symbols: Sequence[int]) -> list[int]:
    """The canonical tokens of symbols."""
    tokens_of, found = engine.derived(_tokens_of), []
    while symbols:
        text = _text(symbols)
        found += tokens_of(text) if text else [symbols[0] - 256]
        symbols = symbols[len(text) or 1 :]
    return found


def _tokens_of(engine: Engine) -> Callable[[bytes], list[int]]:
    """The canonical tokens of a text, not to be changed, remembered: the same rests of ways are asked for often."""
    return lru_cache(_TEXTS)(engine.ll_tokenizer.tokenize_bytes)


def _text(symbols: Sequence[int]) -> bytes:
    """The bytes before the first marker."""
    end = next((i for i, symbol in enumerate(symbols) if symbol >= 256), len(symbols))
    return bytes(symbols[:end])
