"""Find candidates for reasoning markers: in renderings, in prompts, in the template's text, in the vocabulary."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from grammars.formats.probe import samples as s
from grammars.formats.probe.renderings import Probe, Renderings
from grammars.formats.probe.text_units import Units, closing_of, is_pair, markers_in_template
from grammars.formats.probe.turns import Turn
from grammars.formats.reasoning.header import THINKING
from grammars.formats.reasoning.prompt_suffixes import PromptSuffixes, ReasoningMarkers, tag_at_end
from grammars.formats.reasoning.switches import SwitchEffects
from special_tokens import Role, SpecialTokens

__all__ = ["RenderedReasoning", "has_thinking_markers", "marker_candidates", "rendered_reasoning"]


def marker_candidates(
    rendered: Sequence[RenderedReasoning],
    suffixes: PromptSuffixes,
    turn: Turn | None,
    units: Units,
    template: str,
    *,
    hinted: bool,
) -> Iterator[ReasoningMarkers]:
    """All candidates for reasoning markers, the best evidence first; ``hinted``: something suggests reasoning."""
    seen: set[tuple[str, str, str]] = set()
    shown = False
    for markers in (*_from_renderings(rendered, suffixes, turn, units), *_from_prompts(suffixes, template, units)):
        key = (markers.start, markers.end, markers.content_start)
        if markers.is_recognisable and key not in seen:
            seen.add(key)
            shown = True
            yield markers
    if not shown and hinted and (spelled := _from_words(template, units.tokens)) is not None:
        yield spelled


# -- reasoning that a template renders


@dataclass(frozen=True, slots=True)
class RenderedReasoning:
    """The texts before and after the reasoning in a rendering that shows it."""

    lead: str
    text_after: str
    reasoning_as: str
    with_call: bool


def rendered_reasoning(
    renderings: Renderings, plain: Probe, calling: Probe | None, effects: SwitchEffects, template: str
) -> Iterator[RenderedReasoning]:
    """Render reasoning before an answer and before calls, with default arguments and then with switches turned on."""
    fields: tuple[tuple[str, dict[str, Any], Any], ...] = (
        ("reasoning_content", {"reasoning_content": s.REASON}, s.ANSWER),
        ("parts", {}, [{"type": "thinking", "thinking": s.REASON}, {"type": "text", "text": s.ANSWER}]),
    )
    others = _reasoning_fields(template)
    fields += tuple((name, {name: s.REASON}, s.ANSWER) for name in others)
    switched = [{change.name: change.value} for change in effects.changes if change.value in (True, "none", -1)]
    for kwargs in ({}, *switched):
        for reasoning_as, extra, content in fields:
            yield from _shown_reasoning(
                renderings.turn(plain, s.assistant(content, **extra), **kwargs), reasoning_as, False
            )
        if calling is None:
            continue
        for name in ("reasoning_content", *others):
            message = renderings.calling(calling, [(s.NAME, s.BOTH)], **{name: s.REASON})
            for after in ((message,), (message, s.result())):
                rendering = renderings.turn(calling, *after, tools=True, **kwargs)
                yield from _shown_reasoning(rendering, name, True)


_FIELD = re.compile(
    r"(?:\.|\[\s*['\"]|\.get\(\s*['\"])([a-z_]*(?:reason|think|thought|plan|reflect)[a-z_]*)\b(?!\s*\()"
)
_MAX_FIELDS = 4


def _reasoning_fields(template: str) -> list[str]:
    """Further message fields that may carry reasoning; transformers copies the two usual ones to each other."""
    names = dict.fromkeys(_FIELD.findall(template))
    return [name for name in names if name not in ("reasoning_content", "thinking")][:_MAX_FIELDS]


def _shown_reasoning(rendering: str | None, reasoning_as: str, with_call: bool) -> Iterator[RenderedReasoning]:
    if rendering is None or s.REASON not in rendering:
        return
    lead, after_reasoning = rendering.split(s.REASON, 1)
    if re.search(r"\{\s*['\"]type", lead) or (s.NAME if with_call else s.ANSWER) not in after_reasoning:
        return  # the message was dumped as data, or the reasoning went somewhere else
    yield RenderedReasoning(lead, after_reasoning, reasoning_as, with_call)


def _from_renderings(
    rendered: Sequence[RenderedReasoning], suffixes: PromptSuffixes, turn: Turn | None, units: Units
) -> Iterator[ReasoningMarkers]:
    for shown in rendered:
        start = suffixes.after_header(shown.lead)
        if not units.markers(start):
            start = suffixes.default if suffixes.default.strip() and not start.strip() else start
        if not start.strip():
            continue
        middle = shown.text_after[: shown.text_after.index(s.NAME if shown.with_call else s.ANSWER)]
        if shown.with_call:
            end = _up_to_marker(middle, start, units)
            yield ReasoningMarkers(start, end, "", shown.reasoning_as)
            continue
        content_start = _shared_start(shown, middle, turn, suffixes, units)
        end = middle[: len(middle) - len(content_start)]
        yield ReasoningMarkers(start, end, content_start, shown.reasoning_as)


def _shared_start(
    shown: RenderedReasoning, middle: str, turn: Turn | None, suffixes: PromptSuffixes, units: Units
) -> str:
    """The text with which content itself begins: an answer without reasoning has only this before it."""
    if turn is None:
        return ""
    alone = suffixes.after_header(turn.lead)
    shared = units.common_suffix(middle, alone)
    first = next(iter(units.markers(middle)), "")
    if first and first in shared:  # the empty block ends like the full one
        shared_after = shared[shared.index(first) + len(first) :]
        opener = next(iter(units.markers(suffixes.after_header(shown.lead))), "")
        if opener and opener in shared_after:
            return shared_after[shared_after.index(opener) :]
        return shared_after.lstrip() if units.markers(shared_after) else ""
    return shared if units.markers(shared) else ""


def _up_to_marker(middle: str, start: str, units: Units) -> str:
    """The text that closes reasoning before a call, up to the marker that closes ``start``."""
    openers = units.markers(start)
    for marker in units.markers(middle):
        if any(is_pair(opener, marker) for opener in openers):
            return middle[: middle.index(marker) + len(marker)]
    first = next(iter(units.markers(middle)), "")
    return middle[: middle.index(first) + len(first)] if first else middle


# -- a block that only the prompt opens or closes


def _from_prompts(suffixes: PromptSuffixes, template: str, units: Units) -> Iterator[ReasoningMarkers]:
    """The markers of such a block, as far as prompts show them."""
    shown = suffixes.all()
    if suffixes.turn is not None:
        shown += [suffixes.after_header(suffixes.turn.lead)]
    opened = next((suffix for suffix in shown if _closer_of_last(suffix, template, units)), "")
    for suffix in shown:
        closed = _split_block(suffix, opened, units)
        if closed is not None:
            yield closed
            return
    closing = _closer_of_last(opened, template, units)
    if closing:
        yield _mirrored(opened, closing)


def _closer_of_last(suffix: str, template: str, units: Units) -> str:
    """The template's closing marker for the marker at the end of ``suffix``; "" if that opens no reasoning block."""
    tag = tag_at_end(suffix)
    markers = units.markers(suffix)
    if markers and suffix.rstrip().endswith(markers[-1]):
        last = markers[-1]
    elif tag is not None:  # the closing tag of a tag with attributes has only its name
        last = tag[1] + tag[2]
    else:
        return ""
    if not THINKING.search(last):
        return ""
    return closing_of(last, markers_in_template(template, units.tokens)) or ""


def _split_block(suffix: str, opened: str, units: Units) -> ReasoningMarkers | None:
    """Split an empty block into its markers; each gets half of the white space inside."""
    markers = units.markers(suffix)
    for i, opener in enumerate(markers):
        closer = closing_of(opener, markers[i + 1 :])
        if closer is None or not THINKING.search(opener):
            continue
        begin = suffix.index(opener) + len(opener)
        end = suffix.index(closer, begin)
        inside, after = suffix[begin:end], suffix[end + len(closer) :]
        if opened.strip() == suffix[:begin].strip():
            return _opened_and_closed(opened, closer, suffix[len(opened) :] if suffix.startswith(opened) else closer)
        half = inside[: len(inside) // 2] if not inside.strip() else "\n" * inside.startswith("\n")
        spaces = after[: len(after) - len(after.lstrip())]
        return ReasoningMarkers(suffix[:begin] + half, half + closer + spaces, evidence="rendering of the empty block")
    return None


def _opened_and_closed(opened: str, closer: str, closing: str) -> ReasoningMarkers:
    """The markers of a block that the prompt opens with ``opened`` and closes with ``closing``."""
    if closing == closer and opened.endswith("\n"):
        return _mirrored(opened, closer)
    return ReasoningMarkers(opened, closing, evidence="rendering of the prompt")


def _mirrored(opened: str, closer: str) -> ReasoningMarkers:
    """A block whose end is not shown: line breaks as at its beginning, then a blank line as in most families."""
    framed = opened.endswith("\n")
    return ReasoningMarkers(
        opened, f"\n{closer}\n\n" if framed else closer, evidence="rendering of the prompt, end by custom"
    )


# -- words of the template and of the vocabulary


def has_thinking_markers(template: str) -> bool:
    """Whether the template's text contains a marker whose name suggests reasoning."""
    return any(THINKING.search(marker) for marker in re.findall(r"</?[a-z_|:]+>|\[/?[A-Z]+\]", template))


def _from_words(template: str, tokens: SpecialTokens) -> ReasoningMarkers | None:
    """A pair of reasoning markers in the template's text, or else in the vocabulary; None if there is none."""
    candidates = markers_in_template(template, tokens)
    for opener in candidates:
        if THINKING.search(opener):
            closer = closing_of(opener, candidates)
            if closer is not None:
                return ReasoningMarkers(opener, closer, evidence="template text")
    pair = tokens.pair(Role.REASONING_START, Role.REASONING_END)
    return ReasoningMarkers(pair[0].text, pair[1].text, evidence="vocabulary") if pair else None
