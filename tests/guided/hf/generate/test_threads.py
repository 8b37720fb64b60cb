"""Two threads that share a model, a guide and plans."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.guided.hf.generate.laws import CHATS, check_answer, plan_of

MODE = ("threads sharing a model", "right", "each call has its own session; guide, engine and plans are shared")


def test_each_thread_gets_what_it_would_get_alone(tiny_guide: Any) -> None:
    shared = {name: plan_of(tiny_guide, name) for name in ("json", "choice", "regex")}

    def answer(job: tuple[str, str]) -> tuple[list[int], Any]:
        chat, name = job
        inputs = tiny_guide.inputs([chat], [shared[name]])
        kwargs = tiny_guide.generate_kwargs(inputs, [shared[name]])
        out = tiny_guide.model.generate(**inputs, max_new_tokens=40, do_sample=False, **kwargs)
        (message,) = tiny_guide.messages(out, inputs, [shared[name]])
        tokens = out[0, inputs.prompt_len :].tolist()
        check_answer(tiny_guide, name, tokens, message)
        return tokens, message.guidance

    jobs = [(chat, name) for chat in CHATS for name in shared] * 3
    alone = [answer(job) for job in jobs]
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(answer, jobs)) == alone
