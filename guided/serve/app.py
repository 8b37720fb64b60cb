"""The routes: from a request to a plan, to the engine, and back as one object or as server-sent events."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import guided
from grammars.requests.body import check_roles, parse_body
from grammars.requests.read import read_request
from guided.hf.completing import AnswerForm, ChatForm, CompletionRun, completing
from guided.hf.planning import Planner
from guided.inspect.check import CheckedRequest
from guided.serve.client import DONE, STREAM_HEADERS, ChunkLists, EventStream, error_response, read_body, until_gone
from guided.serve.completions import TextForm, text_completing
from guided.serve.metrics import CONTENT_TYPE_LATEST
from guided.serve.observing.page import PAGE_HEADERS, TraceForm, page, updates
from guided.serve.observing.records import RequestRecord
from guided.serve.refusals import NotFound, UnknownModel, WrongMethod
from guided.serve.responses_read import chat_body
from guided.serve.responses_write import ResponseForm
from guided.serve.running import Running
from guided.serve.service import Service
from guided.serve.settings import ApiKeys
from special_tokens.errors import RequestError, shown

__all__ = ["create_app"]

log = logging.getLogger("guided.serve")

T = TypeVar("T")

_MAX_ID_LENGTH = 128


@dataclass(frozen=True)
class Accepted:
    """A request that was accepted: its run, the objects of its endpoint, and what ends a stream of them."""

    run: CompletionRun
    form: AnswerForm
    ends: str = DONE


def ask_chat(planner: Planner, body: dict[str, Any], *, trace: bool = False) -> Accepted:
    check_roles(body.get("messages"))
    run = completing(planner, body, trusted=False, ignore_unknown=False, describe=True, trace=trace)
    return Accepted(run, TraceForm(run) if trace else ChatForm(run))


def ask_text(planner: Planner, body: dict[str, Any]) -> Accepted:
    run = text_completing(planner, body)
    return Accepted(run, TextForm(run))


def ask_response(planner: Planner, body: dict[str, Any]) -> Accepted:
    run = completing(planner, chat_body(body), trusted=False, ignore_unknown=False, describe=True)
    return Accepted(run, ResponseForm(run, body), "")


class Endpoints:
    """The endpoints of one service."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._keys = ApiKeys(service.settings.keys)

    def routes(self) -> list[Route]:
        def post(path: str, ask: Callable[[Planner, dict[str, Any]], Accepted]) -> Route:
            async def endpoint(request: Request) -> ASGIApp:
                return await self._answer(request, ask)

            return Route(path, self._guarded(endpoint), methods=["POST"])

        def get(path: str, endpoint: Callable[[Request], Awaitable[ASGIApp]], *, is_open: bool = False) -> Route:
            return Route(path, self._guarded(endpoint, is_open=is_open), methods=["GET"])

        of_page = [
            get("/", self._page, is_open=True),
            get("/v1/live", self._live),
            post("/v1/trace", partial(ask_chat, trace=True)),
        ]
        return [
            *(of_page if self.service.settings.page else ()),
            post("/v1/chat/completions", ask_chat),
            post("/v1/completions", ask_text),
            post("/v1/responses", ask_response),
            Route("/v1/check", self._guarded(self._check), methods=["POST"]),
            get("/v1/models", self._models),
            get("/v1/models/{name:path}", self._model),
            get("/version", self._version),
            get("/health", self._health, is_open=True),
            get("/ready", self._ready, is_open=True),
            get("/metrics", self._metrics, is_open=True),
        ]

    def _guarded(self, endpoint: Callable[[Request], Awaitable[ASGIApp]], *, is_open: bool = False) -> Any:
        """Return ``endpoint`` with keys checked before it, and with whatever it raises answered."""

        async def answer(request: Request) -> ASGIApp:
            try:
                if not is_open:
                    request.state.client_name = self._keys.client_of(request.headers.get("authorization", ""))
                return await endpoint(request)
            except ClientDisconnect:
                return Response(status_code=499)  # no one reads it
            except Exception as error:
                return self.refused(error)

        return answer

    def refused(self, error: BaseException) -> Response:
        """Return the answer to what was raised."""
        response = error_response(error)
        self._note(error, response.status_code)
        return response

    def _note(self, error: BaseException, status: int) -> None:
        self.service.metrics.failures.labels(type(error).__name__).inc()
        if status == 500:
            log.error("a request failed", exc_info=error)

    def _ended_by(self, record: RequestRecord, error: BaseException, status: int) -> None:
        record.error = error
        self._note(error, status)

    # -- answers of the engine

    async def _answer(self, request: Request, ask: Callable[[Planner, dict[str, Any]], Accepted]) -> ASGIApp:
        service, arrived = self.service, time.perf_counter()
        service.check_open()
        data = await read_body(request, service.settings.max_body)
        with ExitStack() as end:
            begun = end.enter_context(service.request())
            route, client = request.scope["route"].path, request.state.client_name
            record = end.enter_context(service.records.request(route, client, request.headers, arrived))
            end.callback(lambda: service.metrics.whole.observe(record.mark("ended")))
            asked = await service.planned(lambda: self._accepted(data, ask))
            record.planned(asked.run)
            running = self._running(record, asked)
            end.callback(running.close)
            await until_gone(request.receive, running.begun())
            service.metrics.queue.observe(record.mark("begun"))
            begun()
            if asked.run.is_streamed:
                chunks, on_end = self._chunks(asked, running), end.pop_all().close
                return EventStream(chunks, partial(self._ended_by, record), ends=asked.ends, on_end=on_end)
            return JSONResponse(await until_gone(request.receive, self._whole(asked, running)))

    def _accepted(self, data: bytes, ask: Callable[[Planner, dict[str, Any]], Accepted]) -> Accepted:
        asked = ask(self.service.planner, self._named(parse_body(data)))
        _ = asked.run.generation.why_alone  # found now, not in the engine's thread
        return asked

    def _running(self, record: RequestRecord, asked: Accepted) -> Running:
        service, most = self.service, self.service.settings.max_rows
        num_rows = len(asked.run.generation.answers)
        if num_rows > most:
            raise RequestError(f"{num_rows} answers at once", place="n", expected=f"at most {most}")

        def on_tokens(number: int, seconds: float) -> None:
            if record.has("first"):
                service.metrics.token_gap.observe(seconds)
            else:
                service.metrics.first_token.observe(record.mark("first"))
            service.records.wrote(number)

        form = asked.form if asked.run.is_streamed else None
        return Running(service.engine, asked.run, form, record, on_tokens)

    async def _whole(self, asked: Accepted, running: Running) -> dict[str, Any]:
        async for _ in running.chunks():
            pass
        messages = await running.messages()
        self.service.metrics.count(messages, asked.run.num_prompts)
        return asked.form.whole(messages)

    async def _chunks(self, asked: Accepted, running: Running) -> ChunkLists:
        async for chunks in running.chunks():
            yield chunks
        messages = await running.messages()
        self.service.metrics.count(messages, asked.run.num_prompts)
        yield asked.form.last(messages)

    def _named(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the body with the model's name; raise `UnknownModel` for the name of another one."""
        name, names = body.get("model"), self.service.names
        if name is None:
            return {**body, "model": names[0]}
        if isinstance(name, str) and name not in names:
            raise UnknownModel(f"{shown(name)} is not served", place="model", expected=" or ".join(names))
        return body

    # -- the page

    async def _page(self, _: Request) -> ASGIApp:
        return HTMLResponse(page(), headers=PAGE_HEADERS)

    async def _live(self, _: Request) -> ASGIApp:
        return StreamingResponse(updates(self.service.overview, self.service.is_over), headers=STREAM_HEADERS)

    # -- other routes

    async def _check(self, request: Request) -> ASGIApp:
        service = self.service
        service.check_open()
        data = await read_body(request, service.settings.max_body)
        with service.request():

            def check() -> dict[str, Any]:
                body = self._named(parse_body(data))
                body = chat_body(body) if "input" in body else body
                request = read_request(body)
                plan = service.planner.plan_request(request)
                checked = CheckedRequest(plan, request.source, request.sampling)
                return checked.to_json() | {"grammar": plan.lark}

            return JSONResponse(await service.planned(check))

    async def _models(self, _: Request) -> ASGIApp:
        return JSONResponse({"object": "list", "data": list(map(_model_object, self.service.names))})

    async def _model(self, request: Request) -> ASGIApp:
        name = request.path_params["name"]
        self._named({"model": name})
        return JSONResponse(_model_object(name))

    async def _version(self, _: Request) -> ASGIApp:
        return JSONResponse({"version": guided.__version__})

    async def _health(self, _: Request) -> ASGIApp:
        state = self.service.state
        return JSONResponse({"status": state}, 503 if state == "dead" else 200)

    async def _ready(self, _: Request) -> ASGIApp:
        state = self.service.state
        return JSONResponse({"status": state}, 200 if state == "ok" else 503)

    async def _metrics(self, _: Request) -> ASGIApp:
        return Response(self.service.metrics.text(), media_type=CONTENT_TYPE_LATEST)


def _model_object(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "guided"}


class _Requests:
    """Gives each request an id, which is the client's where it can be shown, and a line in the log."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = [value for name, value in scope["headers"] if name == b"x-request-id"]
        request_id = _shown_id(given) or uuid.uuid4().hex
        began, status = time.perf_counter(), 0

        async def send_named(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", request_id.encode())]
            await send(message)

        try:
            await self._app(scope, receive, send_named)
        finally:
            route = scope.get("route")
            path = route.path if isinstance(route, Route) else "other"
            self._service.metrics.requests.labels(path, str(status)).inc()
            fields = {"request_id": request_id, "method": scope["method"], "route": path, "status": status}
            log.info("request", extra={"fields": fields | {"seconds": round(time.perf_counter() - began, 4)}})


def _shown_id(given: list[bytes]) -> str:
    """Return the client's id if it is short and printable, else ""."""
    text = given[0].decode("latin-1") if len(given) == 1 else ""
    return text if len(text) <= _MAX_ID_LENGTH and text.isascii() and text.isprintable() else ""


def create_app(service: Service) -> ASGIApp:
    """Return the ASGI application of ``service``, which may still be loading; it is closed when the server ends."""
    server = Endpoints(service)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.close)

    async def on_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        place, method = shown(request.url.path), request.method
        if error.status_code == 405:
            return server.refused(WrongMethod(f"{place} does not take {shown(method)}", place="method"))
        return server.refused(NotFound(f"there is no route {place}", place="path", hint="the base URL ends in /v1"))

    app = Starlette(routes=server.routes(), lifespan=lifespan, exception_handlers={HTTPException: on_http})
    return _Requests(app, service)
