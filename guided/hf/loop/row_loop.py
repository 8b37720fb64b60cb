"""The decode loop: in each step mask, choose and commit a token per row, commit the forced tokens after it, feed both.

A sampled token is one mask, one sample and one commit; a forced token is one commit, and is fed together with the token
before it.  Rows that have ended leave the batch.  On an accelerator the host waits once per step, for the tokens.

Draft tokens are fed after the committed ones.  The step then continues over the same logits for as long as the tokens
that are chosen and forced equal those of the draft.  Only the cache is ahead then, so only the cache is cropped when
they differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from guided.hf.cache.kv_cache import AppendKV, RowKV
from guided.hf.cache.step_kv import StepKV
from guided.hf.drafts.draft import Ask, Draft
from guided.hf.drafts.drafts import Drafts
from guided.hf.hidden.last_states import LastStates
from guided.hf.loop.landing import land
from guided.hf.loop.recorder import Recorder
from guided.hf.loop.reuse import Reuse
from guided.hf.loop.row_masks import RowMasks
from guided.hf.loop.sampling import BatchSampler
from guided.hf.masks.logits_check import not_numbers
from guided.hf.masks.transfer import on_device
from guided.rows.alone import alone, together
from guided.rows.answer import RowAnswer
from special_tokens.errors import ModelError

__all__ = ["LoopRow", "RowLoop", "Step"]


@dataclass(frozen=True, slots=True)
class Step:
    """The tokens that each row wrote in one step, by row number: one chosen token, then those forced after it.

    With drafts there may be several such runs.  Empty for a row that had ended before and for a row that failed.
    """

    tokens: list[list[int]]


@dataclass(eq=False, slots=True)
class LoopRow:
    """One row of the loop: its answer, at most ``max_tokens`` long, and the tokens to be fed for it next.

    ``pending`` are the tokens that the cache does not hold yet, at first the prompt; the last ``num_unrecorded`` were
    forced, and their log-probabilities are still to be recorded.  ``draft`` is fed after ``pending``; of a draft that
    was fed, ``num_right`` tokens have been written, and ``column`` of the logits predicts the next one.  ``chat`` are
    the digests of the prompt's messages.  ``cached`` counts the prompt tokens that were taken from a kept row.
    """

    number: int
    answer: RowAnswer
    max_tokens: int
    pending: list[int]
    chat: tuple[int, ...] = ()
    num_unrecorded: int = 0
    forwards: int = 0
    cached: int = 0
    draft: Draft = field(default_factory=Draft)
    num_right: int = 0
    column: int = -1
    drafted: int = 0
    accepted: int = 0

    @property
    def is_done(self) -> bool:
        """Whether no more tokens may be written."""
        return self.answer.is_done or len(self.answer.tokens) >= self.max_tokens

    @property
    def size(self) -> int:
        """The tokens of prompt and answer."""
        return self.answer.prompt_tokens + len(self.answer.tokens)

    def take_forced(self) -> list[int]:
        """Commit the tokens that are forced next, and return them."""
        room = self.max_tokens - len(self.answer.tokens)
        run = [] if room <= 0 or self.answer.is_done else self.answer.push_forced(room)
        self.pending += run
        return run


@dataclass(eq=False)
class RowLoop:
    """The rows of one batch over one cache.

    ``cache`` holds an empty row for each of ``rows``.  A `StepKV` gets one token per row and step, and its rows stay
    until the end.  ``drafts`` need a `RowKV`.  ``processors`` and ``criteria`` are the caller's or the model's, as in
    transformers; they need a `StepKV`, which has the histories.  With ``reuse`` a row begins with the kept prefix of
    its prompt, and is kept when it leaves the batch, and when the run ends or breaks off.  With ``states`` a row that
    has ended takes part in one more forward, for the hidden state at its last token.
    """

    cache: RowKV | AppendKV | StepKV
    rows: list[LoopRow]
    sampler: BatchSampler
    masks: RowMasks
    device: torch.device
    pad_id: int = 0
    recorder: Recorder | None = None
    processors: Sequence[Any] = ()
    criteria: Sequence[Any] = ()
    reuse: Reuse | None = None
    drafts: Drafts | None = None
    states: LastStates | None = None
    _active: list[LoopRow] = field(default_factory=list)  # row i of the cache belongs to the i-th
    _chats: list[frozenset[tuple[int, ...]]] = field(default_factory=list)  # of the rows of the cache

    def steps(self) -> Iterator[Step]:
        """Decode until every row has ended.  On an accelerator a step is yielded after the next one was launched."""
        try:
            yield from self._steps()
        finally:
            self._keep_rows()

    def _steps(self) -> Iterator[Step]:
        first = self._forced([[] for _ in self.rows], self.rows)
        waiting = [Step(first)] if any(first) else []
        self._active = list(self.rows)
        is_first = True
        while True:
            if self.device.type == "cpu":
                yield from waiting
                waiting = []
            self._leave(is_first=is_first)
            self._draft(is_first=is_first)
            if not self._goes_on():
                break
            logits = self._feed(is_first=is_first)
            is_first = False
            yield from waiting
            with torch.no_grad():
                waiting = [Step(self._write(logits))]
            del logits
        yield from waiting

    @property
    def _is_stepwise(self) -> bool:
        return isinstance(self.cache, StepKV)

    def _records(self, row: LoopRow) -> bool:
        return self.recorder is not None and row.number in self.recorder.rows

    def _needs_forward(self, row: LoopRow) -> bool:
        return row.num_unrecorded > 0 or self._feeds_last(row)

    def _feeds_last(self, row: LoopRow) -> bool:
        """Whether the newest token of ``row`` is to be fed."""
        return not row.is_done or (self.states is not None and bool(row.pending and row.answer.tokens))

    def _goes_on(self) -> bool:
        return any(self._needs_forward(row) for row in self._active)

    def _forced(self, written: list[list[int]], rows: Sequence[LoopRow]) -> list[list[int]]:
        """Add to ``written`` the tokens that are forced next in ``rows``."""
        for row in rows if not self._is_stepwise else ():
            run = row.take_forced()
            if run:
                written[row.number] += run
                self.sampler.commit(row.number, run)
                row.num_unrecorded = len(run) if self._records(row) else 0
        return written

    # -- forwards

    def _leave(self, *, is_first: bool) -> None:
        """Drop the rows that need no forward; before the first one nothing is in the cache yet."""
        if self._is_stepwise:
            return
        stay = [i for i, row in enumerate(self._active) if self._needs_forward(row)]
        if len(stay) < len(self._active):
            if stay and not is_first:
                self._keep_leaving(set(range(len(self._active))).difference(stay))
                self._select(stay)
            if stay or is_first:
                self._active = [self._active[i] for i in stay]

    def _feed(self, *, is_first: bool) -> torch.Tensor:
        """Feed the pending tokens and drafts; return the logits float ``[rows, keep, vocab]`` of the newest columns."""
        active = self._active
        for row in active:
            row.forwards += self._needs_forward(row)
        if isinstance(self.cache, StepKV):
            return self.cache.feed([row.pending or [self.pad_id] for row in active], hidden=self.states is not None)
        # A row that is done needs logits only for its unrecorded tokens, so its last token need not be fed.
        chunks = [(row.pending + row.draft.tokens) if self._feeds_last(row) else row.pending[:-1] for row in active]
        keep = max(map(self._num_columns, active))
        if not is_first:
            return self.cache.feed(chunks, keep=keep, hidden=self.states is not None)
        return self._prefill(self.cache, chunks, keep)

    def _num_columns(self, row: LoopRow) -> int:
        """The columns of the logits that ``row`` needs."""
        if row.is_done and self._feeds_last(row):
            return max(row.num_unrecorded + 1, min(2, len(row.pending)))
        return row.num_unrecorded + (not row.is_done) + len(row.draft.tokens)

    def _draft(self, *, is_first: bool) -> None:
        """Choose the drafts to be fed; a row that fails at it leaves."""
        if self.drafts is None:
            return
        asks = [
            None if row.is_done else Ask(row.number, len(row.pending), row.max_tokens - len(row.answer.tokens))
            for row in self._active
        ]
        for row, draft in zip(self._active, self.drafts.propose(asks), strict=True):
            row.draft = Draft() if row.is_done else draft
            row.drafted += len(row.draft.guesses)
        self._leave(is_first=is_first)

    def _prefill(self, cache: RowKV | AppendKV, chunks: Sequence[list[int]], keep: int) -> torch.Tensor:
        """Feed the prompts; rows that begin alike (n answers, equal requests) are computed once."""
        kinds: dict[tuple[int, ...], list[LoopRow]] = {}
        for chunk, row in zip(chunks, self._active, strict=True):
            kinds.setdefault(tuple(chunk), []).append(row)
        cache.select(list(range(len(kinds))))
        self._chats = [frozenset(row.chat for row in rows) for rows in kinds.values()]
        reused = [0] * len(kinds)
        if self.reuse is not None:
            needed = [max(map(self._num_columns, rows)) for rows in kinds.values()]
            reused = self.reuse.begin(cache, list(kinds), needed)
        new = [chunk[size:] for chunk, size in zip(kinds, reused, strict=True)]
        logits = cache.feed(new, keep=keep, hidden=self.states is not None)
        if self.reuse is not None and isinstance(cache, AppendKV):
            self._keep_leaving([0])  # it cannot be cropped later, and the next turn may spell the answer otherwise
        for rows, size in zip(kinds.values(), reused, strict=True):
            for row in rows:
                row.cached = min(size, row.answer.prompt_tokens)
        if len(kinds) == len(chunks):
            return logits
        places = [[*kinds].index(tuple(chunk)) for chunk in chunks]
        self._select(places)
        index = on_device(places, torch.long, logits.device)
        cache.hidden = None if cache.hidden is None else cache.hidden[index.to(cache.hidden.device)]
        return logits[index]

    # -- kept rows

    def _select(self, rows: Sequence[int]) -> None:
        assert not isinstance(self.cache, StepKV)
        self.cache.select(list(rows))
        self._chats = [self._chats[i] for i in rows]

    def _keep_leaving(self, rows: Iterable[int]) -> None:
        if self.reuse is not None and not isinstance(self.cache, StepKV):
            self.reuse.keep(self.cache, rows, self._chats)

    def _keep_rows(self) -> None:
        """Keep the rows of the cache when the run is over, or has broken off."""
        if self.reuse is None or isinstance(self.cache, StepKV):
            return
        self.reuse.keep(self.cache, None, self._chats)

    # -- one step

    def _write(self, logits: torch.Tensor) -> list[list[int]]:
        """Return the tokens that each row writes, by row number: a chosen one and those forced, more with a draft."""
        written: list[list[int]] = [[] for _ in self.rows]
        places = list(range(len(self._active)))
        shown = [(len(ids), self._num_columns(row)) for ids, row in zip(self.cache.ids, self._active, strict=True)]
        for row in self._active:
            row.column = logits.shape[1] - self._feeds_last(row) - len(row.draft.tokens)
            row.num_right = 0
        while places:
            self._advance(logits, places, written)
            places = [i for i in places if self._goes_on_in_draft(i)]
        if self.states is not None:
            ended = [(row.number, row.size) if row.is_done else None for row in self._active]
            take = partial(self.states.take, self.cache.hidden, shown, [len(ids) for ids in self.cache.ids])
            together([row.answer.fail for row in self._active], take, ended, None)
        return written

    def _goes_on_in_draft(self, place: int) -> bool:
        """Whether the row has written tokens of its draft, so that these logits predict more; else drop the rest."""
        row = self._active[place]
        new, rest = row.pending, row.draft.tokens[row.num_right :]
        if not rest:
            self._finish_draft(row)
            return False
        if new and new == rest[: len(new)] and (row.num_unrecorded or not row.is_done):
            row.num_right += len(new)
            row.column += len(new)
            return True
        same = next((i for i, pair in enumerate(zip(new, rest, strict=False)) if pair[0] != pair[1]), len(new))
        same = 0 if row.num_unrecorded else min(same, len(rest))
        assert isinstance(self.cache, RowKV)
        self.cache.crop(place, len(self.cache.ids[place]) - len(rest) + same)
        row.num_right += same
        row.pending = new[same:]
        self._finish_draft(row)
        return False

    def _finish_draft(self, row: LoopRow) -> None:
        if row.draft.guesses and self.drafts is not None:
            num_accepted = sum(guess.at < row.num_right for guess in row.draft.guesses)
            row.accepted += num_accepted
            alone(row.answer.fail, None, self.drafts.learn, row.number, row.draft, num_accepted)
            row.draft = Draft()

    def _advance(self, logits: torch.Tensor, places: Sequence[int], written: list[list[int]]) -> None:
        """Choose and commit a token in the rows at ``places``, then the forced ones; add them to ``written``."""
        active = [self._active[i] for i in places]
        numbers = [row.number for row in active]
        self._record_forced(logits, places)
        answers = [row.answer for row in active]
        raw = self._newest(logits, places)
        scores = self._processed(self.sampler.adjust(raw, numbers))
        guided = [None if row.is_done else row.answer for row in active]
        # Looked at before masking: masks may hide NaN, or overwrite it.
        best = raw.amax(dim=-1) if any(answer.sequence is not None for answer in answers) or self.processors else None
        scores = self.masks.apply(scores, guided)
        tokens, sound = self.sampler.choose(scores, numbers, [len(answer.tokens) for answer in answers])
        tokens = land(self.sampler, scores, tokens, sound, numbers, guided)
        if best is not None:
            sound &= best.isfinite()
        if self.recorder is not None:
            record = partial(self.recorder.record, raw, scores, tokens)
            together([answer.fail for answer in answers], record, [-1 if r.is_done else r.number for r in active], -1)
        host = self._on_host(tokens, sound)
        self.masks.count(answers, host[3:] or None)
        self._commit(active, host, written)

    def _newest(self, logits: torch.Tensor, places: Sequence[int]) -> torch.Tensor:
        """Return a float32 copy ``[rows, vocab]`` of the logits of the next token of the rows at ``places``."""
        last = logits.shape[1] - 1
        columns = [min(self._active[i].column, last) for i in places]
        if len(places) == len(logits) and min(columns) == last:
            return logits[:, -1].to(copy=True, dtype=torch.float32)
        found = [on_device(part, torch.long, logits.device) for part in (places, columns)]
        return logits[found[0], found[1]].float()

    def _record_forced(self, logits: torch.Tensor, places: Sequence[int]) -> None:
        for i in places:
            row = self._active[i]
            size = row.num_unrecorded
            if size and self.recorder is not None:
                columns = logits[i, row.column - size : row.column]
                new = row.pending[-size:]
                alone(row.answer.fail, None, self.recorder.record_forced, row.number, columns.float(), new)
            row.num_unrecorded = 0

    def _processed(self, scores: torch.Tensor) -> torch.Tensor:
        """Return the scores after ``processors``."""
        for processor in self.processors if isinstance(self.cache, StepKV) else ():
            found = processor(self._history(), scores)
            if not isinstance(found, torch.Tensor) or found.shape != scores.shape:
                shape = list(found.shape) if isinstance(found, torch.Tensor) else type(found).__name__
                raise ModelError(
                    f"{type(processor).__name__} made {shape} of scores {list(scores.shape)}",
                    place="logits processor",
                    expected="scores of the same shape",
                )
            scores = found
        return scores

    def _history(self, newest: torch.Tensor | None = None) -> torch.Tensor:
        assert isinstance(self.cache, StepKV)
        history = self.cache.history
        return history if newest is None else torch.cat([history, newest[:, None]], dim=-1)

    def _on_host(self, tokens: torch.Tensor, sound: torch.Tensor) -> list[list[int]]:
        """Return on the host: tokens, which are sound, which rows ``criteria`` end, the masks' effects if needed."""
        if tokens.is_cpu and not self.criteria:
            return [tokens.tolist(), sound.tolist(), [0] * len(tokens)]
        ended = torch.zeros_like(sound)
        for criterion in self.criteria:
            ended |= criterion(self._history(tokens), None)
        parts = [torch.stack([tokens, sound.long(), ended.long()])]
        effects = self.masks.effects()
        if effects is not None:
            parts.append(effects)
        found: list[list[int]] = torch.cat(parts).tolist()
        return found

    def _commit(self, rows: Sequence[LoopRow], host: list[list[int]], written: list[list[int]]) -> None:
        """Commit the tokens of `_on_host` and those forced after them; all are then pending, and in ``written``."""
        going_on: list[LoopRow] = []
        for row, token, is_sound, is_ended in zip(rows, *host[:3], strict=True):
            row.pending = []
            if row.is_done:
                continue
            if not is_sound:
                row.answer.fail(not_numbers(f"row {row.number}"))
                continue
            size = len(row.answer.tokens)
            row.answer.push(token)
            if len(row.answer.tokens) > size:
                row.pending = [token]
                written[row.number].append(token)
                self.sampler.commit(row.number, [token])
                going_on.append(row)
            if is_ended:
                row.max_tokens = len(row.answer.tokens)
        self._forced(written, going_on)
