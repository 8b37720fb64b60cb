"""Two replicas: conversations stay, a dead replica loses nothing that was not begun, clients get our errors."""

from __future__ import annotations

import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from tests.cases import wait_until
from tests.guided.ray.live.conftest import CHAT, LiveReplicas, deploy

USER = [{"role": "user", "content": "Tell me about the sea."}]
#: The end of the turn is out of reach.
LONG: dict[str, Any] = {"temperature": 0, "max_tokens": 16, "landing": False, "logit_bias": {"2": -100}}


def of(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


class Conversation:
    """The turns of one chat: the replicas that wrote them, their prompts, and what was taken from a cache."""

    def __init__(self, live: LiveReplicas, text: str) -> None:
        self.live = live
        self.chat: list[dict[str, Any]] = of(text)["messages"]
        self.where: list[str] = []
        self.cached: list[int] = []
        self.sizes: list[int] = []

    def turn(self) -> None:
        answer = self.live.post({"messages": self.chat, "max_tokens": 12, "temperature": 0})
        assert answer.status_code == 200, answer.text
        body, usage = answer.json(), answer.json()["usage"]
        self.where.append(answer.headers["x-replica"])
        self.cached.append(usage["prompt_tokens_details"]["cached_tokens"])
        self.sizes.append(usage["total_tokens"])
        self.chat += [body["choices"][0]["message"], {"role": "user", "content": "Why?"}]


def test_a_conversation_stays_on_its_replica(replicas: LiveReplicas) -> None:
    chats = [Conversation(replicas, f"My cat number {i} is called Minka. And a second one?") for i in range(12)]
    for _ in range(3):
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(Conversation.turn, chats))
    stayed = [chat for chat in chats if len(set(chat.where)) == 1]
    cached = sum(sum(chat.cached[1:]) for chat in chats) / sum(sum(chat.sizes[:-1]) for chat in chats)
    print(f"\naffinity {len(stayed)} of {len(chats)}, {cached:.0%} of old tokens cached")
    assert len(stayed) >= 11
    assert cached >= 0.8
    assert len({chat.where[0] for chat in chats}) == 2


def test_a_conversation_whose_replica_is_gone_is_prefilled_anew(replicas: LiveReplicas) -> None:
    chat = Conversation(replicas, "My dog is called Rex.")
    chat.turn()
    chat.turn()
    (replicas.deaths / "decode").touch()
    chat.turn()
    chat.turn()
    assert chat.where[0] == chat.where[1] != chat.where[2]
    assert chat.cached[1] > 0.8 * chat.sizes[0]
    assert chat.cached[2] < 0.5 * chat.sizes[1], "only the template is kept there"
    assert chat.where[2] == chat.where[3]
    assert chat.cached[3] > 0.8 * chat.sizes[2]


@pytest.mark.parametrize("point", ["compile", "prefill", "decode"])
def test_a_replica_that_dies_under_load_loses_no_request(replicas: LiveReplicas, point: str) -> None:
    """Whole answers are written by the other replica; a streamed one may end with our error, never without an end."""
    whole = [of(f"({point} {i}) Is the sea blue?") | LONG for i in range(12)]
    streamed = [of(f"({point} {i}) Is the sky blue?") | LONG for i in range(4)]
    with ThreadPoolExecutor(len(whole) + len(streamed)) as threads:
        before = {answer.headers["x-replica"] for answer in threads.map(replicas.post, whole)}
        assert len(before) == 2
        (replicas.deaths / point).touch()
        if point == "compile":  # else the plan is in the cache
            for i, body in enumerate([*whole, *streamed]):
                body["structured_outputs"] = {"regex": f"[a-z ]{{30,{40 + i}}}"}
        streams, answers = threads.map(replicas.lines, streamed), threads.map(replicas.post, whole)
        assert [answer.status_code for answer in answers] == [200] * len(whole)
        broken = 0
        for lines in streams:
            assert lines[-1] == "data: [DONE]"
            error = json.loads(lines[-2].removeprefix("data: ")).get("error")
            broken += error is not None
            assert error is None or (error["type"], error["code"]) == ("server_error", "unavailable")
    print(f"\nkilled in {point}: 0 of {len(whole)} whole answers lost, {broken} of {len(streamed)} streams broken off")
    assert not (replicas.deaths / point).exists(), "a replica has died"
    replicas.wait_for(2)


@pytest.mark.parametrize("path", [CHAT, "/v1/responses"])
def test_a_stream_that_is_cut_ends_with_our_error(replicas: LiveReplicas, path: str) -> None:
    (replicas.deaths / "decode").touch()
    asked = {"input": "Tell me about the sea."} if path != CHAT else {"messages": USER, **LONG}
    lines = replicas.lines(asked, path)
    assert lines[-1] == "data: [DONE]"
    assert json.loads(lines[-2].removeprefix("data: "))["error"]["code"] == "unavailable"
    assert (lines[-3] == "event: error") == (path != CHAT)


def test_a_request_that_kills_twice_is_not_asked_a_third_time(replicas: LiveReplicas) -> None:
    def again() -> None:
        while (replicas.deaths / "compile").exists():
            time.sleep(0.01)
        (replicas.deaths / "compile").touch()

    (replicas.deaths / "compile").touch()
    thread = threading.Thread(target=again)
    thread.start()
    refused = replicas.post({"messages": USER, "structured_outputs": {"regex": "[b-d]{3}"}})
    thread.join()
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
    assert refused.json()["error"]["code"] == "unavailable"
    assert not (replicas.deaths / "compile").exists()
    replicas.wait_for(2)
    assert replicas.post({"messages": USER, "max_tokens": 2}).status_code == 200


def test_more_requests_than_may_wait_are_refused(replicas: LiveReplicas) -> None:
    bodies = [of(f"(flood {i}) Count.") | LONG for i in range(60)]
    with ThreadPoolExecutor(60) as threads:
        answers = list(threads.map(replicas.post, bodies))
    refused = [answer for answer in answers if answer.status_code != 200]
    assert 0 < len(refused) < 60
    for answer in refused:
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
        assert answer.json()["error"]["code"] == "rate_limit_exceeded"


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_away_frees_its_row(replicas: LiveReplicas, stream: bool) -> None:
    data = json.dumps({"messages": USER, **LONG, "max_tokens": 1_500, "stream": stream}).encode()
    url = httpx2.URL(replicas.address)
    with socket.create_connection((url.host, url.port)) as raw:
        raw.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (CHAT.encode(), len(data), data))
        while not replicas.metric("guided_num_rows_running").total():
            time.sleep(0.2)
    wait_until(lambda: not replicas.metric("guided_num_rows_running").total(), 60)


def test_a_refusal_of_the_server_arrives_as_it_is(replicas: LiveReplicas) -> None:
    for body, status, place in (
        ({"messages": USER, "max_tokens": 0}, 400, "max_tokens"),
        ({"messages": USER, "temprature": 0}, 400, "temprature"),
        ({"messages": USER, "model": "other"}, 404, "model"),
        ([1], 400, "body"),
    ):
        answer = replicas.post(body)
        assert (answer.status_code, answer.json()["error"]["param"]) == (status, place), answer.text
    with replicas.client() as client:
        assert client.post(CHAT, content=b"[" * 100_000).status_code == 400
        assert client.post(CHAT, content=b" " * 4_000_001).status_code == 413
        assert client.get("/v1/nothing").status_code == 404
        assert client.get("/").status_code == 404
        assert client.get("/ready").json() == {"status": "ok"}


def test_all_slots_taken_leave_health_and_metrics_free(replicas: LiveReplicas) -> None:
    """Eight rows run; eight requests wait in the replicas, and four for one of them."""
    bodies = [of(f"(full {i}) Tell a story.") | LONG | {"max_tokens": 150} for i in range(20)]
    with ThreadPoolExecutor(20) as threads, replicas.client() as client:
        answers = [threads.submit(replicas.post, body) for body in bodies]
        while replicas.metric("guided_num_requests_waiting").total() < 8:
            assert not any(answer.done() for answer in answers)
        assert [client.get(path).status_code for path in ("/health", "/ready", "/metrics")] == [200] * 3
        assert len(replicas.metric("guided_num_rows_running")) == 2
        assert not any(answer.done() for answer in answers), "it has waited for a slot"
        assert [answer.result().status_code for answer in answers] == [200] * len(bodies)


def test_metrics_name_their_replica(replicas: LiveReplicas) -> None:
    where = replicas.post({"messages": USER, "max_tokens": 2}).headers["x-replica"]
    tokens = replicas.metric("guided_generation_tokens_total")
    assert len(tokens) == 2
    assert tokens[where] > 0


def test_requests_are_traced_and_logged_where_they_are_answered(replicas: LiveReplicas) -> None:
    def logged() -> list[dict[str, Any]]:
        lines = [line for log in replicas.logs.glob("worker-*.err") for line in log.read_text().splitlines()]
        return [json.loads(line) for line in lines if '"request"' in line]

    replicas.post({"messages": USER, "max_tokens": 2})
    assert "guided.decode" in (replicas.deaths / "spans").read_text().split()
    wait_until(lambda: any((line["route"], line["status"]) == (CHAT, 200) for line in logged()), 60)


def test_a_replica_whose_engine_has_ended_is_replaced(replicas: LiveReplicas) -> None:
    refused = replicas.kill("engine")
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "unavailable")
    sick = refused.headers["x-replica"]
    wait_until(lambda: sick not in replicas.metric("guided_num_rows_running"), 300)
    replicas.wait_for(2)
    assert replicas.post({"messages": USER, "max_tokens": 2}).status_code == 200


def test_while_no_replica_is_there_waiting_is_bounded(replicas: LiveReplicas) -> None:
    deploy(replicas=1, max_wait_s=3.0)
    replicas.wait_for(1)
    (replicas.deaths / "boot").touch()
    try:
        killed = replicas.kill("compile", structured_outputs={"regex": "[e-g]{3}"})
        for refused in (killed, replicas.post({"messages": USER, "max_tokens": 2})):
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
            assert refused.json()["error"]["code"] == "unavailable"
        with replicas.client() as client:
            health, ready, metrics = map(client.get, ("/health", "/ready", "/metrics"))
        assert (health.status_code, ready.status_code, metrics.status_code) == (200, 503, 200)
        assert health.json() == ready.json() == {"status": "loading"}
        assert metrics.text == ""
    finally:
        (replicas.deaths / "boot").unlink()
    # its engine measures first, for seconds
    wait_until(lambda: replicas.post({"messages": USER, "max_tokens": 2}).status_code == 200, 300)
    deploy(replicas=2)


def test_answers_end_on_replicas_that_are_taken_away(replicas: LiveReplicas) -> None:
    """Another number in `deploy` is another version for Ray: each process is replaced, the ingress too."""
    bodies = [of(f"(drain {i}) Tell a story.") | LONG | {"max_tokens": 60} for i in range(8)]
    with ThreadPoolExecutor(8) as threads:
        streams = [threads.submit(replicas.lines, body) for body in bodies]
        while len(+replicas.metric("guided_num_rows_running")) < 2:
            time.sleep(0.1)
        deploy(replicas=1)
    replicas.wait_for(1)
    deploy(replicas=2)
    for stream in streams:
        lines = stream.result()
        assert lines[-1] == "data: [DONE]"
        assert "error" not in json.loads(lines[-2].removeprefix("data: "))


def test_replicas_come_with_the_queue(replicas: LiveReplicas) -> None:
    deploy(replicas=1)  # Ray begins with the number that runs
    replicas.wait_for(1)
    deploy(replicas=1, max_replicas=2)
    replicas.wait_for(1)
    bodies = [of(f"(queue {i}) Tell a story.") | LONG | {"max_tokens": 150} for i in range(12)]
    with ThreadPoolExecutor(12) as threads:
        answers = threads.map(replicas.post, bodies)
        replicas.wait_for(2)
        assert {answer.status_code for answer in answers} == {200}
    deploy(replicas=2)
