#!/usr/bin/env python3
"""Benchmark and proof on a real accelerator: one command, laid out for less than 8 minutes on one card.

    python benchmarks/accelerator.py                          # all sections; needs a CUDA card, nothing is downloaded
    python benchmarks/accelerator.py --only counts --only proofs
    python benchmarks/accelerator.py --device cpu --tiny      # the same code without a card: its times mean nothing

Sections: ``generate`` (steps with our hooks and with xgrammar's processor, over unguided ones), ``counts`` (waits,
copies and kernels of a step), ``loop`` (our decode loop over ``generate``), ``hidden`` (masks next to the forward),
``serve`` (rows that are all there, tokens per second), ``more`` (kept rows, drafts, hidden states), ``proofs``, and
``compiled`` (as ``generate``, with a static cache and a compiled forward).
Models have random weights in real shapes, and are made to write given texts (`benchmarks/on_device`).  Ways alternate;
a cell is the median with its 90 % interval and the number of rounds.

Tables go to ``--out`` as ``accelerator.md`` and ``accelerator.json``, after each section.  A section that fails keeps
its rows so far, and the exit status is 1.  Without a registry: `benchmarks/accelerator_kit.sh`.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.json_schema_tables import table  # noqa: E402
from benchmarks.on_device import measure, prove, serve  # noqa: E402
from benchmarks.on_device.run import DeviceRun  # noqa: E402
from benchmarks.on_device.timing import limited  # noqa: E402

#: A section may take this many times its share before it is broken off: models are made and compiled in it, too.  After
#: `END` seconds of the run the sections that are left have ten each.
MOST = 3
END = 440


@dataclass
class MeasuredSection:
    """One table: ``rows`` yields its rows within ``share`` of the time, ``found`` are those that came."""

    title: str
    share: float
    head: Sequence[str]
    rows: Callable[[DeviceRun, float], Iterator[Sequence[object]]]
    found: list[list[str]] = field(default_factory=list)
    error: str = ""

    def run(self, run: DeviceRun, seconds: float, most: float = 90) -> None:
        """Collect the rows, for ``most`` seconds; what is raised becomes the last one."""
        try:
            with limited(most):
                for row in self.rows(run, seconds):
                    self.found.append([str(cell) for cell in row])
                    print("  ", " | ".join(self.found[-1]), flush=True)
        except Exception as error:
            self.error = f"{type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}"
            self.found.append([f"FAILED: {self.error}", *[""] * (len(self.head) - 1)])
            print("  ", self.found[-1][0], flush=True)

    @property
    def has_failed(self) -> bool:
        return bool(self.error) or any("FAILED" in cell for row in self.found for cell in row)


def sections() -> dict[str, MeasuredSection]:
    """Return the sections in the order in which they run: what may hang the card comes last."""
    over = "of generate (interval, rounds)"
    steps = (
        "model", "vocabulary", "rows", "unguided step, ms", "our hooks", "quiet", "xgrammar", "quiet, xgrammar",
    )  # fmt: skip
    return {
        "generate": MeasuredSection(
            "generate with hooks: a step over an unguided one", 0.4, steps, measure.generate_rows
        ),
        "counts": MeasuredSection("Waits, copies and kernels", 0.1, measure.COUNT_HEAD, measure.count_rows),
        "loop": MeasuredSection(
            "Our loop: whole calls over generate with our hooks", 0.15,
            ("answers", "rows", "tokens", "forwards", f"forwards {over[:11]}", "ms", f"wall / {over[3:]}"),
            measure.loop_rows,
        ),
        "hidden": MeasuredSection(
            "Masks next to the forward", 0.08,
            ("way", "rows", "host, ms a step", "device idle, ms a step", "hidden, %", "host / wall, %"),
            measure.hidden_rows,
        ),
        "serve": MeasuredSection(
            "Rows that are all there: tokens per second", 0.1,
            ("rows", "plain generate", "our loop", "our wall / plain", "continuous batching", "the server's engine"),
            serve.serve_rows,
        ),
        "more": MeasuredSection(
            "Kept rows, drafts, hidden states", 0.06, ("call", "rows", "ms without", "wall / without"),
            measure.more_rows,
        ),
        "proofs": MeasuredSection("Proofs", 0.14, prove.PROOF_HEAD, prove.proof_rows),
        "compiled": MeasuredSection(
            "generate with a static cache and a compiled forward", 0.1, steps, measure.compiled_rows
        ),
    }  # fmt: skip


def heading(device: torch.device, tiny: bool) -> str:
    """Return card and versions in one line."""
    card = torch.cuda.get_device_name(device) if device.type == "cuda" else f"{platform.machine()} CPU"
    parts = [card, f"torch {torch.__version__}"]
    for name in ("transformers", "llguidance", "xgrammar", "triton"):
        try:
            parts.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            parts.append(f"no {name}")
    parts.append(f"Python {platform.python_version()}, {platform.processor() or platform.machine()}")
    return ", ".join(parts) + ("; a tiny run, whose times mean nothing" if tiny else "")


def write(folder: Path, head: str, run: DeviceRun, done: dict[str, MeasuredSection], seconds: float) -> None:
    """Write the tables so far."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = [f"# On an accelerator\n\n{head}; {seconds:.0f} s.", *run.notes]
    parts += [f"## {section.title}\n\n{table(section.head, section.found)}" for section in done.values()]
    (folder / "accelerator.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    tables = {name: {"head": list(s.head), "rows": s.found, "error": s.error} for name, s in done.items()}
    found: dict[str, Any] = {"run": head, "notes": run.notes, "seconds": round(seconds, 1), "tables": tables}
    (folder / "accelerator.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    every = sections()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="a small model, few steps")
    parser.add_argument("--only", choices=every, action="append")
    parser.add_argument("--out", type=Path, default=Path("build/accelerator"))
    parser.add_argument(
        "--seconds", type=float, default=320, help="for all sections together; models and compiling come on top"
    )
    args = parser.parse_args()
    device = torch.device(args.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        sys.exit("no CUDA card here: `--device cpu --tiny` runs the same code")
    if device.type == "cpu":
        torch.set_num_threads(1)
    run, head, began = DeviceRun(device, args.tiny), heading(device, args.tiny), time.monotonic()
    print(head, flush=True)
    done: dict[str, MeasuredSection] = {}
    for name, section in every.items():
        if args.only is None or name in args.only:
            print(f"\n{section.title} ({time.monotonic() - began:.0f} s)", flush=True)
            seconds = 0 if args.tiny else section.share * args.seconds
            left = END - (time.monotonic() - began)
            section.run(run, seconds, max(min(MOST * seconds, left), 10) if seconds else left)
            done[name] = section
            write(args.out, head, run, done, time.monotonic() - began)
    print("\n" + (args.out / "accelerator.md").read_text(encoding="utf-8"))
    failed = [name for name, section in done.items() if section.has_failed]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
