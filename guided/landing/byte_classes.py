"""Classes of bytes after which an answer may go on in the same way, and texts to try where no single byte leads on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from guided.landing.byte_twin import ByteMask, ByteMatcher, Lookahead, bits_of

__all__ = ["BLANK", "FEW", "FITTED", "FREE_TEXT", "Classes", "Outlook", "set_of"]

#: More bytes than this are tried by class.
FEW = 8
#: Where more bytes than this are allowed, any text is.
FREE_TEXT = 64
#: What must come next, if it is as long as this, shows that free text has been left.
_EXIT_BYTES = 4
#: Places that take as long as seeing what comes after some symbols, and as asking whether they fit.
_SEEN, FITTED = 0.05, 0.02
#: The most that looking at texts may take at one place.
_MAX_SPENT = 20.0
#: Letters first: a run of them has fewer tokens than one of digits or marks.
_PRINTABLE = bytes((*range(0x61, 0x7B), *range(0x20, 0x61), *range(0x7B, 0x7F), 0x0A, 0x09))
#: White space, which a grammar may ignore.
BLANK = b" \n\t\r\v\f"
_WORD = b"_ abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


class Classes(dict[tuple[ByteMask, bytes], dict[Lookahead, int]]):
    """For each mask, one byte of each class: bytes of one class have the same `Lookahead`, the mask after the byte.

    ``spent`` is the work of finding the classes, as the number of places that a search tries in the same time.
    """

    spent: float = 0.0


class Outlook(NamedTuple):
    """One place: what may be written there, and what is seen after it."""

    matcher: ByteMatcher
    mask: ByteMask
    classes: Classes  #: those remembered, and the work of looking
    written: bytes = b""  #: the bytes before the place in which a text may have begun

    def some(self, without: bytes = b"") -> tuple[int, ...]:
        """Return one byte of each class of those that the mask allows; all bytes if they are few."""
        allowed = self.mask.byte_bits & ~set_of(without)
        return bits_of(allowed) if allowed.bit_count() <= FEW else tuple(self.looks(without).values())

    def looks(self, without: bytes = b"") -> dict[Lookahead, int]:
        """Return one byte of each class by what is seen after it."""
        key, matcher = (self.mask, without), self.matcher
        classes = self.classes.get(key)
        if classes is None or any(matcher.outcome((byte,)) != after for after, byte in classes.items()):
            allowed = self.mask.byte_bits & ~set_of(without)
            classes, some = {}, tuple(sorted(bits_of(allowed), key=BLANK.__contains__))  # which may be ignored
            if len(some) > 2 * FEW:  # some of many; where none is printable, they continue a character
                some = tuple(byte for byte in _PRINTABLE if allowed >> byte & 1) or some[:FEW]
            self.classes.spent += _SEEN * len(some)
            for byte in some:
                classes.setdefault(matcher.outcome((byte,)), byte)
            self.classes[key] = classes
        return classes

    def leading(
        self, texts: Sequence[Sequence[int]], is_surely: Callable[[Sequence[int]], bool] = lambda _: False
    ) -> Iterator[tuple[int, ...]]:
        """Yield the texts, or the rest of those begun in ``written``, that lead where no other byte leads.

        Those for which ``is_surely`` holds do so, whatever is seen after them.
        """
        plain: dict[int, Lookahead | None] = {}
        for text in texts:
            for ending in self._fitting(text):
                if is_surely(ending) or (len(ending) >= min(len(text), 2) and self.leads(ending, plain)):
                    yield tuple(ending)
                    break  # the longest rest ends it surely, and the rest of a text begun is shorter than the text

    def leads(self, text: Sequence[int], plain: dict[int, Lookahead | None]) -> bool:
        """Whether ``text``, which may be written, leads where neither another byte nor as many letters lead, nor stays.

        If much must come after it, other bytes are not looked at.  ``plain`` keeps, for the place, what is seen after
        letters by their number, None where they may not be written.
        """
        matcher, after, size = self.matcher, self.matcher.outcome(text), len(text)
        self.classes.spent += _SEEN
        for number in (0, size):
            if number not in plain:
                letters = b"a" * number
                self.classes.spent += FITTED + _SEEN
                plain[number] = matcher.outcome(letters) if matcher.accepts(letters) else None
            if plain[number] == after:
                return False
        if len(after.forced) >= _EXIT_BYTES:
            return True
        single = self.looks().get(after)
        return single is None or (single,) == tuple(text)

    def shortest(self, texts: Sequence[Sequence[int]]) -> Iterator[tuple[int, ...]]:
        """Yield the texts, or the rest of those begun in ``written``; of those that lead to places alike only one.

        A text that leads to a place like the one before it is a part of a longer word, or closes one bracket of many.
        """
        here, looks = self.matcher.outcome(b""), self.looks()
        seen: set[Lookahead] = set()
        for text in texts:
            ending = next(self._fitting(text), None)
            if ending is None:
                continue
            after = self.matcher.outcome(ending)
            self.classes.spent += _SEEN
            if after not in seen and (after != here or (len(ending) == 1 and ending[0] not in _WORD)):
                seen.add(after)
                single = looks.get(after)
                yield tuple(ending) if single is None else (single,)

    def fits(self, text: Sequence[int]) -> bool:
        """Whether ``text`` may be written; False as well where too much was spent on texts at one place."""
        if not self.mask.allows(text[0]) or self.classes.spent >= _MAX_SPENT:
            return False
        self.classes.spent += FITTED * (1 + len(text) / FREE_TEXT)
        return self.matcher.accepts(text)

    def _fitting(self, text: Sequence[int]) -> Iterator[Sequence[int]]:
        """Yield ``text``, and the rest of it where ``written`` ends with its beginning, if that may be written."""
        written = self.written
        for at in (*range(1, min(len(text), len(written) + 1)), 0):
            is_begun = not at or (text[at - 1] == written[-1] and tuple(text[:at]) == tuple(written[-at:]))
            if is_begun and self.fits(text[at:]):
                yield text[at:]


def set_of(data: bytes) -> int:
    """Return the set of bytes of ``data``, as in `ByteMask`."""
    bits = 0
    for byte in data:
        bits |= 1 << byte
    return bits
