"""The guidance of one sequence: compute a mask, commit the sampled token, undo, fork.

`GuidanceState` owns what the engine does not: where the turn may end and by which ids, budgets, and text that
spells a marker without being one.  It knows no tensor, no tokenizer object and no neighbour.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from grammars.plan import Budget, End, Plan, RegionName
from guided.bitmask import from_ids, num_words
from guided.compile import Engine, check_matcher
from guided.regions import Position, RegionMap
from special_tokens.errors import GuidanceError, MatcherFailed

__all__ = ["Counters", "GuidanceState", "StopReason"]


@dataclass(frozen=True, slots=True)
class StopReason:
    """Why a sequence ended: by an end token of a region, or because nothing more could follow."""

    kind: str  #: ``end`` or ``complete``
    token_id: int | None = None
    region: RegionName = RegionName.CONTENT


@dataclass(slots=True)
class Counters:
    """What was done for one sequence since its last reset."""

    masks: int = 0
    commits: int = 0
    rollbacks: int = 0
    repairs: int = 0
    forced: int = 0


@dataclass(frozen=True, slots=True)
class _Record:
    """The state after one committed token; popped by rollback."""

    position: Position
    #: number of the region in which the *next* token begins, and tokens begun there so far
    region: int
    count: int
    #: tokens still to be forced to close a budgeted region
    forced: tuple[int, ...] = ()
    #: the end that this token was; None for tokens of the engine
    stop: StopReason | None = None


class GuidanceState:
    """One sequence under one plan.  Not thread-safe; different states of one engine are independent.

    ``entry`` names where the grammar begins (see `grammars.plan.Entry`); binding a prompt chooses it.
    """

    def __init__(self, plan: Plan, engine: Engine, *, entry: str = "fresh", regions: RegionMap | None = None) -> None:
        self.plan = plan
        self.engine = engine
        self.entry = plan.entry(entry)
        self.regions = regions or RegionMap.of(plan, engine.tokens.marker_ids, engine.token_bytes)
        self.counters = Counters()
        self._tokens: list[int] = []
        self._records: list[_Record] = []
        self._origin = _Record(self.regions.start(self.entry.region), self.entry.region, 0)
        self._matcher = engine.matcher(plan, self.entry.name)
        self._num_consumed = 0  # tokens inside the engine: commits without ends
        self._words = num_words(engine.vocab_size)
        self._scratch = np.zeros(num_words(engine.ll_tokenizer.vocab_size), dtype=np.int32)
        self._tail_mask = np.uint32((1 << (engine.vocab_size & 31)) - 1) if engine.vocab_size & 31 else None
        self._by_end: dict[int, tuple[End, ...]] = {
            i: tuple(end for end in plan.ends if i in end.ids) for i in plan.end_ids()
        }
        self._end_bits = {end.sentinel: from_ids(end.ids, engine.vocab_size) for end in plan.ends}
        self._budgets: dict[int, Budget] = {budget.region: budget for budget in plan.budgets}

    # -- where we are

    @property
    def tokens(self) -> Sequence[int]:
        """The committed tokens, ends included."""
        return self._tokens

    @property
    def _record(self) -> _Record:
        return self._records[-1] if self._records else self._origin

    @property
    def region(self) -> RegionName:
        """The part of the answer in which the next token begins."""
        return self.regions.name(self._record.position)

    @property
    def is_stopped(self) -> bool:
        """Has the sequence ended?  Nothing may be committed any more, but rollback works."""
        return self._record.stop is not None

    @property
    def stop_reason(self) -> StopReason | None:
        return self._record.stop

    @property
    def is_accepting(self) -> bool:
        """May the sequence end here (or has it ended)?"""
        return self.is_stopped or any(self._accepts(end) for end in self.plan.ends)

    def _accepts(self, end: End) -> bool:
        return int(self._matcher.validate_tokens([end.sentinel])) == 1

    # -- the mask

    def fill_bitmask(self, bitmask: NDArray[np.int32], row: int = 0) -> None:
        """Write the tokens allowed next into ``bitmask[row]``; does not advance.

        ``bitmask`` is int32 ``[rows, ceil(vocab_size / 32)]``, see `guided.bitmask`.  A stopped sequence offers
        the ends that its region has.  Raises `MatcherFailed` or `LimitExceeded` rather than offering only an end.
        """
        out = bitmask[row]
        self.counters.masks += 1
        if self.is_stopped:
            out[:] = from_ids(self._ends_after_stop(), self.engine.vocab_size)
            return
        forced = self._forced()
        if forced:
            out[:] = from_ids(forced[:1], self.engine.vocab_size)
            return
        scratch = self._scratch
        self._matcher.unsafe_compute_mask_ptr(scratch.ctypes.data, scratch.nbytes)
        if self._matcher.is_error():
            self._fail("computing a mask")
        out[:] = scratch[: self._words]
        if self._tail_mask is not None:
            out.view(np.uint32)[-1] &= self._tail_mask
        for end in self.plan.ends:
            if (int(scratch[end.sentinel >> 5]) >> (end.sentinel & 31)) & 1:
                np.bitwise_or(out, self._end_bits[end.sentinel], out=out)
        self._repair(out)

    def _ends_after_stop(self) -> tuple[int, ...]:
        stop = self._record.stop
        assert stop is not None
        return (stop.token_id,) if stop.token_id is not None else ()

    def _repair(self, out: NDArray[np.int32]) -> None:
        """Where the engine forces a marker that it would itself refuse, allow the spelled-out pieces instead.

        Client text that spells an added token is forced as that token's id (llguidance 1.9.1, its issue with
        literals equal to added tokens); every ordinary token that begins the forced bytes is right.
        """
        ids = self._repaired_ids()
        if ids:
            self.counters.repairs += 1
            out[:] = from_ids(ids, self.engine.vocab_size)

    def _repaired_ids(self) -> list[int]:
        forced = self._matcher.compute_ff_tokens()
        if not forced or forced[0] not in self.engine.tokens.marker_ids:
            return []
        if self._matcher.validate_tokens(forced[:1]) == 1:
            return []
        ids = self.engine.tokens_within(bytes(self._matcher.compute_ff_bytes()))
        return [i for i in ids if self._matcher.validate_tokens([i]) == 1]

    def _forced(self) -> tuple[int, ...]:
        """Tokens that close a region whose budget is spent, from the next one on; () where none is."""
        record = self._record
        if record.forced:
            return record.forced
        budget = self._budgets.get(record.region)
        if budget is None or record.count < budget.max_tokens:
            return ()
        close = self._closing_tokens(budget)
        # Inside a character that needs several tokens the close is refused: at most three tokens over.
        return close if int(self._matcher.validate_tokens(list(close))) == len(close) else ()

    def _closing_tokens(self, budget: Budget) -> tuple[int, ...]:
        """The tokens of what is still missing of the closing marker."""
        done = self.regions.matched(self._record.position)
        out: list[int] = []
        for piece in budget.close:
            if isinstance(piece, int):
                if done:
                    done -= 1
                else:
                    out.append(piece)
                continue
            data = piece.encode("utf-8")
            out += self.engine.tokenize(data[done:].decode("utf-8", "ignore"))
            done = max(0, done - len(data))
        return tuple(out)

    # -- moving

    def commit(self, tokens: Sequence[int]) -> None:
        """Advance by tokens that the sampler chose.

        Raises `MatcherFailed` for a token outside the grammar: the state is then in error until `reset` or a
        rollback of the tokens committed before.
        """
        for token in tokens:
            self._commit(int(token))

    def _commit(self, token: int) -> None:
        record = self._record
        if record.stop is not None:
            raise GuidanceError("the sequence has ended", place=f"token {len(self._tokens)}", hint="roll back first")
        self.counters.commits += 1
        for end in self._by_end.get(token, ()):
            if self._accepts(end):
                self._push(token, replace(record, stop=StopReason("end", token, self.region)))
                return
        forced = self._forced()
        if not self._consume(token):
            self._fail(f"committing token {token} ({self.engine.token_bytes(token)!r})")
        self._num_consumed += 1
        self._push(token, self._after(record, token, forced))
        if not self.plan.end_ids():
            self._stop_when_complete()

    def _consume(self, token: int) -> bool:
        if token >= self.engine.vocab_size:  # a sentinel or out of range: never part of an answer
            return False
        return bool(self._matcher.consume_token(token)) and not self._matcher.is_error()

    def _after(self, record: _Record, token: int, forced: tuple[int, ...]) -> _Record:
        position = self.regions.advance(record.position, token)
        region = self.regions.region_number(position)
        if region != record.region:
            return _Record(position, region, 0)
        rest = forced[1:] if forced and forced[0] == token else ()
        if rest:
            self.counters.forced += 1
        return _Record(position, region, record.count + 1, rest)

    def _push(self, token: int, record: _Record) -> None:
        self._tokens.append(token)
        self._records.append(record)

    def _stop_when_complete(self) -> None:
        """Without any end token the sequence ends when nothing but a sentinel may follow."""
        words = np.zeros((1, self._words), dtype=np.int32)
        self.fill_bitmask(words)
        if not words.any() and self.is_accepting:
            self._records[-1] = replace(self._record, stop=StopReason("complete", None, self.region))

    def validate(self, tokens: Sequence[int]) -> int:
        """How many of ``tokens`` could be committed one after the other; does not advance.

        More liberal than the masks where bytes are forced: other splits of the same text count as well.
        """
        if self.is_stopped:
            return 0
        body = list(tokens)
        cut = next((i for i, token in enumerate(body) if token in self._by_end), len(body))
        inside = [token for token in body[:cut] if token < self.engine.vocab_size]
        if len(inside) < cut:
            cut = next(i for i, token in enumerate(body) if token >= self.engine.vocab_size)
        num_valid = int(self._matcher.validate_tokens(inside)) if inside else 0
        if num_valid < cut or cut == len(body) or body[cut] not in self._by_end:
            return num_valid
        for end in self._by_end[body[cut]]:
            if int(self._matcher.validate_tokens([*inside, end.sentinel])) == cut + 1:
                return cut + 1
        return cut

    def ff_tokens(self) -> list[int]:
        """Tokens that must come next, whatever is sampled; does not advance.

        Ends are never among them: they are a choice even when there is only one.
        """
        if self.is_stopped:
            return []
        forced = self._forced()
        if forced:
            return list(forced)
        budget = self._budgets.get(self._record.region)
        if budget is not None and budget.max_tokens - self._record.count < 1:
            return []
        tokens = self._matcher.compute_ff_tokens()
        cut = next((i for i, token in enumerate(tokens) if token >= self.engine.vocab_size), len(tokens))
        tokens = tokens[:cut]
        return list(tokens[: int(self._matcher.validate_tokens(tokens))]) if tokens else []

    # -- undoing and copying

    def rollback(self, num_tokens: int) -> None:
        """Undo the last ``num_tokens`` commits, ends included, exactly."""
        if not 0 <= num_tokens <= len(self._tokens):
            raise GuidanceError(f"cannot undo {num_tokens} of {len(self._tokens)} tokens", place="rollback")
        if num_tokens == 0:
            return
        self.counters.rollbacks += 1
        undone = self._records[-num_tokens:]
        inside = sum(record.stop is None or record.stop.kind == "complete" for record in undone)
        del self._records[-num_tokens:], self._tokens[-num_tokens:]
        self._num_consumed -= inside
        if self._matcher.is_error() or (inside and not self._matcher.rollback(inside)):
            self._rebuild()

    def _rebuild(self) -> None:
        """A fresh matcher replayed to the current position: the only way out of the engine's error state."""
        self._matcher = self.engine.matcher(self.plan, self.entry.name)
        kept = self._tokens[: self._num_consumed]
        if kept and not self._matcher.consume_tokens(kept):
            self._fail("replaying after an error")

    def reset(self) -> None:
        """Back to the beginning of the plan, counters included."""
        self._tokens.clear()
        self._records.clear()
        self._num_consumed = 0
        self.counters = Counters()
        self._matcher = self.engine.matcher(self.plan, self.entry.name)

    def fork(self) -> GuidanceState:
        """An independent copy at the same position."""
        twin = object.__new__(GuidanceState)
        twin.__dict__.update(self.__dict__)
        twin.counters = replace(self.counters)
        twin._tokens = self._tokens.copy()
        twin._records = self._records.copy()
        twin._matcher = self._matcher.deep_copy()
        twin._scratch = self._scratch.copy()
        return twin

    def _fail(self, doing: str) -> None:
        """Raise what the engine's error state means; never returns."""
        place = f"token {len(self._tokens)}"
        try:
            check_matcher(self._matcher, doing)
        except GuidanceError as error:
            error.place = place
            raise
        raise MatcherFailed(f"{doing}: the grammar does not allow it", place=place)
