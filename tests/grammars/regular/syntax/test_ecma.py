"""Patterns of ECMA-262 as regular languages, judged by a backtracking engine on every short string."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product

import jsonschema_rs
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from grammars.regular.syntax.ecma import NotRegular, language
from grammars.regular.terms import matches
from tests.cases import many

# Without the empty string, where Python finds no ``\B`` and ECMA-262 does.
WORDS = ["".join(letters) for size in range(1, 5) for letters in product("ab ", repeat=size)]


def found_in(pattern: str) -> list[str]:
    return [word for word in WORDS if re.search(pattern, word)]


def patterns(atoms: Sequence[str], groups: Sequence[str]) -> st.SearchStrategy[str]:
    """Small patterns: the atoms in a row, as alternatives and in groups."""

    def wider(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return (
            st.lists(inner, min_size=1, max_size=3).map("".join)
            | st.lists(inner, min_size=2, max_size=3).map("|".join)
            | st.tuples(st.sampled_from(groups), inner).map(lambda pair: pair[0].format(pair[1]))
        )

    return st.recursive(st.sampled_from(atoms), wider, max_leaves=6)


#: Anchors, word borders and look-around anywhere.
ATOMS = ["a", "b", ".", "[ab]", "\\w", "\\s", "^", "$", "\\b", "\\B", "ab", "b*", "a?", " "]
GROUPS = ["(?:{})", "(?={})", "(?!{})", "({})?", "(?:{}){{1,2}}", "(?<!{})", "(?<={})"]


#: Patterns with anchors and look-around that are regular languages.
REGULAR = (
    "^(?!^a|b)",  # the anchor in the look-ahead stands where one stood before
    "^(?!^a\\.|b\\.).*",
    "^(^a|b)",
    "^a?(^b|a)",
    "(^a|b)+$",
    "^(?=^a)(?!^ab)",
    "^(?!(?:^a)?b)",
    "\\b(?:a|b)\\b",
    "(?<!a)b",
    "^(?:(?!ab).)*$",
    "(^)?a",
    "(\\b)?a\\b",
)


@given(pattern=patterns(ATOMS, GROUPS))
def test_a_pattern_is_found_where_a_backtracking_engine_finds_it(pattern: str) -> None:
    try:
        expected = found_in(pattern)
    except re.error:  # a look-behind of several widths
        assume(False)
    try:
        term = language(pattern)
    except NotRegular:
        assume(False)
    assert [word for word in WORDS if matches(term, word)] == expected


@pytest.mark.parametrize("pattern", REGULAR)
def test_anchors_and_look_around_mean_what_they_say(pattern: str) -> None:
    term = language(pattern)
    assert [word for word in WORDS if matches(term, word)] == found_in(pattern)


#: Characters that dialects read differently; without ``\\r`` and the line separators, on which readers of ``.`` differ.
TEXTS = ["".join(letters) for size in range(3) for letters in product("aK_5-~&[]<\\é٣\u212aſ\x85\ufeff\n", repeat=size)]
ATOMS = (
    *("a", ".", r"\d", r"\D", r"\w", r"\W", r"\s", r"\S", "^", "$", "b*", "a?", " ", "[^k]", "[a-]", r"[\w-]"),
    *(r"\-", "[!--]", "[~~a]", "[a&&b]", r"[^[\]]", "[^]", "[]", r"\x41", r"\u0061", r"\p{L}", r"\P{Nd}", r"[\p{Lu}_]"),
)


@many
@given(parts=st.lists(st.lists(st.sampled_from(ATOMS), min_size=1, max_size=4).map("".join), min_size=1, max_size=3))
def test_a_pattern_is_found_where_jsonschema_rs_finds_it(parts: list[str]) -> None:
    pattern = "|".join(parts)
    try:
        term = language(pattern)
        judge = jsonschema_rs.validator_for({"pattern": pattern})
    except (NotRegular, jsonschema_rs.ValidationError):
        assume(False)
    assert [text for text in TEXTS if matches(term, text)] == [text for text in TEXTS if judge.is_valid(text)]


@pytest.mark.parametrize("pattern", ["(?:\\ba|b)" * 40, "(?:^a|b)" * 40, "(?:(?:\\b|a){1,12}b){1,12}", "(?!^a)?" * 30])
def test_choices_around_borders_are_not_followed_for_ever(pattern: str) -> None:
    try:
        language(pattern)
    except NotRegular as error:
        assert str(error)
