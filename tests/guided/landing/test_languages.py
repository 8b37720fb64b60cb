"""Grammars of whole languages, as users write them: far from the budget no token of a text is refused."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable
from typing import Any

import llguidance
import pytest

import guided
from grammars.text_grammars.rests import grammar_texts
from grammars.values.constraints import Llguidance
from guided.inspect.shortest import min_tokens
from tests.cases import seeds
from tests.guided.landing.test_control import BUDGETS, landed, row_of

SQL = r"""
start: select ";"
select: "SELECT " ("DISTINCT ")? cols " FROM " table join* where? group? having? order? limit?
cols: "*" | col (", " col)*
col: expr (" AS " NAME)?
join: (" LEFT" | " INNER")? " JOIN " table " ON " cond
table: NAME (" " NAME)? | "(" select ") " NAME
where: " WHERE " cond
group: " GROUP BY " expr (", " expr)*
having: " HAVING " cond
order: " ORDER BY " expr (" ASC" | " DESC")? (", " expr (" ASC" | " DESC")?)*
limit: " LIMIT " INT
cond: pred ((" AND " | " OR ") pred)*
pred: expr OP expr | expr " IN (" (select | expr (", " expr)*) ")" | expr " IS NULL" | expr " IS NOT NULL"
    | expr " LIKE " STR | "NOT " pred | "(" cond ")" | expr " BETWEEN " expr " AND " expr
OP: " = " | " <> " | " < " | " > " | " <= " | " >= "
expr: term ((" + " | " - " | " * " | " / ") term)*
term: NAME ("." NAME)? | INT | STR | FUNC "(" ("*" | expr (", " expr)*) ")" | "(" expr ")"
    | "CASE" (" WHEN " cond " THEN " expr)+ " ELSE " expr " END"
FUNC: "COUNT" | "SUM" | "AVG" | "MIN" | "MAX" | "COALESCE"
NAME: /[a-z_][a-z0-9_]*/
INT: /[0-9]+/
STR: /'[^']*'/
"""
PYTHON = r"""
start: stmt+
stmt: simple "\n" | "if " expr ":\n" block ("elif " expr ":\n" block)* ("else:\n" block)?
    | "for " NAME " in " expr ":\n" block | "while " expr ":\n" block
    | "def " NAME "(" (NAME (", " NAME)*)? "):\n" block
simple: "return " expr | "pass" | NAME " = " expr | expr | "import " NAME | "raise " expr
block: ("    " simple "\n")+
expr: cmp ((" and " | " or ") cmp)* | "not " cmp | "lambda " NAME ": " expr
cmp: sum ((" == " | " != " | " < " | " > " | " in ") sum)?
sum: prod ((" + " | " - ") prod)*
prod: atom ((" * " | " / " | " % ") atom)*
atom: NAME | INT | STR | atom "(" (expr (", " expr)*)? ")" | atom "." NAME | atom "[" expr "]"
    | "[" (expr (", " expr)*)? "]" | "(" expr ")" | "{" (expr ": " expr (", " expr ": " expr)*)? "}" | "None"
NAME: /[a-z_][a-z0-9_]*/
INT: /[0-9]+/
STR: /"[^"\n]*"/
"""
HTML = r"""
start: el+
el: "<p>" inner "</p>" | "<ul>" ("<li>" inner "</li>")+ "</ul>" | "<h1>" TEXT "</h1>"
    | "<div class=\"" CLASS "\">" el+ "</div>" | "<br/>"
inner: (TEXT | "<b>" TEXT "</b>" | "<a href=\"" URL "\">" TEXT "</a>")+
TEXT: /[^<>&]+/
CLASS: /[a-z\-]+/
URL: /[a-z:\/\.]+/
"""
C = r"""
root ::= (decl)*
decl ::= type " " ident "(" params? ") {" stmt* "\n}\n"
type ::= "int" | "float" | "char"
params ::= type " " ident ("," " " type " " ident)*
stmt ::= "\n  " ( type " " ident " = " expr ";" | ident " = " expr ";" | ident "(" args? ");" | "return " expr ";"
  | "while (" cond ") {" stmt* "\n  }" | "for (" ident " = " expr "; " cond "; " ident " = " expr ") {" stmt* "\n  }"
  | "if (" cond ") {" stmt* "\n  }" ("else {" stmt* "\n  }")? | "//" [^\n]* )
cond ::= expr (" <= " | " < " | " == " | " != ") expr
expr ::= term ((" + " | " - ") term)*
term ::= factor ((" * " | " / ") factor)*
factor ::= ident | number | "-" factor | "(" expr ")" | ident "(" args? ")"
args ::= expr ("," " " expr)*
ident ::= [a-zA-Z_] [a-zA-Z_0-9]*
number ::= [0-9]+
"""
#: Grammars, and texts of theirs.
LANGUAGES: dict[str, tuple[Any, list[str]]] = {
    "sql": (guided.Lark(SQL), [
        "SELECT u.name, COUNT(*) AS n FROM users u LEFT JOIN orders o ON u.id = o.user_id WHERE o.total > 100 AND "
        "u.country IN ('DE', 'FR') GROUP BY u.name HAVING COUNT(*) > 2 ORDER BY n DESC LIMIT 10;",
        "SELECT CASE WHEN a > 1 THEN 'big' ELSE 'small' END AS size FROM (SELECT a FROM t WHERE a IS NOT NULL) x;",
        "SELECT MAX(price * (1 + tax)) FROM items WHERE price BETWEEN 10 AND 20 OR (NOT name LIKE '%x%' AND id IN "
        "(SELECT id FROM other));"]),
    "python": (guided.Lark(PYTHON), [
        "for x in items:\n    total = total + x.price * 2\nprint(total)\ndef add(a, b):\n    return a + b\n",
        'if x == 1:\n    y = {"a": 1, "b": [1, 2]}\nelif x > 2:\n    pass\nelse:\n    raise error("bad")\nimport math\n'
        "f = lambda q: q % 2\nwhile not done(x)[0]:\n    x = (x - 1)\n"]),
    "html": (guided.Lark(HTML), [
        '<h1>Title here</h1><div class="main-part"><p>Hello <b>big</b> world, see <a href="http://x.org">this</a></p>'
        "<ul><li>one</li><li>two <b>x</b></li></ul></div><br/>"]),
    "c": (guided.Gbnf(C), [
        "int main(int argc, char x) {\n  int i = 0;\n  for (i = 0; i < 10; i = i + 1) {\n  printf(i, x * (2 + y));\n"
        "  if (i == 3) {\n  // stop here\n  return -1;\n  }else {\n  x = f(3);\n  }\n  }\n  return 0;\n}\n"]),
}  # fmt: skip
#: Other forms in which clients send them.
OTHERS = {
    "in a tag": guided.StructuralTag({"type": "structural_tag", "format": {
        "type": "tag", "begin": "<c>", "end": "</c>", "content": {"type": "grammar", "grammar": C}}}),
    "llguidance": Llguidance({"grammars": [{"lark_grammar": SQL}]}),
}  # fmt: skip


@pytest.mark.parametrize("name", LANGUAGES)
def test_no_token_is_refused_far_from_the_budget(demo_guide: Any, name: str) -> None:
    form, texts = LANGUAGES[name]
    plan, engine = demo_guide.plan(response_format=form, thinking=False), demo_guide.engine
    for text in texts:
        row = row_of(plan, engine, 1_000)
        for token in engine.tokenize(text):
            assert row.state.allows(token)
            if row.is_landing():
                assert row.landing is not None
                assert row.lands(token, row.landing.step_effort()), (text, row.state.num_tokens)
            row.extend([token])
        assert row.error is None
        assert row.landing is not None
        assert not row.landing.lost


@pytest.mark.parametrize("seed", seeds(6, default=1))
@pytest.mark.parametrize("name", [*LANGUAGES, *OTHERS])
def test_texts_of_languages_are_whole_within_any_budget(demo_guide: Any, name: str, seed: int) -> None:
    form = LANGUAGES[name][0] if name in LANGUAGES else OTHERS[name]
    plan, engine = demo_guide.plan(response_format=form, thinking=False), demo_guide.engine
    chance = random.Random(f"{name} {seed}")
    assert min_tokens(plan, engine) <= 10
    assert list(landed(plan, engine, chance, (*BUDGETS, 300) if seed else chance.sample(BUDGETS, 3)))


BYTES = llguidance.LLTokenizer("byte")


def _accepted(lark: str, texts: Iterable[str]) -> list[str]:
    """The texts that the engine accepts, byte by byte."""
    begin = llguidance.LLMatcher(BYTES, llguidance.LLMatcher.grammar_from_lark(lark), log_level=0)
    assert not begin.is_error(), begin.get_error()
    found = []
    for text in texts:
        matcher, data = begin.deep_copy(), [*text.encode()]
        if matcher.validate_tokens(data) == len(data) and matcher.consume_tokens(data) and matcher.is_accepting():
            found.append(text)
    return found


def _random_rule(chance: random.Random, depth: int = 0) -> str:
    inner = lambda: _random_rule(chance, depth + 1)  # noqa: E731
    match chance.choice(["text", "name", "sequence", "options", "repeat"] if depth < 3 else ["text", "name"]):
        case "name":
            return chance.choice("xyz")
        case "sequence":
            return " ".join(inner() for _ in range(chance.randint(2, 3)))
        case "options":
            return f"({' | '.join(inner() for _ in range(chance.randint(2, 3)))})"
        case "repeat":
            return f"({inner()}){chance.choice(['?', '*', '+', '~2', '~1..3'])}"
    return f'"{chance.choice("abc")}"'


@pytest.mark.parametrize("seed", seeds(400, default=60))
def test_the_text_of_a_random_grammar_is_a_shortest_one(seed: int) -> None:
    """The engine accepts it, and none of the shorter texts."""
    chance = random.Random(seed)
    ends = (
        f'{name}: {_random_rule(chance)} | "{name.upper()}" {chance.choice(["", chance.choice("xyz")])}'
        for name in "xyz"
    )
    lark = "\n".join([f"start: {_random_rule(chance)} x", *ends])
    found = grammar_texts("lark", lark).whole
    sizes = range(min(len(found), 5) if found is not None else 5)  # None: x, y or z never ends
    assert not _accepted(lark, ("".join(text) for size in sizes for text in itertools.product("abcXYZ", repeat=size)))
    assert found is None or _accepted(lark, [found]) == [found], lark


@pytest.mark.parametrize(
    "lark",
    [
        "start: r0\n" + "\n".join(f'r{i}: r{i + 1} "a"' for i in range(1_500)) + '\nr1500: "x"',
        "start: " + " ".join(f'"w{i}"' for i in range(6_000)),
        "start: " + " | ".join(f'"w{i}" "x"' for i in range(4_000)),
        f'start: "a" (X ","){{20}} "b"\nX: "{"x" * 4_000}"',
        "start: (" + " | ".join(f'"w{i}"' for i in range(9_000)) + ") " + " ".join(f'"v{i}"' for i in range(4_000)),
    ],
    ids=["chain", "sequence", "options", "repeat", "options and a sequence"],
)
def test_the_texts_of_a_large_grammar_are_few_and_short(lark: str) -> None:
    """Minutes, before each rule was read after those that it names and rests had a longest length."""
    found = grammar_texts("lark", lark)
    assert len(found.rests) <= 512
    assert all(len(rest) <= 256 for rest in found.rests)
