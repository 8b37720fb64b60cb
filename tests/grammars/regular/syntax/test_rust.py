"""Terminals of Lark as regular languages, judged by the masks of the engine."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import guided
from grammars.regular.languages import UNKNOWN, shortest
from grammars.regular.syntax.parser import InvalidRegex
from grammars.regular.syntax.rust import NotTranslated, language
from grammars.regular.terms import matches
from guided.engine.engine import Engine
from special_tokens.errors import GrammarError
from tests.cases import many
from tests.judges.plans import accepts, plan_of

TEXTS = (*"abKk5_-~&[].\néÉ٣ſ\u212a", "ab", "aK", "5]", "é5", "- ", "aab", "a\nb", "bcbc")
ATOMS = (
    *("a", ".", r"\d", r"\D", r"\w", r"\W", r"\s", r"\S", r"\n", r"\.", "b*", "a?", "a*?", "k", "[^k]", "[a-]"),
    *(r"[\w-]", r"\-", "[-a]", "[!--]", "[a~~ab]", r"[\w&&[^\d]]", r"[^[\]]", "[]a]", r"\x41", r"\u{e9}"),
    *("[[:upper:]]", "[[:alpha:]_]", "[[a]5]", "[^[:alpha:]]", "(?i)", "(?i:k)", "(?i:[^k])", "(?i:é)", "(?s:.)"),
    *("[a--b]", "(a|b)", "(a|bc)", "()", "{2}", "{1,3}", "{2,}", "+", r"(?x: a \ )"),
)


@settings(many, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.function_scoped_fixture])
@given(parts=st.lists(st.lists(st.sampled_from(ATOMS), min_size=1, max_size=3).map("".join), min_size=1, max_size=2))
def test_a_terminal_is_what_the_engine_lets_through(engine: Engine, parts: list[str]) -> None:
    pattern = "|".join(parts)
    try:
        term = language(pattern)
    except (InvalidRegex, NotTranslated):
        assume(False)
    try:
        plan = plan_of(engine, response_format=guided.Lark(f"start: /{pattern}/"))
    except GrammarError:
        assume(False)
    written = [text for text in TEXTS if accepts(plan, engine, text, "after")]
    assert [text for text in TEXTS if matches(term, text)] == written
    short = shortest(term)
    assert short is UNKNOWN or not short or accepts(plan, engine, short, "after")


@pytest.mark.parametrize("pattern", ["a)", "[a", "a{2,1}", "(?=a)b", r"\q", "*a"])
def test_what_the_engine_refuses_is_invalid(pattern: str) -> None:
    with pytest.raises(InvalidRegex):
        language(pattern)


def test_letters_whose_other_cases_follow_them_have_all_of_them() -> None:
    """A class of one range was taken for one letter."""
    assert all(matches(language("(?i)\u01c4"), letter) for letter in "\u01c4\u01c5\u01c6")
