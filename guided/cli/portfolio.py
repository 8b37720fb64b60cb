"""A survey of local models: find them on disk, run each on three prompts, and note which token ends its turns.

Nothing is downloaded.  A model that is broken, no chat model, or too large for the memory budget is skipped with the
reason, and the survey goes on.
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
from guided.output.output_path import unwritable
from special_tokens import SpecialTokens
from special_tokens.errors import GuidedError, RequestError, shown

__all__ = [
    "LEAKS",
    "PROMPTS",
    "Observed",
    "PortfolioRow",
    "find_models",
    "memory_budget",
    "observe",
    "survey",
    "write_map",
]

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

#: How the hub cache names the folder of a model.
_HUB_MODEL = "models--"

#: Files that state how much memory a container may take, with control groups of version 2 and 1.
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


@dataclass(frozen=True, slots=True)
class Observed:
    """The findings for one model: ``ends`` has the end-like token of each prompt's answer, None where none came."""

    configured: tuple[str, ...]
    ends: tuple[str | None, ...]
    leaks: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PortfolioRow:
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
) -> list[PortfolioRow]:
    """Return the rows of the models in ``folders`` (default: the hub cache and the embedded model's cache).

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


def write_map(rows: Iterable[PortfolioRow], path: str | Path) -> Path:
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
    """Folders with a ``config.json``: those given and two levels below, or the newest snapshots of the hub cache.

    A folder that is reached by several ways is named once.  A model of the hub cache whose reference cannot be read
    is named by the folder of all its snapshots.
    """
    if folders is None:
        found = [*_hub_snapshots(_hub_cache()), *_below(cache_folder())]
    else:
        for folder in folders:
            if not Path(folder).is_dir():
                raise RequestError(f"there is no folder {shown(str(folder))}", place="models")
        found = [path for folder in folders for path in (*_below(Path(folder)), *_hub_snapshots(Path(folder)))]
    once: dict[str, Path] = {}
    for path in sorted(found, key=lambda path: (len(path.parts), path)):
        once.setdefault(os.path.realpath(path), path)
    return sorted(once.values())


def _below(folder: Path) -> Iterator[Path]:
    for pattern in (".", "*", "*/*"):
        for path in folder.glob(pattern) if pattern != "." else (folder,):
            if _has_config(path) and "snapshots" not in path.relative_to(folder).parts:
                yield path


def _has_config(folder: Path) -> bool:
    """Whether there is a ``config.json``, be it a link to a file that is gone."""
    return os.path.lexists(folder / "config.json")


def _hub_snapshots(hub: Path) -> Iterator[Path]:
    """The newest snapshot of every model in a hub cache, or of the one model whose folder this is."""
    for model in (hub,) if hub.name.startswith(_HUB_MODEL) else sorted(hub.glob(f"{_HUB_MODEL}*")):
        try:
            newest = _newest_snapshot(model)
        except (OSError, ValueError):  # the survey says so
            newest = model
        if newest is not None:
            yield newest


def _newest_snapshot(model: Path) -> Path | None:
    """The snapshot that a model of the hub cache stands at, else the last one written; None where there is none.

    Raises `OSError` or `ValueError` for a reference that cannot be read.
    """
    snapshots = [path for path in model.glob("snapshots/*") if _has_config(path)]
    reference = model / "refs" / "main"
    if reference.is_file():
        try:
            name = reference.read_text(encoding="utf-8").strip()
        except UnicodeDecodeError:
            raise ValueError("refs/main is no text") from None
        if model / "snapshots" / name in snapshots:
            return model / "snapshots" / name
    return max(snapshots, key=lambda path: path.stat().st_mtime, default=None)


def _hub_cache() -> Path:
    if os.environ.get("HF_HUB_CACHE"):
        return Path(os.environ["HF_HUB_CACHE"])
    home = os.environ.get("HF_HOME")
    return (Path(home) if home else Path.home() / ".cache" / "huggingface") / "hub"


def _name(path: Path) -> str:
    for part in path.parts:
        if part.startswith(_HUB_MODEL):
            return part.removeprefix(_HUB_MODEL).replace("--", "/")
    return path.name


# -- skipping


def memory_budget(total_bytes: int | None = None) -> int:
    """Return the bytes that one model may take: 40, 50, 60 or 70 % of the memory, a larger share of a larger memory.

    ``total_bytes`` is by default what this process may use: the machine's memory, or less in a container.
    """
    if total_bytes is None:
        total_bytes = _total_bytes()
    # A machine of 32 GB shows a little less than 32 * 1024**3 bytes.
    share = next(share for least, share in _SHARES if total_bytes >= least * 10**9)
    return int(total_bytes * share)


def _total_bytes() -> int:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit in _LIMITS:
        try:
            total = min(total, int(limit.read_text(encoding="utf-8")))
        except (OSError, ValueError):  # there is none, or it is "max"
            continue
    return total


def _checked(path: Path, budget: int) -> PortfolioRow:
    row, size = PortfolioRow(_name(path), str(path)), 0
    try:
        size = _weight_bytes(path)
        reason = _unfit(path) or ("there are no weights" if not size else None)
    except Exception as error:  # whatever a broken folder makes its readers raise, the survey goes on
        reason = _broken(error)
    if reason is None and size * FACTOR > budget:
        reason = f"needs {size * FACTOR / _GB:.1f} GB of memory, the budget is {budget / _GB:.1f} GB"
    return replace(row, size_bytes=size, skipped=reason)


def _weight_bytes(path: Path) -> int:
    """Bytes of the weights; safetensors where there are both kinds."""
    for pattern in ("*.safetensors", "*.bin"):
        found = sum(file.stat().st_size for file in path.glob(pattern) if file.is_file())
        if found:
            return found
    return 0


def _unfit(path: Path) -> str | None:
    """Return why these files are no chat model; None when they may be one."""
    if path.name.startswith(_HUB_MODEL):
        _newest_snapshot(path)  # raises what is wrong
    if not (path / "config.json").exists():
        raise ValueError("config.json is a link to a file that is not there")
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


def _observed(row: PortfolioRow, run: Observe) -> PortfolioRow:
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
    """Run the prompts greedily without any end token: the first end-like token is the one that ends a turn."""
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
