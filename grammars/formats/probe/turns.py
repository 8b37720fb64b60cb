"""Find where the assistant's text begins and where its turn ends in renderings."""

from __future__ import annotations

from dataclasses import dataclass

from grammars.formats.probe import samples as s
from grammars.formats.probe.renderings import Probe, Renderings
from grammars.formats.probe.text_units import Units

__all__ = ["Turn", "call_text", "read_turn"]


@dataclass(frozen=True, slots=True)
class Turn:
    """The texts around a plain answer.

    ``lead`` is between the user's text and the answer, ``prompt`` the generation prompt after the user's text, ``last``
    follows an answer at the end of the rendering, ``inner`` is between an answer and the next user's text,
    ``after_user`` follows a user's text.
    """

    lead: str
    prompt: str
    last: str
    inner: str
    after_user: str
    older_lead: str = ""  #: like ``lead``, for an answer that another message follows

    @property
    def tail(self) -> str:
        """The text that ends the turn: ``last``, or ``inner`` if that is empty."""
        return self.last or self.inner


def read_turn(renderings: Renderings, probe: Probe, units: Units) -> Turn | None:
    """The turn of a template; None if it cannot render an answer."""
    answered = renderings.turn(probe, s.assistant(s.ANSWER))
    if answered is None or s.ANSWER not in answered:
        return None
    prompt = renderings.turn(probe) or ""
    at = answered.index(s.ANSWER)
    lead, last = answered[:at], answered[at + len(s.ANSWER) :]
    going_on = renderings.turn_of_two(probe)
    inner, after_user = going_on if going_on is not None else (last, prompt)
    shared = units.common_prefix(last, inner)
    if shared.strip():  # drop a generation prompt that the template always appends
        last = shared
    elif last and last == prompt:
        last = ""
    older = renderings.turn(probe, s.assistant(s.ANSWER), s.user(s.NEXT)) or ""
    return Turn(lead, prompt, last, inner, after_user, older.split(s.ANSWER)[0] if s.ANSWER in older else "")


def call_text(renderings: Renderings, probe: Probe, units: Units, turn: Turn | None, rendering: str) -> str:
    """The assistant's text in ``rendering``, which contains a call, from the end of the header on.

    The header is the prefix that the call shares with a plain answer.  If the template writes another header before
    calls, it ends with the suffix of the generation prompt that precedes the name.
    """
    at = rendering.index(s.NAME)
    if turn is None:
        shared = units.common_prefix(renderings.turn(probe, tools=True) or "", rendering[:at])
        return rendering[len(shared) :]
    header = len(units.common_prefix(turn.lead, rendering[:at]))
    after_prompt = turn.lead[len(turn.prompt) : header] if turn.lead.startswith(turn.prompt) else ""
    if after_prompt.strip() and not units.markers(after_prompt):
        header = len(turn.prompt)  # shared words are not part of the header: ``to=user``, ``to=TOOL``
    if header < len(turn.lead) and not rendering[:header].startswith(turn.prompt):
        header += _header_again(turn, units, rendering[header:at])
    return rendering[header:]


def _header_again(turn: Turn, units: Units, text: str) -> int:
    """The position in ``text`` after another occurrence of the header's end; 0 if there is none."""
    split = units.split(turn.prompt)
    for first in range(len(split)):
        end = "".join(split[first:])
        if not units.markers(end):
            return 0
        if end in text:
            return text.rindex(end) + len(end)
    return 0
