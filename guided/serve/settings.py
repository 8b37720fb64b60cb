"""The settings of a server, its clients' keys, and its logs: a JSON object a line, with no text of prompts."""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from grammars.limits.deadline import TimeLimits
from guided.serve.refusals import Unauthorized
from special_tokens.errors import RequestError, shown

__all__ = ["ApiKeys", "Settings", "read_keys", "write_logs"]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The limits and switches of a server.

    ``names`` are the names of the model, the first one the name it says; none: its own.  Without ``keys`` it is open.
    ``cache_tokens`` bounds the tokens of all rows of the running loop, ``piece`` those of new prompts in one forward
    (None: as many as cost little).  ``max_waiting`` bounds the requests that have not begun, ``max_wait_s`` how long
    one waits, ``drain_s`` how long the last ones may take when the server is to end; ``limits`` are those of one plan.
    ``page`` is at /, and shows text of answers only with ``page_shows_text``; with ``otel`` requests are traced.
    """

    names: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    constraint_api: bool = True
    max_rows: int = 16
    max_waiting: int = 64
    max_wait_s: float = 60.0
    cache_tokens: int = 32_768
    piece: int | None = None
    max_body: int = 4_000_000
    drain_s: float = 30.0
    page: bool = True
    page_shows_text: bool = False
    otel: bool = False
    limits: TimeLimits = TimeLimits()

    def __post_init__(self) -> None:
        """Raise `RequestError` for a limit that lets nothing through, and for a text where a list is meant."""
        for name in ("names", "keys"):
            if isinstance(getattr(self, name), str):
                raise RequestError("one text is not a list", place=name, expected=f"a list: [{name[:-1]}]")
        counts = ("max_rows", "max_waiting", "cache_tokens", "piece", "max_body")
        wrong = {name: "1 or more" for name in counts if getattr(self, name) is not None and getattr(self, name) < 1}
        if not self.max_wait_s > 0:
            wrong["max_wait_s"] = "more than 0"
        if not self.drain_s >= 0:
            wrong["drain_s"] = "0 or more"
        for name, expected in wrong.items():
            raise RequestError(f"{getattr(self, name)} is out of range", place=name, expected=expected)


def read_keys(path: Path) -> tuple[str, ...]:
    """Return the keys in a file, one a line; empty lines and those that begin with # are skipped."""
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        place = "--api-key-file"
        raise RequestError(f"cannot read {shown(str(path))}: {error}", place=place, expected="a text file") from None
    keys = tuple(line for line in lines if line and not line.startswith("#"))
    if not keys:
        raise RequestError(f"{shown(str(path))} holds no key", place="--api-key-file", expected="a key in each line")
    return keys


class _Lines(logging.Formatter):
    """Records as JSON, one a line; what a record has under ``fields`` is merged in."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False, default=str)


def write_logs(level: str, file: TextIO | None = None) -> None:
    """Write the records of guided and of the HTTP server to ``file`` or standard error, from ``level`` on."""
    handler = logging.StreamHandler(file or sys.stderr)
    handler.setFormatter(_Lines())
    for name in ("guided", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level.upper())
    logging.getLogger("uvicorn.access").disabled = True  # each request has a record of ours


class ApiKeys:
    """The keys that a server accepts; none: every request is accepted."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._digests = [_digest(key) for key in keys]

    def client_of(self, authorization: str) -> str:
        """Return a name of the client whose key is in the header; raise `Unauthorized` without one of the keys."""
        if not self._digests:
            return ""
        scheme, _, key = authorization.partition(" ")
        given = _digest(key.strip())
        matches = [secrets.compare_digest(given, digest) for digest in self._digests]  # all of them, whichever fits
        if scheme.lower() != "bearer" or not any(matches):
            problem = "this key is none of the server's" if key else "there is no key"
            raise Unauthorized(problem, place="Authorization", expected="Authorization: Bearer KEY")
        return f"key-{matches.index(True) + 1}"


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
