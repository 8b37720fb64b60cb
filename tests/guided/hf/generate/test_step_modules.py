"""One step is readable: how many modules of ours run between the processor's call and its return."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from grammars.values.constraints import Regex
from guided.hf.generate.call import generate_kwargs
from guided.hf.generate.hooks import GuidanceCriteria, GuidanceProcessor
from guided.hf.generate.inputs import checked_inputs
from tests.judges.generation import CHATS

ROOT = Path(__file__).resolve().parents[4]
ROOMS = tuple(str(ROOT / name) for name in ("guided", "grammars", "special_tokens"))

LETTERS = Regex("[a-z ]{60,90}")
#: The grammar says where numbers end, so nothing else is asked.
NUMBERS = {"type": "array", "items": {"type": "integer"}, "minItems": 60}


@contextmanager
def _modules_of(*hooks: Callable[..., Any]) -> Iterator[list[set[str]]]:
    """One set of our modules for each outermost call of one of ``hooks``: the files whose functions it executes."""
    codes = {hook.__code__ for hook in hooks}
    steps: list[set[str]] = []
    depth = 0

    def profile(frame: Any, event: str, _arg: object) -> None:
        nonlocal depth
        if event not in ("call", "return"):
            return
        is_hook = frame.f_code in codes
        if event == "return":
            depth -= is_hook
            return
        if is_hook:
            if not depth:
                steps.append(set())
            depth += 1
        if depth and frame.f_code.co_filename.startswith(ROOMS):
            steps[-1].add(str(Path(frame.f_code.co_filename).relative_to(ROOT)))

    sys.setprofile(profile)
    try:
        yield steps
    finally:
        sys.setprofile(None)


def _usual(steps: Sequence[set[str]]) -> set[str]:
    """The modules of most steps: a mask that is written for the first time also makes what later ones use."""
    return set(Counter(frozenset(step) for step in steps[4:]).most_common(1)[0][0])


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize(("form", "most"), [(LETTERS, 8), (NUMBERS, 8)], ids=["letters", "numbers"])
def test_a_step_of_a_guided_row_runs_few_modules(tiny_guide: Any, form: Any, most: int, rows: int) -> None:
    plan = tiny_guide.plan(response_format=form)
    inputs = checked_inputs(tiny_guide.context, CHATS[:rows], [plan] * rows)
    kwargs = generate_kwargs(tiny_guide.context, inputs, [plan] * rows)
    with _modules_of(GuidanceProcessor.__call__, GuidanceCriteria.__call__) as steps:
        tiny_guide.model.generate(**inputs, max_new_tokens=40, do_sample=False, **kwargs)
    assert len(steps) >= 60  # the processor and the criterion, step by step
    usual = _usual(steps[::2]) | _usual(steps[1::2])
    assert len(usual) <= most, "\n".join(sorted(usual))
