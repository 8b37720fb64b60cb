"""A draft of one row: tokens that may come next, tried on a copy of the row's guidance before the model sees them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from grammars.plan.plan import RegionName
from guided.bitmask import is_allowed
from guided.rows.sequence import RowSequence
from guided.rows.unguided import UnguidedSequence
from guided.state.mask import TokenMask

__all__ = ["Ask", "Draft", "DraftTrial", "Guess"]


class Ask(NamedTuple):
    """A row that may get a draft: its number, how many tokens it feeds without one, and how many it may write."""

    number: int
    fed: int
    room: int


class Guess(NamedTuple):
    """A guessed token: its index in the draft, its probability if all guesses before are right, and its evidence."""

    at: int
    chance: float
    evidence: tuple[int, bool] | None = None


@dataclass(slots=True)
class Draft:
    """``tokens`` are guessed tokens, each followed by the tokens that are forced after it."""

    tokens: list[int] = field(default_factory=list)
    guesses: list[Guess] = field(default_factory=list)

    def num_tokens(self, num_guesses: int) -> int:
        """Return the number of tokens in the first ``num_guesses`` guesses, forced tokens included."""
        return self.guesses[num_guesses].at if num_guesses < len(self.guesses) else len(self.tokens)

    def cut(self, num_guesses: int) -> Draft:
        """Return the draft of the first ``num_guesses`` guesses."""
        return Draft(self.tokens[: self.num_tokens(num_guesses)], self.guesses[:num_guesses])


class DraftTrial:
    """A draft that is being made, tried on a copy of the row's guidance: legal guesses with the tokens they force.

    ``room`` is the number of tokens that the row may still write; ``ends`` end the row if it has no plan.  A guess with
    which the row would end is not part of a draft, because the forward after it would be wasted.
    """

    def __init__(self, sequence: RowSequence | UnguidedSequence | None, ends: Collection[int], room: int) -> None:
        self.draft = Draft()
        self._sequence = sequence.fork() if sequence is not None else None
        self._ends = () if isinstance(sequence, RowSequence) else ends
        self._room = room

    def token_mask(self) -> TokenMask | None:
        """Return the mask of the next guess, good until it is taken; None where all tokens are legal."""
        return self._sequence.token_mask() if isinstance(self._sequence, RowSequence) else None

    @property
    def is_formatted(self) -> bool:
        """Whether the next guess is part of a response format or of a tool call."""
        sequence = self._sequence
        return (
            isinstance(sequence, RowSequence)
            and sequence.is_guided
            and sequence.state.region in (RegionName.RESPONSE, RegionName.TOOL_CALLS)
        )

    def allows(self, token: int) -> bool:
        """Whether ``token`` is legal next."""
        mask = self.token_mask()
        return mask is None or is_allowed(mask.words, token)

    def guess(self, token: int, chance: float, evidence: tuple[int, bool] | None = None) -> list[int] | None:
        """Add one token; return the tokens forced after it.  None if it is refused, which completes the draft."""
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
