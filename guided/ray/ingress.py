"""The ingress: the turns of a conversation go to one replica, and what a dead one leaves is our error."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, Metric, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from ray.actor import ActorHandle
from ray.exceptions import RayError, RayTaskError, TaskCancelledError
from ray.serve import get_replica_context
from ray.serve.exceptions import BackPressureError, RayServeException
from ray.serve.handle import DeploymentHandle, DeploymentResponseGenerator
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Message, Scope

from guided.ray.args import ReplicaArgs
from guided.ray.session import session_of
from guided.serve.client import error_frames, error_response, read_body
from guided.serve.refusals import Overloaded, Unavailable
from guided.serve.settings import ApiKeys, write_logs
from special_tokens.errors import GuidedError

__all__ = ["Ingress"]

log = logging.getLogger("guided.serve")

#: What the application of a replica reads of a scope.
_SCOPE = ("type", "http_version", "method", "scheme", "path", "raw_path", "query_string", "root_path", "headers")


class Ingress:
    """Asks ``replicas``; a client may name its conversation itself, in the header ``x-session-id``."""

    def __init__(self, replicas: DeploymentHandle[Any], args: ReplicaArgs) -> None:
        write_logs(args.log_level, sys.__stderr__)
        settings = args.to_settings()
        self._keys = ApiKeys(settings.keys)
        self._max_body = settings.max_body
        self._max_wait_s = settings.max_wait_s
        self._replicas = replicas.options(stream=True)  # from now on its router hears which replicas run

    async def __call__(self, request: Request) -> Response:
        """Return the answer of a replica, or our error."""
        try:
            scope = {key: request.scope[key] for key in _SCOPE}
            path = scope["path"].removeprefix(scope["root_path"])
            if request.method == "GET" and path in ("/health", "/ready"):
                state = "ok" if self._running() else "loading"
                return JSONResponse({"status": state}, 503 if (path, state) == ("/ready", "loading") else 200)
            if request.method == "GET" and path == "/metrics":
                return await self._metrics()
            if request.method == "POST":  # before its body costs anything
                self._keys.client_of(request.headers.get("authorization", ""))
            body = await read_body(request, self._max_body)
            session = request.headers.get("x-session-id") or session_of(body)
            return await self._answered(scope, body, session)
        except GuidedError as error:
            return error_response(error)
        except Exception as error:
            log.error("a request failed", exc_info=error)
            return error_response(error)

    async def _answered(self, scope: Scope, body: bytes, session: str) -> Response:
        """Return the answer as soon as some of it is there; until then another replica is asked if one dies, once."""
        for may_ask_again in (True, False):
            messages = self._replicas.answer.options(session_id=session).remote(scope, body)
            try:
                await self._taken(messages)
                start, first = await anext(messages), await anext(messages)
                break
            except (RayError, RayServeException) as error:
                lost = _lost(error)
                if not (may_ask_again and isinstance(lost, Unavailable)):
                    raise lost from error
        response = StreamingResponse(_parts(first, messages, scope["path"]), start["status"])
        response.raw_headers = [field for field in start["headers"] if field[0] != b"x-request-id"]  # Ray adds one
        return response

    async def _taken(self, messages: DeploymentResponseGenerator[Message]) -> None:
        """Wait until a replica has taken the request, but no longer than one may wait."""
        try:
            await asyncio.wait_for(anext(messages), self._max_wait_s)
        except TimeoutError:
            messages.cancel()
            raise Unavailable(
                f"no replica runs or has room: waited {self._max_wait_s:g} s", place="engine", hint="try again later"
            ) from None

    def _running(self) -> list[ActorHandle]:
        """Return the replicas that the router knows to run; Ray says them nowhere else."""
        router = self._replicas._router._asyncio_router.request_router
        return [] if router is None else [replica._actor_handle for replica in router.curr_replicas.values()]

    async def _metrics(self) -> Response:
        """Return the metrics of all replicas that answer, each with its name as a label."""
        found: dict[str, Metric] = {}
        # Calls by way of the handle would wait while all slots of a replica are taken.
        calls = [replica.__ray_call__ for replica in self._running()]
        asked = [call.remote(lambda _: get_replica_context().servable_object.metrics()) for call in calls]
        answers = await asyncio.gather(*(asyncio.wait_for(one, timeout=5) for one in asked), return_exceptions=True)
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
    """Return our error for what a replica raised, as itself or as Ray's, for its end, or for what Ray refuses."""
    if isinstance(error, BackPressureError):
        return Overloaded("too many requests wait already", place="engine", hint="try again later")
    if isinstance(error, TaskCancelledError):  # its client has gone: no other replica is asked
        return GuidedError("the request was cancelled")
    if isinstance(error, RayTaskError) or not isinstance(error, (RayError, RayServeException)):
        log.error("a replica raised", exc_info=error)
        return GuidedError("a replica raised an exception", hint="Ray's log has more")
    log.warning("a replica ended while it answered: %s", type(error).__name__)
    return Unavailable("the replica that wrote the answer has ended", place="engine", hint="try again")
