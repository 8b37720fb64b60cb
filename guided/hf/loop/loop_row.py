"""One row of the decode loop, with all that belongs to it alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from guided.hf.cache.prefix_pool import Reuse
from guided.hf.drafts.draft import Draft
from guided.hf.drafts.drafts import Drafts
from guided.hf.hidden.messages import LastStates
from guided.hf.loop.recorder import Recorder
from guided.hf.loop.sampling import RowSampler
from guided.rows.answer import RowAnswer

__all__ = ["LoopRow"]


@dataclass(eq=False, slots=True)
class LoopRow:
    """One row of a loop: its answer, at most ``max_tokens`` long, and the tokens to be fed for it next.

    ``number`` is the row's in its call, to whose rows ``recorder``, ``drafts``, ``reuse`` and ``states`` belong.  With
    ``reuse`` the row begins with a kept prefix, and is kept when it leaves; with ``states`` its last token is fed, too.
    ``pending`` are the tokens that the cache does not hold yet, at first the prompt; the last ``num_unrecorded`` were
    forced, and their log-probabilities are still to be recorded.
    """

    number: int
    answer: RowAnswer
    max_tokens: int
    pending: list[int]
    sampler: RowSampler
    recorder: Recorder | None = None
    states: LastStates | None = None
    drafts: Drafts | None = None
    reuse: Reuse | None = None
    num_unrecorded: int = 0
    forwards: int = 0
    cached: int = 0  #: prompt tokens that were taken from a kept or running row
    draft: Draft = field(default_factory=Draft)  #: fed after ``pending``
    num_right: int = 0  #: tokens of a draft that was fed that have been written
    column: int = -1  #: of the logits that predict the next token
    drafted: int = 0
    accepted: int = 0
    is_closed: bool = False  #: ended from outside
    is_filling: bool = False  #: not all of its prompt is in the cache
    twins: Sequence[LoopRow] = ()  #: rows with the same prompt, which wait until this one's is in the cache

    @property
    def is_done(self) -> bool:
        """Whether no more tokens may be written."""
        return self.is_closed or self.answer.is_done or len(self.answer.tokens) >= self.max_tokens

    @property
    def size(self) -> int:
        """The tokens of prompt and answer."""
        return self.answer.prompt_tokens + len(self.answer.tokens)

    @property
    def records(self) -> bool:
        """Whether log-probabilities of the row are recorded."""
        return self.recorder is not None and self.number in self.recorder.rows

    @property
    def feeds_newest(self) -> bool:
        """Whether the newest token of the row is to be fed."""
        return not self.is_done or (self.states is not None and bool(self.pending and self.answer.tokens))

    @property
    def needs_forward(self) -> bool:
        """Whether the row takes part in the next forward; one that has failed, only for its last state."""
        is_recorded = self.num_unrecorded == 0 or self.answer.error is not None
        return not self.is_closed and (self.feeds_newest or not is_recorded)

    @property
    def num_columns(self) -> int:
        """The number of columns of the logits (positions, each of one fed token) that the row needs."""
        if self.is_done and self.feeds_newest:
            return max(self.num_unrecorded + 1, min(2, len(self.pending)))
        return self.num_unrecorded + (not self.is_done) + len(self.draft.tokens)

    @property
    def chunk(self) -> list[int]:
        """The tokens to feed: a row that is done needs logits only for its unrecorded tokens, so not its last one."""
        return self.pending + self.draft.tokens if self.feeds_newest else self.pending[:-1]

    def take_forced(self) -> list[int]:
        """Commit the tokens that are forced next, and return them."""
        room = self.max_tokens - len(self.answer.tokens)
        run = [] if room <= 0 or self.is_done else self.answer.push_forced(room)
        if run:
            self.pending += run
            self.sampler.commit(run)
            self.num_unrecorded = len(run) if self.records else 0
        return run
