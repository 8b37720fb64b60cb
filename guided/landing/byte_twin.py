"""A second llguidance tokenizer for the same grammars, whose ordinary tokens are the 256 single bytes.

Markers, sentinels and EOS keep their ids; all other vocabulary ids stand for no text; the byte ids come above all of
these.  So the text of any plan's grammar compiles unchanged, and a search over bytes does not depend on the vocabulary.
A symbol is a byte, or `FIRST_MARKER` + id for a special token.
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
from guided.tracking.regions import FIRST_MARKER

__all__ = ["ByteMask", "ByteMatcher", "ByteTwin", "Lookahead", "bits_of"]

#: Special ids further apart than this are read from the mask in separate slices.
_MAX_GAP = 1_024
#: How the engine writes a special token among forced bytes.
_SPECIAL = re.compile(rb"\xff\[([0-9]+)\]")


class ByteMask(NamedTuple):
    """The symbols allowed next: ``byte_bits`` has bit ``b`` set for byte ``b``; ``ids`` are markers and sentinels."""

    byte_bits: int
    ids: tuple[int, ...]

    def allows(self, symbol: int) -> bool:
        return bool(self.byte_bits >> symbol & 1) if symbol < FIRST_MARKER else symbol - FIRST_MARKER in self.ids


class Lookahead(NamedTuple):
    """The mask after some symbols, and the bytes that the engine forces next."""

    mask: ByteMask
    forced: bytes


class _Tokenizer:
    """A tokenizer of single bytes, in the form that llguidance asks for."""

    def __init__(self, engine: Engine, first_byte_id: int, eos: int) -> None:
        size = int(engine.ll_tokenizer.vocab_size)
        self.tokens = [b""] * first_byte_id + [bytes((byte,)) for byte in range(256)]
        self.special_token_ids = sorted({*engine.tokens.marker_ids, *range(engine.vocab_size, size), eos})
        for i in self.special_token_ids:
            self.tokens[i] = (engine.token_bytes(i) if i < engine.vocab_size else b"") or b"<id-%d>" % i
        self.eos_token_id, self.bos_token_id = eos, None
        self._first_byte_id = first_byte_id

    def __call__(self, data: bytes | str) -> list[int]:
        return [self._first_byte_id + byte for byte in (data.encode() if isinstance(data, str) else data)]


class _MaskBuffer(threading.local):
    """The buffer that matchers write masks into: one per thread, since llguidance releases the GIL."""

    def __init__(self, num_words: int) -> None:
        words = np.zeros(num_words, dtype=np.int32)
        self.view = memoryview(words.data).cast("B")
        self.address, self.nbytes = words.ctypes.data, words.nbytes


class ByteTwin:
    """The byte twin of one engine; get it with ``engine.derived(ByteTwin)``.  Thread-safe; its matchers are not.

    Building it takes some ms per 10,000 tokens.
    """

    def __init__(self, engine: Engine) -> None:
        size = int(engine.ll_tokenizer.vocab_size)
        #: a multiple of 8, so that the bits of the 256 bytes fill 32 whole bytes of a mask
        self.first_byte_id = -(-size // 8) * 8
        wrapped = _Tokenizer(engine, self.first_byte_id, int(engine.ll_tokenizer.eos_token))
        self.tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(wrapped))
        self._special = list(_mask_slices(wrapped.special_token_ids))
        self._buffer = _MaskBuffer(-(-(self.first_byte_id + 256) // 32))

    def matcher(self, plan: Plan, entry: str = "") -> ByteMatcher:
        """Return a matcher at the beginning of an entry of a plan; raises as `compile_grammar` does."""
        matcher = compile_grammar(self.tokenizer, plan.engine_text(entry))
        return ByteMatcher(self, matcher, frozenset(end.sentinel for end in plan.ends))

    def mask(self, matcher: Any) -> ByteMask:
        """Return the symbols that ``matcher`` allows next."""
        buffer = self._buffer
        matcher.unsafe_compute_mask_ptr(buffer.address, buffer.nbytes)
        at = self.first_byte_id >> 3
        ids: tuple[int, ...] = ()
        for start, end, special in self._special:
            bits = int.from_bytes(buffer.view[start:end], "little") & special
            ids += tuple(8 * start + bit for bit in bits_of(bits))
        return ByteMask(int.from_bytes(buffer.view[at : at + 32], "little"), ids)


def bits_of(bits: int) -> tuple[int, ...]:
    """Return the numbers of the bits that are set, ascending."""
    listed = []
    while bits:
        lowest = bits & -bits
        listed.append(lowest.bit_length() - 1)
        bits ^= lowest
    return tuple(listed)


def _mask_slices(ids: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yield (start, stop, bits) for the byte slices of a mask that cover ``ids`` (ascending)."""
    first = 0
    for i in range(1, len(ids) + 1):
        if i == len(ids) or ids[i] - ids[i - 1] > _MAX_GAP:
            start = ids[first] >> 3
            yield start, (ids[i - 1] >> 3) + 1, sum(1 << (token_id - 8 * start) for token_id in ids[first:i])
            first = i


class ByteMatcher:
    """A matcher that is fed with symbols.  Not thread-safe."""

    __slots__ = ("_matcher", "_twin", "ends")

    def __init__(self, twin: ByteTwin, matcher: Any, ends: frozenset[int]) -> None:
        self._twin = twin
        self._matcher = matcher
        self.ends = ends  #: the ids of the mask at which the answer may end

    def copy(self) -> ByteMatcher:
        return ByteMatcher(self._twin, self._matcher.deep_copy(), self.ends)

    def feed(self, symbols: Iterable[int]) -> bool:
        """Write ``symbols``; return False if the grammar refuses one, after which the matcher must not be used."""
        return bool(self._matcher.consume_tokens(self.to_ids(symbols)))

    def num_accepted(self, symbols: Sequence[int]) -> int:
        """Return how many of these symbols, from the first on, may be written here."""
        return int(self._matcher.validate_tokens(self.to_ids(symbols)))

    def accepts(self, symbols: Sequence[int]) -> bool:
        """Whether all of these symbols may be written here."""
        return self.num_accepted(symbols) == len(symbols)

    def accepts_ids(self, ids: list[int]) -> bool:
        """Whether all of these ids (from `to_ids`) may be written here."""
        return int(self._matcher.validate_tokens(ids)) == len(ids)

    def to_ids(self, symbols: Iterable[int]) -> list[int]:
        """Convert symbols to the twin's token ids."""
        first = self._twin.first_byte_id
        return [first + s if s < FIRST_MARKER else s - FIRST_MARKER for s in symbols]

    def ends_after(self, ids: Sequence[int]) -> bool:
        """Whether the answer may end after these ids (from `to_ids`); does not move the matcher."""
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
            symbols += [FIRST_MARKER + int(part)] if i % 2 else part
        return symbols

    def outcome(self, symbols: Sequence[int]) -> Lookahead:
        """Return the mask and forced bytes after ``symbols`` without moving the matcher.

        ``symbols`` must be legal here: otherwise the result is empty and the matcher unusable.
        """
        matcher = self._matcher
        if not matcher.consume_tokens(self.to_ids(symbols)):
            return Lookahead(ByteMask(0, ()), b"")
        outcome = Lookahead(self._twin.mask(matcher), bytes(matcher.compute_ff_bytes()))
        matcher.rollback(len(symbols))
        return outcome

    @property
    def has_failed(self) -> bool:
        """Whether the engine has failed, at one of its limits; then its masks mean nothing."""
        return bool(self._matcher.is_error())
