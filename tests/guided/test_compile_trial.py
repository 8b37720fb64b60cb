"""A grammar that would keep the engine busy for minutes is tried in a process that can be ended."""

from __future__ import annotations

import sys
import threading
from typing import Any

import llguidance
import pytest

import guided.compile as compiling
from grammars.constraints import JsonSchema, Lark
from guided.compile import Engine, compile_grammar
from guided.compile_trial import Trial
from guided.state import GuidanceState
from special_tokens.errors import LimitExceeded
from tests.plan_laws import accepts, plan_of

#: Words of the letter a whose number has all these divisors: the engine looks for the shortest, of 14 billion letters.
_PRIMES = (101, 103, 107, 109, 113)
HANGS = "start: A\nA: /a+/ & " + " & ".join(f"/(?:a{{{p}}})*/" for p in _PRIMES)
PATTERNS = [{"pattern": f"^(?:a{{{p}}})+$"} for p in _PRIMES]
SCHEMA = {
    "type": "object",
    "properties": {"s": {"type": "string", "allOf": PATTERNS}},
    "required": ["s"],
    "additionalProperties": False,
}
LIMITS = {"initial_lexer_fuel": 100_000_000, "step_lexer_fuel": 20_000_000, "max_lexer_states": 2_000_000}


@pytest.fixture
def trial() -> Any:
    made = Trial(seconds=0.3)
    yield made
    made.close()


def asked(trial: Trial, grammar: str) -> str | None:
    return trial.error_of(grammar, vocab_size=400, limits=LIMITS)


def test_what_takes_too_long_is_ended_and_the_next_grammar_is_compiled(trial: Trial) -> None:
    assert asked(trial, 'start: "a"') is None
    with pytest.raises(LimitExceeded, match=r"more than 0.3 s of processor time .* the limits of a trial"):
        asked(trial, HANGS)
    assert asked(trial, 'start: "a" <[399]>') is None
    assert "unknown name" in str(asked(trial, "start: nowhere"))


def test_memory_is_bounded_as_time_is() -> None:
    trial = Trial(seconds=30, size=300 << 20)
    try:
        with pytest.raises(LimitExceeded, match="limits of a trial"):
            asked(trial, HANGS)
        assert asked(trial, 'start: "a"') is None
    finally:
        trial.close()


def test_one_helper_serves_many_threads(trial: Trial) -> None:
    found: list[str | None] = []
    threads = [
        threading.Thread(target=lambda i=i: found.append(asked(trial, f'start: "{i}"')))
        for i in range(8)  # type: ignore[misc]
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [None] * 8


def test_without_a_helper_nothing_costly_is_compiled(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(LimitExceeded, match="limits of a trial"):
        asked(trial, 'start: "a"')


def test_a_clients_grammar_that_would_hang_is_refused_with_its_limit(engine: Engine) -> None:
    plan = plan_of(engine, response_format=Lark(HANGS))
    with pytest.raises(LimitExceeded, match=r"^response_format: .*limits of a trial"):
        GuidanceState(plan, engine)


def test_a_schema_that_would_hang_is_refused_with_its_place(engine: Engine) -> None:
    plan = plan_of(engine, response_format=JsonSchema(SCHEMA))
    with pytest.raises(LimitExceeded, match=r"^response_format/properties/s/allOf/4: .*limits of a trial"):
        GuidanceState(plan, engine)


def test_ordinary_plans_start_no_helper(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Trial) -> Any:
        raise AssertionError("a helper was started")

    monkeypatch.setattr(Trial, "_running", refuse)
    schema = {"type": "object", "properties": {"when": {"type": "string", "format": "date-time", "maxLength": 30}}}
    bounded = Lark('start: A "!"\nA: /[a-z]{1,2000}/ & ~/.*admin.*/')
    for wanted in (JsonSchema(schema), bounded, JsonSchema({"type": "array"})):
        assert GuidanceState(plan_of(engine, response_format=wanted), engine).mask().any()


def test_what_passes_its_trial_is_compiled_in_full(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    few = llguidance.LLParserLimits(initial_lexer_fuel=100, verbose_errors=False)
    monkeypatch.setattr(compiling, "LIMITS", few)
    grammar = "start: A\nA: /(?:a{3})+/ & /(?:a{5})+/"
    matcher = compile_grammar(engine.ll_tokenizer, grammar)
    assert not matcher.is_error()
    plan = plan_of(engine, response_format=Lark(grammar), thinking=False)
    assert accepts(plan, engine, "a" * 15 + "<|im_end|>", entry="after")
    assert not accepts(plan, engine, "a" * 10 + "<|im_end|>", entry="after")


def test_the_interpreter_goes_on_while_the_engine_compiles(engine: Engine) -> None:
    """Construction releases the interpreter's lock: other threads take many steps meanwhile."""
    few = llguidance.LLParserLimits(initial_lexer_fuel=5_000_000, verbose_errors=False)
    done: list[Any] = []

    def compile_it() -> None:
        done.append(llguidance.LLMatcher(engine.ll_tokenizer, HANGS, log_level=0, limits=few))

    thread = threading.Thread(target=compile_it)
    thread.start()
    steps = 0
    while thread.is_alive():
        steps += 1
    assert "fuel" in done[0].get_error()
    assert steps > 1_000  # one or two, if the lock were held
