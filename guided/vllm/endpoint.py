"""The entry point ``vllm.endpoint_plugins``: our Chat Completions in place of vLLM's, on vLLM's engine.

Prompt, plan, parser and objects are guided's; scheduling, cache and forward are vLLM's.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import uuid
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from grammars.plan.plan import Plan
from grammars.requests.body import check_roles, parse_body
from grammars.requests.chat import ChatRequest, read_chat
from guided.landing.options import token_limit, with_limit_notes
from guided.openai import Head
from guided.sampling import RowSampling, Sampling, resolve
from guided.serve.client import ChunkLists, EventStream, error_response, read_body, until_gone
from guided.serve.planning import Composers, ServerPlanner
from guided.serve.refusals import UnknownModel
from guided.vllm import names
from guided.vllm.answers import AcceptedChat, Answers
from guided.vllm.model import context_of, sampling_defaults
from guided.vllm.sealed import seal
from special_tokens.errors import GuidedError, RequestError, shown

__all__ = ["GuidedChat"]

log = logging.getLogger("guided")

_PATH = "/v1/chat/completions"
_MOST_BODY = 4_000_000
#: Threads that read bodies and make prompts; composing itself has processes of its own.
_THREADS = 4


class GuidedChat:
    """The plugin: vLLM attaches its route when it makes the application, and then gives it the engine."""

    name = "guided"
    required_tasks = ("generate",)

    def attach_router(self, app: Any) -> None:
        """Put our route in the place of vLLM's."""
        app.router.routes[:] = [route for route in app.router.routes if getattr(route, "path", "") != _PATH]
        app.router.add_route(_PATH, self._answer, methods=["POST"])

    async def init_state(self, engine_client: Any, state: Any, args: Any) -> None:
        """Load what requests need: vocabulary, format, and the processes that compose plans."""
        model_config = engine_client.vllm_config.model_config
        self._client = engine_client
        self._names: list[str] = args.served_model_name or [args.model]
        self._defaults, self._most_tokens = sampling_defaults(model_config)
        self._context = await asyncio.to_thread(context_of, model_config, _template(args.chat_template))
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="guided-plan")
        composers = Composers(self._context.tokens, self._context.format)
        atexit.register(composers.close)
        await asyncio.to_thread(composers.warm)
        self._planner = ServerPlanner(
            self._context,
            most_tokens=model_config.max_model_len,
            composers=composers,
            most_rows=engine_client.vllm_config.scheduler_config.max_num_seqs,
        )

    async def _answer(self, request: Request) -> Any:
        try:
            data = await read_body(request, _MOST_BODY)
            # In a thread: a schema may take seconds, and streams go on.
            asked = await until_gone(request.receive, self._in_thread(data))
            prompt, name = {"prompt_token_ids": asked.prompt.token_ids}, f"guided-{uuid.uuid4().hex}"
            outputs = self._client.generate(prompt, asked.params, name)
            answers = Answers(asked, self._context.engine)
            if not asked.is_streamed:
                return JSONResponse(await until_gone(request.receive, _whole(answers, outputs)))
            # The status waits for the first token: until then the engine may refuse the request.
            first = answers.read(await until_gone(request.receive, anext(outputs)))
            answers.check()
            return EventStream(_chunks(answers, first, outputs), _note)
        except ClientDisconnect:
            return Response(status_code=499)  # no one reads it
        except GuidedError as error:
            raised = error
        except names.ClientError as error:
            if not isinstance(error.__cause__, GuidedError):
                raise  # vLLM's own answer to it
            raised = error.__cause__  # a plan was checked
        response = error_response(raised)
        _note(raised, response.status_code)
        return response

    async def _in_thread(self, data: bytes) -> AcceptedChat:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._asked, data)

    def _asked(self, data: bytes) -> AcceptedChat:
        body = parse_body(data)
        check_roles(body.get("messages"))
        chat = read_chat(body)
        model = chat.delivery.model
        if model is not None and model not in self._names:
            raise UnknownModel(f"{shown(model)} is not served", place="model", expected=" or ".join(self._names))
        if chat.request.return_last_hidden_state:
            raise RequestError("vLLM hands on no hidden states", place="return_hidden_states", expected="false")
        plan = self._planner.plan_request(chat.request)
        prompt = self._context.prompt(chat.messages, plan)
        wanted = plan.max_tokens or self._defaults.get("max_tokens")
        limit = token_limit(plan, wanted, len(prompt.token_ids), self._planner.most_tokens)
        limit = min(limit, self._most_tokens or limit)
        given = Sampling(**chat.request.sampling)
        if given.temperature is None:
            given = replace(given, temperature=self._defaults["temperature"])
        rows = resolve(given, self._defaults, vocab_size=self._context.tokens.vocab_size)
        num_rows = 1 if rows[0].is_greedy else len(rows)
        noted = with_limit_notes(plan, None, limit)
        assert isinstance(noted, Plan)
        return AcceptedChat(
            plan=noted,
            prompt=prompt,
            params=_params(chat, plan, rows[0], num_rows, limit),
            head=Head(model or self._names[0]),
            is_streamed=chat.delivery.is_streamed,
            with_usage=chat.delivery.with_usage,
            rows=num_rows,
            copies=len(rows) // num_rows,
        )


async def _whole(answers: Answers, outputs: AsyncGenerator[Any, None]) -> dict[str, Any]:
    async with aclosing(outputs):
        async for output in outputs:
            await asyncio.to_thread(answers.read, output)  # a long answer takes tens of milliseconds
    return await asyncio.to_thread(answers.whole)


async def _chunks(answers: Answers, first: list[dict[str, Any]], outputs: AsyncGenerator[Any, None]) -> ChunkLists:
    async with aclosing(outputs):
        yield [*answers.first(), *first]
        async for output in outputs:
            yield answers.read(output)
    yield await asyncio.to_thread(answers.last)


def _params(chat: ChatRequest, plan: Plan, row: RowSampling, num_rows: int, limit: int) -> names.SamplingParams:
    """Return the sampling of a request as vLLM takes it; the plan travels as its grammar."""
    request, seed = chat.request, chat.request.sampling.get("seed")
    return names.SamplingParams(
        n=num_rows,
        temperature=0.0 if row.is_greedy else row.temperature,
        top_p=row.top_p,
        top_k=row.top_k,
        min_p=row.min_p,
        repetition_penalty=row.repetition_penalty,
        presence_penalty=row.presence_penalty,
        frequency_penalty=row.frequency_penalty,
        logit_bias=dict(row.logit_bias) or None,
        seed=None if seed is None else seed % (1 << 63),
        logprobs=row.logprobs,
        max_tokens=limit,
        stop_token_ids=sorted(plan.end_ids()),
        detokenize=False,
        structured_outputs=names.StructuredOutputsParams(
            grammar=seal(plan, landing=request.landing, short_budget=request.short_budget)
        ),
        output_kind=names.OutputKind.DELTA if chat.delivery.is_streamed else names.OutputKind.FINAL_ONLY,
    )


def _note(error: BaseException, status: int) -> None:
    if status >= 500:
        log.error("a request failed", exc_info=error)


def _template(given: str | None) -> str | None:
    """Return the chat template that a flag gives: a file's or the text itself."""
    if given is None or "\n" in given or "{" in given:
        return given
    return Path(given).read_text(encoding="utf-8")
