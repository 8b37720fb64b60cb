"""Proofs on a device: each yields its name and its result, against the CPU or a fresh state.

The model is small and random, in float32 on both devices; without a card its other side is the CPU in float64.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch

import guided
from benchmarks.loop import step_by_step
from benchmarks.modes_peers import MODES
from benchmarks.on_device.measure import compiled_options
from benchmarks.on_device.run import GREEDY, TOOL, DeviceRun, plan
from guided.bitmask import num_words
from guided.hf.generate.call import generate_kwargs, read_messages
from guided.hf.generate.inputs import checked_inputs
from guided.hf.masks.accelerator import DeviceLink
from guided.hf.masks.apply import RowMask, apply_masks, bool_mask
from guided.state.entry import begin_of
from tests.judges.generation import replay

__all__ = ["PROOF_HEAD", "plans_of", "proof_rows"]

PROOF_HEAD = ("proof", "result")

OBJECT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "a long name": {"type": "boolean"},
        "colour": {"enum": ["red", "reddish", "blue"]},
        "size": {"type": "integer", "minimum": 0, "maximum": 999},
        "word": {"type": "string", "maxLength": 6},
    },
    "required": ["a long name", "colour", "size", "word"],
    "additionalProperties": False,
}
DIFFERENT: dict[str, Any] = {
    "type": "array", "items": {"enum": ["alpha", "beta", "alphabet"]}, "uniqueItems": True, "minItems": 2,
    "maxItems": 3,
}  # fmt: skip
OTHER_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "note",
        "parameters": {
            "type": "object",
            "properties": {"kind": {"enum": ["a", "b"]}, "done": {"type": "boolean"}},
            "required": ["kind", "done"],
            "additionalProperties": False,
        },
    },
}
CHATS = ("Tell me a thing.", "Why?", "A longer question than the others, so that they are padded.", "One, two.")


def most_tokens(guide: Any) -> int:
    """Return the limit of an answer: over bytes, in a tiny run, few end within any."""
    return 40 if guide.engine.vocab_size > 1000 else 20


def plans_of(guide: Any) -> dict[str, Any]:
    """Return the 14 kinds of plans by name."""
    form = lambda value, **more: plan(guide, response_format=value, **more)  # noqa: E731
    return {
        "free text": None,
        "stop strings": guided.Stops(strings=("e t", "zz")),
        "choice": form(guided.Choice(["a first long option", "a second", "only"])),
        "regex": form(guided.Regex("(long literal text [0-9]{2}; ){2}end")),
        "Lark": form(guided.Lark('start: "x" item+ "."\nitem: " " /[a-d]{1,3}/')),
        "object": form(OBJECT),
        "object, keys in any order": form(OBJECT | {"required": ["size"]}, stop="zz"),
        "items that differ": form(DIFFERENT),
        "number": form({"type": "number", "minimum": -5, "maximum": 5}),
        "all forced": form({"const": {"all": "is forced"}}),
        "tool required": plan(guide, tools=[TOOL], tool_choice="required", parallel_tool_calls=False),
        "several tools": plan(guide, tools=[TOOL, OTHER_TOOL], tool_choice="required"),
        "tools, auto": plan(guide, tools=[OTHER_TOOL], tool_choice="auto", stop="e t"),
        "reasoning, then an object": guide.plan(response_format=OBJECT, reasoning_effort="low"),
    }


def proof_rows(run: DeviceRun, seconds: float) -> Iterator[Sequence[object]]:
    """All proofs; one that fails or raises does not keep the others."""
    there = proof_guide(run, torch.float32)
    twin = copy.deepcopy(there.model).cpu()
    here = guided.hf.Guide(twin if run.is_cuda else twin.double(), there.tokenizer)
    for name, check in CHECKS.items():
        try:
            result = check(run, there, here)
        except Exception as error:  # whatever is raised is the result
            result = f"FAILED: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
        yield name, result


def proof_guide(run: DeviceRun, dtype: torch.dtype) -> Any:
    """Return a guide of the tiny model with the vocabulary of the large ones, on the device."""
    return run.guide("tiny", "qwen3", dtype)


# ---------------------------------------------------------------- the same tokens


def ways(run: DeviceRun) -> dict[str, Callable[[Any, Any], list[Any]]]:
    """Return ways to write the answers to `CHATS` under a plan, random numbers included, by name."""
    drawn = guided.Sampling(temperature=1.3, top_k=40, top_p=0.9, seed=3)
    chats = CHATS[:2] if run.tiny else CHATS

    def loop(guide: Any, of: Any, sampling: Any = GREEDY) -> list[Any]:
        options = {"max_tokens": most_tokens(guide), "describe": False, "reuse": False}
        return list(guide.generate(chats, [of] * len(chats), sampling=sampling, **options))

    return {
        "our loop": loop,
        "our loop, sampled": lambda guide, of: loop(guide, of, drawn),
        "generate": lambda guide, of: _generated(guide, of, chats),
    }


def _generated(guide: Any, of: Any, chats: Sequence[Any] = CHATS[:2], **options: Any) -> list[Any]:
    inputs = checked_inputs(guide.context, chats, [of] * len(chats))
    settings = {
        "do_sample": False,
        "max_new_tokens": most_tokens(guide),
        "pad_token_id": guide.context.pad_id,
    } | options
    kwargs = generate_kwargs(guide.context, inputs, [of] * len(chats))
    out = guide.model.generate(**inputs.to(guide.model.device), **settings, **kwargs)
    return list(read_messages(guide.context, out, inputs, [of] * len(chats)))


def _ids(messages: Sequence[Any]) -> list[tuple[int, ...]]:
    return [message.token_ids for message in messages]


def _same_tokens(run: DeviceRun, there: Any, here: Any) -> str:
    plans, theirs, wrong = plans_of(there), plans_of(here), []
    for name, of in plans.items():
        for way, write in ways(run).items():
            if _ids(write(there, of)) != _ids(write(here, theirs[name])):
                wrong.append(f"{name} by {way}")
    return _said(len(plans) * len(ways(run)), wrong, f"kinds of plans and ways, several rows each: as {_side(run)}")


def _side(run: DeviceRun) -> str:
    return "on the CPU" if run.is_cuda else "in float64"


def _same_in_modes(run: DeviceRun, there: Any, here: Any) -> str:
    wrong, checked = [], 0
    for mode, options in MODES.items():
        found = []
        for guide in (there, here):
            of = plans_of(guide)["object"]
            one_by_one = [[chat] for chat in CHATS[:2]] if "lookup" in mode else [CHATS[:2]]
            found.append([m for chats in one_by_one for m in _generated(guide, of, chats, **options)])
        checked += 1
        if not options["do_sample"] and _ids(found[0]) != _ids(found[1]):  # the devices draw other numbers
            wrong.append(mode)
        wrong += [f"{mode}: {why}" for m in found[0] if (why := _disobeys(there, plans_of(there)["object"], m))]
    return _said(checked, wrong, f"modes of modes_peers.py: as {_side(run)}, or obeyed where the device draws")


def _loop_law(run: DeviceRun, there: Any, here: Any) -> str:
    wrong, plans = [], list(plans_of(there).items())
    options = {"sampling": GREEDY, "max_tokens": most_tokens(there), "describe": False, "reuse": False}
    chats = [CHATS[n % len(CHATS)] for n in range(len(plans))]
    whole = _ids(there.generate(chats, [of for _, of in plans], **options))  # rows leave as they end
    for (name, of), chat, tokens in zip(plans, chats, whole, strict=True):
        alone = _ids(there.generate([chat], [of], **options))[0]
        with step_by_step():
            single = _ids(there.generate([chat], [of], **options))[0]
        wrong += [f"{name} {what}" for what, found in (("alone", alone), ("step by step", single)) if found != tokens]
    return _said(2 * len(plans), wrong, "answers in a batch that rows leave: as alone, and as step by step")


# ---------------------------------------------------------------- obeying, failing, sharing


def _disobeys(guide: Any, of: Any, message: Any) -> str:
    """Return what is wrong with an answer, replayed in a fresh state; "" if it is right."""
    if message.error is not None or message.finish_reason not in ("stop", "length", "tool_calls"):
        return f"ended with {message.error or message.finish_reason}"
    if not hasattr(of, "ends"):
        return ""
    try:
        entry = begin_of(of, message.prompt_ids, guide.engine).entry  # a prompt may have closed the reasoning
        replay(guide, of, message.token_ids, entry=entry)
    except AssertionError as error:
        return f"token {error} is illegal"
    return ""


def _bfloat16(run: DeviceRun, there: Any, here: Any) -> str:
    half = proof_guide(run, torch.bfloat16)
    plans, wrong = plans_of(half), []
    for name, of in plans.items():
        for way, write in ways(run).items():
            wrong += [f"{name} by {way}: {why}" for m in write(half, of) if (why := _disobeys(half, of, m))]
    kind = str(half.model.dtype).removeprefix("torch.")
    return _said(len(plans) * len(ways(run)), wrong, f"kinds of plans and ways in {kind}: every row ends and obeys")


def _nan(run: DeviceRun, there: Any, here: Any) -> str:
    of, wrong = plans_of(there)["object"], []
    for way in ("our loop", "generate"):
        write = ways(run)[way]
        clean, steps = write(there, of), []

        def poison(_: Any, args: Any, out: Any, steps: list[int] = steps) -> None:
            steps.append(1)
            if len(steps) == 2:
                out.logits[0] = float("nan")

        hook = there.model.register_forward_hook(poison)
        try:
            found = write(there, of)
        finally:
            hook.remove()
        if found[0].finish_reason != "error":
            wrong.append(f"{way}: the row went on")
        if _ids(found[1:]) != _ids(clean[1:]):
            wrong.append(f"{way}: other rows changed")
    return _said(2, wrong, "ways: a row of NaN ends with an error, the others as without")


def _threads(run: DeviceRun, there: Any, here: Any) -> str:
    plans, wrong = plans_of(there), []
    for way in ("our loop", "generate"):
        write = ways(run)[way]
        jobs = [("object", "regex", "tool required"), ("choice", "several tools", "object")]
        alone = [[_ids(write(there, plans[name])) for name in job] for job in jobs]
        found: dict[int, Any] = {}

        def work(n: int, write: Any = write, jobs: Any = jobs, found: Any = found) -> None:
            stream = torch.cuda.stream(torch.cuda.Stream(run.device)) if run.is_cuda else nullcontext()
            try:
                with stream:
                    found[n] = [_ids(write(there, plans[name])) for name in jobs[n]]
            except Exception as error:  # shown below
                found[n] = error

        workers = [threading.Thread(target=work, args=(n,)) for n in range(2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        wrong += [f"{way}, thread {n}: {found[n]!r}"[:120] for n in range(2) if found[n] != alone[n]]
    return _said(2, wrong, f"ways: two threads{' with a stream each' if run.is_cuda else ''} write what one writes")


def _compiled(run: DeviceRun, there: Any, here: Any) -> str:
    from torch._dynamo.utils import counters

    counters.clear()
    wrong = []
    for name in ("object", "tool required"):
        of = plans_of(there)[name]
        found, judge = _generated(there, of, **compiled_options(run)), _generated(there, of)
        if _ids(found) != _ids(judge):
            wrong.append(name)
    if not counters["stats"]["unique_graphs"]:
        return "not checked: nothing was compiled here"
    return _said(2, wrong, "plans in generate with a compiled forward and a static cache: as without")


# ---------------------------------------------------------------- masks


def _masks(run: DeviceRun, there: Any, here: Any) -> str:
    """Bits as the CPU unpacks them, and scores as the reference masks them, in three dtypes."""
    draw, wrong, width = np.random.default_rng(0), [], there.engine.vocab_size
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        for rows in (1, 5):
            scores = torch.randn(rows, width, generator=torch.Generator().manual_seed(rows)).to(dtype)
            scores[:, ::7] = float("-inf")
            scores[-1, 3] = float("nan")
            masks = [_random_mask(draw, row, width) for row in range(rows) if rows == 1 or row != 2]
            masks[0].is_imposed = rows > 1
            link = DeviceLink(run.device, rows, num_words(width), 2)
            found = link.apply(scores.to(run.device), masks, [False] * rows).cpu()
            if not torch.equal(_bits(found), _bits(apply_masks(scores, masks))):
                wrong.append(f"{rows} rows of {dtype}")
            packed = torch.from_numpy(np.stack([mask.words for mask in masks])).to(run.device)
            bits = torch.stack([bool_mask(mask.words, width) for mask in masks])
            if not torch.equal(
                DeviceLink(run.device, len(masks), num_words(width), 1)._allowed(packed, width).cpu(), bits
            ):
                wrong.append(f"bits of {rows} rows")
    return _said(6, wrong, f"batches of random masks over {width:,} scores: equal to the bit")


def _random_mask(draw: Any, row: int, width: int) -> RowMask:
    words = draw.integers(-(2**31), 2**31, num_words(width)).astype(np.int32)
    if width % 32:
        words[-1] &= (1 << (width % 32)) - 1
    words[0] |= 1 << 5
    return RowMask(row, words, (5,))


def _bits(scores: torch.Tensor) -> torch.Tensor:
    kind = torch.int32 if scores.dtype is torch.float32 else torch.int16
    return torch.where(scores.isnan(), 0, scores).contiguous().view(kind)


def _said(checked: int, wrong: Sequence[str], what: str) -> str:
    if not wrong:
        return f"{checked} {what}"
    return f"FAILED: {len(wrong)} of {checked} {what}; " + ", ".join(wrong[:4])


CHECKS: dict[str, Callable[[DeviceRun, Any, Any], str]] = {
    "masks": _masks,
    "same tokens": _same_tokens,
    "same tokens in modes": _same_in_modes,
    "the loop's law": _loop_law,
    "half precision": _bfloat16,
    "NaN": _nan,
    "threads": _threads,
    "static cache, compiled": _compiled,
}
