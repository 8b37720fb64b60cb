"""Keys and items that must not be written twice: the tokens that would, and those behind which nothing else is left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grammars.values.watchers import UniqueWatch
from guided.bitmask import is_allowed, num_words
from guided.direct_repeats import DirectRepeats, has_all
from guided.watchers.json_scanner import NUMBER_BYTES, Frame, Mode, ScanState, Seen, feed, is_compared, number_value
from guided.watchers.json_escapes import canonical, spellings, unfinished
from guided.watchers.vocabulary_index import TokenBytes, clear_ids
from special_tokens.errors import LimitExceeded

__all__ = ["Repeats"]

_LOOKED_AT = 200  # places that one search for a way on may look at, each some 0.1 ms
_LOOKED_AT_ALL = 2_000  # where all keys that there are seem to be written
_MANY_DIGITS = 50  # of the 64 that a number may have in a row
_NUMBER = NUMBER_BYTES + b" "
#: How a text is tried to go on otherwise than any before: what most languages have, cheap to ask for.
_OTHERWISE = tuple(bytes((byte,)) for byte in b'"ae1A_0 -')


class _Search:
    """One search for a way on: the places that it may still look at, and what it has found."""

    def __init__(self, places: int) -> None:
        self.places = places
        #: By what is written, and the `id` of what was before it, which is kept here, so that it stays its own.
        self.found: dict[tuple[Mode, bytes, int], tuple[bool, Seen]] = {}


class Repeats:
    """What a `UniqueWatch` takes out of masks.  Immutable; what was written is a `ScanState`."""

    def __init__(self, watcher: UniqueWatch, tokens: TokenBytes) -> None:
        self.tokens = tokens
        self.nodes = watcher.nodes
        self.direct = DirectRepeats(watcher.nodes, tokens)
        self.tight_keys = watcher.tight_keys
        self.fewest_keys = watcher.fewest_keys
        self.may_repeat = any(node.may_repeat for node in watcher.nodes)
        self.is_tight = watcher.tight_keys or any(node.tight or node.values for node in watcher.nodes)
        self._used_up: tuple[Seen | None, bool] = (None, False)  # of what was asked for last

    def is_near(self, scan: ScanState) -> bool:
        """Is there a token that could be a repeat here, or lead to one?"""
        frame, mode = scan.frame, scan.mode
        if frame is None:
            return False
        if not frame.armed:  # nothing was written yet that a token could repeat, but for what it ends itself
            is_item = mode is Mode.STRING and is_compared(frame, self.nodes)
            return (is_item or mode is Mode.IN_KEY) and bool(self.direct.crossing(scan) or self._crossed())
        if not frame.is_object:  # what an object holds is taken by its keys alone
            at_repeat = bool(len(frame.seen))
        else:
            at_repeat = mode is Mode.IN_KEY or (self.tight_keys and mode is Mode.KEY)
        return at_repeat or bool(self.direct.crossing(scan)) or (self.is_tight and self._is_next_near(frame))

    def _crossed(self) -> Sequence[int]:
        return self.tokens.keys_crossed if self.tight_keys else ()

    def _is_next_near(self, frame: Frame) -> bool:
        return bool(self.tokens.begun_later or self._crossed()) or self._may_be_used_up(frame)

    def restrict(self, words: NDArray[np.int32], scan: ScanState, matcher: Any) -> None:
        """Clear what repeats, and what can only end as a repeat.

        Where nothing else is left ``words`` stays, if the report says that this may come; raises `LimitExceeded` if
        it does not: the way here was longer than what is searched for another.
        """
        kept = words.copy()
        self.direct.clear(words, scan)
        if self._is_tight(scan):
            self._clear_stuck(words, scan, matcher)
        if self.is_tight and scan.frame is not None:
            self._clear_next(words, scan, scan.frame, matcher)
        if not words.any() and kept.any():
            is_key = scan.mode in (Mode.KEY, Mode.IN_KEY)
            if is_key or not self.may_repeat:
                raise LimitExceeded(
                    f"only a {'key' if is_key else 'value'} that is there already can be written here, which was not "
                    f"seen {_LOOKED_AT} places ahead",
                    hint="use shorter patterns, or fewer keys or items",
                )
            words[:] = kept

    # -- tokens that begin what can only end as a repeat

    def _is_tight(self, scan: ScanState) -> bool:
        """Is a key or an item being written whose texts are short or few?"""
        frame = scan.frame
        if frame is None:
            return False
        if frame.is_object:
            return self.tight_keys and scan.mode in (Mode.KEY, Mode.IN_KEY)
        if frame.node < 0 or scan.mode not in (Mode.VALUE, Mode.STRING, Mode.NUMBER):
            return False
        return self.nodes[frame.node].tight or (self.nodes[frame.node].unique and _is_late(scan))

    def _clear_stuck(self, words: NDArray[np.int32], scan: ScanState, matcher: Any) -> None:
        search = _Search(_LOOKED_AT)
        of = self.tokens.of
        free: set[bytes] = set()  # all that tokens behind which something else is left begin with
        ways = [i for i in self._toward(scan) if is_allowed(words, i)]
        stuck: list[int] = []
        for i in sorted(ways, key=lambda i: len(of[i]), reverse=True):
            if of[i] in free:
                continue  # what can go on behind more of the text can behind less of it
            if self._is_stuck(scan, i, matcher, search):
                stuck.append(i)
            else:
                free.update(of[i][:size] for size in range(1, len(of[i]) + 1))
        clear_ids(words, stuck)

    def _toward(self, scan: ScanState) -> list[int]:
        """Tokens that go on exactly as a key or a value that was there before does, and do not end it."""
        frame = scan.frame
        assert frame is not None
        found: dict[int, None] = {}
        match scan.mode:
            case Mode.KEY:
                begun = self.tokens.keys_begun
                for key in frame.seen.beginning(b"") or ():
                    for text in spellings(key, b"", begun.may_be):
                        found.update(dict.fromkeys(begun.of(text)))
            case Mode.IN_KEY | Mode.STRING:
                for rest in self.direct.rests(scan.text, frame.seen):
                    found.update(dict.fromkeys(self.tokens.within(rest)))
            case _:
                size, longest = len(scan.text), self.tokens.longest_of_number
                rests = (text[size:] for text in self._begun_values(scan) if text.startswith(scan.text))
                for rest in {rest[:longest] if not rest.strip(_NUMBER) else rest for rest in rests}:
                    found.update(dict.fromkeys(self.tokens.within(rest)))
                if _is_late(scan):
                    found.update(dict.fromkeys(i for i in self.tokens.digits_alone if self._is_known(scan, i)))
        return list(found)

    def _is_known(self, scan: ScanState, token_id: int) -> bool:
        """Is the number with the token's digits one that was there before?"""
        try:
            return scan.frame is not None and number_value(scan.text + self.tokens.of[token_id]) in scan.frame.seen
        except ValueError:
            return False

    def _begun_values(self, scan: ScanState) -> Iterator[bytes]:
        """How the items before begin in the text, as far as it matters: strings with their first quote."""
        frame = scan.frame
        assert frame is not None
        for before in frame.seen:
            if isinstance(before, Fraction):
                texts = [(str(before) if before.denominator == 1 else repr(float(before))).encode()]
                texts += [b"-" + text for text in texts] if before == 0 else []
            else:
                assert isinstance(before, tuple)
                mode, text = before
                is_string = mode is Mode.STRING
                texts = [b'"' + way for way in spellings(text, b"", self._may_begin)] if is_string else [bytes(text)]
            for text in texts:
                yield text
                if scan.mode is Mode.VALUE:
                    yield b" " + text

    def _may_begin(self, text: bytes) -> bool:
        return self.tokens.may_be(b'"' + text)

    def _is_stuck(self, scan: ScanState, token_id: int, matcher: Any, search: _Search) -> bool:
        """Can what begins with the token, which the mask allows, only end as a repeat?"""
        dead: list[tuple[Mode, bytes, int]] = []
        todo: list[tuple[ScanState, int, Any]] = [(scan, token_id, matcher)]
        while todo:
            before, i, at = todo.pop()
            after = feed(before, self.tokens.of[i], self.nodes)
            if after.frame is None:
                break
            place = self._place(after, i)
            known = search.found.get(place)
            if known is not None and known[0]:
                continue
            if known is not None or self._may_leave(after, i, at):
                break
            beyond = self._ways_behind(after, i, at, search)
            if beyond is None:
                break
            search.found[place] = True, after.frame.seen
            dead.append(place)
            ways, at = beyond
            todo += [(after, way, at) for way in ways]
        else:
            return True
        for place in dead:  # what led here leads on
            del search.found[place]
        first = feed(scan, self.tokens.of[token_id], self.nodes)
        if first.frame is not None:
            search.found[self._place(first, token_id)] = False, first.frame.seen
        return False

    def _place(self, after: ScanState, token_id: int) -> tuple[Mode, bytes, int]:
        """What a search knows a place by; before a key or value a blank and a comma are two places."""
        text = after.text or self.tokens.of[token_id][-1:]
        assert after.frame is not None
        return after.mode, text, id(after.frame.seen)

    def _may_leave(self, after: ScanState, token_id: int, matcher: Any) -> bool:
        """A quick look whether the string or number can go on otherwise than any before; False says nothing."""
        if after.mode is Mode.NUMBER:
            return self._may_be_other_number(after, token_id, matcher)
        if after.mode is not Mode.IN_KEY and after.mode is not Mode.STRING:
            return False
        if after.frame is None or after.escaped or unfinished(after.text):
            return False
        text = canonical(after.text)
        size = len(text)
        taken = {before[size : size + 1] or b'"' for before in after.frame.seen.beginning(text) or ()}
        for other in _OTHERWISE:
            ids = self.tokens.ids.get(other) if other not in taken else None
            if ids and int(matcher.validate_tokens([token_id, ids[0]])) == 2:
                return True
        return False

    def _may_be_other_number(self, after: ScanState, token_id: int, matcher: Any) -> bool:
        """May a few more digits make it a number that was not there before?"""
        assert after.frame is not None
        for digits in (b"", b"1", b"7", b"37", b"173", b"5173"):
            ids = [self.tokens.ids.get(bytes((digit,)), (-1,))[0] for digit in digits]
            try:
                is_known = -1 in ids or number_value(after.text + digits) in after.frame.seen
            except ValueError:
                continue
            for end in () if is_known else self.tokens.behind_numbers:
                if int(matcher.validate_tokens([token_id, *ids, end])) == len(ids) + 2:
                    return True
        return False

    def _ways_behind(
        self, after: ScanState, token_id: int, matcher: Any, search: _Search
    ) -> tuple[list[int], Any] | None:
        """The tokens behind the token that go on as a repeat does, and the engine there; None where others do.

        None as well past the places that may be looked at.  Of tokens that begin alike the shortest stands for all,
        and the last one is to be followed first.
        """
        if search.places <= 0:
            return None
        search.places -= 1
        matcher = matcher.deep_copy()
        if not matcher.consume_token(token_id):
            return None
        words = np.frombuffer(matcher.compute_bitmask(), dtype=np.int32)[: num_words(len(self.tokens.of))].copy()
        if matcher.is_error():
            return None
        self.direct.clear(words, after)
        ways = [i for i in self._toward(after) if is_allowed(words, i)]
        away = words.copy()
        clear_ids(away, ways)
        if after.mode is Mode.KEY:
            blanks = [i for i in self.tokens.blanks if is_allowed(away, i)]
            clear_ids(away, blanks)
            if not ways:  # behind one as behind the other
                ways = blanks[:1]
        if away.any():
            return None
        of = self.tokens.of
        shortest: dict[bytes, int] = {}
        for i in sorted(ways, key=lambda i: len(of[i])):
            if not any(of[i][:size] in shortest for size in range(1, len(of[i]) + 1)):
                shortest[of[i]] = i
        return list(shortest.values())[::-1], matcher

    # -- tokens behind which the next key or item can only be a repeat

    def _clear_next(self, words: NDArray[np.int32], scan: ScanState, frame: Frame, matcher: Any) -> None:
        search = _Search(_LOOKED_AT)
        crossed = self._crossed()
        for i in (*crossed, *self.tokens.begun_later):
            after = self._next(words, scan, i)
            if after is not None and after.text and self._is_tight(after) and self._is_stuck(scan, i, matcher, search):
                clear_ids(words, (i,))
        for i in self.tokens.commas if self._may_be_used_up(frame) else crossed:
            after = self._next(words, scan, i)
            if after is not None and after.frame is not None and self._is_used_up(after.frame, i, scan, matcher):
                clear_ids(words, (i,))

    def _next(self, words: NDArray[np.int32], scan: ScanState, token_id: int) -> ScanState | None:
        """Where a token leads that is allowed, if it is to the next key or item, or into it."""
        if not is_allowed(words, token_id):
            return None
        after = feed(scan, self.tokens.of[token_id], self.nodes)
        if after.frame is None:
            return None
        if after.frame.is_object:
            return after if after.mode is Mode.KEY or after.mode is Mode.IN_KEY else None
        is_item = after.mode in (Mode.VALUE, Mode.STRING, Mode.NUMBER)
        return after if is_item and after.frame is not scan.frame else None

    def _is_used_up(self, opened: Frame, token_id: int, scan: ScanState, matcher: Any) -> bool:
        """Is there no key, or no value, left for what the token opens?"""
        if not opened.is_object:
            return has_all(opened, self.nodes)
        if not 0 < self.fewest_keys <= len(opened.seen):
            return False
        seen, is_used_up = self._used_up
        if seen is not opened.seen:
            is_used_up = self._is_stuck(scan, token_id, matcher, _Search(_LOOKED_AT_ALL))
            self._used_up = opened.seen, is_used_up
        return is_used_up

    def _may_be_used_up(self, frame: Frame | None) -> bool:
        """Has an object around here as many keys as there may be words for, or an array as many items?"""
        while frame is not None:
            if has_all(frame, self.nodes, 1) or (frame.is_object and 0 < self.fewest_keys <= len(frame.seen)):
                return True
            frame = frame.parent
        return False


def _is_late(scan: ScanState) -> bool:
    """Is a number being written that may have to end soon: its exponent, or very many digits?"""
    text = scan.text
    return scan.mode is Mode.NUMBER and (len(text) > _MANY_DIGITS or b"e" in text or b"E" in text)
