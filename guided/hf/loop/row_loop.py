"""The decode loop: in each step mask, choose and commit a token per row, commit the forced tokens after it, feed both.

Rows join the loop and leave it while others run.  Prompts are fed together with the rows that run, in pieces where the
loop has a `Capacity`.  Draft tokens are fed after the committed ones; the step then continues over the same logits for
as long as the tokens that are chosen and forced equal those of the draft.  Only the cache is ahead then, so only the
cache is cropped when they differ.  On an accelerator the host waits once per step, for the tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from guided.hf.cache.kv_cache import KVCache
from guided.hf.cache.step_kv import StepKV
from guided.hf.drafts.draft import Ask, Draft
from guided.hf.loop.capacity import Capacity
from guided.hf.loop.landing import land
from guided.hf.loop.loop_row import LoopRow
from guided.hf.loop.places import Places
from guided.hf.loop.row_masks import RowMasks
from guided.hf.loop.sampling import adjust, choose
from guided.hf.masks.apply import not_numbers
from guided.hf.masks.transfer import on_device
from guided.rows.alone import attempt, together

__all__ = ["RowLoop", "Step"]

#: Added to the token of a row on its way to the host: its scores are not sound.
_UNSOUND = 1 << 32


@dataclass(frozen=True, slots=True)
class Step:
    """The tokens that rows wrote in one step, one chosen token and those forced after it, and the rows that left.

    With drafts there may be several such runs.  Rows that wrote nothing are not in ``tokens``.
    """

    tokens: dict[LoopRow, list[int]] = field(default_factory=dict)
    ended: list[LoopRow] = field(default_factory=list)

    def add(self, row: LoopRow, tokens: list[int]) -> None:
        """Add tokens of one row."""
        if tokens:
            self.tokens.setdefault(row, []).extend(tokens)


@dataclass(eq=False)
class RowLoop:
    """A decode loop over one KV cache, which rows join and leave.

    `join` rows, call `step` while the loop is not `is_empty`; `close` takes rows out before their end.  One thread at a
    time.  A row carries its answer, sampling, recorder, drafts and kept rows (`LoopRow`); what is raised in it ends it
    alone (``answer.error``).  What is raised by the model breaks a step off: then `close` the loop.  A `StepKV` has its
    rows from the beginning; ``processors`` are as in transformers and need one.
    """

    cache: KVCache | StepKV
    masks: RowMasks
    device: torch.device
    pad_id: int = 0
    processors: Sequence[Any] = ()
    capacity: Capacity = Capacity()
    _ready: list[int] = field(default_factory=list)  # the active rows of which the logits of a forward are read
    _logits: torch.Tensor | None = None  # of a forward that was launched

    def __post_init__(self) -> None:
        self._fixed: list[LoopRow] = []  # those of a `StepKV`
        self.places = None if isinstance(self.cache, StepKV) else Places(self.cache, self.capacity)

    def join(self, rows: Sequence[LoopRow]) -> Step:
        """Queue rows; return the tokens that are forced first, before any forward.

        The common prompt of rows is computed once.  Raises `RequestError` for more rows than the loop has, and for a
        prompt that it never has room for.
        """
        self.capacity.check(rows)
        step = Step()
        if self.places is None:
            self._fixed = list(rows)
            return step
        for row in rows:
            step.add(row, row.take_forced())
        step.ended.extend(row for row in rows if not row.needs_forward)
        self.places.add([row for row in rows if row.needs_forward])
        return step

    def step(self) -> Step:
        """Feed what is to be fed and write a token in each row that is ready; return the new tokens.

        On an accelerator the next forward is launched before this returns, so that the host's work is done meanwhile.
        """
        step = Step()
        if self._logits is None:
            self._launch(step)
        if self._logits is not None:
            logits, self._logits = self._logits, None
            with torch.no_grad():
                self._write(logits, step)
            del logits
        if self.device.type != "cpu":
            self._launch(step)
        else:
            self._leave(step)
        return step

    def close(self, rows: Iterable[LoopRow] | None = None) -> Step:
        """End these rows, or all, where they are; return the rows that left, now or in the next `step`."""
        step = Step()
        for row in self.rows() if rows is None else rows:
            row.is_closed = True
        if rows is None:
            self._logits = None
        if self._logits is None:
            self._leave(step)
        return step

    @property
    def is_empty(self) -> bool:
        """Whether no row needs a step."""
        return self._logits is None and not any(row.needs_forward for row in self.rows())

    def rows(self) -> list[LoopRow]:
        """Return the rows that are in the loop, those that wait included."""
        waiting = self.places.waiting if self.places is not None else ()
        return [row for first in (*self._active, *waiting) for row in (first, *first.twins)]

    @property
    def _active(self) -> list[LoopRow]:
        return self._fixed if self.places is None else self.places.active

    # -- forwards

    def _leave(self, step: Step) -> None:
        if self.places is not None:
            step.ended.extend(self.places.remove_ended())
        elif not any(row.needs_forward for row in self._fixed):
            step.ended.extend(self._fixed)
            self._fixed = []

    def _launch(self, step: Step) -> None:
        """Launch the forward of the next step, if any row needs one."""
        self._leave(step)
        if self.places is None:
            self._logits = self._feed_all() if self._fixed else None
            return
        self.places.admit()
        self.places.make_room()
        self._draft(self.places.piece_sizes())
        self._leave(step)  # a row that failed at its draft
        if self._active:
            hidden = any(row.states is not None for row in self._active)
            self._logits, self._ready = self.places.feed(self.places.piece_sizes(), hidden=hidden)

    def _feed_all(self) -> torch.Tensor:
        """Feed a token of each row; those that have ended get padding."""
        for row in self._fixed:
            row.forwards += row.needs_forward
        self._ready = list(range(len(self._fixed)))
        chunks = [row.pending or [self.pad_id] for row in self._fixed]
        return self.cache.feed(chunks, hidden=any(row.states is not None for row in self._fixed))

    def _draft(self, sizes: Sequence[int | None]) -> None:
        """Choose the drafts to be fed; a row that fails at it needs no forward any more."""
        assert not isinstance(self.cache, StepKV)
        parts = list(zip(self._active, sizes, strict=True))
        for drafts in dict.fromkeys(row.drafts for row in self._active if row.drafts is not None):
            asks: list[Ask | int] = [
                Ask(row.number, len(row.pending), row.max_tokens - len(row.answer.tokens))
                if row.drafts is drafts and n is None and not row.is_done and not row.twins
                else len(row.chunk)
                if n is None
                else n
                for row, n in parts
            ]
            for row, draft in zip(self._active, drafts.propose(asks, self.cache.num_columns), strict=True):
                if row.drafts is drafts:
                    row.draft = Draft() if row.is_done else draft
                    row.drafted += len(row.draft.guesses)

    # -- one step

    def _write(self, logits: torch.Tensor, step: Step) -> None:
        """Write in each row that is ready a chosen token and those forced, more with a draft; add them to ``step``."""
        ready, active = self._ready, [self._active[i] for i in self._ready]
        shown = [(len(self.cache.ids[i]), self._active[i].num_columns) for i in ready]
        for row in active:
            row.column = logits.shape[1] - row.feeds_newest - len(row.draft.tokens)
            row.num_right = 0
        places = ready
        while places:
            self._advance(logits, places, step)
            places = [i for i in places if self._goes_on_in_draft(i)]
        hidden = self.cache.hidden[ready] if self.cache.hidden is not None else None
        for states in dict.fromkeys(row.states for row in active if row.states is not None):
            ended = [(row.number, row.size) if row.is_done and row.states is states else None for row in active]
            take = partial(states.take, hidden, shown, [len(self.cache.ids[i]) for i in ready])
            together([row.answer.fail for row in active], take, ended, None)

    def _goes_on_in_draft(self, place: int) -> bool:
        """Whether the row has written tokens of its draft, so that these logits predict more; else drop the rest."""
        row = self._active[place]
        new, drafted = row.pending, row.draft.tokens[row.num_right :]
        if not drafted:
            self._finish_draft(row)
            return False
        if new and new == drafted[: len(new)] and (row.num_unrecorded or not row.is_done):
            row.num_right += len(new)
            row.column += len(new)
            return True
        same = next((i for i, pair in enumerate(zip(new, drafted, strict=False)) if pair[0] != pair[1]), len(new))
        same = 0 if row.num_unrecorded else min(same, len(drafted))
        assert not isinstance(self.cache, StepKV)
        self.cache.crop(place, len(self.cache.ids[place]) - len(drafted) + same)
        row.num_right += same
        row.pending = new[same:]
        self._finish_draft(row)
        return False

    def _finish_draft(self, row: LoopRow) -> None:
        if row.draft.guesses and row.drafts is not None:
            num_accepted = sum(guess.at < row.num_right for guess in row.draft.guesses)
            row.accepted += num_accepted
            attempt(row.answer.fail, None, row.drafts.learn, row.number, row.draft, num_accepted)
            row.draft = Draft()

    def _advance(self, logits: torch.Tensor, places: Sequence[int], step: Step) -> None:
        """Choose and commit a token in the rows at ``places``, then the forced ones; add them to ``step``."""
        active = [self._active[i] for i in places]
        samplers = [row.sampler for row in active]
        self._record_forced(logits, places)
        answers = [row.answer for row in active]
        raw = self._newest(logits, places)
        scores = adjust(raw, samplers)
        if isinstance(self.cache, StepKV):
            for processor in self.processors:
                scores = processor(self.cache.history, scores)
        guided = [None if row.is_done else row.answer for row in active]
        # Looked at before masking: masks may hide NaN, or overwrite it.
        best = raw.amax(dim=-1) if any(answer.sequence is not None for answer in answers) or self.processors else None
        # The loop owns its copy of the logits: masks go in place unless a recorder needs the raw ones.
        recorders = dict.fromkeys(row.recorder for row in active if row.recorder is not None)
        scores = self.masks.apply(scores, guided, in_place=not recorders)
        tokens, sound = choose(scores, samplers, [len(answer.tokens) for answer in answers])
        tokens = land(samplers, scores, tokens, sound, guided)
        if best is not None:
            sound &= best.isfinite()
        for recorder in recorders:
            record = partial(recorder.record, raw, scores, tokens)
            numbers = [row.number if row.recorder is recorder and not row.is_done else -1 for row in active]
            together([answer.fail for answer in answers], record, numbers, -1)
        marked = self._on_host(tokens, sound)
        self.masks.count(answers, marked)
        self._commit(active, marked, step)

    def _newest(self, logits: torch.Tensor, places: Sequence[int]) -> torch.Tensor:
        """Return a float32 copy ``[rows, vocab]`` of the logits of the next token of the rows at ``places``."""
        last = logits.shape[1] - 1
        columns = [min(self._active[i].column, last) for i in places]
        if len(places) == len(logits) and min(columns) == last:
            return logits[:, -1].to(copy=True, dtype=torch.float32)
        indices = [on_device(part, torch.long, logits.device) for part in (places, columns)]
        return logits[indices[0], indices[1]].float()

    def _record_forced(self, logits: torch.Tensor, places: Sequence[int]) -> None:
        for i in places:
            row = self._active[i]
            size = row.num_unrecorded
            if size and row.recorder is not None:
                columns = logits[i, row.column - size : row.column]
                new = row.pending[-size:]
                attempt(row.answer.fail, None, row.recorder.record_forced, row.number, columns.float(), new)
            row.num_unrecorded = 0

    def _on_host(self, tokens: torch.Tensor, sound: torch.Tensor) -> list[int]:
        """Return the tokens on the host, with what else is known of a row added: see `_UNSOUND` and `RowMasks.mark`."""
        marked = torch.add(tokens, sound.logical_not(), alpha=_UNSOUND)
        lists: list[int] = self.masks.mark(marked).tolist()
        return lists

    def _commit(self, rows: Sequence[LoopRow], marked: Sequence[int], step: Step) -> None:
        """Commit the tokens of `_on_host` and those forced after them; all are then pending, and in ``step``."""
        for row, number in zip(rows, marked, strict=True):
            row.pending = []
            if row.is_done:
                continue
            if number & _UNSOUND:
                row.answer.fail(not_numbers(f"row {row.number}"))
                continue
            size, token = len(row.answer.tokens), number & (_UNSOUND - 1)
            row.answer.push(token)
            if len(row.answer.tokens) > size:
                row.pending = [token]
                row.sampler.commit([token])
                step.add(row, [token])
        for row in rows if self.places is not None else ():
            if row.pending:
                step.add(row, row.take_forced())
