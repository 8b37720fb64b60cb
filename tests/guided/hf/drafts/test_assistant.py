"""Drafts of an assistant: the tokens of single steps, whoever assists; its cache is rolled back exactly."""

from __future__ import annotations

import random
from collections.abc import Sequence
from copy import deepcopy
from itertools import pairwise
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer

import guided
from guided.bitmask import allowed_ids
from guided.hf.drafts.assistant import AssistantDrafts
from guided.hf.drafts.cost import interpolate
from guided.hf.drafts.draft import Ask, Draft, Guess
from guided.hf.drafts.drafts import FIRST_PAUSE, LAST_PAUSE, MOST_REFUSED, Drafts
from tests.cases import seeds
from tests.guided.hf.conftest import tiny_model
from tests.guided.hf.drafts.test_drafts_law import check_counts, some_call
from tests.guided.hf.loop.test_forced_law import CHATS, OBJECT, same
from tests.made_up.models import ARCHITECTURES


@pytest.fixture(scope="module")
def small(tiny_guide: Any) -> Any:
    """Another, smaller random model: most of its guesses are wrong."""
    return tiny_model(len(tiny_guide.tokenizer), hidden_size=16, intermediate_size=24, num_hidden_layers=1)


@pytest.fixture(autouse=True)
def free_forwards(monkeypatch: Any) -> None:
    """However many columns a forward has, it costs the same, and one of the assistant next to nothing."""
    monkeypatch.setattr("guided.hf.drafts.drafts.measured_cost", lambda model: lambda columns: 1.0)
    monkeypatch.setattr("guided.hf.drafts.drafts.relative_cost", lambda assistant, model: 1e-9)


@pytest.mark.parametrize("seed", seeds(60, default=3))
def test_an_assistant_changes_nothing(tiny_guide: Any, small: Any, seed: int) -> None:
    rng = random.Random(9000 + seed)
    for assistant in (tiny_guide.model, small):
        chats, plans, options = some_call(tiny_guide, rng)
        judge = tiny_guide.generate(chats, plans, **options)
        found = tiny_guide.generate(chats, plans, assistant_model=assistant, **options)
        for one, other in zip(found, judge, strict=True):
            same(one, other)
            check_counts(one, other)


@pytest.mark.parametrize("seed", seeds(30, default=2))
def test_the_assistants_cache_is_rolled_back_exactly(tiny_guide: Any, small: Any, monkeypatch: Any, seed: int) -> None:
    """The judge: a forward without a cache over prompt, answer and guesses, at each guess of each row."""
    feed_and_guess, checked = AssistantDrafts._guess, []

    def judged(self: Any, chunks: Any, trials: Any) -> Any:
        rows = [[*ids, *chunk] for ids, chunk in zip(self._cache.ids, chunks, strict=True)]
        found = feed_and_guess(self, chunks, trials)
        assert self._cache.ids == rows
        for place, chunk in enumerate(chunks):
            if not chunk:
                continue
            number, trial = self._numbers[place], trials[place]
            text = [*self._prompts[number], *self._answers[number].tokens, *trial.draft.tokens]
            assert rows[place] == text
            with torch.no_grad():
                logits = small(input_ids=torch.tensor([text]), use_cache=False).logits[0, -1]
            token, chance = found[place]
            mask = trial.token_mask()
            legal = list(range(len(logits)) if mask is None else allowed_ids(mask.words))
            right = torch.full_like(logits, float("-inf"))
            right[legal] = logits[legal]
            assert chance == pytest.approx(float(right.softmax(-1).max()), abs=1e-4)
            assert float(right[token]) == pytest.approx(float(right.max()), abs=1e-4)
            checked.append(place)
        return found

    monkeypatch.setattr(AssistantDrafts, "_guess", judged)
    monkeypatch.setattr("guided.hf.drafts.drafts.FIRST_PAUSE", 2)  # so that rows pause and come back
    rng = random.Random(seed)
    chats, plans, options = some_call(tiny_guide, rng)
    tiny_guide.generate(chats, plans, assistant_model=small, **options)
    tiny_guide.generate(CHATS[:3], max_tokens=20, assistant_model=small)
    assert checked


def test_the_model_as_its_own_assistant_is_right_each_time(tiny_guide: Any) -> None:
    plans = [None, tiny_guide.plan(response_format=OBJECT)]
    options = {"sampling": guided.Sampling(temperature=0), "max_tokens": 64}
    plain = tiny_guide.generate(CHATS[:2], plans, **options)
    found = tiny_guide.generate(CHATS[:2], plans, assistant_model=tiny_guide.model, **options)
    for one, other in zip(found, plain, strict=True):
        assert one.token_ids == other.token_ids
        assert one.usage.accepted_tokens == one.usage.drafted_tokens > 0
        assert one.usage.forwards == other.usage.forwards - one.usage.accepted_tokens
    assert found[0].usage.forwards <= 64 // 20 + 2


def test_a_stream_with_an_assistant_and_hidden_states(tiny_guide: Any, small: Any) -> None:
    options: dict[str, Any] = {"temperature": 0, "max_tokens": 20, "return_last_hidden_state": True}
    judge = tiny_guide.chat("why?", **options).last_hidden_state
    for assistant in (small, tiny_guide.model):
        state = tiny_guide.stream("why?", assistant_model=assistant, **options).message.last_hidden_state
        assert state.at_token == pytest.approx(judge.at_token, abs=1e-5)
        assert state.producing == pytest.approx(judge.producing, abs=1e-5)


# -- when drafts pay


class Wrong:
    """Guesses ``size`` tokens with ``chance`` each, never right."""

    def __init__(self, size: int, chance: float) -> None:
        self.size, self.chance, self.asked = size, chance, 0

    def propose(self, asks: Sequence[Ask]) -> list[Draft]:
        self.asked += len(asks)
        guesses = [Guess(i, self.chance) for i in range(self.size)]
        return [Draft([7] * self.size, list(guesses)) for _ in asks]

    def learn(self, number: int, draft: Draft, num_accepted: int) -> None:
        pass


def test_a_row_whose_drafts_are_refused_pauses_longer_each_time() -> None:
    guesser = Wrong(4, 0.9)
    drafts = Drafts(guesser, lambda columns: 1.0, 1)
    asked_at = []
    for step in range(600):
        (draft,) = drafts.propose([Ask(0, 1, 100)], sum)
        if draft.guesses:
            asked_at.append(step)
            drafts.learn(0, draft, 0)
    assert guesser.asked == len(asked_at)
    gaps = [b - a - 1 for a, b in pairwise(asked_at)]
    pauses, pause = [], FIRST_PAUSE
    while MOST_REFUSED + sum(pauses) + len(pauses) + pause < 600:
        pauses.append(pause)
        pause = min(2 * pause, LAST_PAUSE)
    assert gaps == [0] * (MOST_REFUSED - 1) + pauses
    assert guesser.asked <= 600 * 0.02


def test_an_accepted_guess_ends_the_doubling() -> None:
    drafts = Drafts(Wrong(2, 0.9), lambda columns: 1.0, 1)
    fed = []
    for _ in range(200):
        (draft,) = drafts.propose([Ask(0, 1, 100)], sum)
        fed.append(bool(draft.guesses))
        if draft.guesses:
            drafts.learn(0, draft, 1)
    assert all(fed)


@pytest.mark.parametrize(
    ("seconds", "chance", "size"),
    [
        ({1: 1.0, 2: 2.0, 8: 8.0}, 0.9, 0),  # each column costs a whole forward: nothing pays
        ({1: 1.0, 2: 1.0, 8: 1.0}, 0.9, 4),  # none does: all is fed
        ({1: 1.0, 2: 1.5, 8: 4.5}, 0.4, 0),  # half a forward, for less than half a chance
        ({1: 1.0, 2: 1.5, 8: 4.5}, 0.8, 3),  # 0.8, 0.64 and 0.51 pay, 0.41 does not
    ],
)
def test_guesses_are_fed_as_long_as_their_columns_pay(seconds: Any, chance: float, size: int) -> None:
    (draft,) = Drafts(Wrong(4, chance), interpolate(seconds), 1).propose([Ask(0, 1, 100)], sum)
    assert len(draft.guesses) == len(draft.tokens) == size


def test_in_a_batch_a_guess_must_pay_for_the_columns_of_all_rows() -> None:
    cost = interpolate({1: 1.0, 2: 1.2, 8: 2.4})

    def rectangle(counts: Sequence[int]) -> int:
        return len(counts) * max(counts)

    asks = [Ask(0, 1, 100), 1, 1, 1]
    (draft, *_) = Drafts(Wrong(4, 0.9), cost, 4).propose(asks, rectangle)
    assert not draft.guesses
    (draft, *_) = Drafts(Wrong(4, 0.9), cost, 4).propose([Ask(i, 1, 100) for i in range(4)], rectangle)
    assert draft.guesses


@pytest.mark.parametrize(("share", "most"), [(0.9, 1), (0.5, 2), (0.3, 4), (1e-9, 20)])
def test_the_assistant_goes_on_as_long_as_its_forward_pays(
    tiny_guide: Any, monkeypatch: Any, share: float, most: int
) -> None:
    """All guesses have a chance of 0.7: two are right half of the time, three a third."""
    sizes = []
    feed_and_guess, propose = AssistantDrafts._guess, AssistantDrafts.propose

    def likely(self: Any, chunks: Any, trials: Any) -> Any:
        return {i: (token, 0.7) for i, (token, _) in feed_and_guess(self, chunks, trials).items()}

    def counted(self: Any, asks: Any) -> Any:
        drafts = propose(self, asks)
        sizes.extend(len(draft.guesses) for draft in drafts)
        return drafts

    monkeypatch.setattr(AssistantDrafts, "_guess", likely)
    monkeypatch.setattr(AssistantDrafts, "propose", counted)
    monkeypatch.setattr("guided.hf.drafts.drafts.relative_cost", lambda assistant, model: share)
    options = {"sampling": guided.Sampling(temperature=0), "max_tokens": 60}
    tiny_guide.generate(["tell me a thing"], assistant_model=tiny_guide.model, **options)
    assert max(sizes) == sizes[0] == most


# -- refused, or noted


def test_wrong_assistants_are_refused(tiny_guide: Any, small: Any) -> None:
    """Of the same number of tokens one is another, or there are more of them."""
    size, text = len(tiny_guide.tokenizer), tiny_guide.tokenizer.backend_tokenizer.to_str()
    assert text.count("<think>") == 1
    other, longer = deepcopy(tiny_guide.tokenizer), deepcopy(tiny_guide.tokenizer)
    other._tokenizer = Tokenizer.from_str(text.replace("<think>", "<muse>"))
    longer.add_tokens(["another token"])
    token = tiny_guide.tokenizer.convert_tokens_to_ids("<think>")
    wide = tiny_model(size + 24, hidden_size=16, intermediate_size=24, num_hidden_layers=1)
    for assistant, more, said in (
        (wide, {}, f"the assistant has {size + 24} tokens, the model {size}; expected"),
        (small, {"prompt_lookup_num_tokens": 3}, "prompt_lookup_num_tokens is there as well; expected one of the two"),
        (
            guided.Guide(small, other),
            {},
            f"token {token} is b'<muse>' for the assistant, b'<think>' for the model; exp",
        ),
        (guided.Guide(wide, longer), {}, "token .* is b'another token' for the assistant, b''"),
    ):
        for _ in range(2):
            with pytest.raises(guided.RequestError, match=f"assistant_model: {said}"):
                tiny_guide.chat("x", assistant_model=assistant, **more)
    alike = guided.Guide(small, deepcopy(tiny_guide.tokenizer))
    for _ in range(2):
        assert tiny_guide.chat("x", max_tokens=8, assistant_model=alike).usage.drafted_tokens


@pytest.mark.parametrize(("padding", "of_assistant"), [(0, 24), (24, 0), (40, 8)])
def test_embeddings_may_be_padded_to_different_sizes(tiny_guide: Any, padding: int, of_assistant: int) -> None:
    """Padding is never guessed; the model's own is read by an assistant that has less of it."""
    size = len(tiny_guide.tokenizer)
    wide, other = (tiny_model(size + more, num_hidden_layers=1) for more in (padding, of_assistant))
    other.get_output_embeddings().weight.data[size:] += 9.0  # it would guess nothing but padding
    guide, assistant = guided.Guide(wide, tiny_guide.tokenizer), guided.Guide(other, tiny_guide.tokenizer)
    drafted, written = 0, []
    for plan in (None, guide.plan(response_format=OBJECT)):
        for seed in range(2):
            options: dict[str, Any] = {"sampling": guided.Sampling(temperature=3.0, seed=seed), "max_tokens": 30}
            (judge,) = guide.generate(["say a thing"], [plan], **options)
            (message,) = guide.generate(["say a thing"], [plan], assistant_model=assistant, **options)
            assert message.token_ids == judge.token_ids
            drafted += message.usage.drafted_tokens
            written += message.token_ids
    assert drafted
    assert (max(written) >= size) == (padding > 0)


def test_an_assistant_whose_cache_cannot_be_cropped_writes_no_drafts(tiny_guide: Any) -> None:
    assistant = ARCHITECTURES["mamba"](vocab_size=len(tiny_guide.tokenizer))
    message = tiny_guide.chat("x", max_tokens=4, assistant_model=assistant)
    assert message.usage.drafted_tokens == 0
    assert any(note.startswith("no drafts: MambaForCausalLM") for note in message.notes)
    guide = guided.Guide(assistant, tiny_guide.tokenizer)
    message = guide.chat("x", max_tokens=4, assistant_model=tiny_guide.model)
    assert any(note.startswith("no drafts: ") for note in message.notes)


def test_an_assistant_as_slow_as_the_model_writes_no_drafts(tiny_guide: Any, small: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("guided.hf.drafts.drafts.relative_cost", lambda assistant, model: 1.0)
    message = tiny_guide.chat("x", max_tokens=4, assistant_model=small)
    assert "no drafts: a forward of the assistant takes as long as one of the model" in message.notes
