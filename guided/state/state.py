"""The guidance of one sequence: compute a mask, commit the sampled token, undo, fork.

`GuidanceState` owns what the engine does not: the places and ids by which the turn may end, budgets, and text that
spells a marker without being one.  It knows no tensor, no tokenizer object and no other sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NoReturn, TypeVar

import numpy as np

from grammars.plan.plan import End, Plan, RegionName, checked_plan
from guided.bitmask import is_allowed
from guided.engine.counters import Guidance
from guided.engine.engine import Engine, checked_engine
from guided.engine.matcher import RecoveringMatcher
from guided.state.budgets import BudgetEnforcer
from guided.state.mask import MaskReader, TokenMask, Words
from guided.tracking.commit_log import CommitLog, StopReason
from guided.tracking.regions import RegionMap
from guided.watchers.watch import SequenceWatcher
from special_tokens.errors import GuidanceError, TokenRefused

__all__ = ["GuidanceState"]

_Answer = TypeVar("_Answer")


class GuidanceState:
    """One sequence under one plan.  Not thread-safe; different states of one engine are independent.

    ``entry`` names where the grammar begins (see `grammars.plan.plan.Entry`); binding a prompt chooses it.  Raises
    `PlanError` for what is no plan, engine or entry, and for a plan of another vocabulary.

    Each method asks the engine at most twice.  A matcher that fails is replaced once by one compiled for this sequence
    alone (`RecoveringMatcher.recover`); if that fails as well, `MatcherFailed` or `LimitExceeded` is raised and the
    state is in error until `reset` or a rollback.
    """

    def __init__(self, plan: Plan, engine: Engine, *, entry: str = "fresh") -> None:
        self.plan = checked_plan(plan)
        self.engine = checked_engine(engine)
        self.entry = plan.entry(entry)
        self.regions = RegionMap.of(plan, engine.tokens.marker_ids, engine.token_bytes)
        self.counters = Guidance()
        self._log = CommitLog(self.regions, self.entry.region)
        self._watch: SequenceWatcher | None = None
        if plan.watchers or plan.call_values:
            self._watch = SequenceWatcher(plan, self.regions, self.entry.region, engine)
        self._stop: StopReason | None = None
        self._mask: TokenMask | None = None  # of this position, once computed
        self._matcher = RecoveringMatcher(plan, engine, self.entry.name)
        self._reader = MaskReader(plan, engine)
        self._row = self._reader.row()  # the memory of the masks
        self._budgets = BudgetEnforcer(plan.budgets, self.regions, engine.tokenize) if plan.budgets else None
        self._by_end: dict[int, tuple[End, ...]] = {
            i: tuple(end for end in plan.ends if i in end.ids) for i in plan.end_ids()
        }

    # -- the position

    @property
    def tokens(self) -> Sequence[int]:
        """The committed tokens, ends included; read only."""
        return self._log.tokens

    @property
    def num_tokens(self) -> int:
        """Number of committed tokens."""
        return len(self._log.tokens)

    def num_common(self, tokens: Sequence[int]) -> int:
        """Return the length of the common prefix of the committed tokens and ``tokens``."""
        return self._log.num_common(tokens)

    @property
    def region(self) -> RegionName:
        """The part of the answer in which the next token begins."""
        return self.regions.name(self._log.position)

    @property
    def log(self) -> CommitLog:
        """The committed tokens, the effect of the last one on the regions, and the parts so far; read only."""
        return self._log

    @property
    def is_stopped(self) -> bool:
        """Whether the sequence has ended.  Nothing may be committed any more, but rollback works."""
        return self._stop is not None

    @property
    def stop_reason(self) -> StopReason | None:
        return self._stop

    @property
    def is_accepting(self) -> bool:
        """Whether the sequence may end here, or has ended.  Raises as `mask` does if the matcher fails."""
        return self.is_stopped or self._is_open(self.plan.ends) or self.token_mask().may_end

    def _is_open(self, ends: Sequence[End]) -> bool:
        """Whether the engine accepts one of ``ends`` here; a full lexer says no, and only a mask shows that."""
        return self._ask(lambda: any(self._reader.accepts(end, self._matcher.current) for end in ends))

    # -- the mask

    def fill_bitmask(self, bitmask: Words, row: int = 0) -> None:
        """Write the tokens allowed next into ``bitmask[row]``; does not advance.

        ``bitmask`` is int32 ``[rows, ceil(vocab_size / 32)]``, see `guided.bitmask`.  A stopped sequence allows
        the end that stopped it.  Raises `MatcherFailed` or `LimitExceeded` rather than allowing only an end, and
        `GuidanceError` for other memory.
        """
        words = self.mask()
        is_array = isinstance(bitmask, np.ndarray) and bitmask.dtype == words.dtype and bitmask.flags.writeable
        if not is_array or row not in range(len(bitmask)) or bitmask.shape[1:] != words.shape:
            expected, hint = f"an array int32 [rows, {words.size}]", "guided.bitmask.allocate_bitmask makes one"
            raise GuidanceError(f"no mask fits into row {row}", place="bitmask", expected=expected, hint=hint)
        bitmask[int(row)] = words

    def mask(self) -> Words:
        """Return the tokens allowed next as one row of a bitmask; `fill_bitmask` writes a copy of it.

        Read only, and good until the next commit, rollback or reset: the next mask is written into the same memory.
        """
        return self.token_mask().words

    def open_end_ids(self) -> tuple[int, ...]:
        """Return the ids that would end the sequence here, the ones to prefer first."""
        if self._stop is not None:
            return () if self._stop.token_id is None else (self._stop.token_id,)
        return self.token_mask().end_ids

    def end_id(self) -> int | None:
        """Return the first of `open_end_ids`, None if there is none; in most cases without computing a mask."""
        if self._mask is None and self._stop is None and self._budgets is None and self._watch is None:
            for end in self.plan.ends:
                if end.ids and self._is_open((end,)):
                    return end.ids[0]
        return next(iter(self.open_end_ids()), None)

    def allows(self, token: int) -> bool:
        """Whether the bit of ``token`` is set in the mask of this position."""
        return self._has_bit(self.mask(), token)

    def _has_bit(self, words: Words, token: int) -> bool:
        return 0 <= token < self.engine.vocab_size and is_allowed(words, token)

    def token_mask(self) -> TokenMask:
        """Return the mask of this position and the ids that would end the sequence here; good as long as `mask`."""
        if self._mask is not None:
            return self._mask
        if self._stop is not None:
            self._mask = self._reader.only(self.open_end_ids())
            return self._mask
        mask = self._read()
        if mask is None:
            self._recover()
            mask = self._read()
            if mask is None:
                self._fail("computing a mask")
        self._keep(mask)
        return mask

    def _read(self) -> TokenMask | None:
        """Return the mask of this position; None if the matcher failed."""
        closing = self._closing_tokens()
        if closing:
            return self._reader.only(closing[:1], closing[0])
        return self._reader.next(self._matcher.current, self._row, self._log, self._watch)

    def _closing_tokens(self) -> tuple[int, ...]:
        """Return the tokens by which a spent budget ends its part of the answer here; () where none is spent."""
        return () if self._budgets is None else self._budgets.closing_tokens(self._log, self._matcher.current)

    def _keep(self, mask: TokenMask) -> None:
        """Make ``mask`` the one of this position, and count it."""
        self._mask = mask
        counters = self.counters
        counters.masks += 1
        counters.forced += mask.forced is not None
        counters.repairs += mask.is_repaired

    # -- moving

    def commit(self, tokens: Sequence[int] | int) -> None:
        """Advance by tokens that the sampler chose, or by one.

        Raises `TokenRefused` for a token outside the grammar, which changes nothing, and `MatcherFailed` or
        `LimitExceeded` if the engine fails.
        """
        ids: Any = (tokens,) if isinstance(tokens, int) or getattr(tokens, "ndim", 1) == 0 else tokens  # or of a tensor
        for token in ids:
            self._commit(int(token))

    def _commit(self, token: int, *, is_checked: bool = False, has_recovered: bool = False) -> None:
        if self._stop is not None:
            raise GuidanceError("the sequence has ended", place=f"token {self.num_tokens}", hint="roll back first")
        log = self._log
        if token in self._by_end and (self._is_open(self._by_end[token]) or token in self.token_mask().end_ids):
            self._stop = StopReason("end", token, self.region)
            log.push_end(token)
        else:
            if self._watch is not None and not is_checked:
                self._check_watched(token)
            matcher = self._matcher.current
            closing = self._closing_tokens()
            is_ordinary = 0 <= token < self.engine.vocab_size  # others, as sentinels, are never part of an answer
            if not is_ordinary or matcher.try_consume_tokens([token]) != 1 or matcher.is_error():
                if has_recovered or not self._has_failed_on(token):
                    self._refuse(token)
                self._recover()
                self._commit(token, is_checked=is_checked, has_recovered=True)
                return
            if closing and closing[0] == token and not log.closing_tokens:
                log.close(closing)
            log.push(token)
            self._row.commit(token)
        self.counters.commits += 1
        self._mask = None
        if not self._by_end:
            self._stop_when_complete()

    def forced_next(self) -> int | None:
        """Return the one token that may be written next, None where there are several, or none; does not advance.

        Asks the engine for its forced tokens, and computes a mask only where these leave the answer open.  Raises as
        `mask` does.
        """
        if self._stop is not None:
            return None
        if self._mask is None:
            closing = self._closing_tokens()
            if closing:
                return int(closing[0])
            token, is_doubtful = self._reader.forced_next(self._matcher.current, self._row, self._log, self._watch)
            if not is_doubtful:
                return token
        return self.token_mask().forced

    def commit_forced(self, token: int) -> None:
        """Commit what `forced_next` returned, without a mask of its position.  Raises as `commit` does."""
        self.counters.forced += self._mask is None
        self._commit(token, is_checked=True)

    def _check_watched(self, token: int) -> None:
        """Refuse a token that a watcher took out of the mask."""
        mask = self._mask
        if mask is None and self._watch is not None and self._watch.may_restrict(self._log):
            mask = self.token_mask()
        if mask is not None and mask.taken is not None and self._has_bit(mask.taken, token):
            raise self._refusal(token, "it would write a key or item for the second time")

    def _has_failed_on(self, token: int) -> bool:
        """Whether the matcher failed when it rejected ``token``: a full lexer rejects tokens that its mask allows."""
        if self._matcher.current.is_error():
            return True
        if self._mask is None:
            mask = self._read()
            if mask is None:
                return True
            self._keep(mask)
        return self.allows(token)

    def _refuse(self, token: int) -> NoReturn:
        """Raise the error for a token that the matcher has rejected."""
        if self._matcher.current.is_error():
            self._fail(f"committing token {token}")
        raise self._refusal(token, "the grammar does not allow it")

    def _refusal(self, token: int, why: str) -> TokenRefused:
        message = f"committing token {token} ({self.engine.token_bytes(token)!r}): {why}"
        return TokenRefused(message, place=f"token {self.num_tokens}", expected="a token of the mask")

    def _stop_when_complete(self) -> None:
        """Without any end token the sequence ends when nothing but a sentinel may follow."""
        if self._stop is None and not self.mask().any() and self.is_accepting:
            self._stop = StopReason("complete", None, self.region)
            self._mask = None
            self.counters.masks -= 1  # nothing is sampled from this mask

    def validate(self, tokens: Sequence[int]) -> int:
        """Return how many of ``tokens`` could be committed one after the other; does not advance.

        More liberal than the masks where bytes are forced: other splits of the same text count as well.
        """
        ids, size = [*map(int, tokens)], self.engine.vocab_size
        is_text = all(0 <= token < size and token not in self._by_end for token in ids)
        if is_text and self._watch is None and not self.is_stopped:
            num_accepted = self._ask(lambda: int(self._matcher.current.validate_tokens(ids)))
            if num_accepted == len(ids):  # else it may have rejected what its mask allows
                return num_accepted
        twin = self.fork()
        for i, token in enumerate(ids):
            if twin.is_stopped:
                return i
            try:
                twin._commit(token)
            except GuidanceError:
                return i
        return len(ids)

    def ff_tokens(self) -> list[int]:
        """Return the tokens that must come next, whatever is sampled; does not advance.

        Ends are never among them: they are a choice even if there is only one.
        """
        return [] if self.is_stopped else self._ask(self._next_forced)

    def _next_forced(self) -> list[int]:
        matcher = self._matcher.current
        if self._budgets is not None:
            closing = self._closing_tokens()
            if closing or self._budgets.is_spent(self._log):
                return list(closing)
        tokens = matcher.compute_ff_tokens()
        cut = next((i for i, token in enumerate(tokens) if token >= self.engine.vocab_size), len(tokens))
        tokens = tokens[:cut]
        return list(tokens[: int(matcher.validate_tokens(tokens))]) if tokens else []

    # -- undoing and copying

    def rollback(self, num_tokens: int) -> None:
        """Undo the last ``num_tokens`` commits, ends included, exactly."""
        if not 0 <= num_tokens <= self.num_tokens:
            expected = f"0 to {self.num_tokens}"
            raise GuidanceError(f"cannot undo {num_tokens} tokens", place="rollback", expected=expected)
        if num_tokens == 0:
            return
        self.counters.rollbacks += 1
        inside = num_tokens - (self._stop is not None and self._stop.kind == "end")
        self._log.pop(num_tokens)
        if self._watch is not None:
            self._watch.cut(self.num_tokens)
        self._stop = self._mask = None
        self._row.forget()
        matcher = self._matcher.current
        if matcher.is_error() or (inside and not matcher.rollback(inside)):
            self._recover()
        elif inside:
            matcher.compute_bitmask()  # else the engine may reuse rows that it parsed after this position (1.9.1)

    def reset(self) -> None:
        """Go back to the beginning of the plan, counters included."""
        if self._watch is not None:
            self._watch.cut(0)
        self._log = CommitLog(self.regions, self.entry.region)
        self._stop = self._mask = None
        self._row.forget()
        self.counters = Guidance()
        self._matcher.reset()

    def fork(self, *, is_watched: bool = True) -> GuidanceState:
        """Return an independent copy at the same position; costs microseconds and a few kilobytes.

        Without ``is_watched`` its masks allow what the grammar alone allows.
        """
        if self._mask is not None:
            self._row = self._reader.row()  # both states use the mask now: the next one is written elsewhere
        twin = object.__new__(GuidanceState)
        twin.__dict__.update(self.__dict__)
        twin._row = self._reader.row()
        twin.counters = replace(self.counters)
        twin._log = self._log.fork()
        twin._watch = self._watch.fork() if self._watch is not None and is_watched else None
        twin._matcher = self._matcher.fork()
        return twin

    # -- a matcher that fails

    def _ask(self, ask: Callable[[], _Answer]) -> _Answer:
        """Return what ``ask`` returns, asked again after a recovery if the matcher is in error."""
        answer = ask()
        if self._matcher.current.is_error():
            self._recover()
            answer = ask()
            if self._matcher.current.is_error():
                self._fail("asking the engine")
        return answer

    def _recover(self) -> None:
        """Replace the matcher, which has failed, by a private one at the same position."""
        self._matcher.recover(self._log.tokens)
        self.counters.recovered += 1

    def _fail(self, doing: str) -> NoReturn:
        """Raise what the error state of a matcher means that failed again after its recovery; never returns."""
        self.counters.recovered -= 1  # this sequence does not go on
        self._matcher.fail(doing, f"token {self.num_tokens}")
