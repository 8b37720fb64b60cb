"""The A* search agrees with breadth-first search, and finds words where that gives up."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from grammars.regular.astar import astar_word, without_counts
from grammars.regular.languages import ALL, ANY, UNKNOWN, Regular, cat, inter, matches, neg, rep, shortest, work_budget
from grammars.regular.syntax.rust import language

_ATOMS = ["a", "b", ".", "[ab]", "[^a]", "(?:ab|c)", "(?:a|bc)", "é"]
_BUDGET = 20_000
Search = Callable[[Regular], object]


def _language(chance: random.Random) -> Regular:
    """Some intersected patterns, anchored or not, negated or not, often with a length bound."""
    parts = []
    for _ in range(chance.randint(1, 3)):
        repeats = ["", "", "?", "*", "+", "{2}", "{1,3}", "{4}"]
        body = language("".join(chance.choice(_ATOMS) + chance.choice(repeats) for _ in range(chance.randint(1, 3))))
        body = cat(ALL, body, ALL) if chance.random() < 0.6 else body
        parts.append(neg(body) if chance.random() < 0.3 else body)
    if chance.random() < 0.4:
        least = chance.randint(0, 5)
        parts.append(rep(ANY, least, chance.choice([None, least, least + 3])))
    return inter(*parts)


@pytest.mark.parametrize("seed", range(4))
def test_it_finds_what_the_search_by_size_finds(seed: int) -> None:
    chance, num_judged = random.Random(seed), 0
    for _ in range(60):
        term = _language(chance)
        judge = shortest(term, 500)
        if judge is UNKNOWN:
            continue
        num_judged += 1
        found, hasty = astar_word(term, _BUDGET), astar_word(term, _BUDGET, any_word=True)
        if judge is None:
            assert found is None
            assert hasty is None
            continue
        assert isinstance(found, str)
        assert isinstance(hasty, str)
        assert matches(term, found)
        assert len(found) == len(judge)
        assert matches(term, hasty)
        for wider in without_counts(term):
            assert matches(wider, judge)
    assert num_judged >= 30


def test_words_beyond_the_last_letter_are_not_looked_at_and_not_denied() -> None:
    for term in (language("[é-ü]{3}"), inter(language("[é-ü]{3}"), neg(language("é*")))):
        assert astar_word(term, _BUDGET, max_code_point=0x7E) is UNKNOWN
        assert astar_word(term, _BUDGET, max_code_point=0x7E, any_word=True) is UNKNOWN
        found = astar_word(term, _BUDGET)
        assert isinstance(found, str)
        assert matches(term, found)
    empty = inter(language("a+"), language("b+"))
    assert astar_word(empty, _BUDGET, max_code_point=0x7E) is None


def test_a_word_is_found_where_a_search_by_size_gives_up() -> None:
    ends = inter(language(".*a.{40}b"), neg(language(".*c.{40}.")))
    assert shortest(ends, 300) is UNKNOWN
    for hasty in (False, True):
        found = astar_word(ends, _BUDGET, any_word=hasty)
        assert isinstance(found, str)
        assert matches(ends, found)


def test_few_states_are_no_answer() -> None:
    assert astar_word(inter(language("[ab]{9}"), neg(language("a*"))), 3) is UNKNOWN


@pytest.mark.parametrize("search", [shortest, lambda term: astar_word(term, _BUDGET)], ids=["by size", "A*"])
def test_a_remembered_search_counts_as_its_work_where_results_are_repeatable(search: Search) -> None:
    parts = [cat(ALL, language(f"{letter}.{{3}}[0-9]"), ALL) for letter in ("t", "u")]
    term = inter(*parts, rep(ANY, 5, 30))

    def within(work: int, *, is_repeatable: bool) -> object:
        with work_budget(work, is_repeatable=is_repeatable):
            return search(term)

    assert within(200, is_repeatable=True) is UNKNOWN
    word = within(10_000_000, is_repeatable=True)
    assert isinstance(word, str)
    assert matches(term, word)
    assert within(200, is_repeatable=True) is UNKNOWN
    assert within(200, is_repeatable=False) == word
    step = 1_000
    least = next(work for work in range(0, 10_000_000, step) if within(work, is_repeatable=True) == word)
    with work_budget(2 * least - 2 * step, is_repeatable=True):  # two of the same take twice the work
        assert [search(term), search(term)] == [word, UNKNOWN]
