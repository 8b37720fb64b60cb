"""Spans of requests for OpenTelemetry, by its conventions for generative AI; imported only where they are wanted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from opentelemetry import propagate, trace
from opentelemetry.trace import ProxyTracerProvider, SpanKind, Status, StatusCode, set_span_in_context

import guided
from guided.hf.completing import CompletionRun
from guided.serve.observing.records import RequestRecord

__all__ = ["Spans", "export_spans"]


class Spans:
    """Writes a span for each request that has ended, with one inside it for each of its phases."""

    def __init__(self) -> None:
        self._tracer = trace.get_tracer("guided", guided.__version__)

    def __call__(self, record: RequestRecord) -> None:
        def at(seconds: float) -> int:
            return record.arrived_ns + round(1e9 * seconds)

        fields = dict(_fields(record))
        name = f"{fields['gen_ai.operation.name']} {fields.get('gen_ai.request.model', '')}".strip()
        parent = propagate.extract(dict(record.headers))
        span = self._tracer.start_span(
            name, context=parent, kind=SpanKind.SERVER, attributes=fields, start_time=record.arrived_ns
        )
        inside, ended = set_span_in_context(span), 0.0
        for phase, (begin, ended) in record.phases().items():
            self._tracer.start_span(f"guided.{phase}", context=inside, start_time=at(begin)).end(at(ended))
        if "error.type" in fields:
            span.set_status(Status(StatusCode.ERROR))
        span.end(at(ended))


def _fields(record: RequestRecord) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of a request, none of which is text of its client."""
    yield "gen_ai.operation.name", "text_completion" if record.route == "/v1/completions" else "chat"
    yield "gen_ai.provider.name", "guided"
    if record.run is not None:
        yield from _asked(record.run)
    if record.messages:
        usages = [message.usage for message in record.messages]
        num_prompts = record.run.num_prompts if record.run is not None else 1
        firsts = usages[:: len(usages) // num_prompts]  # choices of one prompt share it
        yield "gen_ai.response.finish_reasons", [message.finish_reason for message in record.messages]
        yield "gen_ai.usage.input_tokens", sum(usage.prompt_tokens for usage in firsts)
        yield "gen_ai.usage.cache_read.input_tokens", sum(usage.cached_tokens for usage in firsts)
        yield "gen_ai.usage.output_tokens", sum(usage.completion_tokens for usage in usages)
        yield "gen_ai.usage.reasoning.output_tokens", sum(usage.reasoning_tokens for usage in usages)
    else:
        yield "error.type", record.state


def _asked(run: CompletionRun) -> Iterator[tuple[str, Any]]:
    generation = run.generation
    sampling = generation.rows[0]
    yield "gen_ai.request.model", run.head.model
    yield "gen_ai.response.id", run.head.id
    yield "gen_ai.request.max_tokens", generation.loop_rows[0].max_tokens
    yield "gen_ai.request.choice.count", len(generation.choices) // run.num_prompts
    for name in ("temperature", "top_p", "top_k", "seed"):
        yield f"gen_ai.request.{name}", getattr(sampling, name)


def export_spans() -> None:
    """Send spans to the collector that ``OTEL_EXPORTER_OTLP_ENDPOINT`` names, unless the process has a way already."""
    if not isinstance(trace.get_tracer_provider(), ProxyTracerProvider):
        return
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=Resource.create({"service.name": "guided"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
