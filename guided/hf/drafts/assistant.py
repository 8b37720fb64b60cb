"""Drafts of an assistant model: a smaller model with the same vocabulary, under the grammar of the answer."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch

from guided.hf.cache.kv_cache import RowKV
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
    rows whose answers are done are dropped.
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
        self._answers = answers
        self._prompts = prompts
        self._ends = ends
        self._vocab_size = vocab_size
        self._last_id = assistant.get_input_embeddings().weight.shape[0] - 1
        self._most = most
        self._least_chance = least_chance
        self._cache = RowKV(assistant, len(answers))
        self._numbers = list(range(len(answers)))  # of the rows of the cache

    def propose(self, asks: Sequence[Ask]) -> list[Draft]:
        """Return a draft for each row; empty if the assistant would end the answer."""
        self._drop_ended()
        rooms = {ask.number: ask.room for ask in asks}
        # By place in the cache; those that ask for none have no room, and feed nothing.
        answers, none = [self._answers[number] for number in self._numbers], DraftTrial(None, (), 0)
        trials = [
            attempt(answer.fail, none, DraftTrial, answer.sequence, self._ends, rooms[number])
            if number in rooms
            else none
            for number, answer in zip(self._numbers, answers, strict=True)
        ]
        chances = [1.0] * len(trials)
        chunks = [self._missing_tokens(i) if number in rooms else [] for i, number in enumerate(self._numbers)]
        while any(chunks):
            guessed = self._guess(chunks, trials)
            chunks = [[] for _ in trials]
            for i, (token, chance) in guessed.items():
                run = attempt(answers[i].fail, None, trials[i].guess, token, chance)
                chances[i] *= chance
                if run is not None and len(trials[i].draft.guesses) < self._most and chances[i] > self._least_chance:
                    chunks[i] = [token, *run]
        return [trials[self._numbers.index(ask.number)].draft for ask in asks]

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

    def _drop_ended(self) -> None:
        """Drop the rows of the cache whose answers are done."""
        places = [place for place, number in enumerate(self._numbers) if not self._answers[number].is_done]
        self._cache.select(places)
        self._numbers = [self._numbers[place] for place in places]
