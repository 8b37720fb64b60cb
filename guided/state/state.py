"""The guidance of one sequence: compute a mask, commit the sampled token, undo, fork.

`GuidanceState` owns what the engine does not: where the turn may end and by which ids, budgets, and text that
spells a marker without being one.  It knows no tensor, no tokenizer object and no neighbour.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from grammars.plan.plan import End, Plan, RegionName
from guided.bitmask import is_allowed
from guided.engine.engine import Engine
from guided.engine.matcher import Counters, LiveMatcher
from guided.state.budgets import Closings
from guided.state.mask import Offer, Offers
from guided.tracking.history import Trail
from guided.tracking.regions import RegionMap
from guided.watchers.watch import SequenceWatcher
from special_tokens.errors import GuidanceError, TokenRefused

__all__ = ["Counters", "GuidanceState", "StopReason"]

Words: TypeAlias = NDArray[np.int32]
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class StopReason:
    """Why a sequence ended: by an end token of a region, or because nothing more could follow."""

    kind: str  #: ``end`` or ``complete``
    token_id: int | None = None
    region: RegionName = RegionName.CONTENT


class GuidanceState:
    """One sequence under one plan.  Not thread-safe; different states of one engine are independent.

    ``entry`` names where the grammar begins (see `grammars.plan.plan.Entry`); binding a prompt chooses it.
    """

    def __init__(self, plan: Plan, engine: Engine, *, entry: str = "fresh", regions: RegionMap | None = None) -> None:
        self.plan = plan
        self.engine = engine
        self.entry = plan.entry(entry)
        self.regions = regions or RegionMap.of(plan, engine.tokens.marker_ids, engine.token_bytes)
        self.counters = Counters()
        self._trail = self._begin()
        self._watch = SequenceWatcher.of(plan, self.regions, self.entry.region, engine.watch_tokens)
        self._stop: StopReason | None = None
        self._offer: Offer | None = None
        self._live = LiveMatcher(plan, engine, self.entry.name)
        self._offers = Offers(plan, engine, self.entry.name)
        self._row = self._offers.row()  # the memory of the masks
        self._closings = Closings(plan.budgets, self.regions, engine.tokenize) if plan.budgets else None
        self._by_end: dict[int, tuple[End, ...]] = {
            i: tuple(end for end in plan.ends if i in end.ids) for i in plan.end_ids()
        }

    def _begin(self) -> Trail:
        return Trail(self.regions.start(self.entry.region), self.entry.region)

    # -- where we are

    @property
    def tokens(self) -> Sequence[int]:
        """The committed tokens, ends included; read only."""
        return self._trail.tokens

    @property
    def num_tokens(self) -> int:
        """How many tokens are committed."""
        return len(self._trail)

    def num_common(self, tokens: Sequence[int]) -> int:
        """How many tokens the committed ones and ``tokens`` begin with in common."""
        return self._trail.num_common(tokens)

    @property
    def region(self) -> RegionName:
        """The part of the answer in which the next token begins."""
        return self.regions.name(self._trail.position)

    @property
    def is_stopped(self) -> bool:
        """Has the sequence ended?  Nothing may be committed any more, but rollback works."""
        return self._stop is not None

    @property
    def stop_reason(self) -> StopReason | None:
        return self._stop

    @property
    def is_accepting(self) -> bool:
        """May the sequence end here (or has it ended)?  Raises as `mask` does where the engine cannot say."""
        if self.is_stopped or any(self._accepts(end) for end in self.plan.ends):
            return True
        return self._has_mask and self._offered().may_end  # see `_revive`: the mask knows

    @property
    def _has_mask(self) -> bool:
        """Is the mask of this place known, or to be had from the engine?"""
        return self._offer is not None or not self._live.matcher.is_error()

    def _accepts(self, end: End) -> bool:
        return self._asked(lambda: self._offers.accepts(end, self._live.matcher))

    def _ends_by(self, token: int) -> bool:
        """Would ``token``, an end of the plan, end the sequence here?"""
        if any(self._accepts(end) for end in self._by_end[token]):
            return True
        return self._has_mask and token in self._offered().end_ids

    @property
    def size_bytes(self) -> int:
        """Memory of this state alone, the engine's matcher apart (a few kilobytes, see docs/generate.md)."""
        return self._trail.size_bytes + self._row.size_bytes

    # -- the mask

    def fill_bitmask(self, bitmask: Words, row: int = 0) -> None:
        """Write the tokens allowed next into ``bitmask[row]``; does not advance.

        ``bitmask`` is int32 ``[rows, ceil(vocab_size / 32)]``, see `guided.bitmask`.  A stopped sequence offers
        the end that stopped it.  Raises `MatcherFailed` or `LimitExceeded` rather than offering only an end.
        """
        bitmask[row] = self.mask()

    def mask(self) -> Words:
        """The tokens allowed next as one row of a bitmask; what `fill_bitmask` writes, without the copy.

        Read only, and good until the next commit, rollback or reset: the next mask is written into the same memory.
        """
        offer = self._offer
        return (self._offered() if offer is None else offer).words

    def open_end_ids(self) -> tuple[int, ...]:
        """The ids that would end the sequence here, the ones to prefer first."""
        if self._stop is not None:
            return () if self._stop.token_id is None else (self._stop.token_id,)
        return self._offered().end_ids

    def allows(self, token: int) -> bool:
        """Is the bit of ``token`` set in the mask of this place?"""
        return 0 <= token < self.engine.vocab_size and is_allowed(self.mask(), token)

    def offer(self) -> Offer:
        """The mask of this place together with the ids that would end the sequence here; good as long as `mask`."""
        return self._offer or self._offered()

    def _offered(self) -> Offer:
        offer = self._offer
        if offer is not None:
            return offer
        if self._stop is not None:
            offer = self._offer = self._offers.only(self.open_end_ids())
            return offer
        row, watch = self._row, self._watch
        if self._closings is None and (watch is None or not watch.may_restrict(self._trail)):
            offer = self._offers.next(self._live.matcher, row)  # the usual case
        else:
            offer = self._read()
        if offer is None:
            offer = self._read_revived()
        self._offer = offer
        counters = self.counters
        counters.masks += 1
        if offer is row.plain:
            return offer
        if offer.forced is not None:
            counters.forced += 1
        if offer.is_repaired:
            counters.repairs += 1
        return offer

    def _read_revived(self) -> Offer:
        """What a revived engine offers here."""
        offer = None
        # Not for ever: a copy of its own may have panicked, as it will again, or be worn out, which takes it seconds.
        for is_own in (True,) if self._live.is_worn else (False, True):
            if offer is not None or not self._revive(is_own, is_lost=not self._live.matcher.is_error()):
                break
            offer = self._read()
        if offer is None:
            self._fail("computing a mask")
        return offer

    def _read(self) -> Offer | None:
        """What the engine offers here; None when it is in error."""
        matcher = self._live.matcher
        forced = self._closings.forced(self._trail, matcher) if self._closings is not None else ()
        if forced:
            return self._offers.single(forced[0])
        watch = self._near_watch()
        return self._offers.next(matcher, self._row) if watch is None else self._offers.read(matcher, self._row, watch)

    def _near_watch(self) -> SequenceWatcher | None:
        """The watch, where it may take something from the mask of this place."""
        watch = self._watch
        return watch if watch is not None and watch.may_restrict(self._trail) else None

    # -- moving

    def commit(self, tokens: Sequence[int]) -> None:
        """Advance by tokens that the sampler chose.

        Raises `TokenRefused` for a token outside the grammar, which changes nothing, and `MatcherFailed` or
        `LimitExceeded` when the engine fails: then the state is in error until `reset` or a rollback.
        """
        for token in tokens:
            self._commit(int(token))

    def _commit(self, token: int, *, num_revived: int = 0) -> None:
        if self._stop is not None:
            raise GuidanceError("the sequence has ended", place=f"token {self.num_tokens}", hint="roll back first")
        trail = self._trail
        if token in self._by_end and self._ends_by(token):
            self._stop = StopReason("end", token, self.region)
            trail.push(token, trail.position, trail.region)
        else:
            forced = self._closings.forced(trail, self._live.matcher) if self._closings is not None else ()
            offer = self._offer
            if self._watch is not None and (offer is None or offer.taken is not None):
                self._check_watched(token)
            if not self._consume(token, num_revived):
                self._commit(token, num_revived=num_revived + 1)
                return
            if forced and forced[0] == token and not trail.closing:
                trail.close(forced)
            before = trail.position
            position = self.regions.advance(before, token)
            if position is before:
                trail.stay(token)
            else:
                trail.push(token, position, self.regions.region_number(position))
            self._row.commit(token)
        self.counters.commits += 1
        self._offer = None
        if not self._by_end:
            self._stop_when_complete()

    def _check_watched(self, token: int) -> None:
        """Refuse a token that a watcher took out of the mask."""
        offer = self._offer
        if offer is None and self._near_watch() is not None:
            offer = self._offered()
        taken = offer.taken if offer is not None else None
        if taken is not None and 0 <= token < self.engine.vocab_size and is_allowed(taken, token):
            raise TokenRefused(
                f"committing token {token} ({self.engine.token_bytes(token)!r}): it would write a key or an item for "
                "the second time, or digits without end",
                place=f"token {self.num_tokens}",
            )

    def _consume(self, token: int, num_revived: int) -> bool:
        """Move the engine; a token that it refuses leaves it where it was.

        False where the engine had to be revived first: what it said of the token before counts for nothing.
        """
        # A sentinel or an id out of range is never part of an answer.
        if 0 <= token < self.engine.vocab_size and self._live.matcher.try_consume_tokens([token]) == 1:
            if self._live.matcher.is_error():
                self._fail(f"committing token {token}")
            return True
        if num_revived < 2 and self._revive(num_revived == 1, token):
            return False
        if self._live.matcher.is_error():
            self._fail(f"committing token {token}")
        raise TokenRefused(
            f"committing token {token} ({self.engine.token_bytes(token)!r}): the grammar does not allow it",
            place=f"token {self.num_tokens}",
        )

    def _stop_when_complete(self) -> None:
        """Without any end token the sequence ends when nothing but a sentinel may follow."""
        if self._stop is None and not self._offered().words.any() and self.is_accepting:
            self._stop = StopReason("complete", None, self.region)
            self._offer = None
            self.counters.masks -= 1  # a mask that nobody samples from

    def validate(self, tokens: Sequence[int]) -> int:
        """How many of ``tokens`` could be committed one after the other; does not advance.

        More liberal than the masks where bytes are forced: other splits of the same text count as well.
        """
        if self.is_stopped:
            return 0
        if self._watch is not None:
            return self._tried(tokens)
        found = self._asked(lambda: self._validated(tokens))
        if found == len(tokens) or self._live.matcher.is_error():
            return found
        try:
            return max(found, self._tried(tokens))  # see `_revive`: a commit is judged by the mask
        except GuidanceError:
            return found

    def _validated(self, tokens: Sequence[int]) -> int:
        body = list(tokens)
        cut = next((i for i, token in enumerate(body) if token in self._by_end), len(body))
        inside = [token for token in body[:cut] if token < self.engine.vocab_size]
        if len(inside) < cut:
            cut = next(i for i, token in enumerate(body) if token >= self.engine.vocab_size)
        num_valid = int(self._live.matcher.validate_tokens(inside)) if inside else 0
        if num_valid < cut or cut == len(body) or body[cut] not in self._by_end:
            return num_valid
        for end in self._by_end[body[cut]]:
            if self._offers.accepts(end, self._live.matcher, inside):
                return cut + 1
        return cut

    def _tried(self, tokens: Sequence[int]) -> int:
        """What `validate` says where the engine alone cannot: the tokens are committed to a copy."""
        twin = self.fork()
        for i, token in enumerate(tokens):
            try:
                twin._commit(int(token))
            except TokenRefused:
                return i
            if twin.is_stopped:
                return i + 1
        return len(tokens)

    def ff_tokens(self) -> list[int]:
        """Tokens that must come next, whatever is sampled; does not advance.

        Ends are never among them: they are a choice even when there is only one.
        """
        if self.is_stopped:
            return []
        return self._asked(self._next_forced)

    def _next_forced(self) -> list[int]:
        if self._closings is not None:
            forced = self._closings.forced(self._trail, self._live.matcher)
            if forced or self._closings.is_spent(self._trail):
                return list(forced)
        tokens = self._live.matcher.compute_ff_tokens()
        cut = next((i for i, token in enumerate(tokens) if token >= self.engine.vocab_size), len(tokens))
        tokens = tokens[:cut]
        return list(tokens[: int(self._live.matcher.validate_tokens(tokens))]) if tokens else []

    # -- undoing and copying

    def rollback(self, num_tokens: int) -> None:
        """Undo the last ``num_tokens`` commits, ends included, exactly."""
        if not 0 <= num_tokens <= self.num_tokens:
            raise GuidanceError(f"cannot undo {num_tokens} of {self.num_tokens} tokens", place="rollback")
        if num_tokens == 0:
            return
        self.counters.rollbacks += 1
        inside = num_tokens - (self._stop is not None and self._stop.kind == "end")
        self._trail.pop(num_tokens)
        if self._watch is not None:
            self._watch.cut(self.num_tokens)
        self._stop = None
        self._offer = None
        self._row.forget()
        if self._live.matcher.is_error() or (inside and not self._live.matcher.rollback(inside)):
            self._live.rebuild(self._trail.tokens, self.counters, False, True)

    def _revive(self, is_own: bool = False, refused: int | None = None, *, is_lost: bool = False) -> bool:
        """Go on with a fresh matcher where other sequences have spoilt what this one shares with them.

        One that all share, or where that is spoilt as well, by another thread, one of its ``is_own``.  Where no states
        are left the engine says nothing but that a token is ``refused``, one of its own mask, or ``is_lost`` silently.
        """
        live = self._live
        matcher = live.matcher
        if matcher.is_error():
            if not live.is_spoilt:
                return False
        elif not is_lost and (refused is None or not self.allows(refused)):
            return live.matcher is not matcher  # computing the mask has revived it
        elif not is_lost and live.matcher is not matcher:
            return True
        live.renew(self._trail.tokens, self.counters, is_own=is_own)
        return True

    def _asked(self, ask: Callable[[], _Answer]) -> _Answer:
        """The answer of ``ask``, from a matcher that others have not spoilt."""
        found = ask()
        for is_own in (False, True):
            if not self._revive(is_own):
                break
            found = ask()
        return found

    def reset(self) -> None:
        """Back to the beginning of the plan, counters included."""
        if self._watch is not None:
            self._watch.cut(0)
        self._trail = self._begin()
        self._stop = None
        self._offer = None
        self._row.forget()
        self.counters = Counters()
        self._live.reset()

    def fork(self) -> GuidanceState:
        """An independent copy at the same position; costs microseconds and a few kilobytes."""
        if self._offer is not None:
            self._row = self._offers.row()  # the offer is both's now: the next mask is written elsewhere
        twin = object.__new__(GuidanceState)
        twin.__dict__.update(self.__dict__)
        twin._row = self._offers.row()
        twin.counters = replace(self.counters)
        twin._trail = self._trail.fork()
        twin._watch = self._watch.fork() if self._watch is not None else None
        twin._live = self._live.fork()
        return twin

    def _fail(self, doing: str) -> NoReturn:
        """Raise what the engine's error state means; never returns."""
        self._live.fail(doing, f"token {self.num_tokens}")
