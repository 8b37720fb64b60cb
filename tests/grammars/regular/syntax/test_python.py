"""Patterns of Python as regular languages, judged by ``re`` itself."""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammars.regular.syntax.parser import InvalidRegex
from grammars.regular.syntax.python import language
from grammars.regular.terms import matches
from tests.cases import many
from tests.grammars.regular.syntax.test_ecma import GROUPS, patterns

#: Without the empty string, where Python finds no ``\B`` before 3.14.
TEXTS = [
    *("".join(letters) for size in range(1, 5) for letters in product("ab\n", repeat=size)),
    *("".join(letters) for size in range(1, 3) for letters in product("aK_5 -~&[]é٣\u212aſ\n", repeat=size)),
]
FLAGS = [0, re.ASCII, re.IGNORECASE, re.IGNORECASE | re.ASCII, re.DOTALL, re.MULTILINE, re.VERBOSE]


#: Classes with brackets and operators of other dialects, anchors and look-around anywhere.
ATOMS = [
    *("a", "b", ".", r"\w", r"\s", r"\D", "^", "$", r"\b", r"\B", r"\Z", "b*", "a?", "k", "[^k]", r"\n", "[!--]"),
    *("[~~a]", "[^[]", r"[^[\]]", "[]a]", "[a&&b]", "[[:a]", r"[\w-]", r"[^\W_]", "{", "a{,2}", "#", " ", "\n"),
]
GROUPS_OF_PYTHON = [*GROUPS, "(?i:{})", "(?P<g>{})+?"]


@many
@given(pattern=patterns(ATOMS, GROUPS_OF_PYTHON), flags=st.sampled_from(FLAGS), search=st.booleans())
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_pattern_matches_what_re_matches(pattern: str, flags: int, search: bool) -> None:
    try:
        found = re.compile(pattern, flags)
    except re.error:
        with pytest.raises(InvalidRegex):
            language(pattern, flags)
        return
    try:
        term = language(pattern, flags, search=search)
    except InvalidRegex as error:
        assert str(error).endswith("is not supported")
        return
    judge = found.search if search else found.fullmatch
    assert [text for text in TEXTS if matches(term, text)] == [text for text in TEXTS if judge(text)]


@pytest.mark.parametrize(
    ("pattern", "said", "at"),
    [
        ("0++0", "a possessive repeat is not supported", 1),
        (r"(\w+)\s\1", "a back-reference is not supported", 7),
        ("(?P<a>x)[(?P=a)](?P=a)", "a back-reference is not supported", 16),
        ("a(?>b)", "an atomic group is not supported", 1),
        ("(a)(?(1)b|c)", "a conditional group is not supported", 3),
        (r"(a(?=b))*(?<=b)", "a repeat", 2),
        (r"a\pL", r"bad escape \p", 1),
        ("a[b", "unterminated character set", 1),
        ("(?:a{99999999999999999999})", "a repeat of more than 4294967295 times", 4),
    ],
)
def test_what_is_not_read_is_refused_by_its_name_and_place(pattern: str, said: str, at: int) -> None:
    with pytest.raises(InvalidRegex, match=re.escape(said)) as caught:
        language(pattern)
    assert caught.value.at == at
