"""Where the assistant's own text begins and where its turn ends, read off renderings."""

from __future__ import annotations

from dataclasses import dataclass

from grammars.formats.probe import samples as s
from grammars.formats.probe.renderings import Asking, Renderings
from grammars.formats.probe.text_units import Units

__all__ = ["Turn", "call_text", "read_turn"]


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn around plain text.

    ``lead`` is everything between the user's text and the answer, ``prompt`` the generation prompt after the
    user's text, ``last`` what follows an answer at the very end, ``inner`` what follows it before the next user's
    text, ``after_user`` what follows a user's text.
    """

    lead: str
    prompt: str
    last: str
    inner: str
    after_user: str
    older_lead: str = ""  #: as ``lead``, in front of an answer that another message follows

    @property
    def tail(self) -> str:
        """What ends the turn: at the very end if anything stands there, else before the next message."""
        return self.last or self.inner


def read_turn(renderings: Renderings, asking: Asking, units: Units) -> Turn | None:
    """The turn of a template; None where it cannot render an answer."""
    answered = renderings.turn(asking, s.assistant(s.ANSWER))
    if answered is None or s.ANSWER not in answered:
        return None
    prompt = renderings.turn(asking) or ""
    at = answered.index(s.ANSWER)
    lead, last = answered[:at], answered[at + len(s.ANSWER) :]
    going_on = renderings.turn_of_two(asking)
    inner, after_user = going_on if going_on is not None else (last, prompt)
    shared = units.common_prefix(last, inner)
    if shared.strip():  # a generation prompt that stands there unasked is no part of the turn
        last = shared
    elif last and last == prompt:
        last = ""
    older = renderings.turn(asking, s.assistant(s.ANSWER), s.user(s.NEXT)) or ""
    return Turn(lead, prompt, last, inner, after_user, older.split(s.ANSWER)[0] if s.ANSWER in older else "")


def call_text(renderings: Renderings, asking: Asking, units: Units, turn: Turn | None, rendering: str) -> str:
    """The assistant's own text in ``rendering``, which holds a call: header cut off, the rest to the end.

    The header is what the call shares with a plain answer; where a template writes another header before calls,
    it is the end of the generation prompt that stands in front of the name.
    """
    at = rendering.index(s.NAME)
    if turn is None:
        shared = units.common_prefix(renderings.turn(asking, tools=True) or "", rendering[:at])
        return rendering[len(shared) :]
    header = len(units.common_prefix(turn.lead, rendering[:at]))
    behind_prompt = turn.lead[len(turn.prompt) : header] if turn.lead.startswith(turn.prompt) else ""
    if behind_prompt.strip() and not units.markers(behind_prompt):
        header = len(turn.prompt)  # words that answers and calls share are their own: ``to=user``, ``to=TOOL``
    if header < len(turn.lead) and not rendering[:header].startswith(turn.prompt):
        header += _header_again(turn, units, rendering[header:at])
    return rendering[header:]


def _header_again(turn: Turn, units: Units, text: str) -> int:
    """Where in ``text`` the end of the assistant's header ends once more; 0 where it does not."""
    split = units.split(turn.prompt)
    for first in range(len(split)):
        end = "".join(split[first:])
        if not units.markers(end):
            return 0
        if end in text:
            return text.rindex(end) + len(end)
    return 0
