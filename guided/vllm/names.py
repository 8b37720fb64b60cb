"""Every name of vLLM that guided uses, and the test of them with which each process starts.

Only the groups of entry points are official; so a version that was not tried is refused by name: a constraint that is
silently gone is worse than a server that does not start.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from vllm import __version__ as installed

from special_tokens.errors import GuidedError

__all__ = [
    "AsyncLLM",
    "ClientError",
    "Grammar",
    "Manager",
    "OutputKind",
    "SamplingParams",
    "StructuredOutputsParams",
    "UnsupportedVllm",
    "ValidationError",
    "check",
    "check_version",
    "installed",
    "plugins",
    "tokenizer_of",
]

#: The releases that were tried; 0.31 cannot be installed next to the transformers that guided needs.
_TRIED = ((0, 29), (0, 30), (0, 32))


class UnsupportedVllm(GuidedError, ImportError):
    """This vLLM was not tried with guided, or a name in it has changed."""


def _unsupported(why: str) -> UnsupportedVllm:
    tried = " or ".join(".".join(map(str, version)) for version in _TRIED)
    hint = "set VLLM_PLUGINS= to start vLLM without guided"
    return UnsupportedVllm(why, place=f"vllm {installed}", expected=f"a release of {tried}", hint=hint)


try:
    from vllm import plugins
    from vllm.config import ModelConfig, SchedulerConfig, VllmConfig
    from vllm.exceptions import VLLMClientError as ClientError
    from vllm.exceptions import VLLMValidationError as ValidationError
    from vllm.outputs import CompletionOutput, RequestOutput
    from vllm.sampling_params import RequestOutputKind as OutputKind
    from vllm.sampling_params import SamplingParams, StructuredOutputsParams
    from vllm.tokenizers import cached_tokenizer_from_config as tokenizer_of
    from vllm.v1.engine.async_llm import AsyncLLM
    from vllm.v1.request import Request
    from vllm.v1.structured_output import StructuredOutputManager as Manager
    from vllm.v1.structured_output.backend_types import StructuredOutputGrammar as Grammar
    from vllm.v1.structured_output.request import StructuredOutputRequest
except ImportError as error:
    raise _unsupported(str(error)) from error

#: A function, and the parameters that it is called with or replaced by.
_PARAMETERS: tuple[tuple[Callable[..., Any], str], ...] = (
    (Manager.__init__, "self vllm_config"),
    (Manager.grammar_init, "self request"),
    (SamplingParams._validate_structured_outputs, "self model_config structured_outputs_config tokenizer"),
    (plugins.load_endpoint_plugins, "supported_tasks"),
    (AsyncLLM.generate, "self prompt sampling_params request_id"),
    (StructuredOutputRequest, "params"),
    (
        SamplingParams,
        "n temperature top_p top_k min_p repetition_penalty presence_penalty frequency_penalty logit_bias seed logprobs"
        " max_tokens stop_token_ids detokenize structured_outputs output_kind",
    ),
)
#: A class, and attributes of its objects that are read, called or set.
_ATTRIBUTES: tuple[tuple[Any, str], ...] = (
    (Manager, "backend vllm_config executor _grammar_bitmask _use_async_grammar_compilation"),
    (Request, "request_id sampling_params structured_output_request prompt_token_ids max_tokens stop_reason"),
    (Request, "is_finished num_output_tokens"),
    (StructuredOutputRequest, "grammar reasoning_ended"),
    (AsyncLLM, "vllm_config"),
    (VllmConfig, "model_config scheduler_config num_speculative_tokens"),
    (ModelConfig, "tokenizer tokenizer_revision skip_tokenizer_init runner_type hf_config max_model_len"),
    (ModelConfig, "is_diffusion get_vocab_size generation_config override_generation_config"),
    (ModelConfig, "try_get_generation_config get_diff_sampling_param"),
    (SchedulerConfig, "async_scheduling max_num_seqs"),
    (RequestOutput, "outputs num_cached_tokens"),
    (CompletionOutput, "index token_ids logprobs finish_reason stop_reason"),
)
_METHODS = {"accept_tokens", "validate_tokens", "rollback", "fill_bitmask", "is_terminated", "reset"}


def check_version(version: str = installed) -> None:
    """Raise `UnsupportedVllm` for a release other than those that were tried."""
    numbers = version.split(".")[:2]
    if not all(map(str.isdecimal, numbers)) or tuple(map(int, numbers)) not in _TRIED:
        raise _unsupported("guided was not tried with this version")


def check() -> None:
    """Raise `UnsupportedVllm` unless the version was tried and every name is what it was."""
    check_version()
    changed = list(_changed())
    if changed:
        raise _unsupported(f"changed: {', '.join(changed)}")


def _changed() -> Iterator[str]:
    for function, names in _PARAMETERS:
        missing = set(names.split()) - set(inspect.signature(function).parameters) - {"self"}
        if missing:
            yield f"{function.__qualname__} without {', '.join(sorted(missing))}"
    for cls, names in _ATTRIBUTES:
        known = {*dir(cls), *getattr(cls, "__dataclass_fields__", ()), *_set_at_first(cls)}
        for name in sorted(set(names.split()) - known):
            yield f"{cls.__name__} without {name}"
    if Grammar.__abstractmethods__ != _METHODS:
        yield f"{Grammar.__name__} with other methods"


def _set_at_first(cls: Any) -> Iterator[str]:
    """Yield the names in the code that makes an object, the attributes that it sets among them."""
    for name in ("__init__", "__post_init__"):
        code = getattr(getattr(cls, name, None), "__code__", None)
        yield from code.co_names if code is not None else ()
