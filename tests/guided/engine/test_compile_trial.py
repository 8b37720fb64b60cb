"""A grammar that may take minutes to compile is tried in a worker process that can be ended."""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import llguidance
import pytest

import guided.engine.engine as compiling
from grammars.limits.deadline import deadline
from grammars.values.constraints import JsonSchema, Lark
from guided.engine.compile_trial import Trial, TrialOutcome
from guided.engine.engine import Engine, compile_grammar
from guided.state.state import GuidanceState
from special_tokens.errors import LimitExceeded
from tests.judges.plans import accepts, plan_of
from tests.made_up.schemas import closed

#: Words of the letter a whose number has all these divisors: the engine looks for the shortest, of 14 billion letters.
_PRIMES = (101, 103, 107, 109, 113)
HANGS = "start: A\nA: /a+/ & " + " & ".join(f"/(?:a{{{p}}})*/" for p in _PRIMES)
PATTERNS = [{"pattern": f"^(?:a{{{p}}})+$"} for p in _PRIMES]
SCHEMA = closed({"s": {"type": "string", "allOf": PATTERNS}})
#: Enough for a grammar of one letter where processors are starved; what hangs takes all of it.
SECONDS = 2.0
LIMITS = {"initial_lexer_fuel": 100_000_000, "step_lexer_fuel": 20_000_000, "max_lexer_states": 2_000_000}


@pytest.fixture
def trial() -> Any:
    made = Trial(seconds=SECONDS)
    yield made
    made.close()


def asked(trial: Trial, grammar: str, vocab_size: int = 400) -> str | None:
    """Return the engine's error, None if the grammar compiles; raises past a limit."""
    found = trial.verdict(grammar, vocab_size=vocab_size, limits=LIMITS)
    if found.limit:
        raise LimitExceeded(found.limit)
    return found.error


def test_memory_is_bounded_as_time_is() -> None:
    with closing(Trial(seconds=30, size=300 << 20)) as trial:
        with pytest.raises(LimitExceeded, match=r"more than 0.29 GB of memory, one of the limits of a trial"):
            asked(trial, HANGS)
        assert asked(trial, 'start: "a"') is None


def test_one_helper_serves_many_threads(trial: Trial) -> None:
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda i: asked(trial, f'start: "{i}"'), range(8))) == [None] * 8


def test_without_a_helper_nothing_costly_is_compiled(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(LimitExceeded, match=r"needs a worker process, and none can be started"):
        asked(trial, 'start: "a"')
    monkeypatch.undo()
    assert asked(trial, 'start: "a"') is None  # nothing was found out, so nothing is remembered


class Counted(Trial):
    """Counts what is really tried."""

    tried = 0

    def _tried(self, request: dict[str, Any]) -> Any:
        self.tried += 1
        return super()._tried(request)


def test_what_came_out_is_not_tried_again() -> None:
    with closing(Counted(seconds=SECONDS)) as trial:
        for _ in range(3):
            with pytest.raises(LimitExceeded, match=r"more than 2 s of processor time, one of the limits of a trial"):
                asked(trial, HANGS)
            assert asked(trial, 'start: "a" <[399]>') is None
            assert "unknown name" in str(asked(trial, "start: nowhere"))
        assert trial.tried == 3
        assert asked(trial, 'start: "a" <[399]>', 500) is None  # another vocabulary, another answer
        assert trial.tried == 4


def test_a_request_that_comes_twice_at_once_is_tried_once() -> None:
    with closing(Counted(seconds=SECONDS)) as trial:
        with ThreadPoolExecutor(4) as threads:
            asking = [threads.submit(trial.verdict, HANGS, vocab_size=400, limits=LIMITS) for _ in range(4)]
        limits = [verdict.result().limit for verdict in asking]
        assert trial.tried == 1
        assert len(set(limits)) == 1
        assert "of processor time" in limits[0]


def test_the_deadline_ends_a_trial_and_its_error_is_kept_for_a_while_only(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Counted(seconds=60)) as trial:
        asked(trial, 'start: "a"')
        with (
            deadline(0.3),
            pytest.raises(LimitExceeded, match=r"left until its deadline, one of the limits of a trial"),
        ):
            asked(trial, HANGS)
        with pytest.raises(LimitExceeded, match="left until its deadline"):
            asked(trial, HANGS)
        assert trial.tried == 2
        now = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: now + 31)
        assert trial.cached_verdict(HANGS, vocab_size=400, limits=LIMITS) is None
        assert trial.cached_verdict('start: "a"', vocab_size=400, limits=LIMITS) is not None


def test_who_has_no_time_left_does_not_wait_for_the_trials_of_others(trial: Trial) -> None:
    with trial._lock, deadline(0.05), pytest.raises(LimitExceeded, match="other grammars are on trial"):
        asked(trial, 'start: "a"')
    assert asked(trial, 'start: "a"') is None


def test_a_helper_that_has_grown_is_not_used_again(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    asked(trial, 'start: "a"')
    first = trial._process
    asked(trial, 'start: "b"')
    assert trial._process is first
    monkeypatch.setattr("guided.engine.compile_trial._LARGE", 1)
    asked(trial, 'start: "c"')
    assert first.poll() is not None
    assert asked(trial, 'start: "d"') is None


def test_what_would_not_be_compiled_before_the_deadline_is_not_begun(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling._trial, "cached_verdict", lambda *_, **__: TrialOutcome(seconds=2.0))
    with deadline(1.0), pytest.raises(LimitExceeded, match=r"takes 2.0 s, and \d.\d s are left"):
        compile_grammar(engine.ll_tokenizer, 'start: "a"')
    assert not compile_grammar(engine.ll_tokenizer, 'start: "a"').is_error()


@pytest.mark.parametrize("given", [Lark(HANGS), JsonSchema(SCHEMA)], ids=["grammar", "schema"])
def test_a_format_that_would_hang_is_refused_with_its_limit(engine: Engine, given: Lark | JsonSchema) -> None:
    plan = plan_of(engine, response_format=given)
    with pytest.raises(LimitExceeded, match=r"^response_format: .*limits of a trial"):
        GuidanceState(plan, engine)


def test_ordinary_plans_start_no_helper(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Trial) -> Any:
        raise AssertionError("a worker was started")

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


def test_an_interrupted_question_leaves_no_answer_for_the_next(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked(trial, 'start: "a"') is None

    def interrupted(thread: threading.Thread, timeout: float | None = None) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "join", interrupted)
        with pytest.raises(KeyboardInterrupt):
            asked(trial, "start: nowhere")
    assert asked(trial, 'start: "b"') is None
    assert "unknown name" in str(asked(trial, "start: nowhere"))


def test_a_helper_that_ends_by_itself_has_passed_no_limit(trial: Trial, tmp_path: Path) -> None:
    trial.script = tmp_path / "ends.py"
    trial.script.write_text("raise SystemExit(3)")
    for _ in range(2):  # and nothing is remembered of it
        with pytest.raises(LimitExceeded, match="the worker process that tried the grammar ended with 3"):
            asked(trial, 'start: "never seen"')
    trial.script = Trial(seconds=SECONDS).script
    assert asked(trial, 'start: "never seen"') is None
