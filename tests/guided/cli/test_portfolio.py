"""The survey of local models: what is found, what is skipped and why, and what a model's run shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from guided.cli import portfolio
from guided.cli.portfolio import Observed, find_models, memory_budget, survey, write_map
from special_tokens.errors import RequestError
from tests.made_up.tokenizers import MARKERS, small_tokenizer

GB = 1024**3
TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}"


@pytest.fixture
def model_folder(tmp_path: Path, tiny_tokenizer_json: str) -> Any:
    """Makes folders that look like models."""

    def make(
        name: str,
        *,
        config: str = '{"architectures": ["LlamaForCausalLM"], "vocab_size": 300}',
        weights: int = 1_000,
        template: str = TEMPLATE,
        tokenizer: str = tiny_tokenizer_json,
    ) -> Path:
        folder = tmp_path / name
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(config)
        if tokenizer:
            (folder / "tokenizer.json").write_text(tokenizer)
        (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template} if template else {}))
        if weights:
            (folder / "model.safetensors").write_bytes(b"\0" * weights)
        return folder

    return make


@pytest.fixture(scope="session")
def tiny_tokenizer_json() -> str:
    return small_tokenizer(MARKERS, special=("<|im_start|>", "<|im_end|>", "<|endoftext|>"))


def healthy(path: Path) -> Observed:
    return Observed(("<|im_end|>",), ("<|im_end|>", None, "<|im_end|>"), (), ("a", "b", "c"))


def test_E4_broken_models_are_skipped_with_the_reason(model_folder: Any, tmp_path: Path) -> None:
    model_folder("good")
    model_folder("broken-config", config="{")
    model_folder("no-weights", weights=0)
    model_folder("encoder", config='{"architectures": ["BertModel"]}')
    model_folder("no-template", template="")
    model_folder("broken-tokenizer", tokenizer="[")
    model_folder("no-tokenizer", tokenizer="")
    model_folder("large", weights=5_000)
    rows = {row.model: row for row in survey([tmp_path], budget_bytes=4_000, run=healthy)}
    assert rows["good"].skipped is None
    reasons = {name: row.skipped or "" for name, row in rows.items() if name != "good"}
    assert reasons["broken-config"].startswith("broken: Expecting property name")
    assert reasons["no-weights"] == "there are no weights"
    assert reasons["encoder"] == "no causal language model: BertModel"
    assert reasons["no-template"] == "no chat model: there is no chat template"
    assert reasons["broken-tokenizer"].startswith("broken: ")
    assert reasons["no-tokenizer"].startswith("broken: ")
    assert reasons["large"] == "needs 0.0 GB of memory, the budget is 0.0 GB"
    assert len(rows) == 8


def test_E4_a_model_that_cannot_be_run_does_not_end_the_survey(model_folder: Any, tmp_path: Path) -> None:
    model_folder("a-broken")
    model_folder("b-good")
    rows = survey([tmp_path], run=lambda path: healthy(path) if path.name == "b-good" else _raise())
    assert [row.skipped for row in rows] == ["broken: size mismatch", None]
    (row,) = survey([tmp_path / "a-broken"])  # the real loader: zeros are no safetensors
    assert row.skipped is not None
    assert row.skipped.startswith("broken: ")


def _raise() -> Observed:
    raise RuntimeError("size mismatch\nfor everything")


@pytest.mark.parametrize(
    ("seen", "workaround"),
    [
        (Observed(("<e>",), ("<e>", None)), None),
        (Observed(("<e>",), ("<x>", "<e>")), "add as ends: <x>"),
        (Observed((), (None,)), "no end is configured: give the generation config an eos_token_id"),
        (Observed(("<e>",), ("<e>",), ("\nUser:",)), r"add as stops: '\nUser:'"),
    ],
)
def test_E4_the_workaround_follows_from_what_was_seen(
    model_folder: Any, tmp_path: Path, seen: Observed, workaround: str | None
) -> None:
    model_folder("m")
    (row,) = survey([tmp_path], run=lambda path: seen)
    assert row.workaround_needed == workaround
    assert row.configured_ends == seen.configured


def test_E4_the_hub_cache_is_read_at_its_newest_snapshot(
    model_folder: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = tmp_path / "hub" / "models--org--small"
    model_folder("hub/models--org--small/snapshots/aaa")
    newest = model_folder("hub/models--org--small/snapshots/bbb")
    (hub / "refs").mkdir()
    (hub / "refs" / "main").write_text("bbb")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("GUIDED_CACHE", str(tmp_path / "none"))
    assert find_models() == [newest]
    assert [row.model for row in survey(run=healthy)] == ["org/small"]
    assert find_models([tmp_path / "hub"]) == [newest]


def test_E4_a_damaged_entry_of_the_hub_cache_is_skipped_with_the_reason(
    model_folder: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its reference ended the survey with a UnicodeDecodeError."""
    hub = tmp_path / "hub"
    good = model_folder("hub/models--org--good/snapshots/aaa")
    for name, reference in (("bytes", b"\xff"), ("absent", b"zzz"), ("locked", b"aaa")):
        model_folder(f"hub/models--org--{name}/snapshots/aaa")
        (hub / f"models--org--{name}" / "refs").mkdir()
        (hub / f"models--org--{name}" / "refs" / "main").write_bytes(reference)
    (hub / "models--org--empty").mkdir()
    read_text = Path.read_text

    def locked(path: Path, *args: Any, **options: Any) -> str:
        if path.name == "main" and "locked" in str(path):
            raise PermissionError(13, "Permission denied")
        return read_text(path, *args, **options)

    monkeypatch.setattr(Path, "read_text", locked)
    rows = {row.model: row for row in survey([hub], run=healthy)}
    assert {name: row.skipped for name, row in rows.items()} == {
        "org/good": None,
        "org/absent": None,
        "org/bytes": "broken: refs/main is no text",
        "org/locked": "broken: [Errno 13] Permission denied",
    }
    assert find_models([hub / "models--org--good"]) == find_models([good]) == [good]


def test_E4_a_model_that_is_reached_twice_is_run_once(model_folder: Any, tmp_path: Path) -> None:
    folder = model_folder("models/m")
    (folder / "self").symlink_to(folder)
    (tmp_path / "models" / "all").symlink_to(tmp_path / "models")
    (tmp_path / "models" / "other-name").symlink_to(folder)
    assert find_models([tmp_path / "models"]) == [folder]
    assert find_models([tmp_path / "models", folder]) == [folder]
    assert find_models([tmp_path / "models" / "all"]) == [tmp_path / "models" / "all" / "m"]


def test_E4_a_configuration_that_is_a_link_to_nothing_is_said(model_folder: Any, tmp_path: Path) -> None:
    for name in ("models/m", "hub/models--org--gone/snapshots/aaa"):
        config = model_folder(name) / "config.json"
        config.unlink()
        config.symlink_to(tmp_path / "gone")
    rows = survey([tmp_path / "models", tmp_path / "hub"], run=healthy)
    assert [(row.model, row.skipped) for row in rows] == [
        (name, "broken: config.json is a link to a file that is not there") for name in ("org/gone", "m")
    ]


def test_E4_the_budget_is_of_what_a_container_may_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(portfolio, "_LIMITS", (tmp_path / "absent", limit))
    limit.write_text("max\n")
    whole = memory_budget()
    limit.write_text(f"{10**9}\n")
    assert memory_budget() == 4 * 10**8 < whole
    assert memory_budget(31 * GB) == int(31 * GB * 0.5), "what a machine of 32 GB shows"


@pytest.mark.parametrize(("memory", "share"), [(8, 0.4), (16, 0.4), (32, 0.5), (64, 0.6), (96, 0.7), (512, 0.7)])
def test_E4_the_memory_budget(memory: int, share: float) -> None:
    assert memory_budget(memory * GB) == pytest.approx(memory * GB * share)


def test_E4_the_map_is_written_as_json(model_folder: Any, tmp_path: Path) -> None:
    model_folder("models/m")
    rows = survey([tmp_path / "models"], run=healthy)
    path = write_map(rows, tmp_path / "map.json")
    body = json.loads(path.read_text())
    assert body["m"]["observed_end"] == "<|im_end|>"
    assert set(body["m"]) >= {"configured_ends", "observed_end", "leaked_markers", "workaround_needed"}
    with pytest.raises(RequestError, match="json: cannot write .*: No such file or directory; expected a file name"):
        write_map(rows, tmp_path / "absent" / "map.json")
    with pytest.raises(RequestError, match="models: there is no folder"):
        survey([tmp_path / "absent"])


@pytest.fixture
def stubborn_model(tmp_path: Path, tiny_tokenizer_json: str) -> Path:
    """A saved model that ends every answer by ``<|im_end|>`` at once while ``<|endoftext|>`` is configured."""
    import torch
    from tokenizers import Tokenizer
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(tiny_tokenizer_json), eos_token="<|endoftext|>"
    )
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    model = GPT2LMHeadModel(
        GPT2Config(vocab_size=len(tokenizer), n_embd=8, n_layer=1, n_head=1, tie_word_embeddings=False)
    ).eval()
    with torch.no_grad():
        model.transformer.ln_f.weight.zero_()
        model.transformer.ln_f.bias.fill_(1.0)
        model.lm_head.weight.zero_()
        model.lm_head.weight[tokenizer.convert_tokens_to_ids("<|im_end|>")] = 1.0
    model.config.eos_token_id = tokenizer.eos_token_id
    model.config.bos_token_id = None
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.bos_token_id = None
    folder = tmp_path / "stubborn"
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_E4_a_wrong_configuration_is_seen_in_a_real_run(stubborn_model: Path) -> None:
    (row,) = survey([stubborn_model])
    assert row.skipped is None
    assert row.configured_ends == ("<|endoftext|>",)
    assert row.observed_end == "<|im_end|>"
    assert row.workaround_needed == "add as ends: <|im_end|>"
    assert "<|im_end|>" in row.answers[0]


@pytest.mark.slow
def test_E3_the_embedded_model_does_not_talk_to_itself(demo_guide: Any) -> None:
    seen = portfolio.observe(demo_guide)
    assert len(portfolio.LEAKS) == 13
    assert seen.leaks == ()
    assert seen.configured == ("<|im_end|>",)
    assert set(seen.ends) <= {"<|im_end|>", None}
    assert "<|im_end|>" in seen.ends
