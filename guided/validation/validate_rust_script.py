"""The worker script of `guided.validation.validate_rust`; imports none of our packages, so that it starts quickly."""

from __future__ import annotations

import json
import signal
import struct
import sys
from collections.abc import Mapping
from itertools import islice
from typing import Any, BinaryIO

import jsonschema_rs
from jsonschema_specifications import REGISTRY

__all__ = ["errors_of"]


def errors_of(
    schema: Any, value: Any, documents: Mapping[str, Any], order: int, most: int
) -> list[tuple[list[Any], str]]:
    """Return at most ``most`` violations of ``value``, each as its path and a message."""
    registry = jsonschema_rs.Registry(list(documents.items())) if documents else None
    options = {"validate_formats": True, "retriever": _published, "registry": registry, "pattern_options": _PATTERNS}
    validator = _KINDS[order](schema, **options)
    return [(list(error.instance_path), error.message) for error in islice(validator.iter_errors(value), most)]


def _published(uri: str) -> Any:
    """Return a published meta-schema; raise for any other document, because nothing is fetched."""
    return REGISTRY[uri.removesuffix("#")].contents


#: At this limit the library reports "no match", which may be wrong: it is so high that the time limit comes first.
_PATTERNS = jsonschema_rs.FancyRegexOptions(backtrack_limit=1_000_000_000)

_KINDS: Mapping[int, Any] = {
    4: jsonschema_rs.Draft4Validator,
    6: jsonschema_rs.Draft6Validator,
    7: jsonschema_rs.Draft7Validator,
    8: jsonschema_rs.Draft201909Validator,
    9: jsonschema_rs.Draft202012Validator,
}


def _serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until the input ends."""
    while head := requests.read(4):
        body = json.dumps(_answer(json.loads(requests.read(struct.unpack(">I", head)[0])))).encode()
        answers.write(struct.pack(">I", len(body)) + body)
        answers.flush()


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return the errors, or why there is no verdict.  A check that takes too long ends this process."""
    _bound(request["seconds"], request["bytes"])
    try:
        found = errors_of(**{name: request[name] for name in ("schema", "value", "documents", "order", "most")})
    except BaseException as error:  # a panic is no `Exception`
        reason = str(error).strip().splitlines()
        return {"errors": [], "failure": f"{type(error).__name__}: {reason[0][:200] if reason else ''}"}
    finally:
        _bound(0, None)
    return {"errors": found, "failure": ""}


def _bound(seconds: float, size: int | None) -> None:
    """Limit processor time and memory from now on, where the system supports it."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)
    if size is not None and sys.platform != "win32":
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (size if hard == resource.RLIM_INFINITY else min(size, hard), hard))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    _serve(sys.stdin.buffer, sys.stdout.buffer)
