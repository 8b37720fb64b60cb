"""A compacted term has the words that the term has, character by character."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from grammars.regular.compact import CompactAlphabet
from grammars.regular.syntax.rust import language
from grammars.regular.terms import MAX_CODE_POINT, chars, matches, text

PATTERNS = (
    *(r"\w+", r"\p{L}*", "[а-я]+x", r"[^é\d]+", r"\S\s", "éß", r"[\x{ffff}-\x{10ffff}]", "a.b", r"(é|\w)+!", "[^a]"),
)
CHARACTERS = st.one_of(st.sampled_from("aé ßя!5—\U0010ffff\ue000\ud7ff"), st.characters(exclude_categories=("Cs",)))


@given(st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=4), st.text(CHARACTERS, max_size=4))
def test_a_smaller_alphabet_tells_the_same_apart(patterns: list[str], word: str) -> None:
    terms = [language(pattern) for pattern in patterns]
    alphabet = CompactAlphabet([*terms, *(text(char) for char in word)])
    small = "".join(_compact(alphabet, char) for char in word)
    for term in terms:
        assert matches(alphabet.compact(term), small) == matches(term, word)


def _compact(alphabet: CompactAlphabet, char: str) -> str:
    compact = alphabet.compact(text(char))
    (word,) = compact.args
    return str(word)


def test_word_characters_are_few_and_everything_stays_everything() -> None:
    word, everything = language(r"\w"), chars([(0, MAX_CODE_POINT)])
    alphabet = CompactAlphabet([word])
    assert len(word.args) > 700
    assert alphabet.compact(word).size < 40
    assert alphabet.examples(ord("a")) == ["a"]
    assert CompactAlphabet([language("[a-z]")]).compact(everything) == everything


def test_characters_that_are_told_apart_begin_alike_where_their_bytes_do() -> None:
    alphabet = CompactAlphabet(map(text, "“”é"))
    assert [_compact(alphabet, char)[0] == _compact(alphabet, "”")[0] for char in "“”é"] == [True, True, False]
