"""A draft of one row: tokens that may come next, tried on a copy of the row's guidance before the model sees them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from guided.rows.sequence import RowSequence
from guided.rows.unguided import UnguidedSequence
from guided.state.mask import TokenMask

__all__ = ["Ask", "Draft", "DraftTrial", "Guess"]


class Ask(NamedTuple):
    """A row that may get a draft: its number, the tokens that it feeds anyway, and how many it may still write."""

    number: int
    fed: int
    room: int


class Guess(NamedTuple):
    """A guessed token: its index in the draft, its chance to be chosen if those before were, and what it rests on."""

    at: int
    chance: float
    evidence: int = 0


@dataclass(slots=True)
class Draft:
    """``tokens``: guessed ones, each followed by those that it forces."""

    tokens: list[int] = field(default_factory=list)
    guesses: list[Guess] = field(default_factory=list)

    def num_tokens(self, num_guesses: int) -> int:
        """The length of the first ``num_guesses`` guesses with what they force."""
        return self.guesses[num_guesses].at if num_guesses < len(self.guesses) else len(self.tokens)

    def cut(self, num_guesses: int) -> Draft:
        """Return the draft of the first ``num_guesses`` guesses."""
        return Draft(self.tokens[: self.num_tokens(num_guesses)], self.guesses[:num_guesses])


class DraftTrial:
    """The way of a row from where it is: takes guesses as long as they are legal, and adds what they force.

    ``room`` is how many tokens the row may still write, and ``ends`` end it if it has no plan.  A token after which the
    row would end, by itself or by what it forces, is no part of a draft: its forward could tell nothing.
    """

    def __init__(self, sequence: RowSequence | UnguidedSequence | None, ends: Collection[int], room: int) -> None:
        self.draft = Draft()
        self._sequence = sequence.fork() if sequence is not None else None
        self._ends = () if isinstance(sequence, RowSequence) else ends
        self._room = room

    def token_mask(self) -> TokenMask | None:
        """Return the mask of the next guess, good until it is taken; None where all tokens are legal."""
        return self._sequence.token_mask() if isinstance(self._sequence, RowSequence) else None

    def guess(self, token: int, chance: float, evidence: int = 0) -> list[int] | None:
        """Take one token; return what it forces.  None where it cannot be taken, and then nothing may follow."""
        draft, sequence = self.draft, self._sequence
        size = len(draft.tokens)
        if size + 1 >= self._room or token in self._ends:
            return None
        run: list[int] = []
        if sequence is not None:
            sequence.extend((token,))
            if isinstance(sequence, RowSequence) and sequence.is_guided:
                run = sequence.forced_run(self._room - size - 1)
            if sequence.is_done or sequence.error is not None or size + 1 + len(run) >= self._room:
                return None
        draft.guesses.append(Guess(size, chance, evidence))
        draft.tokens += [token, *run]
        return run
