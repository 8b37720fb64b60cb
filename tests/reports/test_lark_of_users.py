"""Kind: grammars as users of Lark write them; the judge of a text is the ``lark`` package.

Source: the reports on tutorials of outlines and the tests of llguidance that this project was run on; no thread of
their own.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import product

import lark
import pytest
from hypothesis import given
from hypothesis import strategies as st

import guided
from grammars.plan.plan import Plan
from guided.bitmask import is_allowed
from guided.engine.engine import Engine
from guided.inspect.shortest import shortest
from guided.landing.landing import LandingSearch
from guided.state.state import GuidanceState
from tests.conftest import small_engine
from tests.judges.plans import END, PLAIN, accepts, plan_of

#: Grammars, and the characters of the texts that are tried.
WRITTEN = {
    '?start: "a"': "a",
    'start: a\n?a: "x" | b\n!b: "y" "x"\n!?c: "z"': "xyz",
    'start: "x" "y"\n%ignore " "': "xy ",
    'start: "x" | "(" start ")"\n%ignore /[ ]+/\n%ignore "-"': "x() -",
    'begin: "x" start?\nstart: begin "y"\nSKIP: " "\n%ignore SKIP': "xy ",
    'start: "a"~0 "b"~1..2': "ab",
}


@cache
def _parser(source: str) -> lark.Lark:
    return lark.Lark(source, parser="earley", lexer="dynamic_complete" if "~" in source else "basic")


def _whole(source: str, text: str) -> bool:
    try:
        _parser(source).parse(text)
    except lark.exceptions.UnexpectedInput:
        return False
    return True


@pytest.mark.parametrize(("source", "letters"), WRITTEN.items())
def test_the_masks_let_write_what_lark_parses(engine: Engine, source: str, letters: str) -> None:
    plan = plan_of(engine, PLAIN, response_format=guided.Lark(source))
    for size in range(5):
        for text in map("".join, product(letters, repeat=size)):
            assert accepts(plan, engine, text + END) == _whole(source, text), text


def test_a_repeat_of_nothing_is_nothing(engine: Engine) -> None:
    plan = plan_of(engine, PLAIN, response_format=guided.Lark('start: "a"{0} A\nA: "b" "c"{0,0}'))
    assert accepts(plan, engine, "b" + END)
    assert not accepts(plan, engine, "ab" + END)
    assert not accepts(plan, engine, "bc" + END)


REFUSED = {
    'start: "x" "y"\n%ignore /\\/\\*.*?\\*\\//s': (2, 14, "*? is lazy"),
    'start: A "b"\nA: /[*?]\\*?a{2,3}?/': (2, 13, "{2,3}? is lazy"),
    'start: F "," F\nF: /".*"/': (1, 8, "no text ends this grammar: F can never end"),
    'start: a\na: F "," F | "(" a ")"\nF: /[a-z,]+/': (2, 4, "no text ends this grammar: F can never end"),
    'start: /.+/ %json {"type": "object"}': (1, 8, "no text ends this grammar: /.+/ can never end"),
    # an option in which one character alone goes on: the engine would follow it for ever
    'start: "x" | "y" /c+/ "c"': (1, 18, "/c+/ can never end"),
    'start: "x" | V "c"\nV: /[0-9]+|bc+/': (1, 14, "V can never end"),
    'start: a\na: "(" a " )" | /[a-z]+ */': (2, 17, "/[a-z]+ */ can never end"),
    'start: /a+/ q "x"\nq[lazy]: /a.*c/': (1, 8, "no text ends this grammar: /a+/ can never end"),
    'start: e ";"\ne: "(" e " )" | "a" ";"\n%ignore / +/': (3, 9, "/ +/ can never end"),
    'start: "b" | "a" WS " x"\nWS: / +/': (1, 18, "WS can never end"),
    'start: x x "b"\nx: /c+/': (2, 4, "no text ends this grammar: /c+/ can never end"),
    'start: r "b"\nr[lazy]: /[a-z]*/': (2, 1, "r is lazy and may be empty"),
}


@pytest.mark.parametrize(("source", "error"), REFUSED.items())
def test_what_no_mask_could_write_is_refused_with_its_place(
    engine: Engine, source: str, error: tuple[int, int, str]
) -> None:
    with pytest.raises(guided.GrammarError) as raised:
        plan_of(engine, PLAIN, response_format=guided.Lark(source))
    assert (raised.value.line, raised.value.column) == error[:2]
    assert error[2] in str(raised.value)
    assert ("no text" in str(raised.value)) == ("no text" in error[2])


#: Grammars, the place at which a lexeme can never end, a text that the rules alone allow there, and one elsewhere.
DEAD_PLACES = {
    'start: F "," F | "x"\nF: /".*"/': ((1, 8), '"a","b"', "x"),
    'start: (F ",")* "g" | F\nF: /".*"/': ((1, 9), '"a",g', '"a","b"'),
    'start: a | "x" F\na: F "," F\nF: /".*"/': ((2, 4), '"a","b"', 'x"a"'),
    'start: A "b" | "1" A\nA: /[a-z]+/': ((1, 8), "ab", "1a"),
    'start: word word "b" | word\nword: /[a-z]+/': ((2, 7), "aab2", "aab"),
}


@pytest.mark.parametrize(("source", "dead"), DEAD_PLACES.items())
def test_a_place_that_no_text_leaves_is_reported_where_another_way_is_left(
    engine: Engine, source: str, dead: tuple[tuple[int, int], str, str]
) -> None:
    (line, column), lost, kept = dead
    plan = plan_of(engine, PLAIN, response_format=guided.Lark(source))
    assert f"at line {line}, column {column} it can never end" in plan.response.report.narrowed[0].reason
    assert accepts(plan, engine, kept + END)
    assert not accepts(plan, engine, lost + END)


#: Grammars with what is ignored, texts that they have, and the beginning of one that nothing could end.
IGNORED = {
    'start: "x" "y"\n%ignore /#.*/': (["xy", "xy#c"], "x#"),
    'start: "x" "y"\n%ignore /#.*/\n%ignore /\\s+/': (["xy#c", "x#c\ny", "#c\nx y"], ""),
    'start: "x" "y"\n%import common.SH_COMMENT\n%import common.WS\n%ignore SH_COMMENT\n%ignore WS': (["x#c\n y"], ""),
    'start: ("x" "y" NL)+\nNL: /\\n+/\n%ignore /#.*/\n%ignore " "': (["x y #c\n", "xy\nxy#c\n #c"], "x #"),
    'start: "a" " b"\n%ignore / +/': (["a b", "   a b  "], "a  "),
    'start: "a" (" b" | "c")\n%ignore / +/': (["a b", "a  c"], ""),
    'start: "b"\n%ignore /b+/': (["b", "bbb"], ""),
    'start: "a"?\n%ignore " "\n%ignore /#.*/': (["", " ", "a", "#x", " #x", "#a", "a#x", " a #x"], ""),
    # operators that begin like a comment
    'start: N ("-" N)*\nN: /[0-9]+/\n%ignore " "\n%ignore /--[^\\n]*/': (["1-2", "1 -2", "1 - 2 --c", "1 --c"], ""),
    'start: N ("/" N)*\nN: /[0-9]+/\n%ignore /\\s+/\n%ignore /\\/\\/[^\\n]*/': (["1/2", "1 / 2", " 1 //c\n / 2"], ""),
    'start: N ("-" N)*\nN: /[0-9]+/\n%ignore /--[^\\n]*\\n/': (["1--c\n-2", "1--c\n--d\n-2"], ""),
    'start: N ("-" N)*\nN: /[0-9]+/\n%ignore / +/\n%ignore /--[^\\n]*\\n/': (["1 --c\n-2", "1  -  2"], ""),
}


@pytest.mark.parametrize(("source", "cases"), IGNORED.items())
def test_what_is_ignored_is_begun_only_where_it_can_end(
    engine: Engine, source: str, cases: tuple[list[str], str]
) -> None:
    texts, never = cases
    plan = plan_of(engine, PLAIN, response_format=guided.Lark(source))
    assert not plan.response.report.rows
    for text in texts:
        lark.Lark(source, parser="earley", lexer="dynamic_complete").parse(text)
        assert accepts(plan, engine, text + END)
    if never:
        ends = (never + "".join(more) for size in range(4) for more in product("xyb #\n", repeat=size))
        assert not any(_whole(source, text) for text in ends)
        assert not begins(plan, engine, never)


def begins(plan: Plan, engine: Engine, text: str) -> bool:
    """Whether the masks let the text be written, byte by byte."""
    state = GuidanceState(plan, engine)
    for byte in text.encode():
        [token] = engine.tokens_within(bytes([byte]))
        if not is_allowed(state.mask(), token):
            return False
        state.commit([token])
    return True


#: Rules with several uses, the place of the row, a text with a comment, and the beginning that no text goes on from.
USES = {
    'start: e NL\ne: "(" e ")" | "a"': ("line 2, column 16", "((a))#c\n", "(a#"),
    'start: (e NL)+\ne: e "+" e | "a" | "(" e ")"': ("line 2, column 26", "(a)#c\na+a#\n", "(a#"),
    'start: (x NL)+\nx: y ("+" y)*\ny: "a" | "[" (x ("," x)*)? "]"': ("line 3, column 28", "[a]#c\n", "[a,a#"),
    'start: e "+" e\ne: NL e | "a"\n': ("line 2, column 11", "a+\na", "a#"),
    # what follows a rule at its own beginning
    'start: "(" e ")"\ne: e NL e | "a"': ("", "(a#c\na)", ""),
    'start: "(" e ")"\ne: e NL e | "a" | "[" e "]"': ("", "([a#c\na]#\na)", ""),
}


@pytest.mark.parametrize(("source", "case"), USES.items())
def test_where_an_ignored_lexeme_can_never_end_in_one_use_of_a_rule_is_a_row(
    engine: Engine, source: str, case: tuple[str, str, str]
) -> None:
    place, text, never = case
    source += "\nNL: /\\n/\n%ignore /#.*/"
    plan = plan_of(engine, PLAIN, response_format=guided.Lark(source))
    rows = [(row.keyword, row.reason) for row in plan.response.report.narrowed]
    assert rows == ([("/#.*/", f"at {place} it can never end: {CONTINUES}")] if place else [])
    assert _whole(source, text)
    assert accepts(plan, engine, text + END)
    if never:
        assert begins(plan, engine, never)
        ends = (never + "".join(more) for size in range(4) for more in product("a+,()[]#\n", repeat=size))
        assert not any(_whole(source, text) for text in ends)


CONTINUES = "all that may follow it there continues it"


@pytest.mark.parametrize(
    "source",
    [
        'start: "a" WS? WS "b"\nWS: / +/',
        'start: y\ny: y " and" W | W\nW: /[a-z]+ */',
        'start: /a+/ q "x"\nq[lazy]: /b.*c/',
        'start: F "," F | F\nF: /[a-z,]+/',
        "start: D | D D\nD: /[0-9]+/",
        'start: r "b"\nr[lazy]: /a.*?b/',
        'start[lazy]: /a+b/\n%ignore " "',
        'start[suffix=";"]: /a+b/',
        "start: /[*]?x+/",
        r"start: /\*\??/",
    ],
)
def test_what_has_a_text_is_planned(engine: Engine, source: str) -> None:
    engine.pristine(plan := plan_of(engine, PLAIN, response_format=guided.Lark(source)), plan.entries[0].name)


#: A word of the language by its rules may be read as the beginning of another.
KEYWORDS = {
    'start: "if" NAME | NAME "=" NAME\nNAME: /[a-z]+/\n%ignore " "': "a=a",
    'start: "i" A | A "=" A\nA: /[a-z]+/': "a=a",
    'start: W W ";"\nW: /[a-z]+/\n%ignore /\\s+/': "a a;",
    'start: "for" W "in" N\nW: /[a-z]+/\nN: /[0-9]+/\n%ignore " "': "fora in0",
    'start: "SELECT" W "FROM" W ";"\nW: /[a-zA-Z]+/\n%ignore /\\s+/': "SELECTa FROMa;",
    'start: stmt+\nstmt: "if" NAME ":" | NAME "=" NAME ";"\nNAME: /[a-z]+/\n%ignore /\\s+/': "a=a;",
}


@pytest.mark.parametrize(("source", "text"), KEYWORDS.items())
def test_a_text_is_found_where_names_may_begin_like_keywords(engine: Engine, source: str, text: str) -> None:
    found = shortest(plan_of(engine, PLAIN, response_format=guided.Lark(source)), engine)
    assert found.upper() == text.upper()  # which letter a name has is left to the search


@pytest.mark.parametrize("blank", ['" "', "/[ \\t]+/", "/\\s+/"])
@pytest.mark.parametrize(("begun", "end"), [("((((1*(", "0)))))"), ("(((", "0)))"), ("", "0")])
def test_what_is_ignored_hides_no_end(engine: Engine, blank: str, begun: str, end: str) -> None:
    source = 'start: s\ns: p | s "+" p\np: a | p "*" a\na: /[0-9]+/ | "-" a | "(" s ")"\n%ignore ' + blank
    plan = plan_of(engine, PLAIN, response_format=guided.Lark(source))
    state = GuidanceState(plan, engine)
    for byte in begun.encode():
        state.mask()
        state.commit(engine.tokens_within(bytes([byte])))
    landing = LandingSearch(plan, engine, entry=plan.entries[0].name).shortest_end(state)
    assert landing.tokens
    assert b"".join(map(engine.token_bytes, landing.tokens[:-1])).decode() == end


LOST = {
    'start: N ".." N\nN: /[0-9]+(\\.[0-9]+)?/': ("N", "'..'", "1..5"),
    'start: a\na: "(" a ")" | /[^)]*/': ("/[^)]*/", "'('", "(a)"),
    'start: "(" start ")" | /[^)]*/': ("/[^)]*/", "'('", "(a)"),
    'start: a\na: b\nb: "[" a "]" | "(" a ")" | /[^)]*/': ("/[^)]*/", "'('", "(a)"),
    'start: /[a-z]+/ "."? /[a-z]+/': ("/[a-z]+/", "/[a-z]+/", "ab"),
    'start: "if" NAME | NAME "=" NAME\nNAME: /[a-z]+/': ("NAME", "'if'", "ifx"),
    'start: N ".." N\nN: /[0-9]+(\\.[0-9]+)?/\n%ignore " "': ("N", "'..'", "1..5"),
    'start: (N "EUR"?)+\nN: /[0-9]+(e[0-9]+)?/i\n%ignore " "': ("N", "'EUR'", "5EUR"),
    'start: N UNIT\nN: /[0-9]+(x[0-9]+)?/\nUNIT: "xs" | "kg"\n%ignore /\\s+/': ("N", "UNIT", "5xs"),
    'start: t N ".." N\nt[suffix=";"]: /[a-z]*/\nN: /[0-9]+(\\.[0-9]+)?/': ("N", "'..'", "a;1..5"),
    'start: t N ".." N\nt[lazy]: /[a-z]*;/\nN: /[0-9]+(\\.[0-9]+)?/': ("N", "'..'", "a;1..5"),
}

#: Grammars of users that lose nothing; with ``%ignore`` a keyword that goes on as a name is a name.
KEPT = [
    'start: "a" WS? WS "b"\nWS: / +/',
    'start: a\na: "(" a ")" | /[^()]*/',
    'start: e\ne: e ("+" | "-") t | t\nt: /[0-9]+/ | "(" e ")"\n%ignore " "',
    'start: s\ns: /[a-z]+/ | "(" s* ")"\n%ignore /[ \\n]+/',
    *(source for source in KEYWORDS if "%ignore" in source),
    "start: NAME+\nNAME: /[a-z]+/",
    "start: D+\nD: /[0-9]/",
    'start: "k" ("a" "b" | "ab" "c") | "k" "ab"',
    'start: "on " N "." N | "on " V\nV: /[0-9.]+/\nN: /[0-9]+/',
    'start: N (("or"i | "order"i) NAME)*\nN: /[0-9]+/\nNAME: /[a-z]+/\n%ignore " "',
    'start: N UNIT\nN: /[0-9]+(e[0-9]+)?/\nUNIT: "kg" | "mm"\n%ignore " "',
    "start: r | N\nr[lazy]: /[0-9]+;/\nN: /[0-9]+(\\.[0-9]+)?/",
    'start: (r | "b")*\nr[lazy]: /a*b/',
    'start: r "a"+\nr[suffix="</t>"]: /(?s:.*)/',
    'start: line ("\\n" line)*\nline: WORD (" " WORD)* /[.,!?]/?\nWORD: /[A-Za-z]+/',
    'start: "SELECT" WS NAME ("," WS? NAME)* (WS "ORDER BY" WS NAME)? (WS "LIMIT" WS /[0-9]+/)? ";"\n'
    "NAME: /[A-Za-z_]+/\nWS: / +/",
    'start: value\nvalue: "{" (pair ("," pair)*)? "}" | STRING | NUMBER | "true" | "null"\npair: STRING ":" value\n'
    'STRING: /"[^"]*"/\nNUMBER: /-?(0|[1-9][0-9]*)(\\.[0-9]+)?/\n%ignore /\\s+/',
]


@pytest.mark.parametrize(("source", "lost"), LOST.items())
def test_what_the_lexer_loses_is_reported(engine: Engine, source: str, lost: tuple[str, str, str]) -> None:
    plan = plan_of(engine, PLAIN, response_format=guided.Lark(source))
    reasons = [row.reason for row in plan.response.report.narrowed]
    assert any(lost[0] in reason and lost[1] in reason for reason in reasons)
    assert all(reason.endswith("write a lexeme that ends earlier, or [suffix=...]") for reason in reasons)
    assert not accepts(plan, engine, lost[2] + END)


@pytest.mark.parametrize(
    ("source", "long", "lost"),
    [
        ('start: /[a-z0-9]+/ %json {"type": "integer"}', "/[a-z0-9]+/", "a1"),
        ('start: %json {"type": "integer"} /[0-9]x/', "a JSON value", "12x"),
        ('start: /[^:]*/ (%json {"type": "object"})?', "/[^:]*/", '{"a": 1}'),
        ('start: %json {"type": "object"} /.*/', None, ""),
        ('start: /[a-z]*/ %json {"type": "object"}', None, ""),
        ('start: /(?s:.*)/ (%json {"type": "string"})?', None, ""),
        ('start: %json {"type": "integer"} " EUR"', None, ""),
    ],
)
def test_what_the_lexer_loses_next_to_a_json_value_is_reported(
    engine: Engine, source: str, long: str | None, lost: str
) -> None:
    plan = plan_of(engine, PLAIN, response_format=guided.Lark(source))
    assert plan.response
    rows = [row.keyword for row in plan.response.report.narrowed if "cannot always follow" in row.reason]
    assert set(rows) == ({long} if long else set())
    assert not lost or not accepts(plan, engine, lost + END)


#: Grammars in which a rule that ends as early as it can cuts another lexeme, the same without it, that lexeme, and a
#: text lost by that.
CUT = {
    "start: r | W\nr[lazy]: /ab/\nW: /[a-z]+/": ("ab|[a-z]+", "W", "abc"),
    'start: r ";" | W\nr[lazy]: /ab+/\nW: /[a-z]+/': ("ab;|[a-z]+", "W", "ab"),
    'start: r | W\nr[suffix="b"]: /[a-z]*/\nW: /[a-z]+/': ("[a-z]*?b|[a-z]+", "W", "bb"),
    'start: r "c" | "abx"\nr[lazy]: /ab/': ("abc|abx", "'abx'", "abx"),
    'start: (r "!" | W)+\nr[lazy]: /[a-z]+/\nW: /[a-z]+[0-9]/\n%ignore " "': (
        " *(([a-z] *!|[a-z]+[0-9]) *)+",
        "W",
        "a1",
    ),
}


@pytest.mark.parametrize(("source", "cut"), CUT.items())
def test_what_a_lazy_rule_cuts_is_reported(engine: Engine, source: str, cut: tuple[str, str, str]) -> None:
    pattern, shown, text = cut
    plan = plan_of(engine, PLAIN, response_format=guided.Lark(source))
    reason = "it is not read on where r ends, which has lazy or suffix="
    assert [(row.keyword, row.reason) for row in plan.response.report.narrowed] == [(shown, reason)]
    assert re.fullmatch(pattern, text)
    assert not accepts(plan, engine, text + END)


@pytest.mark.parametrize("source", KEPT)
def test_what_loses_nothing_has_no_row(engine: Engine, source: str) -> None:
    plan = plan_of(engine, PLAIN, response_format=guided.Lark(source))
    assert not plan.response.report.rows


_ENGINE = small_engine()
#: Not words: those are written apart where something is ignored.
_PIECES = st.sampled_from(["+", "-", "+-", "-+", "++-"])
_TERMINALS = st.lists(st.lists(_PIECES, min_size=1, max_size=3), min_size=2, max_size=3)


@given(_TERMINALS)
def test_where_no_row_is_reported_the_masks_accept_what_lark_s_lexer_accepts(words: list[list[str]]) -> None:
    """Random finite terminals in a row, next to an ignored one, against lark's own lexer over the same alternatives."""
    names = [f"T{i}" for i in range(len(words))]
    rules = [f"{name}: {' | '.join(f'{chr(34)}{word}{chr(34)}' for word in dict.fromkeys(options))}"
             for name, options in zip(names, words, strict=True)]  # fmt: skip
    source = "\n".join([f"start: {' '.join(names)}", *rules, '%ignore " "'])
    plan = plan_of(_ENGINE, PLAIN, response_format=guided.Lark(source))
    if plan.response.report.rows:
        return
    for text in map("".join, product(*words)):
        greedy, rest = True, text
        for options in words:  # the longest word that the text goes on with
            best = max((word for word in options if rest.startswith(word)), key=len, default=None)
            if best is None:
                greedy = False
                break
            rest = rest[len(best) :]
        assert accepts(plan, _ENGINE, text + END) == (greedy and not rest), (source, text)


DEAD_OPTION = 'start: %s (A "b" | "x") %s\nA: /[a-z]+/'
CUSTOM = {"type": "grammar", "grammar": {"syntax": "lark", "definition": DEAD_OPTION % ("", "")}}


@pytest.mark.parametrize(
    "parts",
    [
        {"reasoning_effort": "custom:" + DEAD_OPTION % ("$START_ID", "$END_ID")},
        {"tools": [{"type": "custom", "custom": {"name": "t", "format": CUSTOM}}], "tool_choice": "required"},
    ],
    ids=["effort", "custom tool"],
)
def test_an_option_that_never_ends_is_refused_where_no_report_names_it(
    engine: Engine, parts: dict[str, object]
) -> None:
    with pytest.raises(guided.GrammarError, match="line 1, column .*: A can never end"):
        plan_of(engine, **parts)
