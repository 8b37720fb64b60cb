"""Grammars over single bytes: what the engine takes, each byte with its bit in the mask before it."""

from __future__ import annotations

import lark
import llguidance

from guided.engine.engine import compile_grammar

__all__ = ["BYTES", "accepts", "parses", "words_accepted"]

BYTES = llguidance.LLTokenizer("byte")


def accepts(grammar: str, text: str) -> bool:
    """Whether the engine accepts the whole text; what ends with an error is not accepted."""
    matcher = compile_grammar(BYTES, grammar).deep_copy()
    for byte in text.encode():
        mask = matcher.compute_bitmask()
        if matcher.is_error() or not mask[byte >> 3] >> (byte & 7) & 1:
            return False
        assert matcher.consume_token(byte)
    return bool(matcher.is_accepting())


def words_accepted(grammar: str, alphabet: str, longest: int) -> set[str]:
    """All words of at most ``longest`` letters that the engine accepts."""
    matcher, found = compile_grammar(BYTES, grammar).deep_copy(), set()

    def walk(word: str) -> None:
        if matcher.is_accepting():
            found.add(word)
        if len(word) == longest or matcher.is_stopped():
            return
        for char in alphabet:
            taken = 0
            for byte in char.encode():
                mask = matcher.compute_bitmask()
                if not mask[byte >> 3] >> (byte & 7) & 1:
                    break
                assert matcher.consume_token(byte)
                taken += 1
            else:
                walk(word + char)
            assert not taken or matcher.rollback(taken)
            matcher.compute_bitmask()  # without a mask after it, a rollback is not exact (1.9.1)

    walk("")
    return found


def parses(judge: lark.Lark, text: str) -> bool:
    """Whether ``lark`` reads the whole text."""
    try:
        judge.parse(text)
    except lark.exceptions.LarkError:
        return False
    return True
