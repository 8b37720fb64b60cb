"""Prompt look-up: guess the tokens that followed an earlier occurrence of the answer's last words.

Occurrences are searched in prompt and answer.  Texts are compared, not tokens: a word that follows a space in the
prompt is also found after a quote.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from guided.engine.engine import Engine
from guided.hf.drafts.draft import Ask, Draft, DraftTrial
from guided.rows.answer import RowAnswer

__all__ = ["History", "PromptLookup"]

#: Bytes at the end of the answer that are looked for, the most first, each with the share of guesses that are right
#: before any was tried, as right ones and all.
LENGTHS = {32: (7, 8), 16: (5, 7), 8: (3, 6), 4: (1, 5)}


class History:
    """The tokens of one row with their text; `found` searches for earlier occurrences of the text's end."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._text = bytearray()
        self._ids: list[int] = []
        self._starts: list[int] = []

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, tokens: Sequence[int]) -> None:
        """Append tokens."""
        for token in tokens:
            self._starts.append(len(self._text))
            self._ids.append(token)
            self._text += self._engine.token_bytes(token)

    def cut(self, size: int) -> None:
        """Forget the tokens after the first ``size``."""
        if size < len(self._ids):
            del self._text[self._starts[size] :]
            del self._ids[size:], self._starts[size:]

    def found(self, most: int) -> tuple[list[int], int]:
        """Return up to ``most`` tokens that followed the latest earlier occurrence of the text's end.

        Also returns the length in bytes of the text that occurred: the longest is taken; no tokens and 0 without any.
        """
        text, end = self._text, len(self._text)
        for length in LENGTHS:
            place = text.rfind(text[end - length :], 0, end - 1) if end > length else -1
            if place >= 0:
                return self._after(place + length, most), length
        return [], 0

    def _after(self, place: int, most: int) -> list[int]:
        """The tokens from byte ``place`` on; where it lies inside a token, its rest is tokenised."""
        at = bisect_right(self._starts, place) - 1
        if self._starts[at] == place:
            return self._ids[at : at + most]
        end = self._starts[at + 1] if at + 1 < len(self._ids) else len(self._text)
        rest = list(self._engine.ll_tokenizer.tokenize_bytes(bytes(self._text[place:end])))
        return (rest + self._ids[at + 1 : at + 1 + most])[:most]


class _Row:
    """The look-up of one row: its history, and how often guesses of each length were right."""

    def __init__(self, engine: Engine, answer: RowAnswer, prompt: Sequence[int]) -> None:
        self.answer = answer
        self.history = History(engine)
        self.history.add(prompt)
        self.num_prompt = len(prompt)
        self.rates = {length: list(rate) for length, rate in LENGTHS.items()}


class PromptLookup:
    """Drafts of at most ``most`` guesses from what each row has read and written; rows go by number."""

    def __init__(
        self, engine: Engine, answers: Sequence[RowAnswer], prompts: Sequence[Sequence[int]], most: int
    ) -> None:
        self._engine = engine
        self._most = most
        self._rows = [_Row(engine, answer, prompt) for answer, prompt in zip(answers, prompts, strict=True)]

    def propose(self, asks: Sequence[Ask]) -> list[Draft]:
        """Return a draft for each row, empty where nothing was found."""
        return [self._propose(self._rows[ask.number], ask.room) for ask in asks]

    def learn(self, number: int, draft: Draft, num_accepted: int) -> None:
        """Note that the first ``num_accepted`` guesses of ``draft`` were right, and the next one wrong."""
        for i, guess in enumerate(draft.guesses[: num_accepted + 1]):
            rate = self._rows[number].rates[guess.evidence]
            rate[0] += i < num_accepted
            rate[1] += 1

    def _propose(self, row: _Row, room: int) -> Draft:
        history, answer = row.history, row.answer
        history.add(answer.tokens[len(history) - row.num_prompt :])
        size = len(history)
        trial: DraftTrial | None = None
        while True:
            left = self._most - (0 if trial is None else len(trial.draft.guesses))
            tokens, length = history.found(left) if left else ([], 0)
            if trial is None:
                if not tokens:
                    return Draft()
                trial = DraftTrial(answer.sequence, self._engine.tokens.end_ids, room)
            if not self._guess(row, trial, tokens, length):
                history.cut(size)
                return trial.draft

    @staticmethod
    def _guess(row: _Row, trial: DraftTrial, tokens: Sequence[int], length: int) -> bool:
        """Whether to look up again: all ``tokens`` were taken, or one that forces others."""
        for token in tokens:
            right, all_of_them = row.rates[length]
            run = trial.guess(token, right / all_of_them, length)
            if run is None:
                return False
            row.history.add([token, *run])
            if run:
                return True
        return bool(tokens)
