"""Values as texts that vLLM hands on: a plan as a grammar, and the report of its row as a stop reason.

vLLM's other endpoints pass on `structured_outputs.grammar` of any client, and a plan decides what the model may write;
so a text is only taken if it is signed, with the key of this process or with ``GUIDED_VLLM_KEY``.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import secrets
from dataclasses import asdict

from grammars.limits.bounded_cache import BoundedCache
from grammars.plan.plan import Plan
from grammars.plan.wire import decode_plan, encode_plan
from guided.engine.counters import Guidance
from guided.engine.engine import Engine
from guided.landing.control import Marks
from guided.landing.options import Budgeting, budgeting
from guided.output.answer_end import AnswerEnds
from guided.rows.report import RowReport
from special_tokens import errors
from special_tokens.errors import GuidanceError, PlanError, RequestError

__all__ = ["KEY", "check_sealed", "is_sealed", "read_report", "report_text", "seal", "unsealed"]

#: The texts that are guided's begin with it.
PREFIX = "guided:"
#: The name of the environment variable with the key that several processes share.
KEY = "GUIDED_VLLM_KEY"

_OWN_KEY = secrets.token_bytes(32)

#: What was read, by its text.
_unsealed: BoundedCache[tuple[Plan, Budgeting]] = BoundedCache(256, 1 << 25, lambda text, _: len(text))


def seal(plan: Plan, *, landing: bool = True, short_budget: str = "cut") -> str:
    """Return the plan, and what is to happen near its budget, as a text for ``structured_outputs.grammar``."""
    data = f"{landing:d}:{short_budget}:{base64.b64encode(encode_plan(plan)).decode()}"
    return f"{PREFIX}{_signature(data)}:{data}"


def is_sealed(grammar: object) -> bool:
    """Whether this grammar of a request is meant as a plan."""
    return isinstance(grammar, str) and grammar.startswith(PREFIX)


def check_sealed(grammar: str, engine: Engine) -> None:
    """Raise `PlanError` unless this is a plan of this vocabulary, signed here or by who knows the key.

    Raises `RequestError` for tools where vLLM would end the answer at the token that begins a call.
    """
    signature, _, data = grammar.removeprefix(PREFIX).partition(":")
    if not hmac.compare_digest(signature.encode(errors="replace"), _signature(data).encode()):
        raise PlanError("not signed by this server", place="structured_outputs.grammar", hint=f"see {KEY}")
    plan, _ = unsealed(grammar)
    if plan.fingerprint != engine.tokens.fingerprint:
        raise PlanError(
            f"the plan belongs to the vocabulary {plan.fingerprint}",
            place="structured_outputs.grammar",
            expected=f"one for {engine.tokens.fingerprint}, this model's",
        )
    if AnswerEnds(plan, engine).separator is not None:
        why = "the token that ends this model's turn also begins a call, and vLLM would end the answer there"
        raise RequestError(why, place="tools", expected="no tools", hint="`guided serve` answers with tools")


def unsealed(grammar: str) -> tuple[Plan, Budgeting]:
    """Return what `seal` was given; the same plan for the same text, so that caches find it."""
    found = _unsealed.get(grammar)
    if found is None:
        landing, short_budget, plan = grammar.rsplit(":", 3)[1:]
        found = decode_plan(base64.b64decode(plan)), budgeting(landing == "1", short_budget)
        _unsealed.put(grammar, found)
    return found


def _signature(data: str) -> str:
    key = os.environ.get(KEY, "").encode() or _OWN_KEY
    return hmac.new(key, data.encode(errors="surrogatepass"), hashlib.sha256).hexdigest()


def report_text(report: RowReport) -> str:
    """Return the report of a row as a stop reason: the one field of an answer that vLLM hands on as it is."""
    error = report.error
    told = error and [type(error).__name__, error.message, error.place, error.expected, error.hint]
    return PREFIX + json.dumps([asdict(report.guidance), told, report.marks, report.notes])


def read_report(stop_reason: object) -> RowReport | None:
    """Return the report in the stop reason of an answer; None if it is another reason."""
    if not isinstance(stop_reason, str) or not stop_reason.startswith(PREFIX):
        return None
    guidance, told, (begun, answer_begun, names), notes = json.loads(stop_reason.removeprefix(PREFIX))
    error = None
    if told is not None:
        name, message, place, expected, hint = told
        error = getattr(errors, name, GuidanceError)(message, place=place, expected=expected, hint=hint)
    marks = Marks(begun, answer_begun, tuple((at, text) for at, text in names))
    return RowReport(Guidance(**guidance), error, marks=marks, notes=tuple(notes))
