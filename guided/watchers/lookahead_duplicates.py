"""The look-ahead duplicate filter: clears tokens that write a duplicate, or after which only a duplicate is possible.

Tokens that complete a duplicate are found directly (`guided.watchers.direct_duplicates`).  For the others a bounded
search through the engine's masks follows every continuation that still equals a key or item written before; if none
leaves those texts, the token is a dead end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grammars.values.json_escapes import canonical, escaped_forms, unfinished_escape
from grammars.values.json_scanner import NUMBER_BYTES, ScanFrame, ScanState, feed, is_compared, item_value
from grammars.values.persistent_set import Mode, PersistentSet
from grammars.values.watchers import UniqueWatch, Watcher
from guided.bitmask import allowed_of, clear_ids, num_words
from guided.watchers.direct_duplicates import DirectDuplicates, is_exhausted
from guided.watchers.vocabulary_index import VocabularyIndex
from special_tokens.errors import LimitExceeded

__all__ = ["LookaheadDuplicates"]

_MAX_POSITIONS = 200  # visited by one search, each about 0.1 ms
_POSITIONS_OF_A_VALUE = 4  # more for each key or item written before, as which a text may end
_MAX_POSITIONS_LAST_KEY = 2_000  # where all possible keys seem to be written
_MANY_DIGITS = 50  # of the 64 that a number may have in a row
_NUMBER = NUMBER_BYTES + b" "
#: Next bytes that are tried first for a text that differs from all before: most languages contain one of them.
_DIFFERENT = tuple(bytes((byte,)) for byte in b'"ae1A_0 -')


class _DeadEndSearch:
    """One search: the positions that it may still visit, and its results."""

    def __init__(self, positions: int) -> None:
        self.positions = positions
        #: By the current text and the `id` of the set of earlier ones, which is kept here so that the id stays valid.
        self.visited: dict[tuple[Mode, bytes, int], tuple[bool, PersistentSet]] = {}


class LookaheadDuplicates:
    """The watcher of one JSON value.  Immutable, but for a cache; the text written so far is a `ScanState`.

    ``restrict`` clears bits of a mask that the engine has filled; it takes a few hundred us near a duplicate.
    Without ``watchers`` it restricts nothing.
    """

    def __init__(self, watchers: Sequence[Watcher], tokens: VocabularyIndex) -> None:
        watcher = watchers[0] if watchers else UniqueWatch()
        self.tokens = tokens
        self.is_idle = not watchers
        self.nodes = watcher.nodes
        self.direct = DirectDuplicates(watcher.nodes, tokens)
        self.tight_keys = watcher.tight_keys
        self.fewest_keys = watcher.fewest_keys
        self.may_repeat = any(node.may_repeat for node in watcher.nodes)
        self.is_tight = watcher.tight_keys or any(node.tight or node.values for node in watcher.nodes)
        self._exhausted: tuple[PersistentSet | None, bool] = (None, False)  # the last answer

    def may_restrict(self, scan: ScanState) -> bool:
        """Whether a token here could complete a duplicate or lead to one."""
        frame = scan.frame
        if frame is None or self.is_idle:
            return False
        if any(self.direct.candidates(scan)):
            return True
        if frame.is_object and not self.is_tight:
            return False
        if not frame.any_written:  # a token can only repeat the string that it ends itself
            is_item = scan.mode is Mode.STRING and is_compared(frame, self.nodes)
            return (is_item or scan.mode is Mode.IN_KEY) and bool(self._crossing_tokens())
        return self._is_tight(scan) or (self.is_tight and self._may_restrict_next(frame))

    def is_quiet(self, words: NDArray[np.int32], scan: ScanState) -> bool:
        """Whether `restrict` surely leaves ``words`` alone, as it mostly does: cheaper than to restrict them."""
        return not (self.is_tight or self._is_tight(scan) or self.direct.repeating(words, scan))

    def _crossing_tokens(self) -> Sequence[int]:
        return self.tokens.member_crossings if self.tight_keys else ()

    def _may_restrict_next(self, frame: ScanFrame) -> bool:
        return bool(self.tokens.next_value_beginnings or self._crossing_tokens()) or self._may_be_exhausted(frame)

    def restrict(self, words: NDArray[np.int32], scan: ScanState, matcher: Any) -> None:
        """Clear the tokens that complete a duplicate, and those that can only lead to one.

        ``words`` is one row as the engine filled it, without bits past the vocabulary and without end tokens;
        ``matcher`` is at the same position and is only copied.
        If no token would be left, ``words`` stays as it is where the schema's report announces such duplicates;
        otherwise `LimitExceeded` is raised: the dead end began further back than the search looks ahead.
        """
        kept = words.copy()
        self.direct.clear(words, scan)
        if self._is_tight(scan):
            self._clear_dead_ends(words, scan, matcher)
        if self.is_tight and scan.frame is not None:
            self._clear_next(words, scan, scan.frame, matcher)
        if not words.any() and kept.any():
            is_key = scan.mode in (Mode.KEY, Mode.IN_KEY)
            if is_key or not self.may_repeat:
                raise LimitExceeded(
                    f"only a duplicate {'key' if is_key else 'value'} can be written here; "
                    f"a search of {_most_positions(scan)} positions did not find this in time",
                    hint="use shorter patterns, or fewer keys or items",
                )
            words[:] = kept

    # -- tokens that begin a text which can only end as a duplicate

    def _is_tight(self, scan: ScanState) -> bool:
        """Whether the current key or item has few or short possible texts."""
        frame = scan.frame
        if frame is None:
            return False
        if frame.is_object:
            return self.tight_keys and scan.mode in (Mode.KEY, Mode.IN_KEY)
        if frame.node < 0 or scan.mode not in (Mode.VALUE, Mode.STRING, Mode.NUMBER):
            return False
        return self.nodes[frame.node].tight or (self.nodes[frame.node].unique and _is_late(scan))

    def _clear_dead_ends(self, words: NDArray[np.int32], scan: ScanState, matcher: Any) -> None:
        search = _DeadEndSearch(_most_positions(scan))
        of = self.tokens.token_bytes
        free: set[bytes] = set()  # the prefixes of all tokens that lead on
        candidates = allowed_of(words, self._toward_duplicates(scan))
        dead_ends: list[int] = []
        for i in sorted(candidates, key=lambda i: len(of[i]), reverse=True):
            if of[i] in free:
                continue  # if a longer prefix can be extended, so can every shorter one
            if self._is_dead_end(scan, i, matcher, search):
                dead_ends.append(i)
            else:
                free.update(of[i][:size] for size in range(1, len(of[i]) + 1))
        clear_ids(words, dead_ends)

    def _toward_duplicates(self, scan: ScanState) -> list[int]:
        """Tokens that continue exactly like a key or value written before, and do not end it."""
        frame = scan.frame
        assert frame is not None
        refused: dict[int, None] = {}
        match scan.mode:
            case Mode.KEY:
                begun = self.tokens.key_beginnings
                for key in frame.written.with_prefix(b"") or ():
                    for text in escaped_forms(key, b"", begun.has_prefix):
                        refused.update(dict.fromkeys(begun.prefixes_of(text)))
            case Mode.IN_KEY | Mode.STRING:
                for ending in self.direct.completions(scan.text, frame.written):
                    refused.update(dict.fromkeys(self.tokens.prefixes_of(ending)))
            case _:
                size, longest = len(scan.text), self.tokens.max_number_part
                rests = (text[size:] for text in self._begun_values(scan) if text.startswith(scan.text))
                for ending in {ending[:longest] if not ending.strip(_NUMBER) else ending for ending in rests}:
                    refused.update(dict.fromkeys(self.tokens.prefixes_of(ending)))
                if _is_late(scan):
                    of, written = self.tokens.token_bytes, frame.written
                    known = (i for i in self.tokens.all_digits if item_value(Mode.NUMBER, scan.text + of[i]) in written)
                    refused.update(dict.fromkeys(known))
        return list(refused)

    def _begun_values(self, scan: ScanState) -> Iterator[bytes]:
        """The texts of the earlier items, strings with their first quote but not the last."""
        frame = scan.frame
        assert frame is not None
        for before in frame.written:
            if isinstance(before, Fraction):
                texts = [(str(before) if before.denominator == 1 else repr(float(before))).encode()]
                texts += [b"-" + text for text in texts] if before == 0 else []
            else:
                assert isinstance(before, tuple)
                mode, text = before
                is_string = mode is Mode.STRING
                ways = escaped_forms(text, b"", lambda begun: self.tokens.has_prefix(b'"' + begun)) if is_string else ()
                texts = [b'"' + way for way in ways] if is_string else [bytes(text)]
            for text in texts:
                yield text
                if scan.mode is Mode.VALUE:
                    yield b" " + text

    def _is_dead_end(self, scan: ScanState, token_id: int, matcher: Any, search: _DeadEndSearch) -> bool:
        """Whether every text that begins with the token, which the mask allows, ends as a duplicate."""
        dead: list[tuple[Mode, bytes, int]] = []
        todo: list[tuple[ScanState, int, Any]] = [(scan, token_id, matcher)]
        while todo:
            before, i, at = todo.pop()
            after = feed(before, self.tokens.token_bytes[i], self.nodes)
            if after.frame is None:
                break
            position = self._position(after, i)
            visited = search.visited.get(position)
            if visited is not None and visited[0]:
                continue
            if visited is not None or self._can_differ(after, i, at):
                break
            following = self._duplicates_after(after, i, at, search)
            if following is None:
                break
            search.visited[position] = True, after.frame.written
            dead.append(position)
            ids, at = following
            todo += [(after, next_id, at) for next_id in ids]
        else:
            return True
        for position in dead:  # these lead to a text that differs
            del search.visited[position]
        first = feed(scan, self.tokens.token_bytes[token_id], self.nodes)
        if first.frame is not None:
            search.visited[self._position(first, token_id)] = False, first.frame.written
        return False

    def _position(self, after: ScanState, token_id: int) -> tuple[Mode, bytes, int]:
        """Return the key of a position in a search; before a key or value a blank and a comma are two positions."""
        text = after.text or self.tokens.token_bytes[token_id][-1:]
        assert after.frame is not None
        return after.mode, text, id(after.frame.written)

    def _can_differ(self, after: ScanState, token_id: int, matcher: Any) -> bool:
        """Whether a quick test shows that the string or number can differ from all before; False proves nothing."""
        if after.mode is Mode.NUMBER:
            return self._can_be_other_number(after, token_id, matcher)
        if after.mode is not Mode.IN_KEY and after.mode is not Mode.STRING:
            return False
        if after.frame is None or after.escaped or unfinished_escape(after.text):
            return False
        text = canonical(after.text)
        size = len(text)
        taken = {before[size : size + 1] or b'"' for before in after.frame.written.with_prefix(text) or ()}
        for other in _DIFFERENT:
            ids = self.tokens.ids.get(other) if other not in taken else None
            if ids and int(matcher.validate_tokens([token_id, ids[0]])) == 2:
                return True
        return False

    def _can_be_other_number(self, after: ScanState, token_id: int, matcher: Any) -> bool:
        """Whether a few more digits make it a number that was not written before."""
        assert after.frame is not None
        for digits in (b"", b"1", b"7", b"37", b"173", b"5173"):
            ids = [self.tokens.ids.get(bytes((digit,)), (-1,))[0] for digit in digits]
            is_known = -1 in ids or item_value(Mode.NUMBER, after.text + digits) in after.frame.written
            for end in () if is_known else self.tokens.after_numbers:
                if int(matcher.validate_tokens([token_id, *ids, end])) == len(ids) + 2:
                    return True
        return False

    def _duplicates_after(
        self, after: ScanState, token_id: int, matcher: Any, search: _DeadEndSearch
    ) -> tuple[list[int], Any] | None:
        """Return the next tokens that continue a duplicate, and the matcher there; None if other tokens are allowed.

        Also None when the search may visit no more positions.  Only the shortest of tokens with a common prefix is
        returned; the caller follows the last one first.
        """
        if search.positions <= 0:
            return None
        search.positions -= 1
        matcher = matcher.deep_copy()
        if not matcher.consume_token(token_id):
            return None
        words = np.frombuffer(matcher.compute_bitmask(), dtype=np.int32)[
            : num_words(len(self.tokens.token_bytes))
        ].copy()
        if matcher.is_error():
            return None
        self.direct.clear(words, after)
        ids = allowed_of(words, self._toward_duplicates(after))
        others = words.copy()
        clear_ids(others, ids)
        if after.mode is Mode.KEY:
            blanks = allowed_of(others, self.tokens.blanks)
            clear_ids(others, blanks)
            if not ids:  # one is enough: the same follows each
                ids = blanks[:1]
        if others.any():
            return None
        of = self.tokens.token_bytes
        shortest: dict[bytes, int] = {}
        for i in sorted(ids, key=lambda i: len(of[i])):
            if not any(of[i][:size] in shortest for size in range(1, len(of[i]) + 1)):
                shortest[of[i]] = i
        return list(shortest.values())[::-1], matcher

    # -- tokens after which the next key or item can only be a duplicate

    def _clear_next(self, words: NDArray[np.int32], scan: ScanState, frame: ScanFrame, matcher: Any) -> None:
        search = _DeadEndSearch(_most_positions(scan))
        crossed = self._crossing_tokens()
        for i in allowed_of(words, (*crossed, *self.tokens.next_value_beginnings)):
            after = self._next(scan, i)
            if (
                after is not None
                and after.text
                and self._is_tight(after)
                and self._is_dead_end(scan, i, matcher, search)
            ):
                clear_ids(words, (i,))
        for i in allowed_of(words, self.tokens.commas if self._may_be_exhausted(frame) else crossed):
            after = self._next(scan, i)
            if after is not None and after.frame is not None and self._is_exhausted(after.frame, i, scan, matcher):
                clear_ids(words, (i,))

    def _next(self, scan: ScanState, token_id: int) -> ScanState | None:
        """Return the state after a token that leads to the next key or item, or into it; else None."""
        after = feed(scan, self.tokens.token_bytes[token_id], self.nodes)
        if after.frame is None:
            return None
        if after.frame.is_object:
            return after if after.mode is Mode.KEY or after.mode is Mode.IN_KEY else None
        is_item = after.mode in (Mode.VALUE, Mode.STRING, Mode.NUMBER)
        return after if is_item and after.frame is not scan.frame else None

    def _is_exhausted(self, opened: ScanFrame, token_id: int, scan: ScanState, matcher: Any) -> bool:
        """Whether no key or value is left for the object or array that the token continues."""
        if not opened.is_object:
            return is_exhausted(opened, self.nodes)
        if not 0 < self.fewest_keys <= len(opened.written):
            return False
        written, exhausted = self._exhausted
        if written is not opened.written:
            exhausted = self._is_dead_end(scan, token_id, matcher, _DeadEndSearch(_MAX_POSITIONS_LAST_KEY))
            self._exhausted = opened.written, exhausted
        return exhausted

    def _may_be_exhausted(self, frame: ScanFrame | None) -> bool:
        """Whether an enclosing object or array may already have all its possible keys or items."""
        while frame is not None:
            if is_exhausted(frame, self.nodes, 1) or (frame.is_object and 0 < self.fewest_keys <= len(frame.written)):
                return True
            frame = frame.parent
        return False


def _most_positions(scan: ScanState) -> int:
    written = 0 if scan.frame is None else len(scan.frame.written)
    return _MAX_POSITIONS + _POSITIONS_OF_A_VALUE * written


def _is_late(scan: ScanState) -> bool:
    """Whether the current number may have to end soon: it has an exponent or very many digits."""
    text = scan.text
    return scan.mode is Mode.NUMBER and (len(text) > _MANY_DIGITS or b"e" in text or b"E" in text)
