"""Spans of a server's requests, as a collector in memory gets them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.guided.serve.conftest import Live, serving

sdk = pytest.importorskip("opentelemetry.sdk.trace", reason="there is no opentelemetry-sdk here: pip install '.[otel]'")

ROOT = Path(__file__).resolve().parents[3]
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
ASK = {"messages": [{"role": "user", "content": "s3cr3t"}], "max_tokens": 20, "temperature": 0.5, "seed": 3}
PHASES = ["compile", "queue", "prefill", "decode"]


@pytest.fixture(scope="module")
def spans() -> Any:
    """The collector of this process."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return exporter


@pytest.fixture(scope="module")
def traced(tiny_guide: Any, spans: Any) -> Iterator[Live]:
    with serving(tiny_guide, names=("tiny",), otel=True) as found:
        yield found


def of_one(traced: Live, spans: Any) -> tuple[Any, list[Any]]:
    """The span of the one request since the last call, and those inside it, in the order of time."""
    traced.wait_for_rest()
    found = spans.get_finished_spans()
    spans.clear()
    (whole,) = (span for span in found if not span.name.startswith("guided."))
    inside = sorted((span for span in found if span is not whole), key=lambda span: span.start_time)
    assert all(span.parent.span_id == whole.context.span_id for span in inside)
    return whole, inside


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_request_is_a_span_with_its_phases_inside(traced: Live, spans: Any, is_streamed: bool) -> None:
    from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as names
    from opentelemetry.trace import SpanKind, StatusCode

    spans.clear()
    usage = traced.post(CHAT, ASK).json()["usage"]
    if is_streamed:
        spans.clear()
        traced.post(CHAT, {**ASK, "stream": True})
    whole, inside = of_one(traced, spans)
    assert (whole.name, whole.kind, whole.status.status_code) == ("chat tiny", SpanKind.SERVER, StatusCode.UNSET)
    assert [span.name for span in inside] == [f"guided.{phase}" for phase in PHASES]
    assert inside[0].start_time == whole.start_time
    assert inside[-1].end_time == whole.end_time
    assert all(one.end_time == next.start_time for one, next in pairwise(inside))
    found = dict(whole.attributes)
    assert found[names.GEN_AI_OPERATION_NAME] == "chat"
    assert found[names.GEN_AI_REQUEST_MODEL] == "tiny"
    assert found[names.GEN_AI_REQUEST_MAX_TOKENS] == 20
    assert (found[names.GEN_AI_REQUEST_TEMPERATURE], found[names.GEN_AI_REQUEST_SEED]) == (0.5, 3)
    assert found[names.GEN_AI_USAGE_INPUT_TOKENS] == usage["prompt_tokens"]
    assert found[names.GEN_AI_USAGE_OUTPUT_TOKENS] == usage["completion_tokens"]
    assert set(found[names.GEN_AI_RESPONSE_FINISH_REASONS]) <= {"stop", "length"}
    known = {value for name, value in vars(names).items() if name.startswith("GEN_AI_")}
    assert set(found) <= known
    assert "s3cr3t" not in str(found)


def test_a_completion_of_two_prompts_counts_both(traced: Live, spans: Any) -> None:
    spans.clear()
    usage = traced.post(TEXT, {"prompt": ["One", "Two, three"], "n": 2, "max_tokens": 5}).json()["usage"]
    whole, _ = of_one(traced, spans)
    assert whole.name == "text_completion tiny"
    assert whole.attributes["gen_ai.request.choice.count"] == 2
    assert whole.attributes["gen_ai.usage.input_tokens"] == usage["prompt_tokens"]
    assert whole.attributes["gen_ai.usage.output_tokens"] == usage["completion_tokens"]


def test_a_span_belongs_to_the_trace_of_its_client(traced: Live, spans: Any) -> None:
    spans.clear()
    traced.post(CHAT, ASK, traceparent=f"00-{7:032x}-{9:016x}-01")
    whole, _ = of_one(traced, spans)
    assert (whole.context.trace_id, whole.parent.span_id) == (7, 9)


def test_a_refused_request_is_a_span_in_error(traced: Live, spans: Any) -> None:
    from opentelemetry.trace import StatusCode

    spans.clear()
    traced.post(CHAT, {**ASK, "regex": "("})
    whole, inside = of_one(traced, spans)
    assert whole.status.status_code is StatusCode.ERROR
    assert whole.attributes["error.type"] == "GrammarError"
    assert [span.name for span in inside] == ["guided.compile"]


def test_a_collector_that_fails_costs_no_answer(
    traced: Live, spans: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("no collector")

    monkeypatch.setattr("guided.serve.observing.spans._fields", fail)
    assert traced.post(CHAT, ASK).status_code == 200
    assert "a request could not be traced" in caplog.text


def test_without_it_no_package_of_opentelemetry_is_loaded() -> None:
    code = (
        "import sys; from guided.serve.server import run_server; from guided.serve.service import Service; "
        "from guided.serve.settings import Settings; Service(Settings()); "
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"
