"""Membership in a regular language agrees with `re`, and is decided fast where `re` backtracks for ever."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammars.limits.deadline import deadline
from grammars.regular import terms
from grammars.regular.syntax.ecma import language
from grammars.regular.terms import Regular, alt, cat, chars, inter, matches, neg, rep, words
from special_tokens.errors import SchemaError

LEAVES = st.one_of(
    st.sampled_from("abc").map(lambda c: chars([(ord(c), ord(c))])),
    st.sampled_from([chars([(97, 98)]), chars([(98, 99)]), terms.ANY]),
    st.lists(st.text("abc", max_size=3), min_size=1, max_size=3).map(words),
)
BOUNDS = st.sampled_from([(0, 1), (0, None), (1, None), (2, 3), (0, 4), (2, 2)])


def larger(inner: st.SearchStrategy[Regular]) -> st.SearchStrategy[Regular]:
    return st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: cat(*parts)),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: alt(*parts)),
        st.tuples(inner, BOUNDS).map(lambda made: rep(made[0], *made[1])),
    )


TERMS = st.recursive(LEAVES, larger, max_leaves=6)
WORDS = st.text("abc", max_size=7)


def by_automaton(term: Regular, word: str) -> bool:
    states = {term}
    for char in word:
        states = {after for state in states for after in terms.partial_derivatives(state, ord(char))}
    return any(state.nullable for state in states)


def by_engine(term: Regular, word: str) -> bool:
    return re.fullmatch(python_pattern(term), word, re.DOTALL) is not None


def python_pattern(term: Regular) -> str:
    """A plain term as a pattern of Python's ``re``."""
    match term.op:
        case "chars":
            return "[" + "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in term.args) + "]"
        case "words":
            return "(?:" + "|".join(map(re.escape, sorted(term.args))) + ")"
        case "cat":
            return "".join(map(python_pattern, term.args))
        case "alt":
            return "(?:" + "|".join(map(python_pattern, term.args)) + ")" if term.args else "(?!)"
    body, least, most = term.args
    return f"(?:{python_pattern(body)}){{{least},{'' if most is None else most}}}"


@given(TERMS, WORDS)
def test_a_word_is_in_a_language_where_an_engine_says_so(term: Regular, word: str) -> None:
    assert by_automaton(term, word) == matches(term, word) == by_engine(term, word)


@given(TERMS, TERMS, TERMS, WORDS)
def test_what_no_engine_can_say_is_put_together_from_what_it_says(
    one: Regular, two: Regular, rest: Regular, word: str
) -> None:
    """A language between others: some cut of the word is in both."""
    cuts = [(word[:i], word[i:]) for i in range(len(word) + 1)]
    both = cat(inter(one, neg(two)), rest)
    wanted = any(by_engine(one, a) and not by_engine(two, a) and by_engine(rest, b) for a, b in cuts)
    assert by_automaton(both, word) == matches(both, word) == wanted


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("^" + "a*" * 13 + "b$", "a" * 40, False),
        ("^" + "a*" * 13 + "b$", "a" * 40 + "b", True),
        ("^" + ".*a" * 8 + "b$", "a" * 60, False),
        (r"^.*\w+.*\w+.*\w+.*\w+.*!$", "the quick brown fox jumps over the lazy dog " * 3, False),
        ("^(a?){30}a{30}$", "a" * 29, False),
        ("^(aa|aa|a){40}$", "a" * 81, False),
        ("^(a|aa)+$", "a" * 60 + "b", False),
        (r"\ba.*" * 4 + "$", "ab " * 3 + "b" * 2_000, False),
    ],
)
def test_repeats_in_a_row_and_choices_in_a_row_are_read_at_once(pattern: str, text: str, found: bool) -> None:
    begun = time.thread_time()
    assert matches(language(pattern), text) is found
    assert time.thread_time() - begun < 8.0


def test_a_long_search_ends_at_the_deadline() -> None:
    with deadline(-1.0), pytest.raises(SchemaError, match="deadline"):
        matches(language("^(?:[ab]{1,900}|[ac]{1,900})*b{2,900}$"), "ab" * 4_000)
