"""Plans and reports travel through vLLM as texts; a plan comes out only where it is signed and fits the model."""

from __future__ import annotations

from dataclasses import replace

import pytest

import guided
from grammars.plan.plan import Plan
from grammars.values.constraints import Choice
from guided.engine.counters import Guidance
from guided.engine.engine import Engine
from guided.landing.control import Marks
from guided.landing.options import Budgeting
from guided.rows.report import RowReport
from guided.vllm import sealed
from guided.vllm.sealed import check_sealed, is_sealed, read_report, report_text, seal, unsealed
from special_tokens.errors import LimitExceeded, PlanError, RequestError
from tests.conftest import make_tiny_guide
from tests.guided.output.test_answer_end import FORMAT, SEP, TOOLS
from tests.judges.plans import plan_of


@pytest.fixture
def plan(engine: Engine) -> Plan:
    return plan_of(engine, response_format=Choice(("yes", "no")))


@pytest.mark.parametrize(("landing", "short_budget"), [(True, "cut"), (False, "error")])
def test_a_plan_comes_out_as_it_went_in(engine: Engine, plan: Plan, landing: bool, short_budget: str) -> None:
    text = seal(plan, landing=landing, short_budget=short_budget)
    assert is_sealed(text)
    check_sealed(text, engine)
    found, budget = unsealed(text)
    assert found == plan
    assert budget == Budgeting(Budgeting().options if landing else None, short_budget == "error")
    assert unsealed(text)[0] is found  # caches go by the plan's identity


def test_the_plan_of_another_vocabulary_names_both(engine: Engine, plan: Plan) -> None:
    other = replace(plan, fingerprint="0123456789abcdef")
    with pytest.raises(PlanError) as raised:
        check_sealed(seal(other), engine)
    assert other.fingerprint in str(raised.value)
    assert plan.fingerprint in str(raised.value)


def test_only_who_knows_the_key_can_sign(engine: Engine, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    own = seal(plan)
    monkeypatch.setenv(sealed.KEY, "shared")
    shared = seal(plan)
    check_sealed(shared, engine)
    unsigned = [
        "guided:",
        "guided:::",
        own,
        shared.replace(":cut:", ":error:"),
        shared[:-4] + "AAA=",
        "guided:é:1:cut:",
        "guided:\ud800:1:cut:",
        "guided:0:\ud800:cut:",
    ]
    for text in unsigned:
        with pytest.raises(PlanError, match="not signed"):
            check_sealed(text, engine)


def test_calls_that_begin_with_an_end_are_refused() -> None:
    markers = ("<|im_start|>", "<|im_end|>", SEP, "<|role_sep|>")
    plain = make_tiny_guide(markers, special=markers)
    guide = guided.Guide(plain.model, plain.tokenizer, format=FORMAT)
    check_sealed(seal(guide.plan(response_format=Choice(("yes", "no")))), guide.engine)
    with pytest.raises(RequestError, match="vLLM would end the answer there"):
        check_sealed(seal(guide.plan(tools=TOOLS)), guide.engine)


@pytest.mark.parametrize("grammar", [None, "", "root ::= 'a'", "%llguidance {}", {"a": 1}])
def test_grammars_of_others_are_left_alone(grammar: object) -> None:
    assert not is_sealed(grammar)


def test_a_report_comes_out_as_it_went_in() -> None:
    marks = Marks(4, 6, ((5, "blue"), (6, "ä")))
    error = LimitExceeded("too much", place="token 3", expected="less", hint="try again")
    report = RowReport(Guidance(applied=True, masks=7), error, marks=marks, notes=("it was cut",))
    found = read_report(report_text(report))
    assert replace(found, error=None) == replace(report, error=None)
    assert (type(found.error), str(found.error)) == (LimitExceeded, str(error))
    assert read_report(report_text(RowReport())) == RowReport()


@pytest.mark.parametrize("reason", [None, 7, "\n\n", "stop"])
def test_other_stop_reasons_are_no_reports(reason: object) -> None:
    assert read_report(reason) is None
