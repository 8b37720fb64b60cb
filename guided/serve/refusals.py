"""Errors of a server, by which it refuses a request: its state, its limits, its keys."""

from __future__ import annotations

from special_tokens.errors import GuidedError

__all__ = [
    "Forbidden",
    "NotFound",
    "Overloaded",
    "TooLarge",
    "Unauthorized",
    "Unavailable",
    "UnknownModel",
    "WrongMethod",
]


class TooLarge(GuidedError):
    """The body is larger than the server reads."""

    http = (413, "invalid_request_error", "request_too_large")


class Unauthorized(GuidedError):
    """The request has no key of this server."""

    http = (401, "invalid_request_error", "invalid_api_key")


class Forbidden(GuidedError):
    """The server does not allow this to its clients."""

    http = (403, "invalid_request_error", "not_allowed")


class NotFound(GuidedError):
    """The server does not have this route or model."""

    http = (404, "invalid_request_error", "not_found")


class UnknownModel(NotFound):
    """The request names a model that the server does not have."""

    http = (404, "invalid_request_error", "model_not_found")


class WrongMethod(GuidedError):
    """The route does not take this method."""

    http = (405, "invalid_request_error", "method_not_allowed")


class Overloaded(GuidedError):
    """The queue of requests is full."""

    http = (429, "rate_limit_error", "rate_limit_exceeded")


class Unavailable(GuidedError):
    """The server cannot answer now: it loads, drains, has lost its engine, or the request waited too long."""

    http = (503, "server_error", "unavailable")
