"""Checks that a vocabulary can write the stop strings: one that it cannot write would never match."""

from __future__ import annotations

from functools import cached_property

from grammars.plan.plan import Stops
from guided.engine.engine import Engine
from special_tokens.errors import RequestError

__all__ = ["WritableTexts", "check_writable_stops"]

#: Separates tokens, whose bytes are written as Latin-1 characters; no byte is this character.
_BORDER = "\u0100"


class WritableTexts:
    """The texts that sequences of tokens of ``engine`` can contain.

    If every byte of a text is a token of its own, as in most vocabularies, one look-up per byte is enough.  Only for
    other texts the whole vocabulary is read, once.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._alone: dict[int, bool] = {}

    def contains(self, data: bytes) -> bool:
        """Whether some sequence of tokens contains ``data``; the first and last token may extend past it."""
        return all(map(self._is_token, data)) or self._in_one(data) or self._over_several(data)

    def missing(self, data: bytes) -> bytes:
        """Return the distinct bytes of ``data`` that no token contains."""
        return bytes(sorted(byte for byte in set(data) if not self._in_one(bytes((byte,)))))

    def _is_token(self, byte: int) -> bool:
        is_alone = self._alone.get(byte)
        if is_alone is None:
            engine, data = self._engine, bytes((byte,))
            ids = engine.ll_tokenizer.tokenize_bytes(data)
            is_alone = self._alone[byte] = b"".join(map(engine.token_bytes, ids)) == data
        return is_alone

    @cached_property
    def _tokens(self) -> frozenset[str]:
        engine = self._engine
        return frozenset(engine.token_bytes(i).decode("latin-1") for i in range(engine.vocab_size)) - {""}

    @cached_property
    def _joined(self) -> str:
        return _BORDER + _BORDER.join(sorted(self._tokens)) + _BORDER

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self._tokens), default=0)

    def _in_one(self, data: bytes) -> bool:
        return data.decode("latin-1") in self._joined

    def _over_several(self, data: bytes) -> bool:
        """Whether a sequence of two or more tokens contains ``data``."""
        text, most = data.decode("latin-1"), self._longest
        ends = [0]
        for at in range(1, len(text)):
            whole = any(text[end:at] in self._tokens for end in ends if at - end <= most)
            if whole or (at <= most and text[:at] + _BORDER in self._joined):
                ends.append(at)
        return any(_BORDER + text[end:] in self._joined for end in ends if len(text) - end <= most)


def check_writable_stops(stops: Stops, engine: Engine) -> None:
    """Raise `RequestError` for a stop string that no sequence of tokens of this vocabulary can contain.

    Exact for strings; patterns are not checked.
    """
    if not stops.strings:
        return
    texts = engine.derived(WritableTexts)
    for i, string in enumerate(stops.strings):
        data = string.encode("utf-8")
        if not texts.contains(data):
            missing = texts.missing(data)
            raise RequestError(
                f"no text of this model's vocabulary can contain {string!a}",
                place=f"stop[{i}]",
                expected="a text that its tokens can write",
                hint=f"no token holds the bytes {missing.hex(' ')}" if missing else "",
            )
