"""Drafts of an assistant model: a smaller model with the same vocabulary, under the grammar of the answer."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch

from guided.hf.cache.kv_cache import RowKV, TakenRow
from guided.hf.drafts.draft import Ask, Draft, DraftTrial
from guided.hf.masks.apply import bool_mask
from guided.rows.alone import attempt
from guided.rows.answer import RowAnswer

__all__ = ["AssistantDrafts"]


class AssistantDrafts:
    """Drafts of at most ``most`` guesses, each the assistant's best legal token; rows are identified by number.

    A draft goes on as long as the probability that all its guesses are right is above ``least_chance``: the time of the
    assistant's forward divided by that of the model's.  Ids from ``vocab_size`` on are padding and never
    guessed.  The assistant has its own cache: tokens that an answer did not take are removed before the next draft, and
    rows that ask for none are stored apart.
    """

    def __init__(
        self,
        assistant: Any,
        answers: Sequence[RowAnswer],
        prompts: Sequence[Sequence[int]],
        ends: Collection[int],
        *,
        vocab_size: int,
        most: int,
        least_chance: float,
    ) -> None:
        self._assistant = assistant
        self._answers = answers
        self._prompts = prompts
        self._ends = ends
        self._vocab_size = vocab_size
        self._last_id = assistant.get_input_embeddings().weight.shape[0] - 1
        self._most = most
        self._least_chance = least_chance
        self._cache = RowKV(assistant, len(answers))
        self._numbers = list(range(len(answers)))  # of the rows of the cache
        self._aside: dict[int, TakenRow] = {}

    def propose(self, asks: Sequence[Ask]) -> list[Draft]:
        """Return a draft for each row; empty if the assistant would end the answer."""
        self._arrange([ask.number for ask in asks])
        answers, none = [self._answers[ask.number] for ask in asks], DraftTrial(None, (), 0)
        trials = [
            attempt(answer.fail, none, DraftTrial, answer.sequence, self._ends, ask.room)
            for answer, ask in zip(answers, asks, strict=True)
        ]
        chances = [1.0] * len(asks)
        chunks = [self._missing_tokens(place) for place in range(len(asks))]
        while any(chunks):
            guessed = self._guess(chunks, trials)
            chunks = [[] for _ in asks]
            for i, (token, chance) in guessed.items():
                run = attempt(answers[i].fail, None, trials[i].guess, token, chance)
                chances[i] *= chance
                if run is not None and len(trials[i].draft.guesses) < self._most and chances[i] > self._least_chance:
                    chunks[i] = [token, *run]
        return [trial.draft for trial in trials]

    def learn(self, number: int, draft: Draft, num_accepted: int) -> None:
        """Ignore the outcome: the chance of a guess is the assistant's own probability."""

    def _guess(self, chunks: Sequence[list[int]], trials: Sequence[DraftTrial]) -> dict[int, tuple[int, float]]:
        """Feed ``chunks``; return the best legal token of each row that has one, with its chance."""
        growing = [i for i, chunk in enumerate(chunks) if chunk]
        scores = self._cache.feed(chunks)[:, -1, : self._vocab_size].float()[growing]
        fails = [self._answers[self._numbers[i]].fail for i in growing]
        masks = [attempt(fail, None, trials[i].token_mask) for fail, i in zip(fails, growing, strict=True)]
        if any(mask is not None for mask in masks):
            everything = torch.ones(scores.shape[-1], dtype=torch.bool)
            allowed = [everything if mask is None else bool_mask(mask.words, scores.shape[-1]) for mask in masks]
            scores.masked_fill_(~torch.stack(allowed).to(scores.device), float("-inf"))
        chances, tokens = scores.softmax(dim=-1).max(dim=-1)
        guesses = zip(growing, tokens.tolist(), chances.tolist(), strict=True)
        return {i: (token, chance) for i, token, chance in guesses if chance > 0}  # false where it is not a number

    # -- the rows of the cache

    def _missing_tokens(self, place: int) -> list[int]:
        """Remove the tokens that the row's answer did not take; return the tokens that its cache lacks."""
        number, cached = self._numbers[place], self._cache.ids[place]
        tokens = [min(token, self._last_id) for token in (*self._prompts[number], *self._answers[number].tokens)]
        most = min(len(cached), len(tokens) - 1)
        same = next((i for i in range(most) if cached[i] != tokens[i]), most)
        self._cache.crop(place, same)
        return tokens[same:]

    def _arrange(self, numbers: Sequence[int]) -> None:
        """Let the rows of the cache be ``numbers``, in this order; store the others, unless their answers are done.

        A row that was not stored begins empty.
        """
        if list(numbers) == self._numbers:
            return
        for place, number in enumerate(self._numbers):
            if number not in numbers and self._cache.ids[place] and not self._answers[number].is_done:
                self._aside[number] = self._cache.take(place)
        rows = [number for number in self._numbers if number in numbers]
        if rows or any(number in self._aside for number in numbers):
            self._cache.select([self._numbers.index(number) for number in rows])
            for number in sorted(set(numbers).difference(rows), key=lambda number: number not in self._aside):
                if number in self._aside:
                    self._cache.put(self._aside.pop(number))
                else:
                    self._cache.select([*range(len(rows)), 0])
                    self._cache.crop(len(rows), 0)
                rows.append(number)
            self._cache.select([rows.index(number) for number in numbers])
        else:
            self._cache = RowKV(self._assistant, len(numbers))
        self._numbers = list(numbers)
