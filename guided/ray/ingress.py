"""The ingress: the turns of a conversation go to one replica, and what a dead one leaves is our error."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, Metric, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from ray.exceptions import RayError, RayTaskError
from ray.serve.exceptions import BackPressureError
from ray.serve.handle import DeploymentHandle
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Scope

from guided.ray.session import session_of
from guided.serve.client import error_frames, error_response, read_body
from guided.serve.refusals import Overloaded, Unavailable
from special_tokens.errors import GuidedError

__all__ = ["Ingress"]

log = logging.getLogger("guided.serve")

#: What the application of a replica reads of a scope.
_SCOPE = ("type", "http_version", "method", "scheme", "path", "raw_path", "query_string", "root_path", "headers")


class Ingress:
    """Asks ``replicas``; a client may name its conversation itself, in the header ``x-session-id``."""

    def __init__(self, replicas: DeploymentHandle[Any], max_body: int) -> None:
        self._replicas = replicas
        self._max_body = max_body

    async def __call__(self, request: Request) -> Response:
        """Return the answer of a replica, or our error."""
        try:
            scope = {key: request.scope[key] for key in _SCOPE}
            if scope["path"] == f"{scope['root_path']}/metrics":
                return await self._metrics()
            body = await read_body(request, self._max_body)
            session = request.headers.get("x-session-id") or session_of(body)
            return await self._answered(scope, body, session)
        except BackPressureError:
            return error_response(Overloaded("too many requests wait already", place="engine", hint="try again later"))
        except GuidedError as error:
            return error_response(error)
        except Exception as error:
            log.error("a request failed", exc_info=error)
            return error_response(error)

    async def _answered(self, scope: Scope, body: bytes, session: str) -> Response:
        """Return the answer as soon as some of it is there; until then another replica is asked if one dies, once."""
        answer = self._replicas.answer.options(stream=True, session_id=session)
        for may_ask_again in (True, False):
            messages = answer.remote(scope, body)
            try:
                start, first = await anext(messages), await anext(messages)
                break
            except RayError as error:
                lost = _lost(error)
                if not (may_ask_again and isinstance(lost, Unavailable)):
                    raise lost from error
        response = StreamingResponse(_parts(first, messages, scope["path"]), start["status"])
        response.raw_headers = [field for field in start["headers"] if field[0] != b"x-request-id"]  # Ray adds one
        return response

    async def _metrics(self) -> Response:
        """Return the metrics of all replicas that answer, each with its name as a label."""
        found: dict[str, Metric] = {}
        answers = await self._replicas.broadcast("metrics").results_async(timeout_s=5, return_exceptions=True)
        for replica, text in (answer for answer in answers if not isinstance(answer, BaseException)):
            for family in text_string_to_metric_families(text):
                whole = found.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                whole.samples += [one._replace(labels=one.labels | {"replica": replica}) for one in family.samples]
        everything: Any = SimpleNamespace(collect=found.values)
        return Response(generate_latest(everything), media_type=CONTENT_TYPE_LATEST)


async def _parts(message: Message, messages: AsyncIterator[Message], path: str) -> AsyncIterator[bytes]:
    try:
        yield message["body"]
        async for message in messages:
            yield message["body"]
    except Exception as error:
        if message.get("more_body"):
            yield error_frames(_lost(error), is_named=path.endswith("/responses")).encode()


def _lost(error: Exception) -> GuidedError:
    """Return our error for what a replica raised, as itself or as Ray's, or for its end."""
    if isinstance(error, RayTaskError) or not isinstance(error, RayError):
        log.error("a replica raised", exc_info=error)
        return GuidedError("a replica raised an exception", hint="Ray's log has more")
    log.warning("a replica ended while it answered: %s", type(error).__name__)
    return Unavailable("the replica that wrote the answer has ended", place="engine", hint="try again")
