"""Every error that guided raises on purpose, in one small tree.

::

    GuidedError                     root; carries .place, .expected and .hint
    |-- RequestError                the caller's request (a server answers 400); also a ValueError
    |   |-- SchemaError             a JSON schema; .pointer names the place in it
    |   |-- GrammarError            a regex, choice, Lark or structural tag; .line and .column where known
    |   `-- ToolError               a tool, a tool choice or an unwritable argument
    |-- ModelError                  the model's side: tokenizer, template, weights, embedded model
    |   |-- TokenizerError
    |   |-- TemplateError
    |   `-- EmbeddedModelError
    |-- PlanError                   a plan that does not fit (rows, tokenizer, prompt); also a ValueError
    |   `-- WireError               bytes that are not a plan
    |       |-- NotMsgpack
    |       |-- UnknownVersion
    |       `-- MalformedPlan
    `-- GuidanceError               the engine failed while a row was being written; that row ends
        |-- MatcherFailed           the matcher reported an error
        |   `-- TokenRefused        a token that the grammar does not allow was chosen
        `-- LimitExceeded           a limit of the engine or of ours was hit

Each class answers "whose fault is it, and what next".  The tree lives in the left-most package so that all
three packages can raise from it; ``guided`` exports it.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "EmbeddedModelError",
    "GrammarError",
    "GuidanceError",
    "GuidedError",
    "LimitExceeded",
    "MalformedPlan",
    "MatcherFailed",
    "ModelError",
    "NotMsgpack",
    "PlanError",
    "RequestError",
    "SchemaError",
    "TemplateError",
    "TokenRefused",
    "TokenizerError",
    "ToolError",
    "UnknownVersion",
    "WireError",
    "shown",
]

#: Characters of a caller's value that a message shows.
_MOST_SHOWN = 200


#: Characters of each part of an error that its text shows.
_MOST_TEXT = 2_000


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}... ({len(text):,} characters)"


def shown(value: object) -> str:
    """``repr`` of a caller's value for a message: cut where it is long, and never an error of its own.

    Integers of thousands of digits, values nested too deeply and objects of strange classes have no ``repr``.
    """
    if isinstance(value, str) and len(value) > _MOST_SHOWN:
        return f"{value[:_MOST_SHOWN]!r}... ({len(value):,} characters)"
    try:
        text = repr(value)
    except Exception:
        return f"<{type(value).__name__}>"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


class GuidedError(Exception):
    """Root of the tree.

    ``place`` names where the trouble is (``response_format``, ``tools[2].name``, ``/properties/a``),
    ``expected`` what would have been right, ``hint`` what to do about it.  Each may be empty, and is whole however
    long; the text of the error shows the beginning of what a megabyte of request puts into it.
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
    """The request cannot be honoured as it stands."""


class SchemaError(RequestError):
    """A JSON schema that is broken, contradictory or cannot be enforced.

    ``pointer`` is the JSON pointer of the place in the schema, ``keyword`` the keyword at fault.  Where the policy
    ``strict`` refuses a schema, ``report`` is its whole `grammars.json_schema.SchemaReport`, else None.
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
        apart = " " if pointer and not pointer.startswith("/") else ""  # of another document
        super().__init__(message, place=place or f"schema{apart}{pointer}", expected=expected, hint=hint)


class GrammarError(RequestError):
    """A client's grammar that cannot be parsed, is refused, or can never end.

    ``line`` and ``column`` count from 1 and are 0 where they are not known.
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
    """A tool, a tool choice, or an argument that the model's syntax cannot write."""


class ModelError(GuidedError):
    """The model, its tokenizer or its chat template does not offer what was asked for."""


class TokenizerError(ModelError, ValueError):
    """The tokenizer cannot be used for guidance, or lacks a marker that a format needs."""


class TemplateError(ModelError, ValueError):
    """The chat template raised, is not Jinja, or cannot render these messages."""


class EmbeddedModelError(ModelError):
    """The embedded model is not installed, or its cache folder cannot be used."""


class PlanError(GuidedError, ValueError):
    """A plan that does not fit the rows, the tokenizer or the prompt it is used with."""


class WireError(PlanError):
    """Bytes that cannot be decoded to a plan."""


class NotMsgpack(WireError):
    """The bytes are not msgpack at all."""


class UnknownVersion(WireError):
    """The bytes are a plan of a version that this release does not know."""


class MalformedPlan(WireError):
    """The bytes are msgpack, but not a well-formed plan."""


class GuidanceError(GuidedError, RuntimeError):
    """Guidance of one row failed while it was being written; only that row ends."""


class MatcherFailed(GuidanceError):
    """The engine reported an error state, which would otherwise look like a short finished answer."""


class TokenRefused(MatcherFailed):
    """A token outside the grammar was to be committed; the state is as before.

    Somebody chose against the mask: a logits processor behind ours, or a loop that does not sample from the scores.
    """


class LimitExceeded(GuidanceError):
    """A limit on parser items, lexer work or time was hit."""
