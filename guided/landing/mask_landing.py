"""Landing for hosts that take masks alone: near the budget, masks lose tokens after which no end in time is known.

Where the model writes text of its own, tokens that stay in the text pass as long as the text's own end fits, and cost
nothing from step to step; of all others a few are tried, the shortest first.  Free text is never ended.
"""

from __future__ import annotations

from collections.abc import Iterable
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

__all__ = ["MaskLanding"]

#: Tokens that are tried at one position.
_TRIED = 16
#: Tokens that the rest of a character or of an escape may have: text is left when only its end and these have room.
_REST = 6
#: The growth that is assumed where no bound is sure.
_UNSURE = 16
_QUOTE = 0x22


class _Text(NamedTuple):
    """A position in text: the tokens that stay in it, and those after which another mask differs in that only."""

    staying: Words
    quiet: Words | None


class _Near(NamedTuple):
    """What is known from the position after ``size`` tokens on, as long as all further ones are quiet.

    ``need``: tokens to the end from here, None where the answer may be cut; ``needs``: those after a token tried.
    """

    need: int | None
    text: _Text | None
    needs: dict[int, int]
    reserve: int


class MaskLanding(LandingControl):
    """The control of one row whose masks are `narrowed`."""

    def __init__(self, plan_path: PlanPath, max_tokens: int, options: LandingOptions | None = None) -> None:
        if not plan_path.growth.is_sure:
            plan_path = plan_path._replace(growth=Growth(_UNSURE))
        #: steps at which the work of one step ended before all tokens that it may try were tried
        self.num_capped = 0
        self._near: _Near | None = None
        self._num_quiet = 0  # tokens known to be quiet or before `_near`
        super().__init__(plan_path, max_tokens, options)

    def restart(self) -> None:
        self._near, self.num_capped = None, 0
        super().restart()

    def rolled_back(self, size: int) -> None:
        if size < self._num_quiet:
            self._near = None
        super().rolled_back(size)

    def narrowed(self, state: GuidanceState, mask: TokenMask) -> TokenMask:
        """Return the mask of the state's position without the tokens after which no end within the budget is known."""
        if mask.forced is not None or state.is_stopped:
            return mask
        near = self._near
        if near is not None and self._is_quiet(state, near):
            found = self._masked(state, mask, near)
            if found is not None:
                return found
        self._near = None
        if not self.is_near(state):
            return mask
        near = self._looked(state, mask)
        if near.text is not None and near.text.quiet is not None:
            self._near, self._num_quiet = near, state.num_tokens
        return self._masked(state, mask, near, is_last=True) or mask

    def _is_quiet(self, state: GuidanceState, near: _Near) -> bool:
        new = state.tokens[self._num_quiet :]
        quiet = near.text.quiet if near.text is not None else None
        if quiet is None or not all(is_allowed(quiet, token) for token in new):
            return False
        self._num_quiet = state.num_tokens
        return True

    def _looked(self, state: GuidanceState, mask: TokenMask) -> _Near:
        """Return what trying tokens at the state's position shows."""
        nearest, effort = self.next_token(state), self.step_effort()
        path, cursor = self._here.path, self._finder.cursor(state)
        free = is_free(state)
        text = self._text(state, cursor, path) if cursor is not None and path is not None else None
        others = mask.words if text is None else mask.words & ~text.staying
        needs: dict[int, int] = {}
        for token in dict.fromkeys((*(() if nearest is None else (nearest,)), *_shortest(state.engine, others))):
            if effort.is_spent:
                self.num_capped += 1
                break
            if self.allows(state, token, effort, is_own=False):
                after = self._here.tried.get(token)
                needs[token] = after.size if after is not None else 0
        need = None if free or path is None else path.size
        return _Near(need, text, needs, self._reserved(state.region))

    def _masked(self, state: GuidanceState, mask: TokenMask, near: _Near, *, is_last: bool = False) -> TokenMask | None:
        """Return the narrowed mask; None where too little is known."""
        words, room = mask.words, self.max_tokens - state.num_tokens - 1
        safe = allowed_of(words, (token for token, need in near.needs.items() if need <= room))
        kept = from_ids(safe, state.engine.vocab_size)
        if near.text is not None and (near.need is None or near.need + _REST + near.reserve <= room):
            kept |= words & near.text.staying
        elif not is_last:
            return None  # nearly at the end of the text: the way on is looked for once more
        if not kept.any():
            return None
        only = only_id(kept)
        if only is not None:
            self.note(state, None)
        ends = tuple(allowed_of(kept, mask.end_ids))
        return TokenMask(kept, only, ends, mask.taken, mask.is_repaired, bool(ends))

    def _text(self, state: GuidanceState, cursor: Cursor, path: EndPath) -> _Text | None:
        """Return the text at a position; None where the grammar does not allow any text."""
        place, texts = cursor.place, state.engine.derived(_TokenTexts)
        if cursor.matcher.mask().byte_bits.bit_count() <= FREE_TEXT:
            return None
        places = self._finder.places(state)
        if place.scan is not None:
            if place.scan.mode is not Mode.STRING:
                return None
            staying = texts.without((_QUOTE,))
            return _Text(staying, None if places.has_unique else staying)
        exits = {symbol for symbol in state.regions.next_of_exits(place.position) if symbol < FIRST_MARKER}
        if state.region not in (RegionName.CONTENT, RegionName.REASONING):
            exits |= set(path.symbols[:1]) & set(range(FIRST_MARKER))
            return _Text(texts.without(exits), None)
        quiet = texts.without(exits)
        regions, leading = state.regions, allowed_ids(texts.ordinary & ~quiet)
        leaving = [token for token in leading if regions.follow(place.position, token).exits]
        staying = texts.ordinary & ~from_ids(leaving, state.engine.vocab_size)
        return _Text(staying, None if regions.matched(place.position) else quiet)


class _TokenTexts:
    """The ordinary tokens of an engine by the bytes in them, as words of masks."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        markers = engine.tokens.marker_ids
        self.sizes = np.array([len(engine.token_bytes(i)) for i in range(engine.vocab_size)])
        self.ordinary: Words = from_ids(
            (i for i, size in enumerate(self.sizes) if size and i not in markers), engine.vocab_size
        )
        self._with: dict[int, Words] = {}

    def without(self, data: Iterable[int]) -> Words:
        """Return the ordinary tokens in which none of these bytes is."""
        words = self.ordinary
        for byte in data:
            found = self._with.get(byte)
            if found is None:
                engine = self._engine
                ids = (i for i in range(engine.vocab_size) if byte in engine.token_bytes(i))
                found = self._with[byte] = from_ids(ids, engine.vocab_size)
            words = words & ~found
        return words


def _shortest(engine: Engine, words: Words) -> list[int]:
    """Return the tokens that are tried, those of the fewest bytes."""
    ids = allowed_ids(words)
    if len(ids) <= _TRIED:
        return ids
    sizes = engine.derived(_TokenTexts).sizes[ids]
    return [ids[i] for i in np.argsort(sizes, kind="stable")[:_TRIED]]
