"""The assistant's header, read off renderings: what stands in front of its text and of any reasoning block."""

from __future__ import annotations

import re
from collections.abc import Sequence

from grammars.formats.probe.marker_pairs import is_pair
from grammars.formats.reasoning.switches import Effects, Tried, speaks_of_thinking
from grammars.formats.probe.turns import Turn
from grammars.formats.probe.text_units import Units

__all__ = ["THOUGHT", "assistant_header"]

#: Words by which markers of reasoning are known.
THOUGHT = re.compile(r"(?i)think|thought|reason|inner|cot|analysis|reflect")


def assistant_header(turn: Turn | None, effects: Effects, leads: Sequence[str], units: Units) -> str:
    """What opens the assistant's message, without anything of a reasoning block."""
    texts = [effects.default.turn, *leads]
    if turn is not None:
        texts += [turn.lead, turn.older_lead]
    default = effects.default.turn
    unopened = turn.after_user if turn is not None else default  # under some arguments there is no prompt at all
    changes = [change for change in effects.changes if change.turn != unopened]
    texts += [change.turn for change in changes if _is_about_reasoning(change, default, units)]
    aligned = (_from_opening(text, default, units) for text in texts)
    texts = [text for text in aligned if text]
    header = _or_whole_lead(units.common_prefix(*texts), turn, texts, units)
    tails = [text[len(header) :] for text in texts]
    for marker in reversed(units.markers(header)):
        closing = {closer for tail in tails for closer in units.markers(tail) if is_pair(marker, closer)}
        if not closing:
            break
        header = header[: header.rindex(marker)]
    return header


def _is_about_reasoning(change: Tried, default: str, units: Units) -> bool:
    """May the change be a block opened or closed?  Some arguments change the assistant's header itself."""
    if speaks_of_thinking(change.name) or any(THOUGHT.search(marker) for marker in units.markers(change.turn)):
        return True
    return change.turn.startswith(default) or default.startswith(change.turn)


def _from_opening(text: str, default: str, units: Units) -> str:
    """``text`` from where it opens as the generation prompt does: some arguments write into the user's text.

    "" for one that never does.
    """
    first = next(iter(units.markers(default)), "")
    before = default[: default.index(first)] if first else ""
    if default.strip() and text.endswith(default):
        return default  # something stands in front of it
    if units.common_prefix(text, default).strip():
        return text
    return before + text[text.index(first) :] if first and first in text else ""


def _or_whole_lead(header: str, turn: Turn | None, texts: Sequence[str], units: Units) -> str:
    """The whole lead of an answer where it ends as the generation prompt does, whatever stands in front of that.

    ``texts`` begin with the prompt.  A lead that closes something is left alone: that may be a reasoning block.
    """
    rest = turn.lead[len(header) :] if turn is not None else ""
    markers = units.markers(rest)
    is_frame = bool(markers) or re.search(r"\w", rest) is not None
    if turn is None or not is_frame or any(THOUGHT.search(marker) for marker in markers):
        return header
    if not _same_ending(turn.lead, texts[0], rest, units):
        return header
    openers = {marker for text in texts for marker in units.markers(text)} - set(markers)
    return header if any(is_pair(opener, marker) for opener in openers for marker in markers) else turn.lead


def _same_ending(lead: str, prompt: str, rest: str, units: Units) -> bool:
    """Do both end with ``rest``, white space around it aside?"""
    core = rest.strip()
    shared = units.common_suffix(lead.rstrip(), prompt.rstrip())
    return shared.endswith(core) and bool(core)
