"""The entry point ``vllm.general_plugins``, which vLLM calls once in each of its processes.

It puts our rows into vLLM's structured-output manager (scheduler), checks plans where requests are checked (API
server), and lets the API server load our endpoint.
"""

from __future__ import annotations

import functools
import os
from concurrent.futures import Future
from typing import Any

from guided.hf.model.tokenizer_context import TokenizerContext
from guided.vllm.grammar import RowGrammar, grammar_of
from guided.vllm.model import context_of
from guided.vllm.sealed import check_sealed, is_sealed
from special_tokens.errors import GuidedError

__all__ = ["register"]

_NAME = "guided"  # of our entry points


@functools.cache
def register() -> None:
    """Install guided in this process; raises `UnsupportedVllm` where vLLM is not as it was tried."""
    from guided.vllm import names

    names.check()
    names.Grammar.register(RowGrammar)
    _check_plans(names.SamplingParams, names.ValidationError)
    _make_rows(names.Manager, names.Backend)
    _load_endpoint(names.plugins)


def _is_ours(params: Any) -> bool:
    asked = params.structured_outputs if params is not None else None
    return asked is not None and is_sealed(asked.grammar)


def _check_plans(params_class: Any, refusal: Any) -> None:
    validate = params_class._validate_structured_outputs

    @functools.wraps(validate)
    def validated(params: Any, model_config: Any, *rest: Any, **named: Any) -> None:
        if not _is_ours(params):
            validate(params, model_config, *rest, **named)
            return
        if getattr(model_config, "is_diffusion", False):
            raise refusal("guided writes from left to right, a diffusion model does not", parameter="model")
        try:
            check_sealed(params.structured_outputs.grammar, context_of(model_config).engine)
        except GuidedError as error:
            raise refusal(str(error), parameter="structured_outputs") from error

    params_class._validate_structured_outputs = validated


def _make_rows(manager_class: Any, backend_class: Any) -> None:
    class Masks(backend_class):
        """Holds the place of a backend where no request of vLLM's own has come yet: it only allocates masks."""

        def compile_grammar(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

        def allocate_token_bitmask(self, max_num_seqs: int) -> Any:
            import torch

            return torch.full((max_num_seqs, (self.vocab_size + 31) // 32), -1, dtype=torch.int32)

        def destroy(self) -> None:
            pass

    begin, init = manager_class.__init__, manager_class.grammar_init

    @functools.wraps(begin)
    def begun(manager: Any, vllm_config: Any) -> None:
        begin(manager, vllm_config)
        if vllm_config.model_config.runner_type == "generate" and not vllm_config.model_config.skip_tokenizer_init:
            # now, and not in the first request
            manager.guided_context = manager.executor.submit(context_of, vllm_config.model_config)

    @functools.wraps(init)
    def initialised(manager: Any, request: Any) -> None:
        config, asked = manager.vllm_config, request.structured_output_request
        if asked is None or not _is_ours(request.sampling_params):
            if isinstance(manager.backend, Masks):
                manager.backend = None  # vLLM's own comes in its place
            init(manager, request)
            return
        if manager.backend is None:
            manager.backend = Masks(config, manager.tokenizer, config.model_config.get_vocab_size())
        asked.reasoning_ended = True  # our rows guide the reasoning too
        if manager._use_async_grammar_compilation:
            asked.grammar = manager.executor.submit(_grammar, manager, request)
        else:
            asked.grammar = _grammar(manager, request)

    manager_class.__init__, manager_class.grammar_init = begun, initialised
    if hasattr(manager_class, "validate_tokens"):  # from 0.30 on; before, the scheduler asks the grammar itself
        _ask_for_drafts(manager_class)


def _ask_for_drafts(manager_class: Any) -> None:
    validate = manager_class.validate_tokens

    @functools.wraps(validate)
    def validated(manager: Any, request: Any, spec_tokens: list[int]) -> list[int]:
        grammar = request.structured_output_request and request.structured_output_request.grammar
        if isinstance(grammar, RowGrammar) and not spec_tokens:
            return grammar.validate_tokens(())  # forced tokens, where nothing was guessed
        found: list[int] = validate(manager, request, spec_tokens)
        return found

    manager_class.validate_tokens = validated


def _grammar(manager: Any, request: Any) -> RowGrammar:
    context: Future[TokenizerContext] = manager.guided_context
    config = manager.vllm_config
    # With asynchronous scheduling the worker feeds drafts of its own.
    is_synchronous = not config.scheduler_config.async_scheduling
    return grammar_of(
        request, context.result().engine, most_drafts=config.num_speculative_tokens if is_synchronous else 0
    )


def _load_endpoint(plugins: Any) -> None:
    """Let vLLM load our endpoint although ``VLLM_PLUGINS`` does not name it, if that is not set at all."""
    load = plugins.load_endpoint_plugins

    @functools.wraps(load)
    def loaded(*args: Any, **named: Any) -> Any:
        if "VLLM_PLUGINS" in os.environ:
            return load(*args, **named)
        os.environ["VLLM_PLUGINS"] = _NAME
        try:
            return load(*args, **named)
        finally:
            del os.environ["VLLM_PLUGINS"]

    plugins.load_endpoint_plugins = loaded
