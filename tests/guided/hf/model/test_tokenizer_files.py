"""A model's files read without transformers give what transformers' own loaders give."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from grammars.limits.bounded_cache import BoundedCache
from guided.hf.model import vocabulary, wire_format
from guided.hf.model.tokenizer import facts_of, tokenizer_json
from guided.hf.model.tokenizer_files import TokenizerFiles, configurations
from guided.hf.model.vocabulary import context_of, described_vocabulary, plan_of
from special_tokens import SpecialTokens
from special_tokens.errors import ModelError, TemplateError, TokenizerError
from special_tokens.report import report_of
from tests.cases import since_transformers, slow_where
from tests.conftest import CHAT_TEMPLATE
from tests.made_up.call_templates import TYPED
from tests.made_up.templates import READABLE
from tests.made_up.tokenizers import MARKERS, live_tokenizer, small_tokenizer
from tests.shared_templates import shared_template, template_names

FLAGGED = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
NAMED = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "tokenizer_class": "PreTrainedTokenizerFast"}


def write(folder: Path, files: dict[str, Any]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def model(folder: Path, template: str = CHAT_TEMPLATE, **more: Any) -> Path:
    """The files of a made-up model whose tokenizer knows the markers that its template writes."""
    markers = dict.fromkeys((*MARKERS, *re.findall(r"<\|?[a-z_]+\|?>|\[/?[A-Z_]+\]", template)))
    files: dict[str, Any] = {
        "tokenizer.json": small_tokenizer(tuple(markers), special=FLAGGED),
        "tokenizer_config.json": NAMED,
        "chat_template.jinja": template,
        "config.json": {"model_type": "llama", "vocab_size": 512, "eos_token_id": 3, "bos_token_id": 1},
        "generation_config.json": {"eos_token_id": [3, 4]},
    }
    return write(folder, files | more)


def by_both(folder: Path) -> list[tuple[Any, SpecialTokens]]:
    """Tokenizer and registry, read here and loaded by transformers."""
    theirs, settings = vocabulary._by_transformers(str(folder))
    ours = TokenizerFiles(folder)
    return [
        (ours, SpecialTokens(facts_of(ours, model=configurations(folder)))),
        (theirs, SpecialTokens(facts_of(theirs, model=settings))),
    ]


def assert_equal(folder: Path) -> SpecialTokens:
    (ours, tokens), (theirs, their_tokens) = by_both(folder)
    for field in fields(tokens.facts):
        if field.name != "lookup":
            assert getattr(tokens.facts, field.name) == getattr(their_tokens.facts, field.name), field.name
    assert tokens.fingerprint == their_tokens.fingerprint
    assert report_of(tokens).to_json() == report_of(their_tokens).to_json()
    assert json.loads(tokenizer_json(ours))["model"] == json.loads(tokenizer_json(theirs))["model"]
    assert inferred(ours, tokens) == inferred(theirs, their_tokens)
    return tokens


def inferred(tokenizer: Any, tokens: SpecialTokens) -> Any:
    """The wire format with all that the template rendered for it, or why there is none."""
    wire_format._cache = BoundedCache()
    try:
        return wire_format.inference_of(tokenizer, tokens)
    except TemplateError as error:
        return str(error)


TEMPLATES = dict(list(READABLE.items())[:4]) | dict(list(TYPED.items())[:2])


@pytest.mark.parametrize("name", TEMPLATES)
def test_made_up_models_are_read_as_transformers_reads_them(name: str, tmp_path: Path) -> None:
    assert_equal(model(tmp_path, TEMPLATES[name]))


@since_transformers("5.22", "older names of reasoning, and names that templates may not use")
@pytest.mark.parametrize("name", slow_where(lambda name: template_names().index(name) % 3, template_names()))
def test_real_templates_are_read_as_transformers_reads_them(name: str, tmp_path: Path) -> None:
    assert_equal(model(tmp_path, shared_template(name)))


@pytest.mark.parametrize("name", [pytest.param("qwen3", marks=pytest.mark.slow), "smollm2"])
def test_real_tokenizers_are_read_as_transformers_reads_them(
    name: str, tokenizer_folder: Callable[[str], Path]
) -> None:
    assert_equal(tokenizer_folder(name))


def token(text: str, **more: bool) -> dict[str, Any]:
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"__type": "AddedToken", "content": text} | plain | more


#: what is special about the files of a folder -> the files
LAYOUTS: dict[str, dict[str, Any]] = {
    "named tokens with settings": {"tokenizer_config.json": NAMED | {"eos_token": token("<|im_end|>")}},
    "a named token that is new": {"tokenizer_config.json": NAMED | {"bos_token": "<s>", "mask_token": "<mask>"}},
    "a named token of the base vocabulary": {"tokenizer_config.json": NAMED | {"unk_token": "!"}},
    "a named token that was not special": {"tokenizer_config.json": NAMED | {"sep_token": "<think>"}},
    "a token of the model's own": {"tokenizer_config.json": NAMED | {"image_token": "<image>"}},
    "more special tokens": {"tokenizer_config.json": NAMED | {"extra_special_tokens": ["<x>", token("<y>")]}},
    "more special tokens by name": {"tokenizer_config.json": NAMED | {"extra_special_tokens": {"z_token": "<z>"}}},
    "more special tokens, as they were": {"tokenizer_config.json": NAMED | {"additional_special_tokens": ["<x>"]}},
    "a list of added tokens": {
        "tokenizer_config.json": NAMED
        | {"added_tokens_decoder": {"900": token("<new>"), "901": token("<n>", special=False)}}
    },
    "the files of older versions": {
        "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast"},
        "special_tokens_map.json": {"eos_token": token("<|im_end|>"), "pad_token": "<|endoftext|>"},
        "added_tokens.json": {"<late>": 700, "<later>": 701},
    },
    "templates by name": {
        "chat_template.jinja": CHAT_TEMPLATE,
        "additional_chat_templates/tool_use.jinja": TYPED[next(iter(TYPED))],
    },
    "no generation config": {"generation_config.json": "{}"},
    "a text model inside": {
        "config.json": {"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "vocab_size": 700}}
        | {"eos_token_id": [3, 9]}
    },
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_of_the_files_is_read_as_transformers_reads_it(layout: str, tmp_path: Path) -> None:
    assert_equal(model(tmp_path, **LAYOUTS[layout]))


def test_templates_in_the_configuration_are_read_by_name(tmp_path: Path) -> None:
    listed = [
        {"name": "default", "template": CHAT_TEMPLATE},
        {"name": "tool_use", "template": TYPED[next(iter(TYPED))]},
    ]
    folder = model(tmp_path, **{"tokenizer_config.json": NAMED | {"chat_template": listed}})
    (folder / "chat_template.jinja").unlink()
    assert assert_equal(folder).facts.chat_template == listed[1]["template"]


def test_a_tokenizer_without_these_files_is_loaded_by_transformers(tmp_path: Path) -> None:
    folder = model(tmp_path)
    (folder / "tokenizer_config.json").unlink()
    engine = context_of(folder).engine
    assert engine.tokens.vocab_size == context_of(model(tmp_path / "whole")).tokens.vocab_size


def test_a_name_is_found_in_the_cache_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = tmp_path / "models--somebody--tiny" / "snapshots" / "abc"
    model(snapshot)
    write(snapshot.parents[1], {"refs/main": "abc"})
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    tokens, _ = described_vocabulary("somebody/tiny")
    assert tokens.fingerprint == described_vocabulary(snapshot)[0].fingerprint
    with pytest.raises(
        ModelError, match="cannot load 'somebody/else': it is not a folder, it is not in the hub's cache"
    ):
        described_vocabulary("somebody/else")


@pytest.mark.parametrize(
    ("file", "content", "match"),
    [
        ("tokenizer.json", "{", "tokenizer.json"),
        ("tokenizer.json", "{}", "tokenizers library cannot read it"),
        ("tokenizer_config.json", "[1]", "tokenizer_config.json: JSON of type list; expected a JSON object"),
        ("config.json", "{1}", "config.json: not valid JSON"),
    ],
)
def test_damaged_files_are_named(file: str, content: str, match: str, tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match=match):
        context_of(model(tmp_path, **{file: content}))


TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": {}}}}}


def test_what_was_guessed_of_calls_is_said_to_those_who_ask_for_tools(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from grammars.compose.compose import Parts

    folder = model(tmp_path)
    wire_format._warned.clear()
    plan_of(folder, Parts())
    assert not caplog.messages
    for _ in range(2):
        plan_of(folder, Parts(tools=[TOOL]))
    assert [message.partition(": ")[2] for message in caplog.messages] == [
        "the chat template never writes tool calls",
        "tools are described in the prompt, and calls are JSON between <tool_call> tags",
    ]


# -- of a live tokenizer, without asking it for its whole vocabulary

REAL = ("qwen3", "gpt4o", "llama2")  # dense, with a hole, with added tokens among the others


@pytest.mark.parametrize("far", [False, True])
def test_a_vocabulary_with_a_hole_is_measured_by_its_largest_id(far: bool) -> None:
    """An ordinary token after the hole, or an added one far away."""
    body = json.loads(small_tokenizer(MARKERS))
    vocab = body["model"]["vocab"]
    if far:
        body["added_tokens"][-1]["id"] += 40
    else:
        last = max(vocab, key=lambda token: vocab[token])
        vocab[last] += 60
    tokenizer = live_tokenizer(json.dumps(body))
    assert facts_of(tokenizer).vocab_size == max(tokenizer.get_vocab().values()) + 1


@pytest.mark.parametrize("name", slow_where(lambda name: name == "gpt4o", REAL))
def test_size_and_lookup_are_those_of_the_vocabulary(name: str, tokenizer_folder: Callable[[str], Path]) -> None:
    tokenizer = live_tokenizer((tokenizer_folder(name) / "tokenizer.json").read_text(encoding="utf-8"))
    facts, vocab = facts_of(tokenizer), tokenizer.get_vocab()
    assert facts.vocab_size == max(vocab.values()) + 1
    some = [*list(vocab)[::997], *(token.text for token in facts.added)]
    assert [facts.lookup(text) for text in some] == [vocab.get(text) for text in some]
    assert facts.lookup("no such token at all") is None
