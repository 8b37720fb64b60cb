"""Client grammars against judges of their own: `lark` for Lark, a naive recogniser for GBNF, the engine for regexes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from functools import cache, reduce
from typing import Any

import lark
import llguidance
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from grammars.limits.work import WORK, Work
from grammars.regular.syntax.parser import InvalidRegex
from grammars.regular.syntax.rust import NotTranslated, language
from grammars.text_grammars.gbnf.convert import gbnf_grammar
from grammars.text_grammars.lark.check import check
from grammars.text_grammars.lark.convert import Schemas, client_grammar, parse_source
from grammars.text_grammars.lark.endless_lexemes import can_end
from grammars.text_grammars.lark.write import write
from grammars.text_grammars.llguidance_json import llguidance_part
from grammars.tree.nodes import Sub, Text, alt, seq
from grammars.tree.render import quote_regex, render
from grammars.values.report import Outcome
from grammars.values.spelling import DEFAULT_SPELLING
from special_tokens.errors import GrammarError
from tests.judges.byte_masks import BYTES, accepts, parses, words_accepted


def ours(text: str) -> str:
    return render(Sub("lark", client_grammar(text, place="grammar").lark)).engine_text()


# -- Lark

#: Grammars of both dialects, with an alphabet to try on them.
SHARED = {
    'start: "a" b* "c"\nb: "b" | "x" b "y"': "abcxy",
    'start: (WORD " ")+ "."\nWORD: /[ab]+/': "ab .",
    'start: item ("," item)*\nitem: NUM | "(" start ")"\nNUM: /[0-9]/': "1,()",
    'start: ["a"] ("b" | "c")~1..2': "abc",
    'start: "A"i "b"': "aAbB",
    'start: a b\na: "x" |\nb: "y"? "z"': "xyz",
    'start: X\nX: "a".."c" Y*\nY: "1" | "2"': "ac12d",
    'start: e\ne: e "+" t | t\nt: "n" | "(" e ")"': "n+()",
    'start: INT "!"\n%import common.INT': "12!-",
    'start: "k" v\nv: "=" /[xy]/ -> pair\n  | ":" "z"': "k=x:zy",
    "start: X\n%import common.INT -> X": "12a",
    "start: INT WORD\n%import common (INT, WORD)": "12a",
    'start: "a" ("," | ) "b"+ ("," "b")*\n%ignore " "': "ab ,",
}


@cache
def judge(grammar: str) -> Any:
    return lark.Lark(grammar, parser="earley", lexer="dynamic_complete")


@pytest.mark.parametrize("longest", [4, pytest.param(5, marks=pytest.mark.slow)])
@pytest.mark.parametrize("grammar", SHARED)
def test_what_lark_parses_is_what_we_accept(grammar: str, longest: int):
    every = ("".join(w) for size in range(longest + 1) for w in itertools.product(SHARED[grammar], repeat=size))
    expected = {word for word in every if parses(judge(grammar), word)}
    assert words_accepted(ours(grammar), SHARED[grammar], longest) == expected


def test_ignored_text_of_a_client_does_not_leak_into_its_neighbours():
    lark_text = client_grammar('start: "a" "b"\n%ignore " "', place="g").lark
    whole = render(alt(seq("a", "c"), seq(Sub("client", lark_text), Text("!")))).engine_text()
    for text, expected in {"ac": True, "ab!": True, "a b!": True, "a c": False, "ab !": True, "a b": False}.items():
        assert accepts(whole, text) == expected, text


def test_schemas_inside_lark_are_our_own():
    grammar = 'start: "<" %json {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]} ">"'
    assert accepts(ours(grammar), '<{"a": 5}>')
    assert not accepts(ours(grammar), '<{"a":5}>')  # our spelling, as everywhere else


def test_suffixes_and_attributes_are_passed_on():
    assert accepts(ours('start: x "!"\nx[suffix="</t>"]: /(?s:.*)/'), "a <b> \n</t>!")
    assert accepts(ours('start: x "!"\nx[lazy]: /.*?;/'), "ab;!")
    assert accepts(ours('start[capture]: "a"\n'), "a")


def said(source: Any) -> str:
    """The definitions without their places; nothing at all is written as an empty literal."""
    text = re.sub(r", at=\(\d+, \d+\)", "", repr(source.definitions))
    return text.replace("Literal(text='', ignore_case=False)", "SeqExpr(parts=())")


@pytest.mark.parametrize("grammar", [grammar for grammar in SHARED if "%ignore" not in grammar])
def test_what_we_write_reads_as_what_we_read(grammar: str):
    source = parse_source(grammar)
    again = parse_source(write(source))
    assert said(again) == said(source)


TOKENS = [
    *("start", ":", '"a"', "/b/", "|", "(", ")", "[", "]", "*", "~2", "{1,2}", "X", "x", "->", "<t>", "@g", "$R"),
    *("::0", "&", "~", ",", "=", "..", "i", "'", "%ignore ", "%if eq(_,1)", "%json {}", '%json {"a":', "\n", "#c\n"),
]


@given(st.lists(st.sampled_from(TOKENS), max_size=14))
@example(["start", ":", '"a"', "{1,2}"])
def test_any_jumble_of_lark_is_read_or_refused_with_a_place(pieces: list[str]):
    text = "".join(pieces)
    try:
        source = parse_source(text)
        check(source)
    except GrammarError as error:
        assert error.message
        return
    written = write(Schemas(DEFAULT_SPELLING, "warn").compiled(source))
    assert llguidance.LLMatcher(BYTES, written, log_level=0).get_error() is not None


@given(st.text(max_size=40))
def test_any_text_at_all_is_read_or_refused(text: str):
    for read in (lambda: client_grammar(text, place="g"), lambda: gbnf_grammar(text, place="g")):
        try:
            read()
        except GrammarError as error:
            assert str(error).startswith("g")


@pytest.mark.parametrize(
    ("grammar", "message"),
    [
        ("start: 'a'", 'line 1, column 8: unexpected "\'".*double quotes'),
        ('start: "a"\n  "b"', r"line 2, column 3: unexpected '\"b\"'; expected a rule's name.*continues with '\|'"),
        ('start "a"', "line 1, column 7: .*expected ':'"),
        ('start: ("a"', r"line 1, column 12: the grammar ends too early; expected '\)'"),
        ('start: "a" )', r"line 1, column 12: unexpected '\)'"),
        ("start: /a", "line 1, column 8: .*the regular expression does not end"),
        ("start: /(/", "line 1, column 9: not a regular expression: a group does not end"),
        ('start: "a"{3,1}', "a repeat from 3 to 1 times"),
        ('start: "ab".."c"', "a range goes from one character"),
        ('start: "\\ud800"', "a lone surrogate"),
        ('start: %json {"a"', "what follows %json is not JSON"),
        ("start: %json 5", "%json takes a schema, not 5"),
        ("start: %regex 5", "%regex takes an object"),
        ('start: b\nstrt: "x"', "line 1, column 8: 'b' is not defined"),
        ('start: strat\nstrata: "x"', "'strat' is not defined.*is it 'strata'"),
        ('start: "a"\nstart: "b"', "line 2, column 1: 'start' is defined twice.*first in line 1"),
        ('begin: "x"', "there is no rule called start"),
        ('start: A & B\nA: "a"\nB: "b"', "line 1, column 10: & joins terminals only"),
        ('start: A\nA: b\nb: "c"', "line 2, column 4: the terminal A contains the rule 'b'"),
        ("start: A\nA: %json {}", "the terminal A contains %json"),
        ("start: x\nx[suffix]: /a/", "suffix= needs a literal"),
        ("start: x\nx[lazy=1]: /a/", "line 2, column 3: lazy takes no value"),
        (
            "start: x\nx[greedy]: /a/",
            "line 2, column 3: there is no attribute 'greedy'; expected lazy, suffix, capture",
        ),
        ('start: x\nx[lazy]: y "a"\ny: "b"', "x, which has lazy or suffix, contains the rule 'y'"),
        ("start: X\n%import common.NOSUCH", "line 2, column 1: there is no common.NOSUCH; expected CNAME"),
        ("start: X\n%import python.X", "there is no python.X; expected common.NAME"),
        ('start: a::1\na: "x"', "line 1, column 9: unexpected '::'.*rules with a parameter are for trusted callers"),
        ('start: "x" %if eq(_,1)', "line 1, column 12: unexpected '%if'.*for trusted callers"),
        ('A.2: "x"\nstart: A', "line 1, column 2: priorities have no meaning here"),
        ('start: "x"\n%declare A', "%declare has no meaning"),
        ('start: "x"\n%override start: "y"', "%override has no meaning"),
        ('start: "x"\n%extend start: "y"', "line 2, column 1: %extend has no meaning"),
        ('start: t{"a"}\n', "line 1, column 8: the template t is not supported"),
        ('_sep{x, y}: x (y x)*\nstart: _sep{A, ","}\nA: "a"', "line 1, column 1: the template _sep is not supported"),
        ('%import common.INT\nstart: INT\nINT: "5"', "line 3, column 1: 'INT' is defined twice.*line 1.*-> NAME"),
        ('INT: "5"\nstart: INT\n%import common (WS, INT)', "line 3, column 1: 'INT' is defined twice.*-> NAME"),
        ("", "the grammar is empty"),
        ("%ignore / /", "the grammar is empty"),
        ("start: start", "the rule 'start' can never end"),
        ('start: A\nA: "x" A', "line 2, column 8: the terminal A is made of itself"),
        ("\x00\x01", "line 1, column 1: unexpected"),
        # K10: a client's grammar does not reach beyond its text
        ("start: <|im_start|>", r"<\|im_start\|> writes a token, not text"),
        ("start: <[1]>", r"<\[1\]> writes a token"),
        ("start: <[^1-5]>", r"<\[\^1-5\]> writes a token"),
        ("start: <[*]>", r"<\[\*\]> writes a token"),
        ('start: "a" @reasoning', "@reasoning references another grammar"),
        ('%llguidance {"no_forcing": true}\nstart: "a"', "%llguidance changes the whole plan"),
        ("start: x\nx[max_tokens=5]: /a+/", "max_tokens= is not a client's to set"),
        ('start: x\nx[stop="b"]: /a+/', "stop= is not a client's to set"),
        ("start: x\nx[temperature=2.0]: /a+/", "temperature= is not a client's to set"),
        ('start: x\nx[stop_capture="b", suffix="c"]: /a+/', "stop_capture= is not a client's to set"),
        ('start: %lark {\nstart: "a"\n}\n', r"a nested grammar \(%lark\) is not supported"),
        # what is too large
        pytest.param("start: r0\n" + 'r0: "a"\n' * 10_000, "10001 rules; expected at most 2000", id="10,000 rules"),
        pytest.param("start: " + "(" * 5_000 + '"a"' + ")?" * 5_000, "nested more than 25 deep", id="parentheses"),
        pytest.param('start: "' + "a" * 1_000_000 + '"', "1000009 bytes", id="a megabyte"),
        pytest.param("start: " + " | ".join(f'"{i:x}"' for i in range(25_000)), "too large", id="literals"),
        # classes, imports and flags hide no dead end
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
def test_what_is_wrong_with_lark_is_named_with_its_place(grammar: str, message: str):
    with pytest.raises(GrammarError, match=f"(?s)^structured_outputs.grammar.*{message}"):
        client_grammar(grammar, place="structured_outputs.grammar")


@pytest.mark.parametrize(
    ("grammar", "trapped"),
    [
        ('start: /[a-z]+/ "end"', True),
        ('start: /(?s:.*)/ "\\n"', True),
        ('start: T "x"\nT: /(.|\\n)*/', True),
        ('start: /[^\\n]+/ "\\n"', False),
        ('start: /[a-z]+/ "END"', False),
        ('start: /[a-z]{1,5}/ "end"', False),
        ('start: x "b"\nx[suffix="a"]: /(?s:.*)/', False),
        ("start: /[a-z]+/", False),
        ('start: /a+/ ("a" | "b")', False),
        ('start: /[a-z]+/ /[a-z]+/\n%ignore " "', False),
        ("start: (/[a-z]+/ /[0-9]*/)+", False),
        ('start: /[a-z]+/ r\nr: s?\ns: "q"', False),
        ('start: /[a-z]+/ r\nr: s\ns: "q" | "r"', True),
        ('start: /e[^”]+/ "”"', True),
        ('start: (/e[^。]+/ "。")+', True),
        ('start: W "é"\nW: /[a-zà]+/', True),
        ('start: /[a-zа-я]+/ "—"', False),
        ('start: x "!"\nx[suffix="”"]: /[^”]*/', False),
    ],
)
def test_lexemes_that_can_never_be_left_are_refused(grammar: str, trapped: bool):
    """The judge of a trap: what begins with "e" is allowed, and no such word of up to five letters is accepted."""
    if trapped:
        with pytest.raises(GrammarError, match="can never end: all that may follow it continues it"):
            ours(grammar)
        words = ("e" + "".join(w) for n in range(5) for w in itertools.product("endxqr\né”。", repeat=n))
        assert not any(accepts(grammar, word) for word in itertools.islice(words, 1200))
    else:
        ours(grammar)


def test_can_be_left_is_sure_when_it_says_no():
    letters, end = language("[a-z]+"), language("end")
    assert not can_end(letters, end, Work(WORK.lexemes))
    assert can_end(letters, language("end|[0-9]"), Work(WORK.lexemes))
    assert can_end(language("(?s:.{1,2000})"), end, Work(WORK.lexemes))  # with too many states it claims nothing


# -- lexemes of large classes, imported terminals and flags are analysed like any other


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


# -- GBNF


#: Words of the comparisons below are no longer than this.
LONGEST = 4


def words_of(rules: dict[str, Any]) -> set[str]:
    """All short words of ``root``, as sets of strings: the least sets that satisfy the rules, by iteration."""
    known: dict[str, frozenset[str]] = dict.fromkeys(rules, frozenset())

    def joined(left: Iterable[str], right: Iterable[str]) -> frozenset[str]:
        return frozenset(a + b for a in left for b in right if len(a) + len(b) <= LONGEST)

    def of(node: Any) -> frozenset[str]:
        kind, *args = node
        match kind:
            case "text":
                return frozenset(args)
            case "class":
                return frozenset(args[0])
            case "many":
                return frozenset(
                    "".join(chars) for n in range(1, LONGEST + 1) for chars in itertools.product(args[0], repeat=n)
                )
            case "rule":
                return known[args[0]]
            case "seq":
                return reduce(joined, map(of, args[0]), frozenset({""}))
            case "alt":
                return frozenset().union(*map(of, args[0]))
        body, least, most = args
        powers = list(itertools.accumulate([of(body)] * most, joined, initial=frozenset({""})))
        return frozenset().union(*powers[least:])

    while True:
        again = {name: of(node) for name, node in rules.items()}
        if again == known:
            return set(known["root"])
        known = again


def written(node: Any, syntax: str) -> str:
    """A node in the syntax of "GBNF" or "Lark"."""
    kind, *args = node
    match kind:
        case "text":
            return f'"{args[0]}"'
        case "class":
            return f"[{args[0]}]" if syntax == "GBNF" else f"/[{args[0]}]/"
        case "many":
            return f"/[{args[0]}]+/"
        case "seq" | "alt":
            return f"({(' ' if kind == 'seq' else ' | ').join(written(part, syntax) for part in args[0])})"
        case "rep":
            body, least, most = args
            return f"({written(body, syntax)}){{{least},{most}}}"
    return str(args[0])


def nodes(*leaves: tuple[str, str]) -> st.SearchStrategy[Any]:
    literals = [("text", "a"), ("text", "ab"), ("text", "b"), ("text", "ba"), ("class", "ab"), ("class", "bc")]
    return st.recursive(
        st.sampled_from([*literals, *leaves]),
        lambda inner: st.one_of(
            st.tuples(st.just("seq"), st.lists(inner, min_size=1, max_size=3)),
            st.tuples(st.just("alt"), st.lists(inner, min_size=1, max_size=3)),
            st.tuples(st.just("rep"), inner, st.integers(0, 1), st.integers(1, 3)),
        ),
        max_leaves=6,
    )


X, Y = ("rule", "x"), ("rule", "y")
NODES = nodes(X, Y)


@given(NODES, NODES, NODES)
@example(("rule", "x"), ("alt", [("text", "a"), ("rule", "y")]), ("rep", ("rule", "x"), 0, 2))
@example(
    ("rule", "y"),
    ("seq", [("text", "a"), ("rule", "y"), ("text", "a"), ("rule", "x")]),
    ("seq", [("text", "a"), ("text", "a")]),
)
@example(
    ("rule", "x"),
    ("rep", ("rule", "y"), 0, 1),
    ("seq", [("rule", "x"), ("alt", [("text", "ab"), ("text", "ba"), ("class", "bc")])]),
)  # "a" of "ba" and "ab" stand at one place, after a "b" that two lexemes read
@example(
    ("rule", "x"),
    ("alt", [("seq", [("text", "a"), ("rule", "x")]), ("seq", [("rule", "y"), ("text", "ab")])]),
    ("rep", ("text", "b"), 0, 1),
)  # y is a lexeme that may be empty
def test_gbnf_is_what_a_parser_without_a_lexer_accepts(root: Any, x: Any, y: Any):
    rules = {"root": root, "x": x, "y": y}
    text = "\n".join(f"{name} ::= {written(node, 'GBNF')}" for name, node in rules.items())
    try:
        grammar = render(Sub("gbnf", gbnf_grammar(text, place="g").lark)).engine_text()
    except GrammarError as error:
        assume("can never end" not in str(error))
        raise
    assert words_accepted(grammar, "abc", LONGEST) == words_of(rules), text


#: What a, b and c are written as: letters of which some begin with the same byte in UTF-8, or none.
LETTERS = st.sampled_from(["abc", "a“”", "éàb"])


def spelled(text: str, letters: str) -> str:
    return text.translate(str.maketrans("abc", letters))


MANY = (("many", "ab"), ("many", "bc"))


@settings(max_examples=300)
@given(nodes(X, Y, *MANY), nodes(Y, *MANY), nodes(*MANY), LETTERS)
@example(("seq", [("alt", [("text", "a"), X]), X]), ("alt", [("text", "ab"), ("text", "b")]), ("text", "a"), "abc")
@example(("rep", ("seq", [X]), 0, 2), ("rep", ("text", "ab"), 1, 2), ("text", "a"), "abc")
@example(("seq", [("alt", [("text", "a"), ("many", "ab")]), ("text", "a")]), ("text", "a"), ("text", "a"), "abc")
@example(("seq", [X, ("rep", ("text", "c"), 0, 1)]), ("many", "ab"), ("text", "a"), "a“”")
def test_what_lark_loses_next_to_a_parser_without_a_lexer_has_a_row(start: Any, x: Any, y: Any, letters: str) -> None:
    """Without recursion: the analysis writes the rules out, and repeats of them."""
    start_text, x_text, y_text = (spelled(written(node, "Lark"), letters) for node in (start, x, y))
    text = f"start: {start_text}\nx: {x_text}\ny: {y_text}"
    try:
        grammar = client_grammar(text, place="g")
    except GrammarError as error:
        assume("can never end" not in str(error))
        assert "no text ends this grammar" in str(error)
        assert not words_accepted(text, letters, LONGEST)  # in the engine, as it stands
        return
    accepted = words_accepted(render(Sub("lark", grammar.lark)).engine_text(), letters, LONGEST)
    words = {spelled(word, letters) for word in words_of({"root": start, "x": x, "y": y})}
    assert accepted <= words
    assert accepted == words or grammar.report.narrowed, text


@pytest.mark.parametrize(
    ("grammar", "lost"),
    [
        ('start: W ("、" W)*\nW: /[ぁ-ん一-龯]+/', "日、日"),
        ("start: /\\w+/ /[^\\w]/", "a—"),
        ('start: W ("…" | "." W)*\nW: /[a-z]+/i', "a…"),  # "K" of (?i:k) begins as "…" does
        ("start: /[0-9]+/ /\\s+/ /[^,]+/", "1 「"),
        ("start: (/[0-9]+/ | /[а-я]+/i)+\n%ignore /\\s+/", ""),  # but for the rare letters of (?i:[а-я])
        ("start: (/\\d+/ /\\s+/)+", ""),  # but for rare blanks and digits
        ('start: (/[а-я]+/ "—")+', ""),
    ],
)
def test_lexemes_that_begin_with_the_same_byte_have_a_row(grammar: str, lost: str) -> None:
    source = client_grammar(grammar, place="g")
    assert bool(source.report.narrowed) == bool(lost)
    assert not lost or not accepts(render(Sub("lark", source.lark)).engine_text(), lost)
    assert not lost or judge(grammar).parse(lost)


GBNF_SAMPLES: dict[str, tuple[list[str], list[str]]] = {
    # llama.cpp's own example: white space that belongs to a term and a line break that follows it
    'root ::= (expr "=" ws term "\\n")+\nexpr ::= term ([-+*/] term)*\nterm ::= ident | num | "(" ws expr ")" ws\n'
    "ident ::= [a-z] [a-z0-9_]* ws\nnum ::= [0-9]+ ws\nws ::= [ \\t\\n]*": (
        ["a+1= b\n", "x=(1*2 )\n", "a=1\nb=2\n"],
        ["a=", "=1\n", "a+=1\n"],
    ),
    'root ::= "中" [^a-z\\x41-Z] .?  # a comment\n': (["中1", "中文字"], ["中a", "中A", "中"]),
    'root ::= "\\"" ([^"\\\\] | "\\\\" ["\\\\n])* "\\""': (['"a\\"b"', '""'], ['"a', '"\\x"']),
    'root ::= list\nlist ::= "- " [^\\n]+ "\\n" list?': (["- a\n", "- a\n- b\n"], ["- a", "a\n"]),
    'root ::=\n  "a"\n  | "b" (\n  "c"\n  )': (["a", "bc"], ["b", "ac"]),
    'root ::= w "é" [“”]?\nw ::= [a-zà]+ | "“"': (["aé", "àaé”", "“é“"], ["é", "aà", "a”"]),
    'root ::= [bc] | root root | "ab" | "ba"': (["baba"], ["a"]),  # texts of different lexemes that begin alike
    'root ::= my-rule\nmy-rule ::= "\\u4e2d\\U0001F914" MyRule2\nMyRule2 ::= "x"{2}': (["中🤔xx"], ["中🤔x"]),
}


@pytest.mark.parametrize("text", GBNF_SAMPLES)
def test_gbnf_samples(text: str):
    grammar = render(Sub("gbnf", gbnf_grammar(text, place="g").lark)).engine_text()
    accepted, refused = GBNF_SAMPLES[text]
    assert [w for w in accepted + refused if accepts(grammar, w)] == accepted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the grammar is empty"),
        ('a ::= "x"', "there is no rule called root"),
        ("root ::= a", "line 1, column 10: 'a' is not defined"),
        ('root ::= "x', "line 1, column 10: unexpected"),
        ("root ::= <think>", "line 1, column 10: <think> writes a token"),
        ("root ::= <[5]>", r"<\[5\]> writes a token"),
        ('root ::= "a"\nroot ::= "b"', "line 2, column 1: 'root' is defined twice"),
        ('root ::= ("a"', "the grammar ends too early"),
        ('root "a"', r"line 1, column 1: .*expected name ::= \.\.\."),
        ('root ::= root "x"', "the rule 'root' can never end"),
        ("root ::= [z-a]", "a range in the wrong order"),
        ('root ::= "\\q"', r"unknown escape \\q"),
        ('root ::= "\\xg1"', r"\\x needs 2 hexadecimal digits"),
        ("root ::= []", "an empty character class"),
        ('root ::= "a"{2,1}', "a repeat from 2 to 1 times"),
        ('root ::= (?="a")', "look-around is not supported"),
    ],
)
def test_what_is_wrong_with_gbnf_is_named_with_its_place(text: str, message: str):
    with pytest.raises(GrammarError, match=f"^g.*{message}"):
        gbnf_grammar(text, place="g")


# -- regexes


@given(st.text("ab()[]{}*+?|\\^-.,:12$<>=!Pxn/#&~ \n", min_size=1, max_size=9))
@example("^+a$$")
def test_what_we_call_no_regex_the_engine_refuses(pattern: str):
    try:
        language(pattern)
    except InvalidRegex as error:
        assert 0 <= error.at <= len(pattern)
        matcher = llguidance.LLMatcher(BYTES, f"start: {quote_regex(pattern)}", log_level=0)
        assert matcher.is_error(), (pattern, str(error))
    except NotTranslated:
        pass


# -- llguidance's own form


def test_the_one_grammar_of_a_list_is_lark_or_a_schema():
    for entry in (
        {"lark_grammar": 'start: "<" %json {"type": "integer"} ">"'},
        {"name": "n", "json_schema": {"const": 1}},
    ):
        node, _ = llguidance_part({"grammars": [entry]}, place="g")
        text = render(node).engine_text()
        assert [w for w in ("<12>", "1", "<x>") if accepts(text, w)] == ["<12>" if "lark_grammar" in entry else "1"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (5, "g: not an object"),
        ("{", "g: not JSON"),
        ({}, "g.grammars: there are no grammars"),
        ({"grammars": []}, "there are no grammars"),
        ({"grammars": [{}]}, r"g.grammars\[0\]: not one grammar; expected lark_grammar or json_schema"),
        (
            {"grammars": [{"lark_grammar": 'start: "a"'}], "max_tokens": 5},
            "g.max_tokens: max_tokens would cut the answer",
        ),
        ({"grammars": [{"lark_grammar": 'start: "a"'}], "x": 5}, "unknown key 'x'"),
        (
            {"grammars": [{"lark_grammar": "start: @other"}]},
            r"g.grammars\[0\].lark_grammar line 1, column 8: @other references",
        ),
        ({"grammars": [{"lark_grammar": 'start: "a"'}] * 2}, "g.grammars: 2 grammars; expected one .write one in Lark"),
        ({"grammars": [{"lark_grammar": "start: <think>"}]}, "<think> writes a token"),
        ("start: <think>", "g line 1, column 8: <think> writes a token"),
    ],
)
def test_what_is_wrong_with_a_list_is_named(spec: Any, message: str):
    with pytest.raises(GrammarError, match=message):
        llguidance_part(spec, place="g")


def test_a_trusted_list_keeps_its_tokens():
    node, _ = llguidance_part({"grammars": [{"lark_grammar": 'start: <[65-66]> "@a"'}]}, place="g", trusted=True)
    assert accepts(render(node).engine_text(), "A@a")


@pytest.mark.parametrize(("number", "is_exact"), [(20, True), (301, False)])
def test_what_a_large_grammar_in_gbnf_may_lose_has_a_row(number: int, is_exact: bool):
    """Rules that the lexer could read too far are split only in grammars that are small enough to be looked into."""
    rules = [f'r{i} ::= "word{i}" [a-z]* | "w{i}" r{(i + 1) % number}' for i in range(number)]
    names = " | ".join(f"r{i}" for i in range(number))
    part = gbnf_grammar("\n".join([f"root ::= item root?\nitem ::= {names}", *rules]), place="g")
    assert accepts(render(Sub("gbnf", part.lark)).engine_text(), "word1wordx") is is_exact
    assert [row.outcome for row in part.report.rows] == ([] if is_exact else [Outcome.NARROWED])


def test_a_rule_that_can_never_end_is_refused_in_a_large_grammar_as_well():
    words = "\n".join(f'r{i} ::= "kw{i}"' for i in range(400))
    text = f'root ::= name "b" | "(" root ")" | {" | ".join(f"r{i}" for i in range(400))}\nname ::= [a-z]+\n{words}'
    with pytest.raises(GrammarError, match="NAME can never end"):
        gbnf_grammar(text, place="g")
