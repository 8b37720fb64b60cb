"""Raw text up to a marker: exactly the words of its language that the marker ends where it is first written."""

from __future__ import annotations

import random
import re

import llguidance
import numpy as np
import pytest

from grammars.regular.syntax.rust import language
from grammars.tool_calls.arguments.raw_text import text_until
from grammars.tree.markers import Markers
from grammars.tree.nodes import seq
from grammars.tree.nodes import token as marker_token
from grammars.tree.render import render
from guided.bitmask import allowed_ids
from guided.engine.engine import Engine
from tests.cases import seeds

#: Ends of values, some of which begin as they end.
HEADS = ["</v>", "\n</v>\n", "]]>", "aba", "aa"]
#: Languages that schemas ask for: lengths, listed words, patterns.
PATTERNS = [
    "(?s:.*)",
    "(?s:.+)",
    "(?s:.{2,})",
    "(?s:.{0,3})",
    "(?s:.{1,4})",
    "a|ab|<",
    "[ab<]+",
    "(?s:.*)b(?s:.*)",
    "a.*",
]


def _text(chance: random.Random, head: str) -> str:
    parts = ["a", "b", "<", "\n", head, head[:-1], head[: len(head) // 2], head[1:]]
    return "".join(chance.choice(parts) for _ in range(chance.randint(0, 4))) + chance.choice([head, head, ""])


@pytest.mark.parametrize("seed", seeds(300, default=60))
def test_text_ends_where_its_end_is_first_written(engine: Engine, seed: int) -> None:
    """A token may follow at once, and the engine does not fail there."""
    chance = random.Random(seed)
    head, pattern = chance.choice(HEADS), chance.choice(PATTERNS)
    marker = min(set(engine.tokens.marker_ids) - set(engine.tokens.end_ids))
    node = seq(text_until(language(pattern), head, Markers(engine.tokens)), marker_token(marker, "marker"))
    begin = llguidance.LLMatcher(engine.ll_tokenizer, llguidance.LLMatcher.grammar_from_lark(render(node).lark()))
    assert not begin.is_error(), begin.get_error()
    for _ in range(12):
        text, matcher = _text(chance, head), begin.deep_copy()
        written = all(_is_next(matcher, token) for token in engine.tokenize(text))
        tag = head.strip()  # ends a text wherever it stands; free text may come without the white space before it
        lead, rest = head.split(tag)
        body, found, after = text.partition(tag)
        body = body if pattern == "(?s:.*)" else body.removesuffix(lead) if body.endswith(lead) else "\0"
        expected = (found, after) == (tag, rest) and re.fullmatch(pattern, body) is not None
        expected = expected and "\0" not in body
        assert (written and marker in _allowed(matcher)) == expected, (pattern, head, text)


def _allowed(matcher: llguidance.LLMatcher) -> list[int]:
    words = np.frombuffer(matcher.compute_bitmask(), dtype=np.int32)
    assert not matcher.is_error(), matcher.get_error()[:200]
    return allowed_ids(words)


def _is_next(matcher: llguidance.LLMatcher, token: int) -> bool:
    return token in _allowed(matcher) and bool(matcher.consume_token(token))
