"""Regular expressions of clients: Python's ``re`` with ``re.ASCII`` judges what the masks accept."""

from __future__ import annotations

import itertools
import re

import pytest

import guided
from guided.engine.engine import Engine
from special_tokens.errors import GrammarError
from tests.judges.plans import accepts, plan_of, texts_written

ALPHABET = "aB1_ \té٣-\u2003"
PATTERNS = [
    *(r"\d+", r"\w{1,2}", r"\s\S", r"\D", r"\W\w", r"[\d-]+", r"[^\d]", r"[^\W\d]{2}", r"[\s\d]a?", r"[]\d]+"),
    *(r"\\d", r"\141\x61"),
    *(r"(?P<x>\d)a", r"(?i)b\d", r"(?=.*\d)(?=.*[a-z]).{2,3}", r"(?!1)\w{1,2}", r"(?!.*--)[a-]{1,3}", r"\w{1,2}(?<!a)"),
    *(r"a\b.*", r"(?:a(?!1)|B).?", r"(?<=a)1|a", r"[(?!]?a", r"\(?!?a"),
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_masks_accept_what_re_matches_with_ascii_classes(engine: Engine, pattern: str) -> None:
    plan = plan_of(engine, response_format=guided.Regex(pattern))
    matches = re.compile(pattern, re.ASCII).fullmatch
    for letters, longest in ((ALPHABET, 2), (ALPHABET[:5], 3)):
        texts = {"".join(t) for size in range(longest + 1) for t in itertools.product(letters, repeat=size)}
        assert texts_written(plan, engine, letters, longest, "after") == set(filter(matches, texts))


def test_unicode_classes_when_asked_for(engine: Engine) -> None:
    plan = plan_of(engine, response_format=guided.Regex(r"\d\w", unicode=True))
    assert accepts(plan, engine, "٣é", "after")
    plan = plan_of(engine, response_format=re.compile(r"\d\w"))
    assert not accepts(plan, engine, "٣é", "after")
    assert plan.response.pattern == "[0-9][0-9A-Za-z_]"


@pytest.mark.parametrize("pattern", ["(?i)ok|yes", "o(?i:k)|(?i:YES)", "(?i)[j-l]{2}|[^a]es", r"(?i)(?=o|y)[a-z]+"])
def test_ascii_letters_match_ascii_letters_alone_where_case_is_ignored(engine: Engine, pattern: str) -> None:
    plan = plan_of(engine, response_format=guided.Regex(pattern))
    for text in ("oK", "ok", "yes", "yeS", "kK", "o\u212a", "ye\u017f", "k\u212a"):  # the Kelvin sign, the long s
        wanted = re.fullmatch(pattern, text, re.ASCII) is not None
        assert accepts(plan, engine, text, "after") == wanted, text


def test_letters_beyond_ascii_and_a_spelled_kelvin_sign_ignore_case_too(engine: Engine) -> None:
    for pattern, text in (("(?i)é", "É"), ("(?i)\u212a", "\u212a"), (r"(?i)[\u017f]", "\u017f")):
        assert accepts(plan_of(engine, response_format=guided.Regex(pattern)), engine, text, "after"), pattern
    assert accepts(plan_of(engine, response_format=guided.Regex("(?i)k", unicode=True)), engine, "\u212a", "after")


def test_unicode_patterns_look_around_too(engine: Engine) -> None:
    plan = plan_of(engine, response_format=guided.Regex(r"(?!\d)\w\b.", unicode=True))
    for text in ("é-", "٣-", "éa", "a-", "a\u0301"):
        assert accepts(plan, engine, text, "after") == bool(re.fullmatch(r"(?!\d)\w\b.", text)), text


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        (r"(?=a)b", "no text matches this pattern"),
        ("a^b", "no text matches this pattern .anchors and look-around see only"),
        (
            "[[:alpha:]]",
            r"line 1, column 2: the POSIX class \[:alpha:\] .*; expected a regular expression of Python's re",
        ),
        ("a[^_[:^digit:]]", r"line 1, column 5: the POSIX class \[:\^digit:\]"),
        (r"(?=a", "regex line 1, column 1: .*expected a regular expression"),
        (r"(a)(?=\1)", "line 1, column 7: a back-reference is not supported"),
        (r"\pL", r"line 1, column 1: bad escape \\p; expected a regular expression of Python's re"),
        (r"[^\w\W]", "no text matches this pattern"),
    ],
)
def test_errors_name_the_pattern(engine: Engine, pattern: str, said: str) -> None:
    with pytest.raises(GrammarError, match=said):
        plan_of(engine, response_format=guided.Regex(pattern))
