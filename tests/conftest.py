"""Fixtures: small tokenizers made on the spot, the embedded model, and data that may be absent."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from guided.engine.engine import Engine
from special_tokens import AddedToken, SpecialTokens, TokenizerFacts
from tests.amount import EVERYTHING, examples, leave_to_the_slow_run
from tests.clocks import slow_down

ROOT = Path(__file__).resolve().parent.parent

# These machines are noisy: no test may fail for being slow.
settings.register_profile("guided", parent=examples(60, part=4))
settings.load_profile("guided")
slow_down()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "every_case: a table that the default run looks at as a whole (tests/amount.py)")


@pytest.hookimpl(tryfirst=True)  # before -m looks at the marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not EVERYTHING and not any("::" in argument for argument in config.args):
        leave_to_the_slow_run(items)


#: Words that small tokenizers know beside all single bytes.
WORDS = (" the", " a", "ing", "true", "false", "null", '{"', '": "', '", "', '"}', "\n\n", "think", " is", "al", "on")


def byte_alphabet() -> list[str]:
    """GPT-2's printable character for every byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    chars = {b: chr(b) for b in printable}
    extra = (b for b in range(256) if b not in chars)
    chars |= {b: chr(256 + n) for n, b in enumerate(extra)}
    return [chars[b] for b in range(256)]


def small_tokenizer(markers: Sequence[str], *, words: Sequence[str] = WORDS, special: Sequence[str] = ()) -> str:
    """The text of a byte-level BPE ``tokenizer.json``: every byte, some words, then the markers."""
    alphabet = byte_alphabet()
    vocab = {char: i for i, char in enumerate(alphabet)}
    merges: list[list[str]] = []
    for word in words:
        parts = [alphabet[b] for b in word.encode()]
        while len(parts) > 1:
            left, right = parts[0], parts[1]
            if left + right not in vocab:
                vocab[left + right] = len(vocab)
                merges.append([left, right])
            parts[:2] = [left + right]
    added = [
        {
            "id": len(vocab) + i,
            "content": text,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": text in special,
        }
        for i, text in enumerate(markers)
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return json.dumps(
        {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": added,
            "normalizer": None,
            "pre_tokenizer": byte_level,
            "post_processor": None,
            "decoder": byte_level,
            "model": {
                "type": "BPE",
                "dropout": None,
                "unk_token": None,
                "continuing_subword_prefix": None,
                "end_of_word_suffix": None,
                "fuse_unk": False,
                "byte_fallback": False,
                "ignore_merges": False,
                "vocab": vocab,
                "merges": merges,
            },
        }
    )


def small_tokens(tokenizer: str, *, eos: Sequence[str] = ("<|im_end|>",), logits: int | None = None) -> SpecialTokens:
    """The registry of a small tokenizer."""
    body = json.loads(tokenizer)
    added = tuple(AddedToken(t["id"], t["content"], t["special"]) for t in body["added_tokens"])
    ids = {token.text: token.id for token in added}
    vocab = body["model"]["vocab"]
    size = max([*vocab.values(), *ids.values()]) + 1
    return SpecialTokens(
        TokenizerFacts(added, size, logits, generation_eos=tuple(ids[text] for text in eos), lookup=vocab.get)
    )


MARKERS = ("<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>", "<|endoftext|>")


@pytest.fixture(scope="session")
def engine() -> Engine:
    """An engine over bytes, a few words and Qwen-like markers."""
    text = small_tokenizer(MARKERS, special=("<|im_start|>", "<|im_end|>", "<|endoftext|>"))
    return Engine(text, small_tokens(text))


@pytest.fixture(scope="session")
def plain_engine() -> Engine:
    """An engine whose tokenizer has no markers beside the end of turn."""
    text = small_tokenizer(("<|im_end|>",), special=("<|im_end|>",))
    return Engine(text, small_tokens(text))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of shared data; the test skips where it is absent."""
    folder = Path(os.environ.get("GUIDED_SHARED", ROOT.parent / "shared"))
    if not (folder / "data").is_dir():
        pytest.skip("needs the shared data folder (../shared or GUIDED_SHARED), which is absent")
    return folder


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


def make_tiny_guide(markers: Sequence[str] = MARKERS, *, seed: int = 0, **config: Any) -> Any:
    """A guide of a random two-layer model over a small tokenizer."""
    import torch
    from tokenizers import Tokenizer
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    import guided

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    text = small_tokenizer(markers, special=("<|im_start|>", "<|im_end|>", "<|endoftext|>"))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(text), eos_token="<|im_end|>", pad_token="<|im_end|>"
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4} | config
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), max_position_embeddings=512, **shape)).eval()
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    return guided.Guide(model, tokenizer)


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
            built[name] = Engine(text, SpecialTokens.from_folder(folder))
        return built[name]

    return engine_of
