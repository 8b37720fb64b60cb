"""The byte twin of an engine: it compiles the same grammars over single bytes instead of the vocabulary's tokens.

Markers and sentinels keep their ids, all other ids of the vocabulary write nothing, and the 256 bytes get ids past all
of these.  So the text of any plan's grammar compiles unchanged, and a search over bytes does not depend on the
vocabulary.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import llguidance
import numpy as np

from grammars.plan.plan import Plan
from guided.engine.engine import Engine, compile_grammar

__all__ = ["ByteMask", "ByteMatcher", "ByteTwin", "Look"]

#: Ids that are farther apart than this, in bits of a mask, are read apart.
_GAP = 1_024
_SPECIAL = re.compile(rb"\xff\[([0-9]+)\]")


class ByteMask(NamedTuple):
    """The symbols allowed next: ``bytes`` has bit ``b`` set for byte ``b``; ``ids`` are markers and sentinels."""

    bytes: int
    ids: tuple[int, ...]

    def allows(self, symbol: int) -> bool:
        return bool(self.bytes >> symbol & 1) if symbol < 256 else symbol - 256 in self.ids


class Look(NamedTuple):
    """The mask at a place and the bytes that must come next, as the engine writes them."""

    mask: ByteMask
    forced: bytes


class _Tokenizer:
    """A tokenizer of single bytes, in the form that llguidance asks for."""

    def __init__(self, engine: Engine, first: int, eos: int) -> None:
        size = int(engine.ll_tokenizer.vocab_size)
        self.tokens = [b""] * first + [bytes((byte,)) for byte in range(256)]
        self.special_token_ids = sorted({*engine.tokens.marker_ids, *range(engine.vocab_size, size), eos})
        for i in self.special_token_ids:
            self.tokens[i] = (engine.token_bytes(i) if i < engine.vocab_size else b"") or b"<id-%d>" % i
        self.eos_token_id, self.bos_token_id = eos, None
        self._first = first

    def __call__(self, data: bytes | str) -> list[int]:
        return [self._first + byte for byte in (data.encode() if isinstance(data, str) else data)]


class _Row(threading.local):
    """The mask that matchers write into: one row of memory per thread, since the engine lets other threads run."""

    def __init__(self, num_words: int) -> None:
        words = np.zeros(num_words, dtype=np.int32)
        self.place = memoryview(words.data).cast("B"), words.ctypes.data, words.nbytes


class ByteTwin:
    """The byte twin of one engine: ``engine.derived(ByteTwin)``.  Building it takes some ms per 10,000 tokens.

    Thread-safe; its matchers are not.
    """

    def __init__(self, engine: Engine) -> None:
        size = int(engine.ll_tokenizer.vocab_size)
        #: the id of byte 0; a multiple of 8, so that the bits of all bytes are 32 bytes of a mask
        self.first = -(-size // 8) * 8
        wrapped = _Tokenizer(engine, self.first, int(engine.ll_tokenizer.eos_token))
        self.tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(wrapped))
        self._special = list(_parts(wrapped.special_token_ids))
        self._row = _Row(-(-(self.first + 256) // 32))

    def matcher(self, plan: Plan, entry: str = "") -> ByteMatcher:
        """Return a matcher at the beginning of an entry of a plan; raises as `compile_grammar` does."""
        matcher = compile_grammar(self.tokenizer, plan.engine_text(entry))
        return ByteMatcher(self, matcher, frozenset(end.sentinel for end in plan.ends))

    def mask(self, matcher: Any) -> ByteMask:
        """Return the symbols that ``matcher`` allows next."""
        view, address, nbytes = self._row.place
        matcher.unsafe_compute_mask_ptr(address, nbytes)
        at = self.first >> 3
        ids: tuple[int, ...] = ()
        for start, end, special in self._special:
            bits = int.from_bytes(view[start:end], "little") & special
            while bits:
                lowest = bits & -bits
                ids += (8 * start + lowest.bit_length() - 1,)
                bits ^= lowest
        return ByteMask(int.from_bytes(view[at : at + 32], "little"), ids)


def _parts(ids: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yield the parts of a mask that hold ascending ``ids``: the first byte, the one after the last, and their bits."""
    first = 0
    for i in range(1, len(ids) + 1):
        if i == len(ids) or ids[i] - ids[i - 1] > _GAP:
            start = ids[first] >> 3
            yield start, (ids[i - 1] >> 3) + 1, sum(1 << (token_id - 8 * start) for token_id in ids[first:i])
            first = i


class ByteMatcher:
    """A matcher that is fed with symbols: bytes, and markers as 256 + id.  Not thread-safe."""

    __slots__ = ("_matcher", "_twin", "ends")

    def __init__(self, twin: ByteTwin, matcher: Any, ends: frozenset[int]) -> None:
        self._twin = twin
        self._matcher = matcher
        self.ends = ends  #: the ids of the mask at which the answer may end

    def copy(self) -> ByteMatcher:
        return ByteMatcher(self._twin, self._matcher.deep_copy(), self.ends)

    def feed(self, symbols: Iterable[int]) -> bool:
        """Write ``symbols``; return False if the grammar refuses one, after which the matcher must not be used."""
        return bool(self._matcher.consume_tokens(self.ids(symbols)))

    def num_fitting(self, data: Sequence[int]) -> int:
        """Return how many of these symbols, from the first on, may be written here."""
        return int(self._matcher.validate_tokens(self.ids(data)))

    def fits(self, data: Sequence[int]) -> bool:
        """Whether all of these symbols may be written here."""
        return self.num_fitting(data) == len(data)

    def ids(self, symbols: Iterable[int]) -> list[int]:
        """Return the twin's ids of symbols, for `ends_after`."""
        first = self._twin.first
        return [first + s if s < 256 else s - 256 for s in symbols]

    def ends_after(self, ids: Sequence[int]) -> bool:
        """Whether the answer may end after ``ids``, see `ids`; the matcher stays here."""
        size = len(ids)
        return any(self._matcher.validate_tokens([*ids, end]) > size for end in self.ends)

    def mask(self) -> ByteMask:
        return self._twin.mask(self._matcher)

    def forced(self) -> list[int]:
        """Return the symbols that must come next."""
        data = bytes(self._matcher.compute_ff_bytes())
        if b"\xff" not in data:
            return list(data)
        symbols: list[int] = []
        for i, part in enumerate(_SPECIAL.split(data)):
            symbols += [256 + int(part)] if i % 2 else part
        return symbols

    def outcome(self, symbols: Sequence[int]) -> Look:
        """Return what is seen after ``symbols``, which may be written here; the matcher stays here."""
        matcher = self._matcher
        if not matcher.consume_tokens(self.ids(symbols)):
            return Look(ByteMask(0, ()), b"")
        look = Look(self._twin.mask(matcher), bytes(matcher.compute_ff_bytes()))
        matcher.rollback(len(symbols))
        return look

    @property
    def has_failed(self) -> bool:
        """Whether the engine has failed, at one of its limits; then its masks mean nothing."""
        return bool(self._matcher.is_error())
