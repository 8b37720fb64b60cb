"""Infer the assistant's header from renderings: the text before its content and before any reasoning block."""

from __future__ import annotations

import re
from collections.abc import Sequence

from grammars.formats.probe.text_units import Units, is_pair
from grammars.formats.probe.turns import Turn
from grammars.formats.reasoning.switches import SwitchEffects, TriedArgument, suggests_reasoning

__all__ = ["THINKING", "assistant_header"]

#: Words that identify markers of reasoning.
THINKING = re.compile(r"(?i)think|thought|reason|inner|cot|analysis|reflect")


def assistant_header(turn: Turn | None, effects: SwitchEffects, leads: Sequence[str], units: Units) -> str:
    """The text that opens the assistant's message, without any part of a reasoning block."""
    texts = [effects.default.turn, *leads]
    if turn is not None:
        texts += [turn.lead, turn.older_lead]
    default = effects.default.turn
    unopened = turn.after_user if turn is not None else default  # some arguments suppress the prompt
    changes = [change for change in effects.changes if change.turn != unopened]
    texts += [change.turn for change in changes if _is_about_reasoning(change, default, units)]
    aligned = (_from_opening(text, default, units) for text in texts)
    texts = [text for text in aligned if text]
    header = _or_whole_lead(units.common_prefix(*texts), turn, texts, units)
    suffixes = [text[len(header) :] for text in texts]
    for marker in reversed(units.markers(header)):
        closing = {closer for suffix in suffixes for closer in units.markers(suffix) if is_pair(marker, closer)}
        if not closing:
            break
        header = header[: header.rindex(marker)]
    return header


def _is_about_reasoning(change: TriedArgument, default: str, units: Units) -> bool:
    """Whether a changed prompt may open or close a reasoning block; some arguments change the header itself."""
    if suggests_reasoning(change.name) or any(THINKING.search(marker) for marker in units.markers(change.turn)):
        return True
    return change.turn.startswith(default) or default.startswith(change.turn)


def _from_opening(text: str, default: str, units: Units) -> str:
    """``text`` from the place where it begins like the generation prompt; "" if there is no such place.

    Some template arguments add text to the user's message.
    """
    first = next(iter(units.markers(default)), "")
    before = default[: default.index(first)] if first else ""
    if default.strip() and text.endswith(default):
        return default  # more text precedes the prompt
    if units.common_prefix(text, default).strip():
        return text
    return before + text[text.index(first) :] if first and first in text else ""


def _or_whole_lead(header: str, turn: Turn | None, texts: Sequence[str], units: Units) -> str:
    """Extend the header to the whole lead of an answer if the lead ends like the generation prompt.

    The first of ``texts`` is the prompt.  A lead that closes a marker is not taken: it may be a reasoning block.
    """
    lead_end = turn.lead[len(header) :] if turn is not None else ""
    markers = units.markers(lead_end)
    is_frame = bool(markers) or re.search(r"\w", lead_end) is not None
    if turn is None or not is_frame or any(THINKING.search(marker) for marker in markers):
        return header
    if not _same_ending(turn.lead, texts[0], lead_end, units):
        return header
    openers = {marker for text in texts for marker in units.markers(text)} - set(markers)
    return header if any(is_pair(opener, marker) for opener in openers for marker in markers) else turn.lead


def _same_ending(lead: str, prompt: str, lead_end: str, units: Units) -> bool:
    """Whether both end with ``lead_end``, ignoring white space around it."""
    core = lead_end.strip()
    shared = units.common_suffix(lead.rstrip(), prompt.rstrip())
    return shared.endswith(core) and bool(core)
