"""Traces: numbers that agree with the run, and one self-contained page."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import guided
from grammars.plan.plan import Stops
from grammars.reasoning.levels import NATIVE_BUDGETS
from guided.hf.generate.inputs import checked_inputs
from guided.inspect.trace import _events, _regions
from guided.output.message import Message
from guided.output.trace_records import TokenTrace, Trace, check_writable
from guided.sampling import Sampling
from guided.state.entry import FRESH
from special_tokens.errors import RequestError
from tests.guided.stops.test_scope import TOOLS, plan_of
from tests.made_up.schemas import closed

SCHEMA = closed({"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer"}})


class Page(HTMLParser):
    """Reads a page: its elements, the text of the token spans, and the data block."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.spans: list[str] = []
        self.data = ""
        self._open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._open.append(str(dict(attrs).get("id") or dict(attrs).get("class") or tag))
        if (dict(attrs).get("class") or "").startswith("t "):
            self.spans.append("")

    def handle_endtag(self, tag: str) -> None:
        self._open.pop()

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "data":
            self.data += data
        elif self._open and self._open[-1].startswith("t "):
            self.spans[-1] += data


def token(text: str, **more: Any) -> TokenTrace:
    values: dict[str, Any] = {"region": "content", "num_allowed": 9, "forced": False, "overridden": False}
    return TokenTrace(7, text, probability=0.5, masked=0.75, **(values | more))


@pytest.fixture(scope="module")
def plan(demo_guide: Any) -> Any:
    """Reasoning of eight tokens: a budget of 64 takes minutes where processors are starved."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(NATIVE_BUDGETS, "minimal", 8)
        return demo_guide.plan(response_format=SCHEMA, reasoning_effort="minimal", max_tokens=150)


@pytest.fixture(scope="module")
def traced(demo_guide: Any, plan: Any) -> Any:
    sampling = Sampling(temperature=0, logprobs=3)
    (message,) = demo_guide.generate(["Alice is 31."], [plan], sampling=sampling, trace=True, describe=True)
    return message


def test_numbers_agree_with_the_run(traced: Any, demo_guide: Any) -> None:
    trace = traced.trace
    assert [t.token_id for t in trace.tokens] == list(traced.token_ids)
    assert sum(t.overridden for t in trace.tokens) == traced.guidance.overridden
    for found, logprob in zip(trace.tokens, traced.logprobs, strict=True):
        assert found.probability == pytest.approx(math.exp(logprob.logprob))
        assert found.masked == pytest.approx(math.exp(logprob.masked))
        assert found.forced == (found.num_allowed == 1)
        assert found.masked == pytest.approx(1.0) or not found.forced
        assert found.masked >= found.probability - 1e-6
        assert found.overridden == (found.top[0][0] not in [text for text, _ in found.top_masked])
        assert len(logprob.top) == 3
        assert len(found.top) == 5
    assert trace.vocab_size == demo_guide.tokens.vocab_size


def adjusted(logits: np.ndarray, sampling: Sampling, prompt: list[int], answer: list[int]) -> np.ndarray:
    """Float64 logits ``[vocab]`` under bias and penalties, one token at a time."""
    out = logits.copy()
    for token, bias in sampling.logit_bias.items():
        out[token] += bias
    for token in {*prompt, *answer}:
        by = sampling.repetition_penalty or 1.0
        out[token] = out[token] * by if out[token] < 0 else out[token] / by
    for token in set(answer):
        out[token] -= (sampling.frequency_penalty or 0.0) * answer.count(token) + (sampling.presence_penalty or 0.0)
    return out


@pytest.mark.parametrize("planned", [False, True], ids=["free", "guided"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"temperature": 1.5},
        {"logit_bias": {101: -100.0, 40: 20.0}},
        {"repetition_penalty": 1.4},
        {"presence_penalty": 1.5},
        {"frequency_penalty": 2.0},
        {"temperature": 0.7, "logit_bias": {34: 3.0}, "repetition_penalty": 1.2, "presence_penalty": -1.0},
    ],
    ids=str,
)
def test_the_numbers_tell_the_mask_from_bias_and_penalties(
    tiny_guide: Any, settings: dict[str, Any], planned: bool
) -> None:
    """The effect of a bias was shown as removed by the mask, even in rows without a mask."""
    plans = [tiny_guide.plan(response_format=SCHEMA) if planned else None]
    sampling = Sampling(**{"temperature": 0.0} | settings, seed=5, logprobs=2)
    options: dict[str, Any] = {"max_tokens": 20, "trace": True, "landing": False}  # no budget that narrows the masks
    (message,) = tiny_guide.generate(["tell me"], plans, sampling=sampling, **options)
    prompt = checked_inputs(tiny_guide.context, ["tell me"], plans, describe=True).prompt_ids[0]
    answer = list(message.token_ids)
    with torch.no_grad():
        logits = tiny_guide.model(torch.tensor([[*prompt, *answer]])).logits[0, len(prompt) - 1 : -1].double()
    state = guided.GuidanceState(plans[0], tiny_guide.engine) if plans[0] is not None else None
    for i, (found, raw) in enumerate(zip(message.trace.tokens, logits.numpy(), strict=True)):
        legal = np.ones(len(raw), dtype=bool)
        if state is not None:
            legal = np.unpackbits(state.mask().view(np.uint8), bitorder="little")[: len(raw)].astype(bool)
            state.commit([answer[i]])
        own = np.exp(raw - np.logaddexp.reduce(raw))
        after = np.where(legal, adjusted(raw, sampling, prompt, answer[:i]), -np.inf)
        after = np.exp(after - np.logaddexp.reduce(after))
        assert found.probability == pytest.approx(own[answer[i]], abs=1e-4)
        assert found.masked == pytest.approx(after[answer[i]], abs=1e-4)
        assert found.removed == pytest.approx(own[~legal].sum(), abs=1e-4)
        assert message.logprobs[i].removed == found.removed
        assert found.num_allowed == legal.sum()
        assert [p for _, p in found.top_masked] == pytest.approx(sorted(after[after > 0], reverse=True)[:5], abs=1e-4)
        if not planned:
            assert found.removed == 0


def test_regions_and_events_follow_the_answer(traced: Any) -> None:
    trace = traced.trace
    by_region: dict[str, str] = {}
    for found in trace.tokens:
        by_region[found.region] = by_region.get(found.region, "") + found.text
    assert list(dict.fromkeys(t.region for t in trace.tokens)) == ["marker", "reasoning", "response", "end"]
    assert by_region["response"].strip() == traced.content
    assert by_region["end"] == "<|im_end|>"
    assert sum(t.region == "reasoning" for t in trace.tokens) == traced.usage.reasoning_tokens == 8
    events = [(i, event) for i, t in enumerate(trace.tokens) for event in t.events]
    first_close = 1 + max(i for i, t in enumerate(trace.tokens) if t.region == "reasoning")
    assert events == [
        (first_close, "the reasoning budget of 8 tokens is used up"), (len(trace.tokens) - 1, "end of turn")
    ]  # fmt: skip


@pytest.mark.parametrize(
    "parts",
    [
        [("<think>", "marker"), ("\n", "reasoning"), ("a", "reasoning"), ("\n", "reasoning"), ("</think>", "marker"),
         ("\n\n", "marker"), ("<tool_call>", "tool_calls"), ("\n", "tool_calls")],
        [("<think>", "marker"), ("\n", "reasoning"), ("\n", "reasoning"), ("</think>", "marker"), ("\n", "marker"),
         ("\n", "marker"), ("\n", "response"), ("{", "response")],
        [("<think>", "marker"), ("\n", "reasoning"), ("\n", "reasoning"), ("</think>", "marker"), ("\n", "marker"),
         ("x", "response"), ("\n", "response")],
        [("a", "response"), ("\n", "tool_calls"), ("<tool_call>", "tool_calls")],
        [("a", "response"), ("\n\n", "response"), ("<tool_call>", "tool_calls")],
    ],
    ids=["call after reasoning", "answer after reasoning", "broken frame", "gap before a call", "more than the gap"],
)  # fmt: skip
def test_the_white_space_that_frames_a_marker_belongs_to_it(engine: Any, parts: list[tuple[str, str]]) -> None:
    """The empty line after ``</think>`` was coloured as the response, in front of a tool call as well."""
    plan = plan_of(engine, response_format=SCHEMA, tools=TOOLS, reasoning_effort="low")
    tokens = [token for text, _ in parts for token in engine.tokenize(text)]
    assert len(tokens) == len(parts)
    assert _regions(tokens, plan, engine, FRESH) == [name for _, name in parts]


def test_a_budget_of_no_tokens_has_no_event(engine: Any) -> None:
    """Found by reading: the last token of reasoning was asked for where there is none."""
    plan = plan_of(engine, response_format=SCHEMA, reasoning_effort="low")
    plan = replace(plan, budgets=(replace(plan.budgets[0], max_tokens=0),))
    tokens = engine.tokenize("<think></think>\n\n{}")
    assert _events(Message(), plan, _regions(tokens, plan, engine, FRESH)) == {}


def test_a_stop_and_a_cut_are_events(demo_guide: Any) -> None:
    (message,) = demo_guide.generate(
        ["Say hello."], [Stops(("!", "you"))], sampling=Sampling(temperature=0), trace=True, max_tokens=30
    )
    assert message.stop_reason is not None
    assert message.trace.tokens[-1].events == (f"stop: {message.stop_reason!r} is complete",)
    assert all(not t.events for t in message.trace.tokens[:-1])
    assert all(t.num_allowed == message.trace.vocab_size for t in message.trace.tokens)
    (message,) = demo_guide.generate(["Say hello."], sampling=Sampling(temperature=0), trace=True, max_tokens=3)
    assert message.trace.tokens[-1].events == ("cut by max_tokens",)


def test_a_call_for_no_trace_has_none(demo_guide: Any) -> None:
    (message,) = demo_guide.generate(["Hi"], sampling=Sampling(temperature=0), max_tokens=2)
    assert message.trace is None


def test_the_page_needs_nothing_else(traced: Any) -> None:
    page = traced.trace.to_html()
    read = Page(page)
    assert len(page.encode()) < 1_000_000
    for tag, attrs in read.elements:
        assert tag not in ("link", "img", "iframe", "object", "embed")
        assert not {"src", "href", "action"} & {name for name, value in attrs.items() if value}
    assert not re.search(r"https?://|url\(|@import|fetch\(|XMLHttpRequest", page)
    assert "{{" not in page.replace("{{", "", page.count("{{")) or "{{tokens}}" not in page
    for slot in ("{{tokens}}", "{{data}}"):
        assert slot not in page


def test_every_token_is_on_the_page_in_order(traced: Any) -> None:
    read = Page(traced.trace.to_html())
    data = json.loads(read.data)
    assert [row[1] for row in data["tokens"]] == [t.text for t in traced.trace.tokens]
    assert len(read.spans) == len(traced.trace.tokens)
    for shown, found in zip(read.spans, traced.trace.tokens, strict=True):
        assert shown.replace("⏎", "").replace("·", " ") in (found.text, "∅", found.text.replace(" ", "·"))


NASTY = (
    "</script><script>alert(1)</script>", "<!--", "]]>", "&amp;", "\u2028", '"', "'", "{{data}}", "{{tokens}}", "\n\n",
    "\t", " ", "", "\\xe4", "中", "\N{GRINNING FACE}", "\x00", "\x1b[0m",
)  # fmt: skip


def test_no_text_of_a_model_can_leave_its_place() -> None:
    trace = Trace(
        tuple(token(t, top=((t, 0.5),), top_masked=((t, 1.0),), events=(t,)) for t in NASTY),
        vocab_size=100, stop_reason="</script>", lark="</script>",
    )  # fmt: skip
    page = trace.to_html()
    read = Page(page)
    assert [tag for tag, _ in read.elements].count("script") == 2
    assert [tag for tag, _ in read.elements].count("b") == 0
    assert [row[1] for row in json.loads(read.data)["tokens"]] == list(NASTY)
    assert page.count("</script>") == 2


def test_two_thousand_tokens_stay_one_small_page() -> None:
    top = tuple((f"token {i}", 0.1) for i in range(5))
    trace = Trace(tuple(token(f" w{i}", top=top, top_masked=top) for i in range(2_000)), vocab_size=50_000)
    page = trace.to_html()
    assert len(Page(page).spans) == 2_000
    assert len(page.encode()) < 1_500_000


def test_files_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    trace = Trace((token("x"),), vocab_size=3)
    good = tmp_path / "a.html"
    assert check_writable(good, "trace") == good
    assert trace.write(good).read_text(encoding="utf-8") == trace.to_html()
    for path, why in [
        (tmp_path, "it is a folder"),
        (tmp_path / "absent" / "a.html", "there is no folder"),
    ]:
        with pytest.raises(RequestError, match=f"trace: cannot write .*: {why}.*; expected a file name in a folder"):
            check_writable(path, "trace")
    with pytest.raises(RequestError, match="trace: cannot write"):
        trace.write(tmp_path / "absent" / "a.html")
    with pytest.raises(RequestError, match="trace: cannot write"):
        trace.write(tmp_path)


def test_a_trace_is_json_as_well(traced: Any) -> None:
    body = json.loads(json.dumps(traced.trace.to_dict()))
    assert len(body["tokens"]) == len(traced.token_ids)
    assert body["finish_reason"] == traced.finish_reason
