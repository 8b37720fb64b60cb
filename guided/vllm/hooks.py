"""Our rows in vLLM's structured-output manager (scheduler), our check of plans, and our endpoint (API server)."""

from __future__ import annotations

import functools
import os
from concurrent.futures import Future
from typing import Any

import torch

from guided.bitmask import num_words
from guided.hf.model.tokenizer_context import TokenizerContext
from guided.vllm import names
from guided.vllm.grammar import RowGrammar, grammar_of
from guided.vllm.model import context_of
from guided.vllm.sealed import check_sealed, is_sealed
from special_tokens.errors import GuidedError

__all__ = ["install"]

_NAME = "guided"  # of our entry points


def install() -> None:
    """Wrap functions of vLLM in this process."""
    names.Grammar.register(RowGrammar)
    _check_plans(names.SamplingParams, names.ValidationError)
    _make_rows(names.Manager)
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


def _make_rows(manager_class: Any) -> None:
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
            init(manager, request)
            return
        if manager.backend is None and manager._grammar_bitmask is None:  # else vLLM's backend allocates it
            rows = config.scheduler_config.max_num_seqs * (1 + config.num_speculative_tokens)
            words = num_words(config.model_config.get_vocab_size())
            manager._grammar_bitmask = torch.full((rows, words), -1, dtype=torch.int32)
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
        import guided.vllm.endpoint  # noqa: F401  # vLLM goes on without one that cannot be imported

        if "VLLM_PLUGINS" in os.environ:
            return load(*args, **named)
        os.environ["VLLM_PLUGINS"] = _NAME
        try:
            return load(*args, **named)
        finally:
            del os.environ["VLLM_PLUGINS"]

    plugins.load_endpoint_plugins = loaded
