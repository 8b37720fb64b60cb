"""How the local models really end their turns: found on disk, run on three prompts, written as a map.

Nothing is downloaded.  A model that is broken, no chat model, or too large for the memory budget is skipped with the
reason; one bad folder never ends the survey.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from guided.embedded import cache_folder
from guided.writable import unwritable
from special_tokens import SpecialTokens
from special_tokens.errors import GuidedError, RequestError

__all__ = ["LEAKS", "PROMPTS", "Observed", "Row", "find_models", "memory_budget", "observe", "survey", "write_map"]

#: Prompt and most tokens; each ends on its own in a healthy model.
PROMPTS: tuple[tuple[str, int], ...] = (("Write one sentence about cats.", 50), ("Hello", 50), ("Hi", 20))

_ROLES = ("User:", "Human:", "You:", "Assistant:")
#: Text that shows a model talking to itself, or a marker that reached the reader.
LEAKS: tuple[str, ...] = (
    *(f"\n{role}" for role in _ROLES),
    *(f"\n\n{role}" for role in _ROLES),
    "<|im_start|>user",
    "<|im_start|>assistant",
    "<|end|>",
    "<|return|>",
    "<|eot_id|>",
)

#: Memory that a model needs per byte of weights, and the share of all memory it may take, by gigabytes of memory.
FACTOR = 1.2
_SHARES = ((96, 0.70), (64, 0.60), (32, 0.50), (0, 0.40))

_GB = 1024**3


@dataclass(frozen=True, slots=True)
class Observed:
    """What one model did: ``ends`` has the end-like token of each prompt's answer, None where none came."""

    configured: tuple[str, ...]
    ends: tuple[str | None, ...]
    leaks: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """One model of the map; ``skipped`` says why it was not run."""

    model: str
    path: str
    size_bytes: int = 0
    skipped: str | None = None
    configured_ends: tuple[str, ...] = ()
    observed_end: str | None = None
    leaked_markers: tuple[str, ...] = ()
    workaround_needed: str | None = None
    answers: tuple[str, ...] = ()


Observe = Callable[[Path], Observed]


def survey(
    folders: Sequence[str | Path] | None = None,
    *,
    budget_bytes: int | None = None,
    run: Observe | None = None,
    progress: Callable[[str], None] = lambda text: None,
) -> list[Row]:
    """The map of the models in ``folders`` (default: the hub cache and the embedded model's cache).

    ``run`` observes one model folder.  Raises `RequestError` for a folder that is not there.
    """
    run = run or _observe
    budget = memory_budget() if budget_bytes is None else budget_bytes
    rows = []
    for path in find_models(folders):
        row = _checked(path, budget)
        if row.skipped is None:
            progress(f"{row.model} ({row.size_bytes / _GB:.1f} GB)")
            row = _observed(row, run)
        progress(f"{row.model}: {row.skipped or row.observed_end or 'no end'}")
        rows.append(row)
    return rows


def write_map(rows: Iterable[Row], path: str | Path) -> Path:
    """Write the map as JSON, model name (its path where two share a name) to row.

    Raises `RequestError` when that cannot be done.
    """
    rows = list(rows)
    names = Counter(row.model for row in rows)
    body = {row.model if names[row.model] == 1 else row.path: asdict(row) for row in rows}
    try:
        Path(path).write_text(json.dumps(body, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise unwritable(path, "json", error.strerror or str(error)) from error
    return Path(path)


# -- finding


def find_models(folders: Sequence[str | Path] | None = None) -> list[Path]:
    """Folders with a ``config.json``: those given and two levels below, or the newest snapshots of the hub cache."""
    if folders is None:
        return sorted({*_hub_snapshots(), *_below(cache_folder())})
    for folder in folders:
        if not Path(folder).is_dir():
            raise RequestError(f"there is no folder {str(folder)!r}", place="models")
    return sorted({path for folder in folders for path in (*_below(Path(folder)), *_hub_snapshots(Path(folder)))})


def _below(folder: Path) -> Iterator[Path]:
    for pattern in ("config.json", "*/config.json", "*/*/config.json"):
        for path in folder.glob(pattern):
            if "snapshots" not in path.parts:
                yield path.parent


def _hub_snapshots(hub: Path | None = None) -> Iterator[Path]:
    """The newest snapshot of every model in a hub cache."""
    for model in sorted((hub or _hub_cache()).glob("models--*")):
        snapshots = [path.parent for path in model.glob("snapshots/*/config.json")]
        reference = model / "refs" / "main"
        main = model / "snapshots" / reference.read_text().strip() if reference.is_file() else None
        if main in snapshots and main is not None:
            yield main
        elif snapshots:
            yield max(snapshots, key=lambda path: path.stat().st_mtime)


def _hub_cache() -> Path:
    if os.environ.get("HF_HUB_CACHE"):
        return Path(os.environ["HF_HUB_CACHE"])
    home = os.environ.get("HF_HOME")
    return (Path(home) if home else Path.home() / ".cache" / "huggingface") / "hub"


def _name(path: Path) -> str:
    for part in path.parts:
        if part.startswith("models--"):
            return part.removeprefix("models--").replace("--", "/")
    return path.name


# -- skipping


def memory_budget(total_bytes: int | None = None) -> int:
    """Bytes that one model may take: 40, 50, 60 or 70 % of the memory, the more there is."""
    if total_bytes is None:
        total_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    share = next(share for least, share in _SHARES if total_bytes >= least * _GB)
    return int(total_bytes * share)


def _checked(path: Path, budget: int) -> Row:
    size = _weight_bytes(path)
    row = Row(_name(path), str(path), size)
    try:
        reason = _unfit(path) or ("there are no weights" if not size else None)
    except Exception as error:  # whatever a broken folder makes its readers raise, the survey goes on
        reason = _broken(error)
    if reason is None and size * FACTOR > budget:
        reason = f"needs {size * FACTOR / _GB:.1f} GB of memory, the budget is {budget / _GB:.1f} GB"
    return replace(row, skipped=reason)


def _weight_bytes(path: Path) -> int:
    """Bytes of the weights; safetensors where there are both kinds."""
    for pattern in ("*.safetensors", "*.bin"):
        found = sum(file.stat().st_size for file in path.glob(pattern) if file.is_file())
        if found:
            return found
    return 0


def _unfit(path: Path) -> str | None:
    """Why these files are no chat model; None when they may be one."""
    config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    if not isinstance(config, dict):
        raise ValueError("config.json is no object")
    architectures = [str(name) for name in config.get("architectures") or ()]
    if architectures and not any(name.endswith(("ForCausalLM", "LMHeadModel")) for name in architectures):
        return f"no causal language model: {', '.join(architectures)}"
    if not SpecialTokens.from_folder(path).facts.chat_template:
        return "no chat model: there is no chat template"
    return None


# -- running


def _observed(row: Row, run: Observe) -> Row:
    try:
        seen = run(Path(row.path))
    except Exception as error:  # as above
        return replace(row, skipped=_broken(error))
    return replace(
        row,
        configured_ends=seen.configured,
        observed_end=next((end for end in seen.ends if end is not None), None),
        leaked_markers=seen.leaks,
        workaround_needed=_workaround(seen),
        answers=seen.answers,
    )


def _broken(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    named = isinstance(error, GuidedError | OSError | ValueError | RuntimeError) and lines
    return f"broken: {lines[0]}" if named else f"broken: {type(error).__name__}: {lines[0] if lines else 'no reason'}"


def _workaround(seen: Observed) -> str | None:
    strangers = sorted({end for end in seen.ends if end is not None and end not in seen.configured})
    if strangers:
        return "add as ends: " + ", ".join(strangers)
    if not seen.configured:
        return "no end is configured: give the generation config an eos_token_id"
    if seen.leaks:
        return "add as stops: " + ", ".join(repr(text) for text in seen.leaks)
    return None


def _observe(path: Path) -> Observed:
    from guided.hf import Guide

    return observe(Guide.from_pretrained(path, dtype="auto"))


def observe(guide: Any) -> Observed:
    """Run the prompts greedily with no end in force: what comes first tells how the model would end its turn."""
    tokens = guide.tokens
    ends = set(tokens.end_ids)
    endlike = ends | {token.id for token in tokens.looks_like_end}
    seen: list[str | None] = []
    answers: list[str] = []
    for prompt, max_tokens in PROMPTS:
        inputs = guide.inputs([prompt])
        out = guide.model.generate(
            **inputs, max_new_tokens=max_tokens, do_sample=False, eos_token_id=None, pad_token_id=guide.pad_id
        )
        written = out[0, inputs.prompt_len :].tolist()
        at = next((i for i, token in enumerate(written) if token in endlike), None)
        seen.append(tokens.text(written[at]) if at is not None and written[at] in tokens.added else None)
        cut = next((i for i, token in enumerate(written) if token in ends), len(written))
        answers.append(b"".join(map(guide.engine.token_bytes, written[:cut])).decode("utf-8", "replace"))
    leaks = tuple(text for text in LEAKS if any(text in answer for answer in answers))
    return Observed(tuple(end.text for end in tokens.ends), tuple(seen), leaks, tuple(answers))
