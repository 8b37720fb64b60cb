"""The rows of a server's jobs: most join one running loop; those that cannot run their own loops in turns."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from guided.hf.guide import Guide
from guided.hf.loop.loop_row import LoopRow
from guided.hf.loop.prepare import shared_loop
from guided.hf.loop.row_loop import RowLoop, Step
from guided.serve.engine import EndedJobs, EngineJob
from guided.serve.settings import Settings
from special_tokens.errors import ModelError

__all__ = ["JobRows", "make_loop"]

log = logging.getLogger("guided.serve")


class JobRows:
    """The running jobs, ``most_rows`` rows at most: most join ``shared``, the others run a step each in turns."""

    def __init__(self, shared: RowLoop | None, most_rows: int) -> None:
        self.shared = shared
        self._most = most_rows
        self._jobs: dict[LoopRow, EngineJob] = {}  # of the rows of ``shared``
        self._turns: dict[EngineJob, Iterator[Step]] = {}
        self._ended: EndedJobs = []
        self._said: set[str] = set()

    @property
    def num_rows(self) -> int:
        """The rows of all jobs."""
        return len(self._jobs) + sum(len(job.generation.answers) for job in self._turns)

    def fits(self, job: EngineJob) -> bool:
        """Whether there is room for the rows of ``job``."""
        return self.num_rows + len(job.generation.answers) <= self._most

    def join(self, job: EngineJob) -> None:
        """Begin ``job``; tokens that are forced first are written at once."""
        generation = job.generation
        if why := generation.why_alone:
            if why not in self._said:
                log.info("requests run in turns: %s", why)
                self._said.add(why)
            self._turns[job] = generation.steps()
            return
        assert self.shared is not None
        self._jobs |= dict.fromkeys(generation.loop_rows, job)
        try:
            self._note(generation.join(self.shared))
        except Exception as error:
            self.drop(job)
            self._ended.append((job, error))

    def drop(self, job: EngineJob) -> None:
        """End ``job`` where it is; its rows are kept for later turns."""
        if job in self._turns:
            self._turns.pop(job).close()  # type: ignore[attr-defined]  # a generator
            return
        rows = [row for row in job.generation.loop_rows if self._jobs.pop(row, None) is not None]
        if self.shared is not None and rows:
            self._note(self.shared.close(rows))

    def step(self) -> EndedJobs:
        """Write a token in each row that is ready, and return the jobs that have ended."""
        if self.shared is not None and not self.shared.is_empty:
            self._note(self.shared.step())
        for job, steps in list(self._turns.items()):
            try:
                step, error = next(steps, None), None
            except Exception as raised:
                step, error = None, raised
            if step is not None:
                job.wrote()
            else:
                self.drop(job)
                self._ended.append((job, error))
        ended, self._ended = self._ended, []
        return ended

    def _note(self, step: Step) -> None:
        for job in dict.fromkeys(self._jobs[row] for row in step.tokens if row in self._jobs):
            job.wrote()
        gone = [self._jobs.pop(row) for row in step.ended if row in self._jobs]
        left = set(self._jobs.values()) if gone else set()
        self._ended += [(job, None) for job in dict.fromkeys(gone) if job not in left]

    def close(self) -> None:
        """Drop all jobs."""
        for job in {*self._jobs.values(), *self._turns}:
            self.drop(job)


def make_loop(guide: Guide, settings: Settings) -> JobRows:
    """Return the rows of the guide's model, none yet."""
    try:
        shared: RowLoop | None = shared_loop(
            guide.context, rows=settings.max_rows, cached_tokens=settings.cache_tokens, piece=settings.piece
        )
    except ModelError:
        shared = None
    return JobRows(shared, settings.max_rows)
