"""The counters of a server, for Prometheus: names with the prefix ``guided_``, in a registry of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from guided.output.message import Message

__all__ = ["CONTENT_TYPE_LATEST", "Metrics"]

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class Metrics:
    """The counters of one server.  Thread-safe."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()

        def seconds(name: str, text: str) -> Histogram:
            return Histogram(f"guided_{name}_seconds", text, registry=registry, buckets=_SECONDS)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"guided_{name}", text, labels, registry=registry)

        self.first_token = seconds("time_to_first_token", "From the arrival of a request to its first token.")
        self.token_gap = seconds("inter_token_latency", "Between two steps that wrote tokens of a request.")
        self.queue = seconds("request_queue_time", "From the arrival of a request to its turn.")
        self.whole = seconds("e2e_request_latency", "From the arrival of a request to the end of its answer.")
        self.plan = seconds("plan_time", "Reading a body, composing and compiling its plan, and its prompt.")
        self.requests = counter("requests", "Answered requests.", "route", "status")
        self.failures = counter("failures", "What was refused or failed, by the error's class.", "kind")
        self.prompt_tokens = counter("prompt_tokens", "Tokens of prompts.")
        self.cached_tokens = counter("prompt_tokens_cached", "Tokens of prompts that a kept row had.")
        self.tokens = counter("generation_tokens", "Tokens of answers.")
        self.saved = counter("forwards_saved", "Tokens of answers that needed no forward of their own.")
        self.truncated = counter("truncated", "Answers that ended before they were complete.")
        self.restarts = counter("engine_restarts", "Loops of the engine that failed and were made anew.")

    def watch(self, name: str, text: str, value: Callable[[], float]) -> None:
        """Add a gauge that is read when it is asked for."""
        Gauge(f"guided_{name}", text, registry=self.registry).set_function(value)

    def count(self, messages: Sequence[Message], num_prompts: int) -> None:
        """Count the tokens of the finished choices of ``num_prompts`` prompts."""
        every = len(messages) // num_prompts
        for i, message in enumerate(messages):
            usage = message.usage
            if i % every == 0:
                self.prompt_tokens.inc(usage.prompt_tokens)
                self.cached_tokens.inc(usage.cached_tokens)
            self.tokens.inc(usage.completion_tokens)
            self.saved.inc(max(0, usage.completion_tokens - usage.forwards))
            self.truncated.inc(not message.complete)

    def text(self) -> bytes:
        """Return all metrics as Prometheus reads them."""
        return generate_latest(self.registry)
