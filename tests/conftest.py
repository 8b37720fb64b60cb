"""Fixtures: small tokenizers made on the spot, the embedded model, and data that may be absent."""

from __future__ import annotations

import gc
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from grammars.limits.deadline import TimeLimits, use_time_limits
from grammars.values.format import Format
from guided.engine.engine import Engine
from guided.hf.model.tokenizer import facts_of
from guided.hf.model.tokenizer_files import TokenizerFiles, configurations
from special_tokens import SpecialTokens
from tests.made_up.tokenizers import MARKERS, WORDS, live_tokenizer, small_tokenizer, small_tokens

ROOT = Path(__file__).resolve().parent.parent

#: The folder of shared data, which may be absent.
SHARED = Path(os.environ.get("GUIDED_SHARED", ROOT.parent / "shared"))

# Examples of each property: `make test-slow` sets HYPOTHESIS_PROFILE=slow.  No test fails for being slow.
settings.register_profile("default", max_examples=40, deadline=None)
settings.register_profile("slow", max_examples=240, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


#: The default limits on processor time, and a minute wherever elapsed time is limited: other processes of the machine
#: may take seconds at any moment.
PATIENT = TimeLimits(request_s=60.0, grammar_s=60.0)


@pytest.fixture(scope="session", autouse=True)
def _patient() -> Iterator[None]:
    with use_time_limits(PATIENT):
        yield


@pytest.fixture(scope="module", autouse=True)
def _small_heap() -> None:
    """Leave what earlier modules keep (engines, models) out of collections, each of which would take seconds."""
    gc.collect()
    gc.freeze()


def load_script(path: str) -> Any:
    """Return a script of this repository, which is in no package, as a module."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


#: The markers that small tokenizers flag as special.
SPECIAL = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")


def small_engine(
    markers: Sequence[str] = MARKERS, *, words: Sequence[str] = WORDS, special: Sequence[str] = SPECIAL
) -> Engine:
    """Return an engine over bytes, a few words and Qwen-like markers."""
    text = small_tokenizer(markers, words=words, special=special)
    return Engine(text, small_tokens(text))


def tokens_of_folder(folder: Path) -> SpecialTokens:
    """Return the registry of a model's folder, named after the folder."""
    return SpecialTokens(facts_of(TokenizerFiles(folder, name=folder.name), model=configurations(folder)))


@pytest.fixture(scope="session")
def engine() -> Engine:
    """The engine of `small_engine`."""
    return small_engine()


@pytest.fixture(scope="session")
def plain_engine() -> Engine:
    """An engine whose tokenizer has no marker except the end of turn."""
    return small_engine(("<|im_end|>",), special=("<|im_end|>",))


@pytest.fixture(scope="session")
def byte_engine() -> Engine:
    """Every byte is a token and nothing else but the markers: masks are about single characters."""
    return small_engine(words=())


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of shared data; the test skips where it is absent."""
    if not (SHARED / "data").is_dir():
        pytest.skip("needs the shared data folder (../shared or GUIDED_SHARED), which is absent")
    return SHARED


@pytest.fixture(scope="session")
def tokenizer_folder() -> Callable[[str], Path]:
    """Folder of a real tokenizer by name; the test skips where it was not fetched (`make tokenizers`)."""
    default = Path.home() / ".cache" / "guided" / "tokenizers"
    base = Path(os.environ.get("GUIDED_TOKENIZERS", default))

    def folder(name: str) -> Path:
        if not (base / name / "tokenizer.json").is_file():
            pytest.skip(f"needs the real tokenizer {name!r} (`make tokenizers`), which is absent")
        return base / name

    return folder


@pytest.fixture(scope="session")
def demo_guide() -> Any:
    """The guide of the embedded model; skips where its package is not installed."""
    import torch

    from guided.embedded import demo
    from special_tokens.errors import EmbeddedModelError

    torch.set_num_threads(1)
    try:
        return demo()
    except EmbeddedModelError as error:
        pytest.skip(f"the embedded model is absent: {error}")


#: A chat template in the shape of most: turns between markers.
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def make_tiny_guide(
    markers: Sequence[str] = MARKERS,
    *,
    seed: int = 0,
    special: Sequence[str] = SPECIAL,
    template: str = CHAT_TEMPLATE,
    format: Format | None = None,
    **config: Any,
) -> Any:
    """A guide of a random two-layer model over a small tokenizer."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    import guided

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    text = small_tokenizer(markers, special=special)
    tokenizer = live_tokenizer(text, eos_token="<|im_end|>", pad_token="<|im_end|>")
    tokenizer.chat_template = template
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4} | config
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), max_position_embeddings=512, **shape)).eval()
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    return guided.Guide(model, tokenizer, format=format)


@pytest.fixture(scope="session")
def tiny_guide() -> Any:
    """A guide of a tiny random model with Qwen-like markers."""
    return make_tiny_guide()


@pytest.fixture(scope="session")
def real_engine(tokenizer_folder: Callable[[str], Path]) -> Callable[[str], Engine]:
    """The engine of a real tokenizer by name, built once; the test skips where it was not fetched."""
    built: dict[str, Engine] = {}

    def engine_of(name: str) -> Engine:
        if name not in built:
            folder = tokenizer_folder(name)
            text = (folder / "tokenizer.json").read_text(encoding="utf-8")
            built[name] = Engine(text, tokens_of_folder(folder))
        return built[name]

    return engine_of
