"""Text that excludes words, judged by Python's `in` and `re`, and by the engine."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from grammars.regular.exclusion import exclusion_patterns
from grammars.tree.render import quote_regex
from tests.cases import costly
from tests.judges.byte_masks import accepts

TAGS = ["<ANALYZE>", "</ANALYZE>", "<CRITIQUE>", "</CRITIQUE>", "</think>"]
WORDS = st.lists(
    st.sampled_from([*TAGS, "<a>", "</a>", "<ab>", "<b", "<｜x｜>", "<｜y｜>", "[A]", "[/A]", "[é]"]), min_size=1
)
PIECES = ["<", "</", "<A", "NALYZE>", "</CRITIQUE", ">", "a", "b", "/", "｜", "x｜>", "[", "A]", "é", "\n", "中", *TAGS]


@given(WORDS, st.lists(st.sampled_from(PIECES), max_size=6).map("".join))
@example(["<ANALYZE>", "</ANALYZE>"], "<</ANALYZE<中</A")
@example(["<｜x｜>"], "<｜é")
def test_the_patterns_hold_exactly_the_text_without_the_words(words: list[str], text: str):
    patterns = exclusion_patterns(words)
    assert all(re.fullmatch(pattern, text) for pattern in patterns) == (not any(word in text for word in words))


@pytest.mark.parametrize("words", [["x"], ["<a<"], []])
def test_words_that_are_like_no_marker_have_none(words: list[str]):
    assert exclusion_patterns(words) is None


@costly
@given(st.lists(st.sampled_from(PIECES), max_size=5).map("".join))
def test_the_engine_reads_them_alike(text: str):
    (pattern,) = exclusion_patterns(TAGS) or ()
    assert accepts(f"start: {quote_regex(pattern)}", text) == (not any(tag in text for tag in TAGS))
