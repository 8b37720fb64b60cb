"""How a model's reasoning is framed: in renderings first, then in prompts, then in words of template and vocabulary."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from grammars.formats.probe import samples as s
from grammars.formats.reasoning.header import THOUGHT
from grammars.formats.probe.marker_pairs import closing_of, is_pair, markers_in_template
from grammars.formats.probe.renderings import Asking, Renderings
from grammars.formats.reasoning.switches import Effects
from grammars.formats.reasoning.prompt_suffixes import Framing, Tails, tag_at_end
from grammars.formats.probe.turns import Turn
from grammars.formats.probe.text_units import Units
from special_tokens import Role, SpecialTokens

__all__ = ["Sight", "framings", "sights", "speaks_of_thinking_in_markers"]


def framings(
    found: Sequence[Sight], tails: Tails, turn: Turn | None, units: Units, template: str, *, hinted: bool
) -> Iterator[Framing]:
    """Every framing that something shows, the best evidence first; ``hinted``: something speaks of thinking."""
    seen: set[tuple[str, str, str]] = set()
    shown = False
    for framing in (*_from_renderings(found, tails, turn, units), *_from_prompts(tails, template, units)):
        key = (framing.start, framing.end, framing.content_start)
        if framing.is_tellable and key not in seen:
            seen.add(key)
            shown = True
            yield framing
    if not shown and hinted and (spelled := _from_words(template, units.tokens)) is not None:
        yield spelled


# -- reasoning that a template renders


@dataclass(frozen=True, slots=True)
class Sight:
    """A rendering that shows reasoning: what stands in front of it and behind it."""

    lead: str
    rest: str
    given_as: str
    with_call: bool


def sights(
    renderings: Renderings, plain: Asking, calling: Asking | None, effects: Effects, template: str
) -> Iterator[Sight]:
    """Reasoning in front of an answer first, then in front of calls, under default arguments and under switches."""
    fields: tuple[tuple[str, dict[str, Any], Any], ...] = (
        ("reasoning_content", {"reasoning_content": s.REASON}, s.ANSWER),
        ("parts", {}, [{"type": "thinking", "thinking": s.REASON}, {"type": "text", "text": s.ANSWER}]),
    )
    others = _fields_of_thought(template)
    fields += tuple((name, {name: s.REASON}, s.ANSWER) for name in others)
    switched = [{change.name: change.value} for change in effects.changes if change.value in (True, "none", -1)]
    for kwargs in ({}, *switched):
        for given_as, extra, content in fields:
            yield from _sight(renderings.turn(plain, s.assistant(content, **extra), **kwargs), given_as, False)
        if calling is None:
            continue
        for name in ("reasoning_content", *others):
            message = renderings.calling(calling, [(s.NAME, s.BOTH)], **{name: s.REASON})
            for after in ((message,), (message, s.result())):
                rendering = renderings.turn(calling, *after, tools=True, **kwargs)
                yield from _sight(rendering, name, True)


_FIELD = re.compile(
    r"(?:\.|\[\s*['\"]|\.get\(\s*['\"])([a-z_]*(?:reason|think|thought|plan|reflect)[a-z_]*)\b(?!\s*\()"
)
_MOST_FIELDS = 4


def _fields_of_thought(template: str) -> list[str]:
    """Fields of messages that may carry reasoning, beside those that transformers fills from each other."""
    found = dict.fromkeys(_FIELD.findall(template))
    return [name for name in found if name not in ("reasoning_content", "thinking")][:_MOST_FIELDS]


def _sight(rendering: str | None, given_as: str, with_call: bool) -> Iterator[Sight]:
    if rendering is None or s.REASON not in rendering:
        return
    lead, rest = rendering.split(s.REASON, 1)
    if re.search(r"\{\s*['\"]type", lead) or (s.NAME if with_call else s.ANSWER) not in rest:
        return  # the message was dumped as it is, or reasoning was put somewhere else
    yield Sight(lead, rest, given_as, with_call)


def _from_renderings(found: Sequence[Sight], tails: Tails, turn: Turn | None, units: Units) -> Iterator[Framing]:
    for sight in found:
        start = tails.after_header(sight.lead)
        if not units.markers(start):
            start = tails.default if tails.default.strip() and not start.strip() else start
        if not start.strip():
            continue
        shown_by = f"rendering of {'a call' if sight.with_call else 'an answer'} with {_field(sight.given_as)}"
        middle = sight.rest[: sight.rest.index(s.NAME if sight.with_call else s.ANSWER)]
        if sight.with_call:
            end = _up_to_marker(middle, start, units)
            yield Framing(start, end, "", sight.given_as, shown_by=shown_by)
            continue
        content_start = _shared_start(sight, middle, turn, tails, units)
        end = middle[: len(middle) - len(content_start)]
        yield Framing(start, end, content_start, sight.given_as, shown_by=shown_by)


def _field(given_as: str) -> str:
    return "reasoning in parts" if given_as == "parts" else given_as


def _shared_start(sight: Sight, middle: str, turn: Turn | None, tails: Tails, units: Units) -> str:
    """What content begins with by itself: in front of an answer without reasoning it stands alone."""
    if turn is None:
        return ""
    alone = tails.after_header(turn.lead)
    shared = units.common_suffix(middle, alone)
    first = next(iter(units.markers(middle)), "")
    if first and first in shared:  # the empty block ends like the full one
        behind = shared[shared.index(first) + len(first) :]
        opener = next(iter(units.markers(tails.after_header(sight.lead))), "")
        if opener and opener in behind:
            return behind[behind.index(opener) :]
        return behind.lstrip() if units.markers(behind) else ""
    return shared if units.markers(shared) else ""


def _up_to_marker(middle: str, start: str, units: Units) -> str:
    """What closes reasoning in front of a call: everything up to the marker that closes ``start``."""
    openers = units.markers(start)
    for marker in units.markers(middle):
        if any(is_pair(opener, marker) for opener in openers):
            return middle[: middle.index(marker) + len(marker)]
    first = next(iter(units.markers(middle)), "")
    return middle[: middle.index(first) + len(first)] if first else middle


# -- a block that is only ever opened or closed by the prompt


def _from_prompts(tails: Tails, template: str, units: Units) -> Iterator[Framing]:
    """The framing of such a block, as far as prompts show it."""
    shown = tails.all()
    if tails.turn is not None:
        shown += [tails.after_header(tails.turn.lead)]
    opened = next((tail for tail in shown if _opener(tail, template, units)), "")
    for tail in shown:
        closed = _split_block(tail, opened, units)
        if closed is not None:
            yield closed
            return
    closing = _opener(opened, template, units)
    if closing:
        yield _mirrored(opened, closing)


def _opener(tail: str, template: str, units: Units) -> str:
    """What closes the marker that the tail ends with, somewhere in the template; "" where it opens no block."""
    tag = tag_at_end(tail)
    markers = units.markers(tail)
    if markers and tail.rstrip().endswith(markers[-1]):
        last = markers[-1]
    elif tag is not None:  # a tag with attributes is closed by its name
        last = tag[1] + tag[2]
    else:
        return ""
    if not THOUGHT.search(last):
        return ""
    return closing_of(last, markers_in_template(template, units.tokens)) or ""


def _split_block(tail: str, opened: str, units: Units) -> Framing | None:
    """An empty block taken apart; the white space inside it belongs half to each side."""
    markers = units.markers(tail)
    for i, opener in enumerate(markers):
        closer = closing_of(opener, markers[i + 1 :])
        if closer is None or not THOUGHT.search(opener):
            continue
        begin = tail.index(opener) + len(opener)
        inside, behind = tail[begin : tail.index(closer, begin)], tail[tail.index(closer, begin) + len(closer) :]
        if opened.strip() == tail[:begin].strip():
            return _behind(opened, closer, tail[len(opened) :] if tail.startswith(opened) else closer)
        half = inside[: len(inside) // 2] if not inside.strip() else "\n" * inside.startswith("\n")
        spaces = behind[: len(behind) - len(behind.lstrip())]
        return Framing(tail[:begin] + half, half + closer + spaces, evidence="rendering of the empty block")
    return None


def _behind(opened: str, closer: str, rest: str) -> Framing:
    """The framing of a block that the prompt opens with ``opened`` and closes with ``rest``."""
    if rest == closer and opened.endswith("\n"):
        return _mirrored(opened, closer)
    return Framing(opened, rest, evidence="rendering of the prompt")


def _mirrored(opened: str, closer: str) -> Framing:
    """A block whose end nobody shows: framed as its beginning, and a blank line as most families have it."""
    framed = opened.endswith("\n")
    return Framing(opened, f"\n{closer}\n\n" if framed else closer, evidence="rendering of the prompt, end by custom")


# -- words of the template and of the vocabulary


def speaks_of_thinking_in_markers(template: str) -> bool:
    """Does the template spell a marker whose word is one of thinking?"""
    return any(THOUGHT.search(marker) for marker in re.findall(r"</?[a-z_|:]+>|\[/?[A-Z]+\]", template))


def _from_words(template: str, tokens: SpecialTokens) -> Framing | None:
    """A pair of markers that the template speaks of, or that the vocabulary has for reasoning."""
    candidates = markers_in_template(template, tokens)
    for opener in candidates:
        if THOUGHT.search(opener):
            closer = closing_of(opener, candidates)
            if closer is not None:
                return Framing(opener, closer, evidence="template text")
    pair = tokens.pair(Role.REASONING_START, Role.REASONING_END)
    return Framing(pair[0].text, pair[1].text, evidence="vocabulary") if pair else None
