"""The twins for an event loop: the same answers, one worker thread, cancellation after the running step."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import guided
from guided.hf.loop.row_loop import RowLoop
from special_tokens.errors import GuidanceError, RequestError

OPTIONS: dict[str, Any] = {"response_format": guided.Regex("[a-f]{30}"), "temperature": 1.0, "seed": 7}
BODY: dict[str, Any] = {
    "messages": [{"role": "user", "content": "hi"}], "structured_outputs": {"regex": "[a-f]{30}"}, "seed": 7,
    "temperature": 1.0,
}  # fmt: skip


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the threads that ran a step of the loop."""
    found: list[str] = []
    write = RowLoop._write

    def noted(self: RowLoop, logits: Any, step: Any) -> None:
        found.append(threading.current_thread().name)
        write(self, logits, step)

    monkeypatch.setattr(RowLoop, "_write", noted)
    return found


async def text_of(chunks: Any) -> str:
    parts = [choice["delta"].get("content", "") async for chunk in chunks for choice in chunk["choices"]]
    return "".join(parts)


def test_the_twins_answer_the_same(tiny_guide: Any, steps: list[str]) -> None:
    judge = tiny_guide.chat("hi", **OPTIONS).content
    assert set(steps) == {threading.current_thread().name}
    steps.clear()

    async def twins() -> list[str]:
        async with tiny_guide.astream("hi", **OPTIONS) as stream:
            streamed = "".join([getattr(event, "text", "") async for event in stream])
        assert stream.message.content == streamed
        message = await tiny_guide.achat("hi", **OPTIONS)
        whole = await tiny_guide.acomplete(BODY)
        chunks = await tiny_guide.acomplete({**BODY, "stream": True})
        return [streamed, message.content, whole["choices"][0]["message"]["content"], await text_of(chunks)]

    found = asyncio.run(twins())
    assert found[:2] == [judge] * 2
    assert found[2:] == [tiny_guide.complete(BODY)["choices"][0]["message"]["content"]] * 2
    names = set(steps) - {threading.current_thread().name}
    assert len(names) == 1
    assert names.pop().startswith("guided")


def test_answers_take_turns_in_one_thread(tiny_guide: Any, steps: list[str]) -> None:
    judge = [tiny_guide.chat(f"hi {i}", **OPTIONS).content for i in range(4)]
    steps.clear()

    async def together() -> list[str]:
        messages = await asyncio.gather(*(tiny_guide.achat(f"hi {i}", **OPTIONS) for i in range(4)))
        return [message.content for message in messages]

    assert asyncio.run(together()) == judge
    assert len(set(steps)) == 1


@pytest.mark.parametrize("how", ["task", "aclose", "acomplete"])
def test_a_cancelled_answer_ends_after_its_running_step(tiny_guide: Any, steps: list[str], how: str) -> None:
    """And leaves nothing wrong: the same answer afterwards is the same."""
    judge = tiny_guide.chat("hi", **OPTIONS).content
    steps.clear()

    async def cancelled() -> int:
        if how == "aclose":
            stream = tiny_guide.astream("hi", **OPTIONS)
            await anext(stream)
            await stream.aclose()
            assert stream.message.content == judge[: len(stream.message.content)] != judge
        else:
            call = tiny_guide.acomplete(BODY) if how == "acomplete" else tiny_guide.achat("hi", **OPTIONS)
            task = asyncio.create_task(call)
            while not steps:
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await tiny_guide._worker.run(lambda: None)  # all that was handed to the thread before is over
        return len(steps)

    done = asyncio.run(cancelled())
    assert 1 <= done < 30
    assert len(steps) == done
    assert asyncio.run(tiny_guide.achat("hi", **OPTIONS)).content == judge


def test_errors_come_where_the_answer_is_awaited(tiny_guide: Any) -> None:
    async def wrong() -> None:
        stream = tiny_guide.astream("hi", reponse_format=int)
        with pytest.raises(GuidanceError, match="the stream has not ended"):
            _ = stream.message
        with pytest.raises(RequestError, match="unknown keyword 'reponse_format'"):
            await anext(stream)
        with pytest.raises(RequestError, match="temprature: unknown key"):
            await tiny_guide.acomplete({**BODY, "temprature": 1})

    asyncio.run(wrong())
