"""Two threads that share a model, a guide and plans."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier, BrokenBarrierError, Thread
from typing import Any

import pytest
import torch

from guided.hf.generate.call import generate_kwargs
from guided.hf.generate.inputs import checked_inputs
from guided.state.state import GuidanceState
from special_tokens.errors import PlanError
from tests.judges.generation import CHATS, GuidedCall, check_answer, greedy, plan_of

MODE = ("threads sharing a model", "right", "each call has its own session; guide, engine and plans are shared")
MODES = [
    ("threads sharing one set of kwargs", "refused", "PlanError in one of them; one after the other is right"),
    ("threads sharing kwargs without inputs", "right", "each thread has its own session"),
]


@pytest.mark.parametrize("repeats", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_each_thread_gets_what_it_would_get_alone(tiny_guide: Any, repeats: int) -> None:
    shared = {name: plan_of(tiny_guide, name) for name in ("json", "choice", "regex")}

    def answer(job: tuple[str, str]) -> tuple[list[int], Any]:
        chat, name = job
        (tokens,), (message,) = GuidedCall(tiny_guide, [chat], [shared[name]]).run()
        check_answer(tiny_guide, name, tokens, message)
        return tokens, message.guidance

    jobs = [(chat, name) for chat in CHATS for name in shared] * repeats
    alone = [answer(job) for job in jobs]
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(answer, jobs)) == alone


@pytest.mark.parametrize("bound", [True, False])
@pytest.mark.parametrize("copied", [(), ("logits_processor",), ("stopping_criteria",)], ids=str)
def test_two_calls_at_once_with_the_same_kwargs_are_not_silently_wrong(
    tiny_guide: Any, bound: bool, copied: tuple[str, ...]
) -> None:
    call = GuidedCall(tiny_guide, CHATS[:1], ["json"], bound=bound)
    expected = greedy(tiny_guide, call.inputs.prompt_ids[0], call.plans[0])
    call.kwargs |= {key: list(call.kwargs[key]) for key in copied}
    barrier = Barrier(2)  # two calls take turns: each waits for the other at its steps

    def take_turns(input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        with suppress(BrokenBarrierError):  # the other one is through, or was refused
            barrier.wait()
        return scores

    call.kwargs["logits_processor"].insert(0, take_turns)
    results: list[Any] = []

    def run() -> None:
        try:
            results.append(call.generate()[0, call.inputs.prompt_len :].tolist())
        except PlanError as error:
            results.append(str(error))
        finally:
            barrier.abort()  # no call waits for one that has ended

    threads = [Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    refused = [result for result in results if isinstance(result, str)]
    assert bool(refused) == bound
    assert all("two calls of generate use the same batch at once" in text for text in refused)
    assert all(result == expected for result in results if not isinstance(result, str))
    call.kwargs["logits_processor"].pop(0)
    run()
    assert results[-1] == expected


def test_kwargs_may_go_from_thread_to_thread(tiny_guide: Any) -> None:
    plan = plan_of(tiny_guide, "json")
    inputs = checked_inputs(tiny_guide.context, CHATS[:1], [plan])
    expected = greedy(tiny_guide, inputs.prompt_ids[0], plan)
    bound = generate_kwargs(tiny_guide.context, inputs, [plan])
    alone = {"logits_processor": bound["logits_processor"][:]}
    for kwargs in (bound, generate_kwargs(tiny_guide.context, None, plan), alone):
        for _ in range(3):
            with ThreadPoolExecutor(1) as pool:
                call = pool.submit(tiny_guide.model.generate, **inputs, max_new_tokens=40, do_sample=False, **kwargs)
                assert call.result()[0, inputs.prompt_len :].tolist() == expected


def test_of_two_calls_that_began_together_the_first_is_refused(tiny_guide: Any) -> None:
    plan = plan_of(tiny_guide, "json")
    inputs = checked_inputs(tiny_guide.context, CHATS[:1], [plan])
    session = generate_kwargs(tiny_guide.context, inputs, [plan])["stopping_criteria"][0].session
    ids, width = inputs["input_ids"], tiny_guide.engine.vocab_size
    token = GuidanceState(plan, tiny_guide.engine).ff_tokens()[0]
    longer = torch.cat([ids, torch.tensor([[token]])], dim=-1)
    with ThreadPoolExecutor(1) as other:
        assert session.read(ids, width)
        assert other.submit(session.read, ids.clone(), width).result()
        for shown in (None, width):
            with pytest.raises(PlanError, match="two calls of generate use the same batch at once"):
                session.read(longer, shown)
        assert other.submit(session.read, longer, width).result()


@pytest.mark.parametrize("options", [{}, {"num_beams": 3}, {"num_beams": 3, "num_return_sequences": 2}], ids=str)
def test_threads_with_other_prompts_share_kwargs_without_inputs(tiny_guide: Any, options: dict[str, Any]) -> None:
    """Each thread gets what fresh kwargs give, also where it comes back with its answer as a prompt."""
    plan = plan_of(tiny_guide, "json")
    shared = generate_kwargs(tiny_guide.context, None, plan)
    prompts = [checked_inputs(tiny_guide.context, [chat])["input_ids"] for chat in CHATS[:4]]

    def two_turns(prompt: torch.Tensor, kwargs: dict[str, Any] | None = shared) -> list[list[int]]:
        ids, found = prompt, []
        for _ in range(2):
            how = kwargs or generate_kwargs(tiny_guide.context, None, plan)
            out = tiny_guide.model.generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=40, do_sample=False, **options, **how
            )
            found += out.tolist()
            ids = torch.cat([out[:1], prompt], dim=-1)
        return found

    expected = [two_turns(ids, None) for ids in prompts]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(two_turns, prompts)) == expected
    assert two_turns(prompts[0]) == expected[0]
