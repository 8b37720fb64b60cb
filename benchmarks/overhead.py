#!/usr/bin/env python3
"""Benchmark: the cost of guidance inside ``generate``, as ratios within one run.

    python benchmarks/overhead.py                       # embedded model, ten minutes on two cores
    python benchmarks/overhead.py --only processors     # without the model: minutes
    python benchmarks/overhead.py --only steps --steps 24 --repeats 2

Processors: no model.  One JSON document is written token by token, as ``generate`` does it (histories that grow by
``torch.cat``, new float32 scores), through each processor in turn: ours (processor and stopping criterion), a naive one
over llguidance (bits to bool, ``masked_fill``), and those of xgrammar and outlines if they are installed.  Schema,
separators and tokens are the same, so the masks are too.  Those of xgrammar and outlines write into the scores that
``generate`` passes, and so into the result of ``output_logits``; compare them with ours under ``in_place=True``, and
ours by default with theirs after a ``scores.clone()``.  Bare llguidance is fill and consume alone.  Numbers are
microseconds per row and step.  *quiet*: the minimum of all repeats at each step, then the mean over the steps, which is
the cost without cache evictions by other processes; next to it *median* and *mean* of all values.

Steps: SmolLM2-135M, one thread.  The time inside our two hooks as a share of a step of the same ``generate`` without
them; both from per-step medians of alternating calls.

Peers are measured in the environment that runs this script; missing ones are named and left out.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import llguidance
import numpy as np
import torch
from transformers import AutoTokenizer

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from grammars.compose.compose import Parts, compose  # noqa: E402
from grammars.values.format import Ends, Format  # noqa: E402
from guided.engine.engine import Engine  # noqa: E402
from guided.hf.generate.call import generate_kwargs  # noqa: E402
from guided.hf.generate.hooks import GuidanceCriteria, GuidanceProcessor, OneSession  # noqa: E402
from guided.hf.generate.inputs import checked_inputs  # noqa: E402
from guided.hf.generate.session import Session  # noqa: E402
from guided.hf.model.tokenizer import facts_of, tokenizer_json  # noqa: E402
from guided.rows.sequence import RowSequence  # noqa: E402
from special_tokens import SpecialTokens  # noqa: E402

#: CPU time of this thread: wall time on a shared machine includes other processes.
CLOCK = time.thread_time

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer"},
        "address": {
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            "required": ["street", "city"],
            "additionalProperties": False,
        },
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["name", "age", "address", "tags"],
    "additionalProperties": False,
}
VALUE = {
    "name": "Alice Liddell of the far meadow, who followed a rabbit",
    "age": 31,
    "address": {"street": "12 Lake Road, third house behind the old mill", "city": "Lyon"},
    "tags": ["reader", "walks early in the morning", "likes tea", "asks many questions of cats", "chess"],
}
CHATS = (
    "Write one JSON object about Alice.", "Describe Bob as JSON.", "Who is Carol? JSON please.", "A person, as JSON.",
    "Make up a JSON record.", "One more record.", "Give me JSON.", "JSON about Dan, who lives in Oslo.",
)  # fmt: skip


class MeasuredVocabulary:
    """A tokenizer with its engine, a plan for `SCHEMA`, and the tokens of one document with the end token."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.tokens = SpecialTokens(facts_of(self.tokenizer))
        self.engine = Engine(tokenizer_json(self.tokenizer), self.tokens)
        self.size = self.engine.vocab_size
        format = Format("plain", ends=Ends((str(self.tokenizer.eos_token),)))
        self.plan = compose(Parts(response_format=SCHEMA), tokens=self.tokens, format=format)
        self.document = self.engine.tokenize(json.dumps(VALUE))
        self.end = int(self.tokenizer.eos_token_id)


# -- processors


MaskStep = Callable[[torch.Tensor, torch.Tensor], Any]


def ours(vocabulary: MeasuredVocabulary, num_rows: int, *, in_place: bool = False) -> MaskStep:
    prompts = [[1, 2, 3]] * num_rows
    session = Session(
        lambda prompt, row, ids: RowSequence(vocabulary.plan, vocabulary.engine, row=row),
        vocabulary.engine,
        num_prompts=num_rows,
        prompts=prompts,
        padded=prompts,
        in_place=in_place,
    )
    held = OneSession(session)
    processor, criteria = GuidanceProcessor(held), GuidanceCriteria(held, [vocabulary.end])

    def step(input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if session.prompt_len is not None:
            criteria(input_ids, None)
        return processor(input_ids, scores)

    return step


def ours_in_place(vocabulary: MeasuredVocabulary, num_rows: int) -> MaskStep:
    return ours(vocabulary, num_rows, in_place=True)


def naive(vocabulary: MeasuredVocabulary, num_rows: int) -> MaskStep:
    """Return the simplest processor: a matcher per row, bits to bool, ``masked_fill``."""
    tokenizer = llguidance.LLTokenizer(
        tokenizer_json(vocabulary.tokenizer), n_vocab=vocabulary.size, eos_token=[vocabulary.end]
    )
    grammar = llguidance.LLMatcher.grammar_from_json_schema(
        json.dumps(SCHEMA), overrides={"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
    )
    matchers = [llguidance.LLMatcher(tokenizer, grammar, log_level=0) for _ in range(num_rows)]
    num_words = (vocabulary.size + 31) // 32
    bitmask = np.zeros((num_rows, num_words), dtype=np.int32)
    first = True

    def step(input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        nonlocal first
        for row, matcher in enumerate(matchers):
            if not first:
                matcher.consume_token(int(input_ids[row, -1]))
            matcher.unsafe_compute_mask_ptr(bitmask[row].ctypes.data, num_words * 4)
        first = False
        bits = np.unpackbits(bitmask.view(np.uint8), axis=1, bitorder="little")[:, : scores.shape[1]]
        return scores.masked_fill(~torch.from_numpy(bits.view(np.bool_)), float("-inf"))

    return step


def xgrammar(vocabulary: MeasuredVocabulary, num_rows: int) -> MaskStep:
    import xgrammar as xgr

    info = xgr.TokenizerInfo.from_huggingface(vocabulary.tokenizer, vocab_size=vocabulary.size)
    compiler = xgr.GrammarCompiler(info, max_threads=1)
    grammar = compiler.compile_json_schema(
        json.dumps(SCHEMA), any_whitespace=False, separators=(", ", ": "), strict_mode=True
    )
    return xgr.contrib.hf.LogitsProcessor([grammar] * num_rows)


def outlines(vocabulary: MeasuredVocabulary, num_rows: int) -> MaskStep:
    from outlines.backends.llguidance import LLGuidanceLogitsProcessor

    tokenizer = llguidance.LLTokenizer(
        tokenizer_json(vocabulary.tokenizer), n_vocab=vocabulary.size, eos_token=[vocabulary.end]
    )
    grammar = llguidance.LLMatcher.grammar_from_json_schema(
        json.dumps(SCHEMA), overrides={"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
    )
    return LLGuidanceLogitsProcessor(grammar, tokenizer, "torch")


def with_copy(make: Callable[[MeasuredVocabulary, int], MaskStep]) -> Callable[[MeasuredVocabulary, int], MaskStep]:
    """Return a processor that copies the scores before one that writes into them."""

    def made(vocabulary: MeasuredVocabulary, num_rows: int) -> MaskStep:
        step = make(vocabulary, num_rows)
        return lambda input_ids, scores: step(input_ids, scores.clone())

    return made


#: Processors that leave the scores unchanged, and those that write into them.
PROCESSORS = {
    "ours": ours,
    "naive llguidance": naive,
    "xgrammar + copy": with_copy(xgrammar),
    "outlines + copy": with_copy(outlines),
    "ours, in place": ours_in_place,
    "xgrammar": xgrammar,
    "outlines": outlines,
}


def bare(vocabulary: MeasuredVocabulary, num_rows: int) -> list[float]:
    """Return the seconds per row of every step of llguidance alone: fill and consume."""
    matchers = [vocabulary.engine.pristine(vocabulary.plan).deep_copy() for _ in range(num_rows)]
    words = np.zeros((vocabulary.engine.ll_tokenizer.vocab_size + 31) // 32, dtype=np.int32)
    address, size = words.ctypes.data, words.nbytes
    times = []
    for token in vocabulary.document:
        began = CLOCK()
        for matcher in matchers:
            matcher.unsafe_compute_mask_ptr(address, size)
            matcher.consume_token(token)
        times.append((CLOCK() - began) / num_rows)
    return times


def drive(step: Callable[..., Any], vocabulary: MeasuredVocabulary, num_rows: int) -> list[float]:
    """Return the seconds per row of every step; all rows write the document, and every mask must allow it."""
    gc.collect()  # a processor in a reference cycle, as those of outlines, would be freed in the time of the next
    ids = torch.tensor([[1, 2, 3]] * num_rows)
    source = torch.randn(num_rows, vocabulary.size, generator=torch.Generator().manual_seed(0))
    times = []
    for token in vocabulary.document:
        scores = source.clone()
        began = CLOCK()
        out = step(ids, scores)
        times.append((CLOCK() - began) / num_rows)
        assert bool((out[:, token] > float("-inf")).all()), "the masks differ"
        ids = torch.cat([ids, torch.full((num_rows, 1), token)], dim=-1)
    return times


def measure_processors(vocabulary: MeasuredVocabulary, num_rows: int, repeats: int) -> dict[str, dict[str, float]]:
    found: dict[str, list[float]] = {"bare llguidance": []}
    for _ in range(repeats + 1):  # one run to warm up
        found["bare llguidance"].extend(bare(vocabulary, num_rows))
        for name, make in PROCESSORS.items():
            peer = name.partition(" ")[0]
            if peer in ("xgrammar", "outlines") and importlib.util.find_spec(peer) is None:
                continue
            with torch.no_grad():
                found.setdefault(name, []).extend(drive(make(vocabulary, num_rows), vocabulary, num_rows))
    return {name: _summary(times, len(vocabulary.document)) for name, times in found.items()}


def _summary(times: Sequence[float], size: int) -> dict[str, float]:
    """Return a summary in microseconds; the first run of ``size`` steps is left out."""
    turns = np.array(times).reshape(-1, size)[1:] * 1e6
    return {
        "quiet": float(turns.min(axis=0).mean()),
        "median": float(np.median(turns)),
        "mean": float(turns.mean()),
    }


# -- steps of generate


class Hooks:
    """Wraps our hooks to measure the seconds of each step."""

    def __init__(self, kwargs: dict[str, Any]) -> None:
        self.times: list[float] = []
        self.kwargs = dict(kwargs)
        for key in ("logits_processor", "stopping_criteria"):
            if key in kwargs:
                self.kwargs[key] = kwargs[key][:0] + [self._timed(hook) for hook in kwargs[key]]

    def _timed(self, hook: Any) -> Any:
        real = hook.__call__
        times = self.times

        class Timed(type(hook)):  # type: ignore[misc]
            def __init__(self) -> None:
                self.__dict__ = hook.__dict__

            def __call__(self, input_ids: Any, scores: Any) -> Any:
                began = CLOCK()
                try:
                    return real(input_ids, scores)
                finally:
                    times.append(CLOCK() - began)

        return Timed()


@contextmanager
def forwards(model: Any) -> Iterator[list[float]]:
    """Record the time at which each forward of the model begins."""
    times: list[float] = []
    hook = model.register_forward_pre_hook(lambda *_: times.append(CLOCK()))
    try:
        yield times
    finally:
        hook.remove()


def one_call(
    guide: Any, inputs: Any, kwargs: dict[str, Any], steps: int, options: dict[str, Any]
) -> tuple[float, float]:
    """Return the median seconds of a step, and the seconds per step inside our hooks, of one call."""
    hooks = Hooks(kwargs)
    with forwards(guide.model) as began:
        guide.model.generate(**inputs, max_new_tokens=steps, eos_token_id=None, **options, **hooks.kwargs)
        began.append(CLOCK())
    step = statistics.median(np.diff(began)[1:])  # without the prompt's forward
    return step, sum(hooks.times) / max(1, len(began) - 1)


CASES: dict[str, tuple[int, Sequence[bool], dict[str, Any]]] = {
    "batch 1, guided": (1, [True], {"do_sample": False}),
    "batch 8, guided": (8, [True] * 8, {"do_sample": False}),
    "batch 8, 1 guided": (8, [True] + [False] * 7, {"do_sample": False}),
    "batch 8, none guided": (8, [False] * 8, {"do_sample": False}),
    "batch 8, guided, in place": (8, [True] * 8, {"do_sample": False}),
    "batch 8, 1 guided, in place": (8, [True] + [False] * 7, {"do_sample": False}),
    "batch 1, beams 4": (1, [True], {"do_sample": False, "num_beams": 4}),
    "batch 1, prompt lookup": (1, [True], {"do_sample": False, "prompt_lookup_num_tokens": 4}),
}


def measure_steps(guide: Any, steps: int, repeats: int) -> dict[str, dict[str, float]]:
    plan = guide.plan(response_format=SCHEMA | {"properties": SCHEMA["properties"] | {"tags": LONG_TAGS}})
    found = {}
    for name, (num_rows, guided, options) in CASES.items():
        plans = [plan if flag else None for flag in guided]
        inputs = checked_inputs(guide.context, CHATS[:num_rows], plans)
        pairs = []
        for _ in range(repeats):
            plain, _ = one_call(guide, inputs, {}, steps, options)
            kwargs = generate_kwargs(guide.context, inputs, plans, in_place=name.endswith("in place"))
            _, inside = one_call(guide, inputs, kwargs, steps, options)
            pairs.append((plain, inside))
        plain = statistics.median(pair[0] for pair in pairs)
        inside = statistics.median(pair[1] for pair in pairs)
        found[name] = {"step_ms": plain * 1e3, "inside_us": inside * 1e6, "percent": 100 * inside / plain}
        print(f"  {name:28} step {plain * 1e3:7.1f} ms   inside {inside * 1e6:7.0f} us   {100 * inside / plain:6.3f} %")
    return found


#: Long enough that no row ends while it is timed.
LONG_TAGS = {"type": "array", "items": {"type": "string"}, "minItems": 400}


def vocabularies() -> Iterator[MeasuredVocabulary]:
    from guided.embedded import model_folder

    yield MeasuredVocabulary("SmolLM2", model_folder())
    folder = Path(os.environ.get("GUIDED_TOKENIZERS", Path.home() / ".cache" / "guided" / "tokenizers")) / "qwen3"
    if (folder / "tokenizer.json").is_file():
        yield MeasuredVocabulary("Qwen3", folder)
    else:
        print("Qwen3's tokenizer is absent (`make tokenizers`): 151k ids are left out")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--only", choices=("processors", "steps"))
    arguments.add_argument("--repeats", type=int, default=5)
    arguments.add_argument("--steps", type=int, default=40)
    arguments.add_argument("--json", type=Path, help="write the numbers to this file")
    options = arguments.parse_args()
    torch.set_num_threads(1)
    packages = {name: version(name) for name in ("torch", "transformers", "llguidance")}
    results: dict[str, Any] = {"machine": platform.platform(), "cpus": os.cpu_count(), **packages}
    print(results)
    if options.only != "steps":
        for name in ("xgrammar", "outlines"):
            if importlib.util.find_spec(name) is None:
                print(f"{name} is not installed here and left out")
            else:
                results[name] = version(name)
        for vocabulary in vocabularies():
            for num_rows in (1, 8):
                found = measure_processors(vocabulary, num_rows, options.repeats)
                results[f"{vocabulary.name} {num_rows}"] = found
                print(f"{vocabulary.name}, {vocabulary.size} ids, batch {num_rows}; us per row and step")
                for processor, numbers in found.items():
                    print(f"  {processor:18}" + "".join(f"   {k} {v:7.1f}" for k, v in numbers.items()))
    if options.only != "processors":
        import guided

        guide = guided.demo()
        print(f"steps of {options.steps} tokens, {options.repeats} pairs; one thread")
        results["steps"] = measure_steps(guide, options.steps, options.repeats)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
