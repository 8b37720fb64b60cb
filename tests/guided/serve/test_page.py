"""The page of a server: what it shows and to whom; in headless Chromium, where there is one, how it works."""

from __future__ import annotations

import ast
import json
import math
import re
import shlex
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from grammars.reasoning.levels import LEVELS
from guided.serve.observing.page import page
from guided.serve.observing.records import Records
from tests.guided.serve.browser import CHROMIUM, Tab, tab
from tests.guided.serve.conftest import Live, serving

CHAT, TRACE, LIVE = "/v1/chat/completions", "/v1/trace", "/v1/live"
SECRET = "s3cr3t"
SCHEMA = {
    "type": "object",
    "properties": {SECRET: {"type": "string", "maxLength": 20}, "b": {"enum": [f"{SECRET}-x", f"{SECRET}-y"]}},
    "required": [SECRET, "b"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": SECRET, "schema": SCHEMA}}
ASK = {
    "messages": [{"role": "user", "content": f"{SECRET} in the prompt"}],
    "max_tokens": 120,
    "response_format": FORMAT,
    "reasoning_effort": "minimal",
}
KEY = {"Authorization": "Bearer right"}


@contextmanager
def updates(live: Live, **headers: str) -> Iterator[Iterator[dict[str, Any]]]:
    """The updates that a page gets."""
    with live.client(**headers) as client, client.stream("GET", LIVE) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield (json.loads(line.removeprefix("data: ")) for line in answer.iter_lines() if line)


def ended(live: Live, **headers: str) -> dict[str, Any]:
    """Return what a page shows of the request that ended last."""
    live.wait_for_rest()
    with updates(live, **headers) as found:
        request: dict[str, Any] = next(found)["ended"][-1]
    return request


# -- to whom


def test_the_page_is_one_file_that_loads_nothing() -> None:
    text = page()
    assert not re.search(r"<(script|link|img|iframe|source)\b[^>]*\b(src|href)=(?!\"data:)", text)
    assert not re.search(r"@import|url\(|import\(", text)
    assert set(re.findall(r"https?://[^\"'\s)]+", text)) == {"http://www.w3.org/2000/svg"}


def test_the_page_forbids_whatever_comes_from_elsewhere(live: Live) -> None:
    with live.client() as client:
        answer = client.get("/")
    assert answer.status_code == 200
    assert answer.text == page()
    assert answer.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_the_page_offers_the_levels_of_effort() -> None:
    select = re.search(r'<select id="effort">(.*?)</select>', page(), re.DOTALL)
    assert re.findall(r"<option>(\w+)", select[1]) == list(LEVELS)


def test_without_the_page_its_routes_are_not_there(tiny_guide: Any) -> None:
    with serving(tiny_guide, page=False) as live, live.client() as client:
        for path in ("/", LIVE):
            assert client.get(path).json()["error"]["code"] == "not_found"
        assert client.post(TRACE, json=ASK).status_code == 404


def test_without_a_key_there_is_nothing_to_see(tiny_guide: Any) -> None:
    with serving(tiny_guide, keys=("right",)) as live:
        assert live.post(CHAT, ASK, **KEY).status_code == 200
        with live.client() as client:
            assert client.get("/").text == page()
            for answer in (client.get(LIVE), client.post(TRACE, json=ASK)):
                assert answer.status_code == 401
                assert answer.json()["error"]["code"] == "invalid_api_key"
        assert ended(live, **KEY)["client"] == "key-1"


@pytest.mark.parametrize("shows_text", [False, True])
def test_text_of_other_clients_is_shown_only_where_that_is_switched_on(tiny_guide: Any, shows_text: bool) -> None:
    with serving(tiny_guide, page_shows_text=shows_text) as live:
        seen: list[str] = []
        with updates(live) as found:
            thread = threading.Thread(target=live.post, args=(CHAT, ASK), kwargs={"X-Request-Id": SECRET})
            thread.start()
            for update in found:
                seen.append(json.dumps(update))
                if update["num_ended"]:
                    break
            thread.join()
        live.post(CHAT, {**ASK, "response_format": {"type": SECRET}})
        live.post(CHAT, {**ASK, SECRET: 1})
        seen.append(json.dumps(ended(live)))
        assert any(SECRET in update for update in seen) == shows_text


# -- what


def test_the_page_counts_what_the_answer_counts(live: Live, tiny_guide: Any) -> None:
    usage = live.post(CHAT, ASK).json()["usage"]
    request = ended(live)
    (row,) = request["rows"]
    assert (row["prompt"], row["written"]) == (usage["prompt_tokens"], usage["completion_tokens"])
    assert row["limit"] == ASK["max_tokens"]
    assert sum(size for _, size in row["parts"]) == row["written"]
    assert [name for name, _ in row["parts"]][-2:] == ["reasoning", "response"]
    message = tiny_guide.complete(ASK)  # the same answer, without a server
    assert request["state"] == message["choices"][0]["finish_reason"]
    assert set(request["phases"]) == {"compile", "queue", "prefill", "decode"}
    assert 0 < row["runs"] <= row["forced"] < row["written"]
    again = live.post(CHAT, ASK).json()["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert ended(live)["rows"][0]["cached"] == again > 0


def test_a_page_that_looks_on_misses_no_token_of_eight_rows(tiny_guide: Any) -> None:
    with serving(tiny_guide) as live:
        used: list[int] = []

        def ask(i: int) -> None:
            user = [{"role": "user", "content": str(i)}]
            body = {"messages": user, "max_tokens": 150, "temperature": 0, "landing": False}
            used.append(live.post(CHAT, body).json()["usage"]["completion_tokens"])

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
        with updates(live) as found:
            for thread in threads:
                thread.start()
            written: dict[int, int] = {}
            total, masks = 0, 0
            for update in found:
                assert update["tokens"] >= total
                total = update["tokens"]
                for request in (*update["live"], *update["ended"]):
                    size = sum(row["written"] for row in request["rows"])
                    assert size >= written.get(request["number"], 0)
                    written[request["number"]] = size
                    masks += sum(len(row["legal"]) for row in request["rows"])
                if update["num_ended"] == 8:
                    break
        for thread in threads:
            thread.join()
        assert sorted(written.values()) == sorted(used)
        assert total == sum(used)
        assert masks > 0


def test_rows_are_looked_at_only_while_a_page_looks_on() -> None:
    looked: list[int] = []
    records = Records()
    with records.request(CHAT, "", {}, 0.0) as record:
        record.look = lambda: looked.append(1)  # type: ignore[method-assign]
        records.wrote(1)
        assert not looked
        records.update(0)
        records.wrote(1)
        records.wrote(1)  # at once: a page could not show it
        assert len(looked) == 1


def test_of_finished_requests_the_last_thousand_are_remembered() -> None:
    records = Records()
    for _ in range(1_050):
        with records.request(CHAT, "", {}, 0.0):
            pass
    update = records.update(0)
    assert [request["number"] for request in update["ended"]] == list(range(51, 1_051))
    assert records.update(1_048)["ended"] == update["ended"][-2:]
    assert records.update(update["num_ended"])["ended"] == []
    assert not records.update(0)["live"]


def test_a_request_that_is_refused_or_left_is_shown_as_that(live: Live) -> None:
    live.post(CHAT, {"messages": []})
    assert (ended(live)["state"], ended(live)["rows"]) == ("RequestError", [])
    long = {"messages": ASK["messages"], "max_tokens": 1_500, "landing": False, "stream": True}
    with live.client() as client, client.stream("POST", CHAT, json=long) as answer:
        next(answer.iter_lines())
    assert ended(live)["state"] == "gone"


def test_updates_end_with_the_server(tiny_guide: Any) -> None:
    with serving(tiny_guide) as live, updates(live) as found:
        next(found)
        live.service.drain()
        assert {update["state"] for update in found} <= {"draining"}


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_trace_is_that_of_the_answer(live: Live, tiny_guide: Any, is_streamed: bool) -> None:
    asked = {**ASK, "temperature": 0}
    answer = live.post(TRACE, {**asked, "stream": is_streamed})
    if is_streamed:
        lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line]
        assert lines[-1] == "[DONE]"
        trace = json.loads(lines[-2])["trace"]
    else:
        trace = answer.json()["trace"]
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', trace, re.DOTALL)
    known = tiny_guide.complete({**asked, "logprobs": True})["choices"][0]["logprobs"]["content"]
    shown = [token[6] for token in json.loads(data[1])["tokens"]]  # probabilities, with 5 digits
    assert shown == [pytest.approx(math.exp(token["logprob"]), abs=1e-5) for token in known]


# -- in a browser

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here: apt-get install chromium")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Tab]:
    with tab() as found:
        yield found


def is_within(chromium: Tab) -> bool:
    return bool(chromium.run("document.scrollingElement.scrollWidth <= innerWidth"))


@needs_browser
def test_in_a_browser_rows_are_shown_live_and_then_as_finished(chromium: Tab, tiny_guide: Any) -> None:
    with serving(tiny_guide, names=("tiny",)) as live:
        chromium.open(live.address + "/")
        chromium.wait("document.getElementById('state').textContent === 'ready'")
        assert chromium.run("document.getElementById('model').textContent") == "tiny"
        long = {"messages": ASK["messages"], "max_tokens": 1_900, "temperature": 0, "landing": False}
        thread = threading.Thread(target=live.post, args=(CHAT, long))
        thread.start()
        chromium.wait("document.querySelector('#running .bar')?.getAttribute('aria-label')?.startsWith('content')")
        thread.join()
        chromium.wait("document.querySelectorAll('#finished tr').length === 1")
        chromium.wait("document.querySelectorAll('#running tr').length === 0")
        size = ended(live)["rows"][0]["written"]
        assert f"{size:,} / 1,900" in chromium.run("document.getElementById('finished').innerText")
        for width in (1400, 800, 360):
            chromium.view(width=width)
            assert is_within(chromium), width
        colours = []
        for dark in (False, True):
            chromium.view(width=1200, dark=dark)
            colours.append(chromium.run("getComputedStyle(document.body).backgroundColor"))
        assert colours[0] != colours[1]
        chromium.open("about:blank")
    assert chromium.problems == []


@needs_browser
def test_in_a_browser_the_playground_answers_by_keyboard(chromium: Tab, tiny_guide: Any) -> None:
    with serving(tiny_guide, names=("tiny",)) as live:
        chromium.view(width=1200)
        chromium.open(live.address + "/")
        chromium.wait("document.getElementById('state').textContent === 'ready'")
        chromium.run("document.getElementById('tab-live').focus()")
        chromium.press("ArrowRight")
        assert chromium.run("document.activeElement.id") == "tab-play"
        chromium.press("Tab")
        chromium.press("Enter")  # the first example
        chromium.run("document.querySelector('.message textarea').focus()")
        chromium.type(" It's 'quoted'.")
        chromium.press("Enter", modifiers=2)
        chromium.wait("document.getElementById('ended').textContent.startsWith('finished by')")
        answer = chromium.run("document.querySelector('#answer .s-response').lastChild.data")
        assert set(json.loads(answer)) == {"name", "age", "city", "married"}
        chromium.wait("document.getElementById('trace').srcdoc.includes('application/json')")
        assert chromium.run("document.getElementById('grammar').textContent").startswith("start")
        assert "keys come in the order" in chromium.run("document.getElementById('report').innerText")
        sent = chromium.run("body()")
        assert sent["messages"][0]["content"].endswith("It's 'quoted'.")
        curl = shlex.split(chromium.run("document.getElementById('curl').textContent"))
        assert curl[:2] == ["curl", f"{live.address}{CHAT}"]
        assert json.loads(curl[curl.index("-d") + 1]) == sent
        code = ast.parse(chromium.run("document.getElementById('python').textContent"))
        calls = (node for node in ast.walk(code) if isinstance(node, ast.Call))
        call = next(node for node in calls if ast.unparse(node.func).endswith("create"))
        assert {str(word.arg): ast.literal_eval(word.value) for word in call.keywords} == sent
        for width in (1200, 360):
            chromium.view(width=width)
            assert is_within(chromium), width
        chromium.open("about:blank")
    assert chromium.problems == []


@needs_browser
def test_in_a_browser_someone_without_the_key_is_asked_for_it(chromium: Tab, tiny_guide: Any) -> None:
    key = "a-key-of-its-own"
    with serving(tiny_guide, names=("tiny",), keys=(key,)) as live:
        chromium.open(live.address + "/")
        chromium.wait("!document.getElementById('key').hidden")
        assert "tiny" not in chromium.run("document.body.innerText")
        chromium.type("wrong")
        chromium.press("Enter")
        chromium.wait("document.getElementById('key-said').textContent.includes('none of the server')")
        chromium.run("document.getElementById('key-text').focus()")
        chromium.type(key)
        chromium.press("Enter")
        chromium.wait("document.getElementById('model').textContent === 'tiny'")
        chromium.run("document.getElementById('tab-play').click()")
        chromium.wait("changed() || document.getElementById('curl').textContent.includes('$GUIDED_API_KEY')")
        assert key not in chromium.run("document.documentElement.innerHTML")
        chromium.open("about:blank")


@needs_browser
def test_in_a_browser_a_long_list_ends_at_a_thousand_rows(chromium: Tab, tiny_guide: Any) -> None:
    with serving(tiny_guide) as live:
        for _ in range(1_001):
            with live.service.records.request(CHAT, "", {}, 0.0):
                pass
        chromium.open(live.address + "/")
        chromium.wait("document.querySelectorAll('#finished tr').length === 1000")
        live.post(CHAT, ASK)
        chromium.wait("document.querySelector('#finished tr').innerText.includes('#1002 ')")
        assert chromium.run("document.querySelectorAll('#finished tr').length") == 1_000
        chromium.open("about:blank")
