"""Law drafts: the same tokens and log-probabilities with drafts and without, whoever guesses, right or wrong.

The judge is our loop without drafts.  The guesses are prompt look-up's, and those of one who has read the judge's
answer and lies now and then.  A forward costs what it costs, whatever is in it, so that every draft is fed.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from typing import Any

import pytest

import guided
from guided.hf.drafts.draft import Ask, Draft, DraftTrial
from guided.output.message import Message
from tests.cases import seeds
from tests.guided.hf.loop.test_forced_law import CHATS, OBJECT, same, some_plan, some_sampling
from tests.made_up.scripts import write

#: They quote what answers may say.
QUOTES = [
    *CHATS,
    'say {"a long name": true, "another one": "reddish"} and {"a long name": false, "another one": "red"} again',
    '{"name": "look_up_the_weather", "arguments": {"city": "Ulm", "days": 3}} or the long literal text 42; and 17; end',
    "a first long option, a second, only a first long option",
]


class Liar:
    """Guesses the tokens of ``answers``, by row number, and a wrong one now and then."""

    def __init__(self, context: Any, answers: Sequence[Any], truth: Sequence[Sequence[int]], seed: int) -> None:
        self._context, self._answers, self._truth = context, answers, truth
        self._rng = random.Random(seed)

    def propose(self, asks: Sequence[Ask]) -> list[Draft]:
        return [self._propose(ask) for ask in asks]

    def _propose(self, ask: Ask) -> Draft:
        rng, answer = self._rng, self._answers[ask.number]
        trial = DraftTrial(answer.sequence, self._context.engine.tokens.end_ids, ask.room)
        size = len(answer.tokens)
        for _ in range(rng.choice([0, 1, 3, 8, 20])):
            place = size + len(trial.draft.tokens)
            if place >= len(self._truth[ask.number]):
                break
            lies = rng.random() < 0.15
            token = rng.randrange(self._context.engine.vocab_size) if lies else self._truth[ask.number][place]
            if trial.guess(token, 1.0) is None:
                break
        return trial.draft

    def learn(self, number: int, draft: Draft, num_accepted: int) -> None:
        assert 0 <= num_accepted <= len(draft.guesses)


def check_counts(message: Message, judge: Message) -> None:
    """Each accepted guess saves a forward, and perhaps the one that a forced end would take for log-probabilities."""
    usage = message.usage
    assert 0 <= usage.accepted_tokens <= usage.drafted_tokens
    saved = judge.usage.forwards - usage.forwards
    assert 0 <= saved - usage.accepted_tokens <= (message.logprobs is not None)


@pytest.fixture(scope="module")
def tiny_guide(tiny_guide: Any) -> Any:
    """The tiny guide in double precision: no two scores are so near that the width of a forward decides between them.

    In float32 the columns of a forward shift log-probabilities of this model (weights of 0.6) by up to 2e-4; here by 0.
    """
    return guided.Guide(copy.deepcopy(tiny_guide.model).double(), tiny_guide.tokenizer)


@pytest.fixture
def free_columns(monkeypatch: Any) -> None:
    """However many columns a forward has, it costs the same."""
    monkeypatch.setattr("guided.hf.drafts.drafts.measured_cost", lambda model: lambda columns: 1.0)


def some_call(guide: Any, rng: random.Random) -> tuple[list[Any], list[Any], dict[str, Any]]:
    chats = [rng.choice(QUOTES) for _ in range(rng.choice([1, 1, 2, 4]))]
    options: dict[str, Any] = {"max_tokens": rng.choice([5, 30, 70]), "reuse": rng.random() < 0.7}
    options["describe"] = False
    options["sampling"] = [some_sampling(rng) for _ in chats]
    return chats, [some_plan(guide, rng) for _ in chats], options


@pytest.mark.usefixtures("free_columns")
@pytest.mark.parametrize("seed", seeds(60, default=6))
def test_prompt_lookup_changes_nothing(tiny_guide: Any, seed: int) -> None:
    rng = random.Random(seed)
    chats, plans, options = some_call(tiny_guide, rng)
    judge = tiny_guide.generate(chats, plans, **options)
    found = tiny_guide.generate(chats, plans, prompt_lookup_num_tokens=rng.choice([1, 3, 10]), **options)
    for one, other in zip(found, judge, strict=True):
        same(one, other, places=1e-6)
        check_counts(one, other)


@pytest.mark.usefixtures("free_columns")
@pytest.mark.parametrize("seed", seeds(60, default=6))
def test_guesses_right_or_wrong_change_nothing(tiny_guide: Any, monkeypatch: Any, seed: int) -> None:
    """Nor do they leave anything wrong in the rows that are kept: the calls after it are judged, too."""
    rng = random.Random(3000 + seed)
    drafted = accepted = 0
    for _ in range(3):
        chats, plans, options = some_call(tiny_guide, rng)
        judge = tiny_guide.generate(chats, plans, **options)
        truth = [message.token_ids for message in judge]

        def liar(engine: Any, answers: Any, prompts: Any, most: int, truth: Any = truth) -> Liar:
            return Liar(tiny_guide.context, answers, truth, seed)

        with monkeypatch.context() as patch:
            patch.setattr("guided.hf.drafts.drafts.PromptLookup", liar)
            found = tiny_guide.generate(chats, plans, prompt_lookup_num_tokens=5, **options)
        for one, other in zip(found, judge, strict=True):
            same(one, other, places=1e-6)
            check_counts(one, other)
            drafted += one.usage.drafted_tokens
            accepted += one.usage.accepted_tokens
    assert drafted >= accepted


@pytest.mark.usefixtures("free_columns")
def test_usage_counts_drafts(tiny_guide: Any) -> None:
    """An answer that the prompt quotes is guessed as soon as its first bytes are written."""
    options: dict[str, Any] = {"temperature": 0, "max_tokens": 60, "describe": False}
    text = "the red fox jumped over one thing, then over a longer thing, and slept"
    for plan in (None, tiny_guide.plan(max_tokens=60)):
        with write(tiny_guide, text, tiny_guide.tokenizer.encode(text)):
            plain = tiny_guide.chat(text, plan, **options)
            message = tiny_guide.chat(text, plan, prompt_lookup_num_tokens=8, **options)
        assert message.token_ids == plain.token_ids
        assert (plain.usage.drafted_tokens, plain.usage.accepted_tokens) == (0, 0)
        assert 20 < message.usage.accepted_tokens <= message.usage.drafted_tokens
        assert message.usage.forwards == plain.usage.forwards - message.usage.accepted_tokens


@pytest.mark.usefixtures("free_columns")
def test_forced_runs_are_inside_drafts(tiny_guide: Any) -> None:
    """All of the answer goes with the prompt."""
    plan = tiny_guide.plan(response_format=OBJECT)
    options: dict[str, Any] = {"temperature": 0, "describe": False}
    answer = '{"a long name": true, "another one": "reddish"}'
    chat = f"say {answer} again"
    with write(tiny_guide, chat, tiny_guide.engine.tokenize(answer)):
        plain = tiny_guide.chat(chat, plan, **options)
        message = tiny_guide.chat(chat, plan, prompt_lookup_num_tokens=8, **options)
    assert message.token_ids == plain.token_ids
    assert message.content == answer
    assert message.guidance.forced == plain.guidance.forced > 0
    assert message.usage.forwards == 1 < plain.usage.forwards


@pytest.mark.usefixtures("free_columns")
@pytest.mark.parametrize("drafts", [None, 6])
@pytest.mark.parametrize("seed", seeds(20, default=4))
def test_a_stream_is_the_answer(tiny_guide: Any, seed: int, drafts: int | None) -> None:
    """Each event once, each run at once, the sum of the events the message."""
    rng = random.Random(4000 + seed)
    plan, chat = some_plan(tiny_guide, rng), rng.choice(QUOTES)
    options: dict[str, Any] = {"max_tokens": 40, "describe": False, "logprobs": True, "temperature": 0.2, "seed": seed}
    stream = tiny_guide.stream(chat, plan, prompt_lookup_num_tokens=drafts, **options)
    texts = {"ContentDelta": "", "ReasoningDelta": "", "ToolCallArguments": ""}
    for event in stream:
        if type(event).__name__ in texts:
            texts[type(event).__name__] += event.text
    whole = stream.message
    same(whole, tiny_guide.chat(chat, plan, **options))
    arguments = "".join(call.arguments for call in whole.tool_calls)
    assert [*texts.values()] == [whole.content or "", whole.reasoning or "", arguments]


@pytest.mark.usefixtures("free_columns")
def test_a_stream_that_is_closed_keeps_what_is_right(tiny_guide: Any) -> None:
    plan = tiny_guide.plan(response_format=OBJECT)
    judge = tiny_guide.chat(QUOTES[5], plan, temperature=0, reuse=False)
    for steps in (1, 2, 3):
        stream = tiny_guide.stream(QUOTES[5], plan, temperature=0, prompt_lookup_num_tokens=4)
        for _, _ in zip(range(steps), stream, strict=False):
            pass
        stream.close()
        assert tiny_guide.chat(QUOTES[5], plan, temperature=0).token_ids == judge.token_ids
