"""All exceptions that the three packages raise on purpose, in one class hierarchy; ``guided`` exports them.

The first level says who is at fault: the request (`RequestError`), the model (`ModelError`), a plan (`PlanError`), an
answer (`AnswerError`), or the engine or guided in one row (`GuidanceError`).  The classes live in the package that
imports none of the others, so that all three can raise them.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "AnswerError",
    "ContextExceeded",
    "EmbeddedModelError",
    "GrammarError",
    "GuidanceError",
    "GuidedError",
    "LimitExceeded",
    "MalformedPlan",
    "MatcherFailed",
    "ModelError",
    "NotMsgpack",
    "ParseError",
    "PlanError",
    "RequestError",
    "SchemaError",
    "TemplateError",
    "TokenRefused",
    "TokenizerError",
    "ToolError",
    "UnknownVersion",
    "WireError",
    "http_error",
    "shown",
]

#: At most this many characters of a caller's value appear in a message.
_MAX_SHOWN = 200

#: At most this many characters of each part of an error appear in its text.
_MAX_TEXT = 2_000


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}... ({len(text):,} characters)"


def shown(value: object) -> str:
    """Return ``repr`` of a caller's value for a message, truncated if it is long; never raises.

    ``repr`` itself fails for integers of thousands of digits, for deep nesting and for some foreign classes.
    """
    if isinstance(value, str) and len(value) > _MAX_SHOWN:
        return f"{value[:_MAX_SHOWN]!r}... ({len(value):,} characters)"
    try:
        text = repr(value)
    except Exception:
        return f"<{type(value).__name__}>"
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


class GuidedError(Exception):
    """The base class of all errors of guided.

    ``place`` is where the problem is (``response_format``, ``tools[2].name``, ``/properties/a``), ``expected`` what
    would have been valid, ``hint`` what to do about it.  Each may be empty.  The attributes hold the full text; the
    text of the error truncates each of them.
    """

    def __init__(self, message: str, *, place: str = "", expected: str = "", hint: str = "") -> None:
        self.message = message
        self.place = place
        self.expected = expected
        self.hint = hint
        super().__init__(message)

    def __str__(self) -> str:
        place, message, expected, hint = map(_cut, (self.place, self.message, self.expected, self.hint))
        text = f"{place}: {message}" if place else message
        if expected:
            text += f"; expected {expected}"
        if hint:
            text += f" ({hint})"
        return text


class RequestError(GuidedError, ValueError):
    """The request cannot be fulfilled as it is."""


class ContextExceeded(RequestError):
    """The prompt, or the token limit alone, is longer than the context of the model or the cache of its server."""


class SchemaError(RequestError):
    """A JSON schema is invalid, contradictory or cannot be enforced.

    ``pointer`` is the JSON pointer of the place in the schema, ``keyword`` the keyword at fault.  If the policy
    ``strict`` refused the schema, ``report`` is its complete `grammars.values.report.SchemaReport`, else None.
    """

    def __init__(
        self,
        message: str,
        *,
        pointer: str = "",
        keyword: str = "",
        place: str = "",
        expected: str = "",
        hint: str = "",
        report: Any = None,
    ) -> None:
        self.pointer = pointer
        self.keyword = keyword
        self.report = report
        apart = " " if pointer and not pointer.startswith("/") else ""  # a place in another document
        super().__init__(message, place=place or f"schema{apart}{pointer}", expected=expected, hint=hint)


class GrammarError(RequestError):
    """A client's grammar cannot be parsed, is refused, or accepts no finite text.

    ``line`` and ``column`` count from 1; 0 means unknown.
    """

    def __init__(
        self,
        message: str,
        *,
        line: int = 0,
        column: int = 0,
        place: str = "",
        expected: str = "",
        hint: str = "",
    ) -> None:
        self.line = line
        self.column = column
        if line:
            where = f"line {line}, column {column}" if column else f"line {line}"
            place = f"{place} {where}" if place else where
        super().__init__(message, place=place, expected=expected, hint=hint)


class ToolError(RequestError):
    """A tool or a tool choice is invalid, or the model's tool-call syntax cannot write an argument."""


class ModelError(GuidedError):
    """The model, its tokenizer or its chat template does not support what was requested."""


class TokenizerError(ModelError, ValueError):
    """The tokenizer cannot be used for guidance, or lacks a marker that a format needs."""


class TemplateError(ModelError, ValueError):
    """The chat template raised an error, is not valid Jinja, or cannot render these messages."""


class EmbeddedModelError(ModelError):
    """The embedded model is not installed, or its cache folder cannot be used."""


class PlanError(GuidedError, ValueError):
    """A plan does not fit the rows, the tokenizer or the prompt it is used with."""


class WireError(PlanError):
    """The bytes cannot be decoded to a plan."""


class NotMsgpack(WireError):
    """The bytes are not msgpack."""


class UnknownVersion(WireError):
    """The bytes are a plan of a version that this release cannot read."""


class MalformedPlan(WireError):
    """The bytes are msgpack, but not a well-formed plan."""


class AnswerError(GuidedError):
    """An answer is not what was asked for: it was cut, or its schema or its Python type refuses it."""


class ParseError(AnswerError, ValueError):
    """An answer obeys its schema, and the Python type of the response format or tool refuses it all the same."""


class GuidanceError(GuidedError, RuntimeError):
    """One row failed during generation; only that row ends.  ``__cause__`` is an exception that was not foreseen."""


class MatcherFailed(GuidanceError):
    """The matcher is in an error state; unchecked, this would look like a short finished answer."""


class TokenRefused(MatcherFailed):
    """A token that the grammar does not allow was passed to commit; the state is unchanged.

    The token was chosen against the mask: by a later logits processor, or by a loop that ignores the masked scores.
    """


class LimitExceeded(GuidanceError):
    """A limit on parser items, lexer work or time was reached."""


#: What a server answers for an error: status, OpenAI's type, OpenAI's code.  The first class that fits counts.
_HTTP: tuple[tuple[type[GuidedError], tuple[int, str, str | None]], ...] = (
    (ContextExceeded, (400, "invalid_request_error", "context_length_exceeded")),
    (RequestError, (400, "invalid_request_error", None)),
    (PlanError, (400, "invalid_request_error", None)),
    (LimitExceeded, (400, "invalid_request_error", None)),  # the request's grammar costs too much
    (GuidedError, (500, "server_error", None)),
)


def http_error(error: BaseException) -> tuple[int, dict[str, Any]]:
    """Return the HTTP status that a server answers for ``error``, and OpenAI's error object as the body.

    A subclass may say so itself, by an attribute ``http`` of the three values.  Of an exception that is not a
    `GuidedError` only the class is passed on.
    """
    if not isinstance(error, GuidedError):
        error = GuidedError(f"an unexpected {type(error).__name__}", hint="the log of the server has more")
    is_of_messages = isinstance(error, TemplateError) and error.place.startswith("messages")
    like = RequestError if is_of_messages else type(error)
    status_and_code = getattr(error, "http", None) or next(answer for cls, answer in _HTTP if issubclass(like, cls))
    status, kind, code = status_and_code
    return status, {"error": {"message": str(error), "type": kind, "param": error.place or None, "code": code}}
