"""Which texts a vocabulary can write: a stop that it cannot would never stop anything."""

from __future__ import annotations

from functools import cached_property
from weakref import WeakKeyDictionary, ref

from grammars.plan.plan import Stops
from guided.engine.engine import Engine
from special_tokens.errors import RequestError

__all__ = ["WritableTexts", "check_writable_stops"]

#: Stands between tokens whose bytes are written as Latin-1 characters; no byte is this character.
_BORDER = "\u0100"


class WritableTexts:
    """What some row of tokens of ``engine`` contains.

    Where every byte of a text is a token by itself, as in most vocabularies, nothing more is looked at: that costs
    a look-up a byte.  Only for other texts the whole vocabulary is read, once.
    """

    def __init__(self, engine: Engine) -> None:
        self._weak_engine = ref(engine)  # kept by the engine, and must not keep it
        self._alone: dict[int, bool] = {}

    def contains(self, data: bytes) -> bool:
        """Is ``data`` a piece of what some tokens write one after the other?  The first and last may stand out."""
        return all(map(self._is_token, data)) or self._in_one(data) or self._over_several(data)

    def missing(self, data: bytes) -> bytes:
        """The different bytes of ``data`` that no token holds."""
        return bytes(sorted(byte for byte in set(data) if not self._in_one(bytes((byte,)))))

    @property
    def _engine(self) -> Engine:
        engine = self._weak_engine()
        assert engine is not None
        return engine

    def _is_token(self, byte: int) -> bool:
        known = self._alone.get(byte)
        if known is None:
            engine, data = self._engine, bytes((byte,))
            ids = engine.ll_tokenizer.tokenize_bytes(data)
            known = self._alone[byte] = b"".join(map(engine.token_bytes, ids)) == data
        return known

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
        """Places inside ``data`` where a token may end, from the first to the last."""
        text, most = data.decode("latin-1"), self._longest
        ends = [0]
        for at in range(1, len(text)):
            whole = any(text[end:at] in self._tokens for end in ends if at - end <= most)
            if whole or (at <= most and text[:at] + _BORDER in self._joined):
                ends.append(at)
        return any(_BORDER + text[end:] in self._joined for end in ends if len(text) - end <= most)


_known: WeakKeyDictionary[Engine, WritableTexts] = WeakKeyDictionary()


def check_writable_stops(stops: Stops, engine: Engine) -> None:
    """Raise `RequestError` for a stop string that no row of tokens of this vocabulary contains.

    Exact for strings; what a pattern matches is not held against the vocabulary.
    """
    if not stops.strings:
        return
    texts = _known.get(engine)
    if texts is None:
        texts = _known.setdefault(engine, WritableTexts(engine))
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
