"""Infer from renderings the markers that end a turn after an answer and after calls, and those that only look so."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from grammars.formats.probe import samples as s
from grammars.formats.probe.sample_calls import CallTexts
from grammars.formats.probe.text_units import Units, is_closing, is_pair
from grammars.formats.probe.turns import Turn
from grammars.values.format import Ends

__all__ = ["CallEnds", "ContentEnds", "call_ends", "content_ends", "not_ends"]

_MAX_LENGTH = 24  # characters of an end that is not a marker


@dataclass(frozen=True, slots=True)
class ContentEnds:
    """The end of an answer: ``end`` ends the turn ("" if nothing does), ``content_end`` closes the content before."""

    end: str
    content_end: str
    is_role: bool = False  #: the end is the marker that opens the next message
    next_opening: str = ""  #: the marker after the end, which opens the next message


def content_ends(turn: Turn | None, header: str, opening: str, inside: Sequence[str], units: Units) -> ContentEnds:
    """The end of an answer: the first marker after it that closes nothing but the turn.

    ``header`` is the assistant's header, ``opening`` the text that opens the content.  ``inside`` are texts from the
    middle of a turn: a marker that closes a part there does not end the turn if another marker follows it at the real
    end.
    """
    if turn is None:
        return ContentEnds("", "")
    tail = turn.tail
    markers = units.markers(tail)
    inner = _closing_inner(tail, header, opening, units) or _closing_part(turn, inside, units)
    if inner:
        markers = units.markers(tail[len(inner) :])
    if markers:
        is_role = not inner and not turn.last and turn.inner.lstrip().startswith(markers[0])
        after = units.markers(turn.inner.split(markers[0], 1)[-1]) if markers[0] in turn.inner else []
        return ContentEnds(markers[0], inner, is_role, after[0] if after else "")
    word = turn.last.strip()
    return ContentEnds(word if 0 < len(word) <= _MAX_LENGTH else "", "")


def _closing_part(turn: Turn, inside: Sequence[str], units: Units) -> str:
    """The text that closes the last part of a turn, if it also closes parts in the middle and the turn's end follows.

    Only text that follows an answer both at the end of the rendering and before another message belongs to the turn.
    """
    parts = {marker for text in inside for marker in units.markers(text)}
    shared = units.common_prefix(turn.last, turn.inner) if turn.last else ""
    markers = units.markers(shared)
    closing = next((i for i, marker in enumerate(markers) if marker not in parts), 0)
    if not closing or markers[closing] in units.markers(turn.lead[len(turn.after_user) :]):
        return ""
    last = markers[closing - 1]
    return shared[: shared.index(last) + len(last)]


def _closing_inner(tail: str, header: str, opening: str, units: Units) -> str:
    """The part of ``tail`` that closes markers opened inside the turn; "" if none were.

    Markers that ``header`` and ``opening`` leave open form a stack; the outermost belongs to the turn itself if
    messages open with it.  Markers around an opening (``<|open|>message<|sep|>``) also occur around its closing.
    """
    markers = units.markers(tail)
    stack, around = _open_markers(header + opening, markers, units)
    of_turn = _open_markers(header, markers, units)[0][:1]
    position = int(bool(of_turn) and stack[:1] == of_turn and _opens_message(of_turn[0], header, markers, units))
    seen: set[str] = set()
    at = cut = 0
    for i, marker in enumerate(markers):
        at = tail.index(marker, at) + len(marker)
        place = next((n for n in reversed(range(len(stack))) if is_pair(stack[n], marker)), None)
        is_last = i + 1 == len(markers)
        if place is not None and not (place == 0 and is_last) and (place >= position or marker in seen):
            del stack[place:]
            seen.add(marker)
        elif not (seen and marker in around and not is_last):
            return tail[:cut]
        cut = at
    return ""


def _opens_message(marker: str, header: str, tail: Sequence[str], units: Units) -> bool:
    """Whether only markers that close the previous message precede ``marker`` in the header."""
    markers = units.markers(header)
    return all(before in tail or is_closing(before) for before in markers[: markers.index(marker)])


def _open_markers(opened: str, closers: Sequence[str], units: Units) -> tuple[list[str], set[str]]:
    """The unclosed markers of ``opened``, outermost first, and the other markers between them."""
    markers = units.markers(opened)
    stack: list[str] = []
    around: set[str] = set()
    for i, marker in enumerate(markers):
        if stack and is_pair(stack[-1], marker):
            stack.pop()
        elif any(is_pair(marker, other) for other in (*markers[i + 1 :], *closers)):
            stack.append(marker)
        elif stack:
            around.add(marker)
    return stack, around


@dataclass(frozen=True, slots=True)
class CallEnds:
    """The end of calls: ``after`` closes the calls, ``end`` then ends the turn ("": the same as after an answer)."""

    after: str
    end: str


def call_ends(
    texts: CallTexts, after: str, middle: str | None, before: str, content: ContentEnds, header: str, units: Units
) -> CallEnds:
    """The end of calls.  ``after`` is the text after the last call, ``middle`` that between two calls (None: unknown).

    The end of answers, or the header of another message, cuts ``after`` off.  Otherwise the part that ``after`` and
    ``middle`` do not share is the end, unless it closes a section of calls.
    """
    end = content.end
    after = _this_message(after, middle or "", end, header, units)
    if end and end in after:
        return CallEnds(after[: after.index(end)], "")
    shared = units.common_prefix(after, middle) if middle is not None else ""
    after_calls = after[len(shared) :]
    markers = units.markers(after_calls)
    if not markers:
        return CallEnds(after, _next_role(texts, after, units) if content.is_role else "")
    opened = [marker for marker in units.markers(before) if not any(is_pair(marker, m) for m in units.markers(shared))]
    if middle is None and len(markers) == 1 and not any(is_pair(opener, markers[0]) for opener in opened):
        return CallEnds(shared + after_calls[: after_calls.index(markers[0])], markers[0])
    closing = [i for i, marker in enumerate(markers) if any(is_pair(opener, marker) for opener in opened)]
    if closing:
        last = markers[closing[-1]]
        cut = len(shared) + after_calls.index(last) + len(last)
        rest_markers = units.markers(after[cut:])
        return CallEnds(after[:cut] if rest_markers else after, rest_markers[0] if rest_markers else "")
    if middle is not None and units.common_suffix(before, middle) == before:  # no more text before the first call
        return CallEnds(shared, markers[0])
    last = units.markers(after)[-1]
    if _next_message_follows(texts, after, content):
        return CallEnds(after[: after.rindex(last)], last)
    return CallEnds(after, "")


def _next_message_follows(texts: CallTexts, after: str, content: ContentEnds) -> bool:
    """Whether the message with the result opens directly after the calls, without the end that answers have."""
    text = texts.answered
    if not content.next_opening or content.is_role or text is None or after not in text or s.RESULT not in text:
        return False
    return text[text.index(after) + len(after) : text.index(s.RESULT)].startswith(content.next_opening)


def _this_message(after: str, middle: str, end: str, header: str, units: Units) -> str:
    """``after`` without the beginning of a next message, which some templates always write."""
    openers = [marker for marker in units.markers(header) if marker != end and marker not in middle]
    places = [after.index(marker) for marker in openers if marker in after]
    if not places or (end and 0 <= after.find(end) < min(places)):
        return after
    return after[: min(places)].rstrip()


def _next_role(texts: CallTexts, after: str, units: Units) -> str:
    """The marker directly after calls that have a result; it opens the next message and thereby ends this one."""
    if texts.answered is None or after not in texts.answered or s.RESULT not in texts.answered:
        return ""
    next_turn = texts.answered[texts.answered.rindex(after) + len(after) :] if after else ""
    split = units.split(next_turn.lstrip())
    return split[0] if split and units.is_marker(split[0]) else ""


_LOOKS_LIKE_END = re.compile(r"(?i)end|eo[tsm]|return|stop|close|sep|^</s>$")


def not_ends(framing: Sequence[str], ends: Ends, units: Units) -> tuple[str, ...]:
    """Markers inside a turn that do not end it although they look like an end or the configuration names them."""
    end_texts = {end.text for end in units.tokens.ends}
    markers = dict.fromkeys(marker for text in framing for marker in units.markers(text))
    taken = {*ends.content, *ends.calls}
    return tuple(
        marker for marker in markers if marker not in taken and (marker in end_texts or _LOOKS_LIKE_END.search(marker))
    )
