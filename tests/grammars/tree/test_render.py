"""Trees become exactly the text they mean; parts never meet."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammars.tree.nodes import (
    EMPTY,
    Alt,
    And,
    Group,
    Lexeme,
    Node,
    Not,
    Pattern,
    Ref,
    Repeat,
    Rule,
    RuleDef,
    Seq,
    Sub,
    Text,
    Tokens,
    Until,
    When,
    alt,
    is_empty,
    opt,
    repeat,
    seq,
    token,
)
from grammars.tree.render import MAX_NESTING, quote, quote_regex, render
from guided.engine.engine import Engine, check_matcher
from special_tokens.errors import GrammarError


def accepts(engine: Engine, node: Node, text: str) -> bool:
    """Whether the engine accepts ``text`` as a whole sentence, byte by byte, so that no token hides a difference."""
    sentinel = engine.vocab_size
    matcher = engine.compile(render(seq(node, token(sentinel))).engine_text()).deep_copy()
    by_byte = {engine.token_bytes(i): i for i in range(256)}
    ids = [by_byte[bytes([b])] for b in text.encode()]
    return matcher.try_consume_tokens(ids) == len(ids) and matcher.validate_tokens([sentinel]) == 1


ANY = st.text(max_size=12)


@given(text=ANY, other=ANY)
def test_a_text_is_accepted_byte_for_byte_and_nothing_else(plain_engine: Engine, text: str, other: str) -> None:
    assert accepts(plain_engine, Text(text), text)
    assert accepts(plain_engine, Text(text), other) == (other == text)


@given(options=st.lists(ANY, min_size=1, max_size=5), other=ANY)
def test_a_choice_keeps_every_character(plain_engine: Engine, options: list[str], other: str) -> None:
    node = alt(*options)
    assert all(accepts(plain_engine, node, option) for option in options)
    assert accepts(plain_engine, node, other) == (other in options)


def test_a_lone_surrogate_is_refused_with_its_place() -> None:
    with pytest.raises(GrammarError, match="lone surrogate at character 1"):
        quote("a\ud800")


@pytest.mark.parametrize("regex", [r"a/b", r"a\/b", "", "a\nb", r"[\d/]+", r"\\/", "\\\n"])
def test_a_regex_literal_means_the_same_regex(plain_engine: Engine, regex: str) -> None:
    assert "\n" not in quote_regex(regex)
    for text in ("", "a/b", "a\nb", "1/2", "\\/", "\n", "ab"):
        assert accepts(plain_engine, Pattern(regex), text) == (re.fullmatch(regex, text) is not None)


# -- precedence, with Python's regular expressions as the judge

LEAVES = st.sampled_from("abc").map(Text)
TREES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: Seq(tuple(parts)))
        | st.lists(inner, min_size=1, max_size=3).map(lambda parts: Alt(tuple(parts)))
        | st.tuples(inner, st.sampled_from([(0, 1), (1, 2), (2, 2), (0, None), (1, None), (2, None)])).map(
            lambda pair: Repeat(pair[0], *pair[1])
        )
        | inner.map(lambda body: Rule("part", body))
    ),
    max_leaves=6,
)


def as_regex(node: Node) -> str:
    match node:
        case Text(text=text):
            return text
        case Seq(parts=parts):
            return "(?:" + "".join(map(as_regex, parts)) + ")"
        case Alt(options=options):
            return "(?:" + "|".join(map(as_regex, options)) + ")"
        case Repeat(body=body, least=least, most=most):
            return f"(?:{as_regex(body)}){{{least},{'' if most is None else most}}}"
        case Rule(body=body):
            return as_regex(body)
    raise AssertionError(node)


@given(tree=TREES, text=st.text("abc", max_size=5))
def test_precedence_never_leaks_between_parts(plain_engine: Engine, tree: Node, text: str) -> None:
    assert accepts(plain_engine, tree, text) == (re.fullmatch(as_regex(tree), text) is not None)


# -- names


def test_rules_of_different_parts_keep_their_own_meaning(plain_engine: Engine) -> None:
    node = seq(Rule("value", Text("1")), Rule("value", Text("2")), Rule("value", Text("1")))
    rendered = render(node).lark()
    assert rendered.count("value:") == 1
    assert rendered.count("value_2:") == 1
    assert accepts(plain_engine, node, "121")


ALIKE = [("my-tool", "my_tool"), ("Ä", "Ö"), ("a.b", "a/b"), ("1x", "n1x"), ("start", "start")]
INNER = Group("g", Ref("a"), {"a": RuleDef(Text("i"))})
OUTER = Group("g", Ref("a"), {"a": RuleDef(alt(Text("o"), seq("(", Ref("a"), INNER, ")")))})
SHARED = Group("shared", seq("<", Ref("word"), ">"), {})
#: A node, a text of it, and one that is none.
PARTS: dict[str, tuple[Node, str, str]] = {
    **{
        f"names that look alike after escaping: {a} {b}": (seq(Rule(a, Text("1")), Rule(b, Text("2"))), "12", "11")
        for a, b in ALIKE
    },
    "intersection and complement are lifted to terminals": (
        seq("<", And((Pattern("[a-z]+"), Not(Pattern("(?s:.*)x(?s:.*)")))), ">"), "<abc>", "<axc>"
    ),
    "until ends at the first occurrence": (
        seq(Until("body", Pattern("(?s:.*)"), Text("</p>")), "!"), 'a < b </ "x"\n</p>!', "a</p>b</p>!"
    ),
    "groups recurse and shadow": (OUTER, "((oi)i)", "((io)i)"),
    "a shared group takes the rules of the group around it": (
        seq(*(Group("outer", SHARED, {"word": RuleDef(Text(word))}) for word in "abcd")),
        "<a><b><c><d>", "<a><a><a><a>",
    ),
    "sub-grammars have name spaces of their own": (
        seq(Rule("value", Text("1")), Sub("client", 'start: value\nvalue: "2"\n')), "12", "11"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("node", "accepted", "refused"), PARTS.values(), ids=PARTS)
def test_each_part_keeps_its_own_meaning(plain_engine: Engine, node: Node, accepted: str, refused: str) -> None:
    assert accepts(plain_engine, node, accepted)
    assert not accepts(plain_engine, node, refused)


def test_one_node_used_twice_is_written_once() -> None:
    shared = Rule("shared", seq("x", Pattern("[0-9]+")))
    assert render(seq(shared, ",", shared)).lark().count("shared:") == 1


# -- terminals


def test_a_rule_is_not_a_lexeme() -> None:
    with pytest.raises(GrammarError, match="lexeme .L. contains a rule, a token or a sub-grammar"):
        render(Lexeme("L", Rule("r", Text("a"))))
    with pytest.raises(GrammarError, match="must be a lexeme"):
        render(Until("u", Rule("r", Text("a")), Text("b")))


def test_deep_nesting_becomes_rules_that_the_engine_takes(plain_engine: Engine) -> None:
    node: Node = Text("x")
    for depth in range(5 * MAX_NESTING):
        node = Alt((Seq((Text("("), node, Text(")"))), Text(str(depth % 10))))
    matcher = plain_engine.compile(render(seq(node, token(plain_engine.vocab_size))).engine_text())
    check_matcher(matcher, "deep")


def test_endless_nesting_is_an_error_and_not_a_crash() -> None:
    node: Node = Text("x")
    for _ in range(20_000):
        node = Repeat(Seq((Text("a"), node)), 0, 1)
    with pytest.raises(GrammarError, match="nested too deeply"):
        render(node)


# -- tokens, groups, sub-grammars, JSON


def test_a_set_of_tokens_is_written_in_ranges() -> None:
    assert render(Tokens(((3, 5), (7, 7)))).lark().strip() == "start: <[3-5,7]>"
    assert render(token(12)).lark().strip() == "start: <[12]>"
    with pytest.raises(GrammarError, match="empty set"):
        render(Tokens(()))


def test_parametric_rules_count(plain_engine: Engine) -> None:
    body = alt(When(EMPTY, "ge([0:4],2)"), seq("a", Ref("more", "incr([0:4])")))
    node = Group("count", Ref("more", "0x0"), {"more": RuleDef(body, parametric=True)})
    assert [accepts(plain_engine, node, "a" * n) for n in range(4)] == [False, False, True, True]


def test_a_reference_must_have_a_rule_and_agree_about_its_parameter() -> None:
    with pytest.raises(GrammarError, match="no rule is called 'nope'"):
        render(Group("g", Ref("nope"), {}))
    with pytest.raises(GrammarError, match="rule 'a' takes a parameter, but its reference passes none"):
        render(Group("g", Ref("a"), {"a": RuleDef(Text("x"), parametric=True)}))
    with pytest.raises(GrammarError, match="rule 'a' takes no parameter, but its reference passes one"):
        render(Group("g", Ref("a", "0x0"), {"a": RuleDef(Text("x"))}))


def test_empty_parts_vanish(plain_engine: Engine) -> None:
    assert is_empty(seq("", opt(""), repeat("a", 0, 0)))
    assert accepts(plain_engine, seq("", "a", EMPTY), "a")
    with pytest.raises(ValueError, match="at least one option"):
        alt()
    with pytest.raises(ValueError, match="from 3 to 2"):
        repeat("a", 3, 2)


def test_several_starts_share_their_rules() -> None:
    shared = Rule("shared", Pattern("[0-9]+"))
    rendered = render({"fresh": seq("a", shared), "after": shared})
    assert rendered.rules.count("shared:") == 1
    assert rendered.lark("after").startswith("start: shared\n")
    assert rendered.lark() == rendered.lark("fresh")


def test_a_grammar_without_a_sentence_is_refused_when_it_is_compiled(plain_engine: Engine) -> None:
    with pytest.raises(GrammarError, match="no text matches this grammar"):
        plain_engine.compile("start: a\na: a\n")
