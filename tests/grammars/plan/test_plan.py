"""A plan is a value: what Python and the wire do with it runs no search, no compiler and no engine."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from grammars.compose.compose import Parts, compose
from grammars.plan.plan import Plan
from grammars.plan.wire import decode_plan, encode_plan
from grammars.values.constraints import JsonSchema
from tests.grammars.plan.test_wire import PLANS
from tests.judges.plans import FORMAT, whole_repr
from tests.made_up.tokenizers import MARKERS, small_tokenizer, small_tokens

ROOT = Path(__file__).resolve().parents[2]
TOKENS = small_tokens(small_tokenizer(MARKERS, special=("<|im_start|>", "<|im_end|>", "<|endoftext|>")))

#: A schema whose answers take long to find: words of one pattern that differ.
LONG = {
    "type": "array",
    "minItems": 40,
    "uniqueItems": True,
    "items": {"type": "string", "pattern": "^(?=.*[A-Z])(?=.*[0-9]).{8,}$"},
}
TOOL = {"type": "function", "function": {"name": "go", "parameters": {"type": "object", "properties": {"a": LONG}}}}
FORMS: dict[str, dict[str, Any]] = PLANS | {
    "long search": {"response_format": JsonSchema(LONG)},
    "python type": {"response_format": dict[str, int]},
    "tools": {"tools": [TOOL], "reasoning_effort": "low", "response_format": JsonSchema(LONG)},
}

#: What a value does, given an equal value to compare with.
OPERATIONS: dict[str, Callable[[Plan, Plan], Any]] = {
    "==": lambda plan, other: plan == other,
    "repr": lambda plan, other: repr(plan),
    "copy": lambda plan, other: copy.copy(plan),
    "deepcopy": lambda plan, other: copy.deepcopy(plan),
    "pickle": lambda plan, other: pickle.loads(pickle.dumps(plan)),
    "msgpack": lambda plan, other: decode_plan(encode_plan(plan)),
}
#: Folders whose code these operations may run; all of them hold records.
RECORDS = ("grammars.plan", "grammars.values", "grammars.tree.rendered", "special_tokens")


def plan_of(name: str) -> Plan:
    return compose(Parts(**FORMS[name]), tokens=TOKENS, format=FORMAT)


def run_by(operation: Callable[[], Any]) -> set[str]:
    """The modules of ours and of the engine of which the operation runs a function."""
    found: set[str] = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            found.add(str(frame.f_globals.get("__name__", "")))
        elif event == "c_call":
            found.add(str(getattr(argument, "__module__", None) or ""))

    sys.setprofile(note)
    try:
        operation()
    finally:
        sys.setprofile(None)
    return {name for name in found if name.split(".")[0] in ("special_tokens", "grammars", "guided", "llguidance")}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("name", FORMS)
def test_a_value_searches_and_compiles_nothing(name: str, operation: str) -> None:
    plan, other = plan_of(name), plan_of(name)
    ran = run_by(lambda: OPERATIONS[operation](plan, other))
    assert {module for module in ran if not module.startswith(RECORDS)} == set()


def test_the_count_sees_a_compiler() -> None:
    assert "grammars.json_schema.build" in run_by(lambda: plan_of("schema with watchers"))


@pytest.mark.parametrize("name", FORMS)
def test_a_plan_that_went_anywhere_is_equal(name: str) -> None:
    plan = plan_of(name)
    for operation in ("copy", "deepcopy", "pickle", "msgpack"):
        gone = OPERATIONS[operation](plan, plan)
        assert gone == plan, operation
        assert hash(gone) == hash(plan)
        assert whole_repr(gone) == whole_repr(plan)
        assert gone.engine_text("fresh") == plan.engine_text("fresh")
        assert encode_plan(gone) == encode_plan(plan)


def test_importing_the_plan_loads_few_modules() -> None:
    code = "import sys, grammars.plan.plan, grammars.plan.wire; print('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    ours = {name for name in done.stdout.split() if name.split(".")[0] in ("special_tokens", "grammars", "guided")}
    assert len(ours) <= 30
    assert not any(name.startswith(("grammars.json_schema", "grammars.compose", "grammars.regular")) for name in ours)


@pytest.mark.parametrize("name", FORMS)
def test_a_plan_is_shown_in_one_line(name: str) -> None:
    shown = repr(plan_of(name))
    assert len(shown) < 200
    assert "\n" not in shown
    assert ("tools=('go',)" in shown) == (name == "tools")
    assert shown.startswith("Plan(response=" if "response_format" in FORMS[name] else "Plan(")
