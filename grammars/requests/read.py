"""OpenAI-style request bodies, with the keys that other servers added, to the parts of a plan.

Nothing is composed and nothing compiled here.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from grammars.compose.compose import Parts
from grammars.plan.plan import Stops
from grammars.reasoning.levels import normal_effort
from grammars.requests.body import check_shape
from grammars.requests.keys import (
    CONSTRAINT_ALIASES,
    GUIDANCE,
    HARMLESS,
    PROMPT,
    SAMPLING,
    UNSUPPORTED,
    known_keys,
)
from grammars.requests.sources import constraint_of
from special_tokens.errors import RequestError, shown

__all__ = ["Request", "read_request"]


@dataclass(frozen=True, slots=True)
class Request:
    """A request as read.

    ``parts`` is what `grammars.compose.compose` takes, ``sampling`` what `guided.Sampling` takes; ``source`` names the
    place of the constraint (``structured_outputs.choice``), empty where there is none.  ``prompt`` holds the keys that
    are not about guidance, unread; ``return_last_hidden_state``, ``landing`` and ``short_budget`` are what
    `guided.Guide.chat` takes.
    """

    parts: Parts
    sampling: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""
    prompt: Mapping[str, Any] = field(default_factory=dict)
    return_last_hidden_state: bool = False
    landing: bool = True
    short_budget: Any = "cut"
    verbosity: str = "medium"


def read_request(body: Any, *, trusted: bool = False, ignore_unknown: bool = False) -> Request:
    """Return the request in ``body``; None as a value means that the key is absent.

    ``trusted`` lets its grammars write tokens; ``ignore_unknown`` lists keys of no table in the plan instead of
    refusing them.  Raises `RequestError` naming the key at fault.
    """
    if not isinstance(body, Mapping):
        raise RequestError(f"{type(body).__name__} is not a request", place="body", expected="an object")
    check_shape(body, skip=PROMPT)
    body = _flat(body)
    ignored = _ignored(body, ignore_unknown)
    source, constraint = constraint_of(body, trusted=trusted)
    effort, no_effect = _effort(body)
    parts = Parts(
        response_format=constraint,
        response_place=source or "response_format",
        tools=_tools(body),
        tool_choice=_tool_choice(body),
        parallel_tool_calls=_flag(body, "parallel_tool_calls", True) if "parallel_tool_calls" in body else None,
        reasoning_effort=effort,
        reasoning_preset=_text(body, "reasoning_preset", "native"),
        thinking=_thinking(body),
        stop=_stops(body),
        max_tokens=_max_tokens(body),
        schema_policy=_word(body, "schema_policy", "warn", "strict"),
        ignored=(*ignored, *no_effect),
    )
    prompt = {key: body[key] for key in PROMPT if key in body}
    landing, short_budget = _flag(body, "landing", True), _word(body, "short_budget", "cut", "error")
    more = _hidden_state(body), landing, short_budget, _verbosity(body)
    return Request(parts, _sampling(body), source, prompt, *more)


# -- which keys


def _flat(body: Mapping[str, Any]) -> dict[str, Any]:
    """The body with the keys of ``extra_body`` among the others, and without keys whose value is None."""
    out = {key: value for key, value in body.items() if value is not None and key != "extra_body"}
    extra = body.get("extra_body")
    if extra is None:
        return out
    if not isinstance(extra, Mapping):
        raise RequestError("not an object", place="extra_body", expected="an object")
    for key, value in extra.items():
        if value is None:
            continue
        if key == "extra_body":
            raise RequestError("an extra_body of its own", place="extra_body.extra_body", expected="no such key")
        if key in out and out[key] != value:
            raise RequestError(f"{shown(key)} is in the body as well", place="extra_body", expected="each key once")
        out[key] = value
    return out


def _ignored(body: Mapping[str, Any], ignore_unknown: bool) -> tuple[str, ...]:
    """The keys without effect; raises for one that is not supported or unknown."""
    read = {*PROMPT, *GUIDANCE, *CONSTRAINT_ALIASES, *SAMPLING}
    ignored = []
    for key, value in body.items():
        if key in read:
            continue
        if key in UNSUPPORTED:
            if not any(value == same and type(value) is type(same) for same in UNSUPPORTED[key]):
                neutral = " or ".join(map(repr, UNSUPPORTED[key]))
                raise RequestError(
                    f"{shown(value)} is not supported", place=str(key), expected=neutral or "no such key"
                )
        elif key not in HARMLESS and not (ignore_unknown and not _asks_for_guidance(key)):
            near = difflib.get_close_matches(str(key), known_keys(), 1)
            raise RequestError("unknown key", place=str(key), hint=f"is it {shown(near[0])}?" if near else "")
        ignored.append(str(key))
    return tuple(ignored)


_GUIDANCE_WORDS = (
    "guided", "constrain", "schema", "grammar", "regex", "choice", "format", "tool", "structured", "stop",
)  # fmt: skip


def _asks_for_guidance(key: str) -> bool:
    return any(word in str(key).lower() for word in _GUIDANCE_WORDS)


# -- parts


def _tools(body: Mapping[str, Any]) -> Any:
    if "functions" not in body:
        return body.get("tools")
    if "tools" in body:
        raise RequestError("tools are there as well", place="functions", expected="one of the two")
    functions = body["functions"]
    if not isinstance(functions, list):
        raise RequestError("not a list", place="functions", expected="a list")
    return [{"type": "function", "function": function} for function in functions]


def _tool_choice(body: Mapping[str, Any]) -> Any:
    if "function_call" not in body:
        return body.get("tool_choice")
    if "tool_choice" in body:
        raise RequestError("tool_choice is there as well", place="function_call", expected="one of the two")
    return body["function_call"]


def _effort(body: Mapping[str, Any]) -> tuple[str | None, tuple[str, ...]]:
    """The effort, and the keys of ``reasoning`` that have no effect."""
    given = {"reasoning_effort": body["reasoning_effort"]} if "reasoning_effort" in body else {}
    ignored: list[str] = []
    reasoning = body.get("reasoning")
    if reasoning is not None:
        if not isinstance(reasoning, Mapping):
            raise RequestError("not an object", place="reasoning", expected='{"effort": ...}')
        for key, value in reasoning.items():
            if key == "effort":
                if value is not None:
                    given["reasoning.effort"] = value
            elif key in ("summary", "generate_summary", "context", "mode", "exclude"):
                ignored.append(f"reasoning.{key}")
            else:
                raise RequestError(f"unknown key {shown(key)}", place="reasoning", expected="effort")
    if len({normal_effort(value) for value in given.values()} if len(given) > 1 else given) > 1:
        raise _contradiction(given)
    return next(iter(given.values()), None), tuple(ignored)


def _contradiction(given: Mapping[str, Any]) -> RequestError:
    """Return the error for keys that ask for the same thing with different values."""
    values = " and ".join(json.dumps(v) if isinstance(v, bool) else shown(v) for v in given.values())
    return RequestError(f"{values} at once", place=" and ".join(given), expected="one value")


def _thinking(body: Mapping[str, Any]) -> bool | None:
    given: dict[str, bool] = {}
    for key in ("thinking", "enable_thinking"):
        if key in body:
            given[key] = _switch(body[key], key)
    kwargs = body.get("chat_template_kwargs", {})
    if not isinstance(kwargs, Mapping):
        raise RequestError("not an object", place="chat_template_kwargs", expected='{"enable_thinking": ...}')
    for key, value in kwargs.items():
        if value is None:
            continue
        place = f"chat_template_kwargs.{key}"
        if key not in ("thinking", "enable_thinking"):
            raise RequestError("a plan passes the template's switches itself", place=place,
                               expected="enable_thinking or thinking", hint="use reasoning_effort")  # fmt: skip
        given[place] = _switch(value, place)
    if len(set(given.values())) > 1:
        raise _contradiction(given)
    return next(iter(given.values()), None)


def _switch(value: Any, place: str) -> bool:
    if isinstance(value, Mapping) and _is_one_of(value.get("type"), ("enabled", "disabled", "adaptive")):
        if value.get("budget_tokens") is not None:
            raise RequestError("a budget of its own is not supported", place=f"{place}.budget_tokens",
                               hint="use reasoning_effort")  # fmt: skip
        value = value["type"] != "disabled"
    if not isinstance(value, bool):
        raise RequestError(f"{shown(value)} is not true or false", place=place)
    return value


def _stops(body: Mapping[str, Any]) -> Stops:
    stop, ids = body.get("stop", ()), body.get("stop_token_ids", ())
    texts = (stop,) if isinstance(stop, str) else stop
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) and text for text in texts):
        raise RequestError(f"{shown(stop)} is not a stop sequence", place="stop", expected="a text or a list of texts")
    if not isinstance(ids, list | tuple) or not all(isinstance(i, int) and not isinstance(i, bool) for i in ids):
        raise RequestError(f"{shown(ids)} is not a list of ids", place="stop_token_ids", expected="integers")
    return Stops(tuple(texts), tuple(ids), include=_flag(body, "include_stop_str_in_output", False))


def _max_tokens(body: Mapping[str, Any]) -> int | None:
    given = {key: body[key] for key in ("max_tokens", "max_completion_tokens", "max_output_tokens") if key in body}
    for key, value in given.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise RequestError(f"{shown(value)} is out of range", place=key, expected="an integer of 1 or more")
    if len(set(given.values())) > 1:
        raise _contradiction(given)
    return next(iter(given.values()), None)


def _hidden_state(body: Mapping[str, Any]) -> bool:
    """Whether the last token's hidden state is wanted; other servers' clients say ``"last"``."""
    value = body.get("return_hidden_states", False)
    if value != "last" and not isinstance(value, bool):
        raise RequestError(
            f"{shown(value)} is not a choice", place="return_hidden_states", expected="true, false or last"
        )
    return value == "last" or value is True


def _verbosity(body: Mapping[str, Any]) -> str:
    text = body.get("text")
    given = {"verbosity": body.get("verbosity"), "text.verbosity": text.get("verbosity") if text else None}
    given = {place: word for place, word in given.items() if word is not None}
    for place, word in given.items():
        if not _is_one_of(word, ("low", "medium", "high")):
            raise RequestError(f"{shown(word)} is unknown", place=place, expected="low, medium or high")
    if len(set(given.values())) > 1:
        raise _contradiction(given)
    return str(next(iter(given.values()), "medium"))


def _sampling(body: Mapping[str, Any]) -> dict[str, Any]:
    """OpenAI's sampling keys as `guided.Sampling` takes them; ranges are checked there."""
    out = {key: body[key] for key in SAMPLING if key in body and key not in ("logprobs", "top_logprobs", "logit_bias")}
    logprobs, top = body.get("logprobs"), body.get("top_logprobs")
    if top is not None and logprobs is not True:
        raise RequestError("top_logprobs without logprobs", place="top_logprobs", expected="logprobs: true as well")
    if logprobs is True:
        out["logprobs"] = top or 0
    elif logprobs or (logprobs == 0 and logprobs is not False and "prompt" in body):
        out["logprobs"] = logprobs  # the older completions take the number itself, and 0 is one
    bias = body.get("logit_bias")
    if bias is not None:
        try:
            out["logit_bias"] = {int(token): value for token, value in bias.items()}
        except (AttributeError, ValueError, TypeError):
            raise RequestError(
                f"{shown(bias)} is not a map", place="logit_bias", expected="token id -> number"
            ) from None
    return out


def _word(body: Mapping[str, Any], key: str, *words: str) -> Any:
    """One of ``words``, the first where the key is absent."""
    value = body.get(key, words[0])
    if not _is_one_of(value, words):
        raise RequestError(f"{shown(value)} is unknown", place=key, expected=" or ".join(words))
    return value


def _is_one_of(value: Any, words: tuple[str, ...]) -> bool:
    return isinstance(value, str) and value in words


def _flag(body: Mapping[str, Any], key: str, default: bool) -> bool:
    value = body.get(key, default)
    if not isinstance(value, bool):
        raise RequestError(f"{shown(value)} is not true or false", place=key)
    return value


def _text(body: Mapping[str, Any], key: str, default: str) -> str:
    value = body.get(key, default)
    if not isinstance(value, str):
        raise RequestError(f"{shown(value)} is not a text", place=key)
    return value
