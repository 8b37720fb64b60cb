"""Landing for hosts that take only masks: near the budget, a mask loses each token after which no end in time is known.

While the model writes a string or other text, tokens that stay in this text are allowed without a trial as long as the
end of the text fits.  Of all other tokens a few are tried, the shortest first.  Free text is never ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import NamedTuple

import numpy as np

from grammars.plan.plan import RegionName
from grammars.values.persistent_set import Mode
from guided.bitmask import allowed_ids, allowed_of, from_ids, is_allowed, only_id
from guided.engine.engine import Engine
from guided.landing.byte_classes import FREE_TEXT
from guided.landing.control import LandingControl, PlanPath
from guided.landing.finder import Cursor, is_free
from guided.landing.growth import Growth
from guided.landing.options import LandingOptions
from guided.landing.path import EndPath
from guided.state.mask import TokenMask, Words
from guided.state.state import GuidanceState
from guided.tracking.regions import FIRST_MARKER
from guided.watchers.vocabulary_index import VocabularyIndex

__all__ = ["MaskLanding"]

#: Tokens that are tried at one position.
_TRIED = 64
#: Places of the search after one token (longer ones seldom find an end), and of all at one position that find none.
_TRIAL_PLACES, _FUTILE_PLACES = 24, 100
#: Where at most as many groups are to be tried, as names of tools, each trial may take what the step has.
_FEW = 16
#: Tokens that the rest of a character or of an escape may have: text is left when only its end and these have room.
_REST = 6
#: The growth that is assumed where no bound is sure.
_UNSURE = 16
_QUOTE = 0x22


class _Near(NamedTuple):
    """The knowledge of a position, which stays true as long as all further tokens are quiet."""

    need: int | None  #: tokens from here to the end; None where the answer may be cut
    staying: Words  #: tokens that do not end the text, none outside of text
    quiet: Words | None  #: tokens after which the knowledge is still true; None if each may change it
    known: Words  #: the tokens of the mask and those that stay in the text; of others nothing is known
    ways: list[tuple[int, list[int]]]  #: tokens needed to the end after each of some: tried, or like a tried one
    reserve: int  #: tokens that must be left, besides ``need``, after a token that stays in the text


class MaskLanding(LandingControl):
    """The control of one row whose masks are `narrowed`."""

    def __init__(self, plan_path: PlanPath, max_tokens: int, options: LandingOptions) -> None:
        if not plan_path.growth.is_sure:
            plan_path = plan_path._replace(growth=Growth(_UNSURE))
        super().__init__(plan_path, max_tokens, options)

    def restart(self) -> None:
        self.num_capped = 0  #: steps whose work ended before all tokens that may be tried were
        self._near: _Near | None = None
        self._num_quiet = 0  # tokens known to be quiet or before `_near`
        super().restart()

    def rolled_back(self, size: int) -> None:
        if size < self._num_quiet:
            self._near = None
        marks = self.marks
        super().rolled_back(size)
        self.marks = marks  # drafts that are accepted come again, and their masks are not asked for once more

    @property
    def notes(self) -> tuple[str, ...]:
        if not self.num_capped:
            return ()
        return (f"near max_tokens {self.num_capped} masks may have held too few tokens: a step has its limit of work",)

    def narrowed(self, state: GuidanceState, mask: TokenMask) -> TokenMask:
        """Return the mask of the state's position without the tokens after which no end within the budget is known."""
        if self.marks.begun is not None:
            self.marks = self.marks.before(state.num_tokens)  # those of drafts that were rejected go
        if mask.forced is not None or state.is_stopped:
            return mask
        near = self._near
        quiet, new = near.quiet if near is not None else None, state.tokens[self._num_quiet :]
        self._num_quiet = state.num_tokens
        if near is not None and quiet is not None and all(is_allowed(quiet, token) for token in new):
            narrowed = None if (mask.words & ~near.known).any() else self._masked(state, mask, near)
            if narrowed is not None:
                return narrowed
        self._near = None
        cursor = self._finder.cursor(state) if self.is_near(state) else None
        if cursor is None:
            return mask
        self._near = near = self._looked(state, mask, cursor)
        return self._masked(state, mask, near, is_last=True) or mask

    def _looked(self, state: GuidanceState, mask: TokenMask, cursor: Cursor) -> _Near:
        """Return what trying tokens at the state's position shows; of those that do the same the shortest is tried."""
        nearest, effort = self.next_token(state), self.step_effort()
        path, texts, scan = self._here.path, state.engine.derived(_TokenTexts), cursor.place.scan
        assert path is not None  # as `is_near` says
        staying, quiet = self._text(state, cursor, path)
        in_string = scan is not None and scan.mode is Mode.STRING
        is_json = scan is not None and in_string == staying.any()
        alike = texts.alike(mask.words & ~staying, in_string=in_string, is_json=is_json)
        groups = list(islice(alike, _TRIED + 1))
        trial_places, futile_places = (_TRIAL_PLACES, _FUTILE_PLACES) if len(groups) > _FEW else (effort.left,) * 2
        ways = [] if nearest is None else [(max(0, path.size - 1), [nearest])]
        others: list[list[int]] = []
        futile = 0.0
        for number, group in enumerate(chain(groups, others)):
            if effort.is_spent or futile > futile_places or number == _TRIED:
                self.num_capped += 1
                break
            is_alike = len(group) > 1 and (in_string or self._opens_text(cursor, state.regions.symbols(group[0])))
            if len(group) > 1 and not is_alike:
                others += [[token] for token in group[1:]]
            left, trial = effort.left, effort.part(trial_places, is_small=True)
            may_be_next = self.allows(state, group[0], trial, is_own=False)
            effort.spend(-trial.left)  # what it did not need
            if may_be_next:
                after = self._here.tried.get(group[0])
                need = after.size if after is not None else 0
                ways.append((need, group[:1]))
                if is_alike:
                    ways.append((need + _REST, group[1:]))
            else:
                futile += left - effort.left
        least, known = None if is_free(state) else path.size, mask.words | staying
        return _Near(least, staying, quiet, known, ways, self._reserved(state.region))

    def _opens_text(self, cursor: Cursor, symbols: Sequence[int]) -> bool:
        """Whether ``symbols`` lead into a string in which any text may be written."""
        symbols = symbols[: symbols.index(_QUOTE) + 1] if _QUOTE in symbols else symbols  # which may close it as well
        scan, matcher = self._plan.search.places.advance(cursor.place, symbols).scan, cursor.matcher.copy()
        if scan is None or scan.mode is not Mode.STRING or not matcher.feed(symbols):
            return False
        return matcher.mask().byte_bits.bit_count() > FREE_TEXT

    def _masked(self, state: GuidanceState, mask: TokenMask, near: _Near, *, is_last: bool = False) -> TokenMask | None:
        """Return the narrowed mask; None where too little is known."""
        room = self.max_tokens - state.num_tokens - 1
        may_stay = near.need is None or near.need + _REST + near.reserve <= room
        if not (may_stay or is_last):
            return None  # nearly at the end of the text: the way on is looked for once more
        fitting = [token for need, tokens in near.ways if need <= room for token in tokens]
        kept = from_ids(fitting, state.engine.vocab_size)
        kept = (kept | near.staying if may_stay else kept) & mask.words
        if not kept.any():
            return None
        only = only_id(kept)
        if only is not None or (near.staying.any() and not may_stay):
            self.note(state, None)
        ends = tuple(allowed_of(kept, mask.end_ids))
        return TokenMask(kept, only, ends, mask.taken, mask.is_repaired, bool(ends))

    def _text(self, state: GuidanceState, cursor: Cursor, path: EndPath) -> tuple[Words, Words | None]:
        """Return the tokens `_Near.staying` and `_Near.quiet` of a position."""
        place, texts, places = cursor.place, state.engine.derived(_TokenTexts), self._plan.search.places
        nothing = np.zeros_like(texts.ordinary)
        if cursor.matcher.mask().byte_bits.bit_count() <= FREE_TEXT:
            return nothing, None
        if place.scan is not None:
            in_key = place.scan.mode is Mode.IN_KEY and path.symbols[0] == _QUOTE  # what a key of its own asks for fits
            if place.scan.mode is not Mode.STRING and not in_key:
                return nothing, None
            staying = texts.without((_QUOTE,))
            return staying, None if places.has_unique or in_key else staying
        exits = {symbol for symbol in state.regions.next_of_exits(place.position) if symbol < FIRST_MARKER}
        if state.region not in (RegionName.CONTENT, RegionName.REASONING):
            exits |= set(path.symbols[:1]) & set(range(FIRST_MARKER))
            return texts.without(exits), None
        quiet = texts.without(exits)
        regions, leading = state.regions, allowed_ids(texts.ordinary & ~quiet)
        leaving = [token for token in leading if regions.follow(place.position, token).exits]
        staying = texts.ordinary & ~from_ids(leaving, state.engine.vocab_size)
        return staying, None if regions.matched(place.position) else quiet


class _TokenTexts:
    """The ordinary tokens of an engine by the bytes in them, as words of masks."""

    def __init__(self, engine: Engine) -> None:
        self._index, self._vocab_size = engine.derived(VocabularyIndex), engine.vocab_size
        sizes = [*map(len, self._index.token_bytes)]
        self._ranks = np.argsort(np.argsort(sizes, kind="stable"))  # of the tokens by their sizes
        self.ordinary: Words = from_ids((i for i, size in enumerate(sizes) if size), engine.vocab_size)
        self._with: dict[int, Words] = {}
        self._keys = np.full((2, engine.vocab_size), -1)  # equal for tokens of one group, -1 until they are met
        self._numbers: tuple[dict[bytes | int, int], ...] = ({}, {})

    def alike(self, words: Words, *, in_string: bool, is_json: bool) -> Iterator[list[int]]:
        """Yield the groups of a mask's tokens which may do the same to a JSON value, shortest tokens first.

        Inside a string all that differs is what comes with and after its end; where one begins, its text does not
        matter, also if it ends in the token.  Special tokens have groups of their own, as all tokens have elsewhere.
        """
        ids = np.array(allowed_ids(words), dtype=np.intp)
        keys = ids = ids[np.argsort(self._ranks[ids])]
        if is_json:
            known, numbers = self._keys[int(in_string)], self._numbers[in_string]
            for i in ids[known[ids] < 0].tolist():
                known[i] = numbers.setdefault(self._key(i, in_string), i)
            keys = known[ids]
        for first in np.sort(np.unique(keys, return_index=True)[1]):
            yield ids[keys == keys[first]].tolist()

    def _key(self, token: int, in_string: bool) -> bytes | int:
        data = self._index.token_bytes[token]
        parts = data.split(b'"')
        if in_string:
            key = data[len(parts[0]) :] if len(parts) > 1 else data
        elif len(parts) == 3 and not parts[1].endswith(b"\\"):
            key = b'""'.join(parts[::2])
        else:
            key = data[: len(data) - len(parts[-1])]
        return key or token

    def without(self, data: Iterable[int]) -> Words:
        """Return the ordinary tokens in which none of these bytes is."""
        words = self.ordinary
        for byte in data:
            if byte not in self._with:
                self._with[byte] = from_ids(self._index.holding(bytes((byte,))).tolist(), self._vocab_size)
            words = words & ~self._with[byte]
        return words
