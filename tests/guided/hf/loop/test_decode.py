"""Our decode loop: transformers' tokens, rows that end by themselves, a batch that changes nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch

import guided
from guided.hf.loop.decode import LoopControl, decode, decode_steps
from guided.sampling import Sampling
from special_tokens.errors import GuidanceError, RequestError

CHATS = ["tell me a thing", "why?", "a longer question than the others, so that they are padded", "x"]
GREEDY = Sampling(temperature=0)


@pytest.mark.parametrize("chats", [CHATS, CHATS[:1]], ids=["batch4", "batch1"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"cache_implementation": "static"},
        {"use_cache": False},
        {"prefill_chunk_size": 7},
        {"repetition_penalty": 1.3, "no_repeat_ngram_size": 2},
        {"min_new_tokens": 70},
        {"eos_token_id": None},
    ],
    ids=str,
)
def test_greedy_tokens_are_those_of_generate(tiny_guide: Any, chats: list[str], options: dict[str, Any]) -> None:
    inputs = tiny_guide.inputs(chats)
    options = options | {"max_new_tokens": 90, "do_sample": False}
    judge = tiny_guide.model.generate(**inputs, **options)
    ours = tiny_guide.model.generate(**inputs, **options, custom_generate=decode)
    assert torch.equal(ours, judge)


def test_greedy_tokens_are_those_of_generate_with_guidance(tiny_guide: Any) -> None:
    plans = [tiny_guide.plan(), None, tiny_guide.plan(response_format={"type": "integer"}), None]
    inputs = tiny_guide.inputs(CHATS, plans)
    options = {"max_new_tokens": 40, "do_sample": False}
    judge = tiny_guide.model.generate(**inputs, **options, **tiny_guide.generate_kwargs(inputs, plans))
    expected = tiny_guide.messages(judge, inputs, plans)
    found = tiny_guide.generate(CHATS, plans, sampling=GREEDY, max_tokens=40)
    assert [m.token_ids for m in found] == [m.token_ids for m in expected]
    assert [m.finish_reason for m in found] == [m.finish_reason for m in expected]
    assert [m.content for m in found] == [m.content for m in expected]


def test_sampling_by_generates_own_warpers_is_that_of_generate(tiny_guide: Any) -> None:
    inputs = tiny_guide.inputs(CHATS)
    options = {"max_new_tokens": 20, "do_sample": True, "temperature": 0.9, "top_p": 0.8, "top_k": 30}
    torch.manual_seed(4)
    judge = tiny_guide.model.generate(**inputs, **options)
    torch.manual_seed(4)
    assert torch.equal(tiny_guide.model.generate(**inputs, **options, custom_generate=decode), judge)


@pytest.mark.parametrize("kind", ["sliding window", "own preparation"])
def test_models_with_ways_of_their_own(kind: str) -> None:
    """A sliding window past its size, and a model that prepares its inputs itself."""
    if kind == "sliding window":
        from transformers import MistralConfig, MistralForCausalLM

        config: Any = MistralConfig(
            vocab_size=64, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
            num_key_value_heads=2, sliding_window=6, initializer_range=0.6,
        )  # fmt: skip
        torch.manual_seed(1)
        model: Any = MistralForCausalLM(config).eval()
    else:
        from transformers import LlamaConfig, LlamaForCausalLM

        class Prepared(LlamaForCausalLM):  # type: ignore[misc, valid-type]
            prepared = 0

            def prepare_inputs_for_generation(self, *args: Any, **kwargs: Any) -> Any:
                Prepared.prepared += 1
                return super().prepare_inputs_for_generation(*args, **kwargs)

        torch.manual_seed(1)
        sizes = {"vocab_size": 64, "hidden_size": 16, "intermediate_size": 24}
        model = Prepared(LlamaConfig(**sizes, num_hidden_layers=1, num_attention_heads=2, initializer_range=0.6)).eval()
    ids = torch.tensor([[5, 6, 7, 8], [0, 0, 9, 10]])
    options = {
        "attention_mask": torch.tensor([[1, 1, 1, 1], [0, 0, 1, 1]]),
        "max_new_tokens": 20, "do_sample": False, "pad_token_id": 0,
    }  # fmt: skip
    judge = model.generate(ids, **options)
    before = getattr(model, "prepared", 0)
    assert torch.equal(model.generate(ids, **options, custom_generate=decode), judge)
    if kind == "own preparation":
        assert model.prepared > before


def test_the_streamer_gets_what_it_gets_from_generate(tiny_guide: Any) -> None:
    class Collector:
        def __init__(self) -> None:
            self.calls: list[Any] = []

        def put(self, value: torch.Tensor) -> None:
            self.calls.append(value.tolist())

        def end(self) -> None:
            self.calls.append("end")

    judge, ours = Collector(), Collector()
    inputs = tiny_guide.inputs(CHATS[:1])
    tiny_guide.model.generate(**inputs, max_new_tokens=15, do_sample=False, streamer=judge)
    tiny_guide.generate(CHATS[:1], sampling=GREEDY, max_tokens=15, streamer=ours)
    assert ours.calls == judge.calls


def test_rows_end_by_themselves_each_at_its_own_limit(tiny_guide: Any) -> None:
    plans = [tiny_guide.plan(max_tokens=n) for n in (3, 11, 7)]
    messages = tiny_guide.generate(CHATS[:3], plans, sampling=GREEDY)
    alone = [tiny_guide.generate([c], [p], sampling=GREEDY)[0] for c, p in zip(CHATS, plans, strict=False)]
    assert [m.token_ids for m in messages] == [m.token_ids for m in alone]
    assert [m.usage.completion_tokens for m in messages] == [3, 11, 7]


def test_a_row_is_sampled_as_if_it_were_alone(tiny_guide: Any) -> None:
    samplings = [
        Sampling(temperature=0.9, seed=1),
        Sampling(temperature=1.1, top_p=0.8, seed=2, presence_penalty=1.0),
        GREEDY,
        Sampling(temperature=0.7, top_k=5, seed=1, repetition_penalty=1.2),
    ]
    together = tiny_guide.generate(CHATS, sampling=samplings, max_tokens=20)
    turned = tiny_guide.generate(CHATS[::-1], sampling=samplings[::-1], max_tokens=20)[::-1]
    for r, chat in enumerate(CHATS):
        (alone,) = tiny_guide.generate([chat], sampling=samplings[r], max_tokens=20)
        assert together[r].token_ids == alone.token_ids == turned[r].token_ids


def test_n_answers_stand_side_by_side_and_the_first_is_the_one_alone(tiny_guide: Any) -> None:
    samplings = [Sampling(temperature=1.0, seed=3, n=3), Sampling(temperature=1.0, seed=4)]
    messages = tiny_guide.generate(CHATS[:2], sampling=samplings, max_tokens=15)
    assert len(messages) == 4
    assert len({m.token_ids for m in messages[:3]}) == 3
    single = tiny_guide.generate(CHATS[:1], sampling=Sampling(temperature=1.0, seed=3), max_tokens=15)
    assert messages[0].token_ids == single[0].token_ids
    (other,) = tiny_guide.generate(CHATS[1:2], sampling=samplings[1], max_tokens=15)
    assert messages[3].token_ids == other.token_ids


def test_seeds_go_before_the_samplings_own(tiny_guide: Any) -> None:
    sampling = Sampling(temperature=1.0, seed=9)
    by_seed = tiny_guide.generate(CHATS[:2], sampling=sampling, seed=[5, 6], max_tokens=12)
    again = [tiny_guide.generate([c], sampling=sampling, seed=s, max_tokens=12)[0] for c, s in zip(CHATS, (5, 6), strict=False)]  # fmt: skip  # noqa: E501
    assert [m.token_ids for m in by_seed] == [m.token_ids for m in again]
    assert tiny_guide.generate(CHATS[:1], sampling=sampling, max_tokens=12)[0].token_ids != by_seed[0].token_ids


def test_the_models_own_sampling_settings_hold_where_the_request_is_silent(tiny_guide: Any, monkeypatch: Any) -> None:
    config = tiny_guide.model.generation_config
    for name, value in {"do_sample": True, "temperature": 0.6, "top_k": 3, "top_p": 0.9}.items():
        monkeypatch.setattr(config, name, value)
    silent = tiny_guide.generate(CHATS, seed=8, max_tokens=12)
    spoken = Sampling(temperature=0.6, top_k=3, top_p=0.9)
    assert [m.token_ids for m in silent] == [
        m.token_ids for m in tiny_guide.generate(CHATS, sampling=spoken, seed=8, max_tokens=12)
    ]
    greedy = tiny_guide.generate(CHATS, sampling=GREEDY, max_tokens=12)
    assert [m.token_ids for m in silent] != [m.token_ids for m in greedy]


def test_logprobs_are_those_of_a_fresh_forward(tiny_guide: Any) -> None:
    plan = tiny_guide.plan(response_format={"type": "integer"})
    messages = tiny_guide.generate(CHATS[:2], [None, plan], sampling=Sampling(temperature=0, logprobs=3), max_tokens=8)
    inputs = tiny_guide.inputs(CHATS[:2], [None, plan])
    for r, message in enumerate(messages):
        assert message.logprobs is not None
        assert len(message.logprobs) == len(message.token_ids)
        ids = torch.tensor([[*inputs.prompt_ids[r], *message.token_ids]])
        with torch.no_grad():
            logits = tiny_guide.model(ids).logits[0, len(inputs.prompt_ids[r]) - 1 : -1].float()
        judge = logits.log_softmax(-1)
        for i, found in enumerate(message.logprobs):
            assert found.logprob == pytest.approx(float(judge[i, message.token_ids[i]]), abs=1e-3)
            assert [token for token, _ in found.top] == judge[i].topk(3).indices.tolist()
            if r == 0:
                assert found.masked == found.logprob
            else:
                assert found.masked >= found.logprob - 1e-6
                assert found.num_allowed < tiny_guide.tokens.vocab_size
    assert tiny_guide.generate(CHATS[:1], sampling=GREEDY, max_tokens=3)[0].logprobs is None


class _Poison:
    """Makes one row's logits NaN from step ``at`` on."""

    def __init__(self, row: int, at: int) -> None:
        self.row, self.at, self.step = row, at, 0

    def __call__(self, module: Any, args: Any, output: Any) -> Any:
        if self.step >= self.at:
            output.logits[self.row] = math.nan
        self.step += 1
        return output


@pytest.mark.parametrize("sampling", [GREEDY, Sampling(temperature=1.0, seed=2, top_p=0.9)], ids=["greedy", "sampled"])
def test_nan_logits_end_their_row_with_an_error(tiny_guide: Any, sampling: Sampling) -> None:
    plans = [None, tiny_guide.plan(), None]
    clean = tiny_guide.generate(CHATS[:3], plans, sampling=sampling, max_tokens=12)
    for row in (0, 1):
        hook = tiny_guide.model.register_forward_hook(_Poison(row, 4))
        try:
            messages = tiny_guide.generate(CHATS[:3], plans, sampling=sampling, max_tokens=12)
        finally:
            hook.remove()
        assert messages[row].finish_reason == "error"
        assert isinstance(messages[row].error, GuidanceError)
        assert f"row {row}: the model's logits are not numbers" in str(messages[row].error)
        assert messages[row].token_ids == clean[row].token_ids[:4]
        for other in {0, 1, 2} - {row}:
            assert messages[other].token_ids == clean[other].token_ids
            assert messages[other].error is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_beams": 2}, "custom_generate: beam search is not supported by guided's loop; expected greedy search or"),
        ({"num_beams": 2, "do_sample": True}, "beam sample is not supported"),
        ({"prompt_lookup_num_tokens": 2}, "assisted generation is not supported"),
        ({"return_dict_in_generate": True, "output_scores": True}, "output_scores is not collected by guided's loop"),
        ({"return_dict_in_generate": True, "output_logits": True}, "output_logits is not collected"),
        ({"return_dict_in_generate": True, "output_hidden_states": True}, "output_hidden_states is not collected"),
    ],
)
@pytest.mark.parametrize("loop", [decode, decode_steps], ids=["decode", "decode_steps"])
def test_settings_of_other_loops_are_refused(tiny_guide: Any, loop: Any, options: dict[str, Any], message: str) -> None:
    """Two beams came back as two greedy rows."""
    with pytest.raises(RequestError, match=message):
        tiny_guide.model.generate(**tiny_guide.inputs(CHATS[:1]), max_new_tokens=4, custom_generate=loop, **options)


def test_what_a_model_recommends_for_other_loops_does_not_disturb_guides(tiny_guide: Any, monkeypatch: Any) -> None:
    expected = tiny_guide.generate(CHATS[:2], sampling=GREEDY, max_tokens=5)
    for name, value in (("prompt_lookup_num_tokens", 3), ("penalty_alpha", 0.6), ("return_dict_in_generate", True)):
        monkeypatch.setattr(tiny_guide.model.generation_config, name, value)
    found = tiny_guide.generate(CHATS[:2], sampling=GREEDY, max_tokens=5)
    assert [m.token_ids for m in found] == [m.token_ids for m in expected]


def test_an_output_object_holds_the_sequences(tiny_guide: Any) -> None:
    plans = [tiny_guide.plan(), None]
    inputs = tiny_guide.inputs(CHATS[:2], plans)
    options = {"max_new_tokens": 8, "do_sample": False}
    judge = tiny_guide.model.generate(**inputs, **options, **tiny_guide.generate_kwargs(inputs, plans))
    out = tiny_guide.model.generate(
        **inputs, **options, **tiny_guide.generate_kwargs(inputs, plans), custom_generate=decode,
        return_dict_in_generate=True,
    )  # fmt: skip
    assert torch.equal(out.sequences, judge)
    assert out.past_key_values.get_seq_length() == judge.shape[1] - 1
    assert [m.token_ids for m in tiny_guide.messages(out, inputs, plans)] == [
        m.token_ids for m in tiny_guide.messages(judge, inputs, plans)
    ]


def test_steps_say_which_rows_wrote(tiny_guide: Any) -> None:
    inputs = tiny_guide.inputs(CHATS[:2])
    control = LoopControl(max_tokens=(2, 5))
    steps = tiny_guide.model.generate(
        **inputs, max_new_tokens=5, do_sample=False, eos_token_id=None, custom_generate=decode_steps, control=control
    )
    assert [step.live for step in steps] == [[True, True]] * 2 + [[False, True]] * 3


def test_nothing_is_left_in_the_guide_after_a_broken_run(tiny_guide: Any) -> None:
    expected = tiny_guide.generate(CHATS[:2], sampling=GREEDY, max_tokens=10)

    class Broken:
        def put(self, value: torch.Tensor) -> None:
            if value.ndim == 1:
                raise KeyboardInterrupt

        def end(self) -> None: ...

    with pytest.raises(KeyboardInterrupt):
        tiny_guide.generate(CHATS[:2], sampling=GREEDY, max_tokens=10, streamer=Broken())
    again = tiny_guide.generate(CHATS[:2], sampling=GREEDY, max_tokens=10)
    assert [m.token_ids for m in again] == [m.token_ids for m in expected]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": [1, 2, 3]}, "seed: 3 values for 2 rows; expected one value, or one per row"),
        ({"sampling": [GREEDY]}, "sampling: 1 values for 2 rows"),
        ({"max_tokens": 0}, "max_tokens: 0 is out of range; expected an integer of 1 or more"),
        ({"sampling": Sampling(n=2)}, "n: n=2, but this model answers greedily"),
        ({"sampling": Sampling(logit_bias={10**6: 1.0})}, "logit_bias: 1000000 is not a token of this model"),
    ],
)
def test_calls_that_cannot_be_are_refused(tiny_guide: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        tiny_guide.generate(CHATS[:2], **options)


def test_stream_and_chat_take_openais_words(tiny_guide: Any) -> None:
    message = tiny_guide.chat("x", temperature=0.8, seed=3, logprobs=True, top_logprobs=2, max_tokens=6)
    assert message.logprobs is not None
    assert [len(found.top) for found in message.logprobs] == [2] * len(message.token_ids)
    assert message.token_ids == tiny_guide.chat("x", temperature=0.8, seed=3, max_tokens=6).token_ids
    with pytest.raises(RequestError, match="n: n=2 for one answer"):
        tiny_guide.chat("x", n=2)
    with pytest.raises(RequestError, match=r"temperature: -1 is out of range"):
        tiny_guide.stream("x", temperature=-1)


def test_choice_probabilities_are_those_of_each_option_alone(tiny_guide: Any) -> None:
    choices: Sequence[str] = ["true", "tru", "a thing", "\N{GRINNING FACE}", *[f"option {i}" for i in range(40)]]
    found = tiny_guide.choice_probabilities("which?", choices, describe=False)
    plan = tiny_guide.plan(response_format={"enum": ["x"]})
    prompt = tiny_guide.inputs(["which?"], [plan]).prompt_ids[0]
    ends = sorted(tiny_guide.tokens.end_ids)
    judged = []
    for choice in choices:
        option = tiny_guide.engine.tokenize(choice)
        with torch.no_grad():
            logprobs = tiny_guide.model(torch.tensor([[*prompt, *option]])).logits[0].float().log_softmax(-1)
        written = sum(float(logprobs[len(prompt) - 1 + i, token]) for i, token in enumerate(option))
        judged.append(written + math.log(sum(math.exp(float(logprobs[-1, end])) for end in ends)))
    total = sum(math.exp(p) for p in judged)
    assert [c.text for c in found] == list(choices)
    for option, logprob in zip(found, judged, strict=True):
        assert option.logprob == pytest.approx(logprob, abs=1e-3)
        assert option.probability == pytest.approx(math.exp(logprob) / total, rel=1e-2)
    assert sum(c.probability for c in found) == pytest.approx(1.0)


def test_choice_probabilities_take_one_pass_over_the_options(tiny_guide: Any) -> None:
    shapes: list[Any] = []
    hook = tiny_guide.model.register_forward_pre_hook(
        lambda module, args, kwargs: shapes.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    try:
        tiny_guide.choice_probabilities("which?", ["true", "false", "null"], describe=False)
    finally:
        hook.remove()
    assert [shape[0] for shape in shapes] == [1, 3]
    with pytest.raises(RequestError):
        tiny_guide.choice_probabilities("which?", [])


def test_options_that_spell_markers_are_scored_as_the_text_that_guidance_writes(tiny_guide: Any) -> None:
    """The special token's probability was taken for that of its name."""
    choices = ["<|im_end|>", "no", "a <think>b</think>\N{GRINNING FACE}", "<think><think>"]
    plan = tiny_guide.plan(response_format=guided.Choice(choices))
    read: list[list[list[int]]] = []
    hook = tiny_guide.model.register_forward_pre_hook(
        lambda module, args, kwargs: read.append(kwargs["input_ids"].tolist()), with_kwargs=True
    )
    try:
        found = tiny_guide.choice_probabilities("which?", choices, describe=False)
    finally:
        hook.remove()
    for option, ids in zip(found, read[1], strict=True):
        state = guided.GuidanceState(plan, tiny_guide.engine)
        for token in ids[: option.num_tokens]:
            assert state.allows(token)
            state.commit([token])
        assert state.is_accepting
        assert b"".join(map(tiny_guide.engine.token_bytes, ids[: option.num_tokens])).decode() == option.text
        assert not tiny_guide.tokens.marker_ids & set(ids[: option.num_tokens])


@pytest.mark.parametrize("value", [math.nan, -math.inf, math.inf])
@pytest.mark.parametrize("forward", [0, 1], ids=["prompt", "options"])
def test_choice_probabilities_of_logits_that_are_no_numbers_are_an_error(
    tiny_guide: Any, value: float, forward: int
) -> None:
    calls: list[int] = []

    def poison(module: Any, args: Any, output: Any) -> Any:
        calls.append(1)
        if len(calls) == forward + 1:
            output.logits[:] = value
        return output

    hook = tiny_guide.model.register_forward_hook(poison)
    try:
        with pytest.raises(GuidanceError, match="choice 'true': the model's logits are not numbers"):
            tiny_guide.choice_probabilities("which?", ["true", "false"], describe=False)
    finally:
        hook.remove()


@pytest.mark.parametrize("choices", [None, 3, 2.5])
def test_choices_that_are_no_list_are_refused(tiny_guide: Any, choices: Any) -> None:
    with pytest.raises(RequestError, match="choice: .* is no list; expected a list of texts"):
        tiny_guide.choice_probabilities("which?", choices)


def test_G1_one_mask_one_sample_one_commit_per_row_and_step(tiny_guide: Any, monkeypatch: Any) -> None:
    from guided.hf.loop.sampling import BatchSampler

    calls: list[int] = []
    choose = BatchSampler.choose

    def counted(self: BatchSampler, scores: torch.Tensor) -> Any:
        calls.append(scores.shape[0])
        return choose(self, scores)

    monkeypatch.setattr(BatchSampler, "choose", counted)
    plans = [tiny_guide.plan(max_tokens=200), None, tiny_guide.plan(max_tokens=40)]
    messages = tiny_guide.generate(CHATS[:3], plans, sampling=Sampling(temperature=1.0, seed=1), max_tokens=200)
    assert calls == [3] * max(m.usage.completion_tokens for m in messages)
    for message in (messages[0], messages[2]):
        counters = message.guidance
        assert counters.masks == counters.commits == message.usage.completion_tokens
        assert counters.rollbacks == 0
