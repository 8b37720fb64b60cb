"""Lexemes of large classes, imported terminals and flags are analysed like any other."""

from __future__ import annotations

import pytest

from grammars.text_grammars.lark.convert import client_grammar
from special_tokens.errors import GrammarError
from tests.grammars.text_grammars.test_client_grammars import accepts, ours


@pytest.mark.parametrize(
    ("grammar", "said"),
    [
        ('start: /\\w+/ "end"', "no text ends this grammar"),
        ('start: NAME ":" NL "\\n" NAME\nNAME: /\\w+/\nNL: /\\n+/', "can never end"),
        ('start: WORD "end"\n%import common.WORD', "no text ends this grammar"),
        ('start: "x" | "y" /(?m:c)+/ "c"', "can never end"),
        ('start: "x" | "y" /[c&&\\p{L}]+/ "c"', "can never end"),
        ('start: "x" /(c|[^\\s\\S]\\p{Han})+/ "c" | "y"', "line 1, column 12: .* can never end"),
        (r"start: /(\p{Han}{900}){900}/", "the shortest text of .* is too long"),
        ('start: "[" item ("," item)* "]"\nitem: /[^,]+/', "no text ends this grammar"),
        ('start: IF "x"\nIF: /if\\b/', r"line 2, column 5: /if\\b/ has word boundaries"),
    ],
)
def test_classes_imports_and_flags_hide_no_dead_end(grammar: str, said: str) -> None:
    with pytest.raises(GrammarError, match=said):
        client_grammar(grammar, place="grammar")


@pytest.mark.parametrize(
    ("grammar", "keywords"),
    [
        ('start: NUMBER ".." NUMBER\n%import common.NUMBER', {"NUMBER"}),
        ('start: NAME ("," NAME)* "."\nNAME: /\\w+/', set()),
        ('start: (NAME "=" NAME NL)+\n%import common (CNAME, NEWLINE, SH_COMMENT, WS_INLINE)\n'
         'NAME: CNAME\nNL: NEWLINE\n'
         "%ignore SH_COMMENT\n%ignore WS_INLINE", set()),
    ],
)  # fmt: skip
def test_classes_and_imports_have_the_rows_of_what_they_are(grammar: str, keywords: set[str]) -> None:
    assert {row.keyword for row in client_grammar(grammar, place="grammar").report.rows} == keywords


def test_a_comment_that_nothing_ends_is_not_begun_next_to_word_characters() -> None:
    whole = ours('start: NAME "=" NAME\nNAME: /\\w+/\n%ignore /#.*/\n%ignore " "')
    assert accepts(whole, "a = b#c")
    assert not accepts(whole, "a#")


LONG = "|".join(f"w{i:05}" for i in range(4_000))


@pytest.mark.parametrize(
    ("grammar", "text"),
    [(r"start: /\p{Greek}{1,4}/", "ΣΩ"), (r'start: "a" /[\p{Han}a-z]+/ "."', "a中b."), (f"start: /{LONG}/", "w00042"),
     (r"start: /(?-u:a)/", "a"), (r"start: /\p{Alphabetic}+/", "aé"),
     (r'start: /(c|[^\p{Han}[a]])+/ "a"', "céa"), (r'start: /(c|\P{Han})+中/', "c中")],
    ids=["script", "script in a class", "long", "flag", "property", "not in a class", "not a script"],
)  # fmt: skip
def test_what_the_engine_alone_knows_is_left_to_it(grammar: str, text: str) -> None:
    assert accepts(ours(grammar), text)
