"""The drafts that a step feeds: as long as the measured cost of a forward makes pay, none for rows with bad ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from guided.engine.engine import Engine
from guided.hf.cache.self_test import abilities_of
from guided.hf.drafts.assistant import AssistantDrafts
from guided.hf.drafts.cost import Cost, measured_cost, relative_cost
from guided.hf.drafts.draft import Ask, Draft
from guided.hf.drafts.lookup import PromptLookup
from guided.hf.drafts.settings import DraftSettings
from guided.rows.answer import RowAnswer

__all__ = ["Drafts", "Guesser", "drafts_of"]

#: Drafts of a row that are refused at their first guess, one after the other, before it pauses; after a pause one is.
MOST_REFUSED = 4

#: Forwards of the first pause; each pause that follows without an accepted guess is twice as long, up to the last.
FIRST_PAUSE, LAST_PAUSE = 8, 128


class Guesser(Protocol):
    """A source of drafts."""

    def propose(self, asks: Sequence[Ask]) -> list[Draft]:
        """Return a draft for each row."""
        ...

    def learn(self, number: int, draft: Draft, num_accepted: int) -> None:
        """Learn that the first ``num_accepted`` guesses of a draft of row ``number`` were right, the next one wrong."""
        ...


class _Pace:
    """The refusals of one row, and the pause that they lead to."""

    def __init__(self) -> None:
        self._refused = 0
        self._left = 0
        self._next = FIRST_PAUSE

    def waits(self) -> bool:
        """Whether the row pauses in this step; counts the steps."""
        self._left -= self._left > 0
        return self._left > 0

    def note(self, num_accepted: int) -> None:
        """Count a draft."""
        if num_accepted:
            self._refused, self._next = 0, FIRST_PAUSE
            return
        self._refused += 1
        if self._refused == MOST_REFUSED:
            self._left, self._refused = self._next + 1, MOST_REFUSED - 1
            self._next = min(2 * self._next, LAST_PAUSE)


class Drafts:
    """The drafts of one run of the loop, rows by number."""

    def __init__(self, guesser: Guesser, cost: Cost, num_rows: int) -> None:
        self._guesser = guesser
        self._cost = cost
        self._paces = [_Pace() for _ in range(num_rows)]

    def propose(self, rows: Sequence[Ask | int], columns: Callable[[Sequence[int]], int]) -> list[Draft]:
        """Return the draft that each row of a batch is to feed; empty for a number, and if no draft pays.

        A number counts the tokens that a row feeds without asking; ``columns`` returns the columns of a forward over so
        many tokens of each row.
        """
        out = [Draft() for _ in rows]
        asking = [
            (i, ask) for i, ask in enumerate(rows) if not isinstance(ask, int) and not self._paces[ask.number].waits()
        ]
        if asking:
            for (i, _), draft in zip(asking, self._guesser.propose([ask for _, ask in asking]), strict=True):
                out[i] = draft
        size = self._size(out, [ask if isinstance(ask, int) else ask.fed for ask in rows], columns)
        return [draft.cut(size) for draft in out]

    def learn(self, number: int, draft: Draft, num_accepted: int) -> None:
        """Learn how many guesses of a draft of row ``number``, which `propose` returned, were right."""
        self._paces[number].note(num_accepted)
        self._guesser.learn(number, draft, num_accepted)

    def _size(self, drafts: Sequence[Draft], fed: Sequence[int], columns: Callable[[Sequence[int]], int]) -> int:
        """Return the number of guesses to feed of each draft that saves the most time on average.

        A right guess saves the forward that would feed it with the tokens forced after it, or a row's share of that
        forward in a batch; feeding it makes this forward wider.
        """
        rows, counts = len(fed), list(fed)
        now = self._cost(columns(counts))
        chances = [1.0] * rows
        saved = most = 0.0
        best = 0
        for size in range(1, 1 + max((len(draft.guesses) for draft in drafts), default=0)):
            for r, draft in enumerate(drafts):
                if size <= len(draft.guesses):
                    guess = draft.guesses[size - 1]
                    chances[r] *= guess.chance
                    saved += chances[r] * self._cost(rows * (draft.num_tokens(size) - guess.at)) / rows
                    counts[r] = fed[r] + draft.num_tokens(size)
            gain = saved - (self._cost(columns(counts)) - now)
            if gain > most:
                most, best = gain, size
        return best


def drafts_of(
    settings: DraftSettings,
    model: Any,
    engine: Engine,
    answers: Sequence[RowAnswer],
    prompts: Sequence[Sequence[int]],
) -> Drafts | str:
    """Return the drafts of one run, or the reason why there are none: the assistant's cache, or its time."""
    source: Guesser
    if settings.assistant is None:
        source = PromptLookup(engine, answers, prompts, settings.num_tokens)
    else:
        abilities = abilities_of(settings.assistant)
        if not (abilities.ragged or (abilities.crop and len(answers) == 1)):
            return "; ".join(abilities.notes)
        share = relative_cost(settings.assistant, model)
        if share >= 1:
            return "a forward of the assistant takes as long as one of the model"
        source = AssistantDrafts(
            settings.assistant, answers, prompts, engine.tokens.end_ids, vocab_size=engine.tokens.facts.vocab_size,
            most=settings.num_tokens, least_chance=share,
        )  # fmt: skip
    return Drafts(source, measured_cost(model), len(answers))
