"""The sample calls as a template writes them, from which the shape of a call is inferred."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from grammars.formats.probe import samples as s
from grammars.formats.probe.renderings import Probe, Renderings
from grammars.formats.probe.text_units import Units
from grammars.formats.probe.turns import Turn, call_text

__all__ = ["CallTexts", "in_one_turn", "read_call_texts"]


@dataclass(frozen=True, slots=True)
class CallTexts:
    """Rendered calls, each from the beginning of the assistant's text to the end; None if the template fails.

    ``both``: a string and an integer argument; ``word``: the string alone; ``none``: no arguments; ``all_types``: a
    value of every type; ``reversed_keys``: the keys of ``both`` reversed and an unusual name (``keeps_names``: it is
    written unchanged); ``two``: a second call without arguments; ``three``: a third call like the first; ``with_text``:
    content next to the call; ``answered``: the call's result follows; ``long_id``: an id in OpenAI's style (`LONG_ID`).
    """

    both: str
    word: str | None
    none: str | None
    all_types: str | None
    reversed_keys: str | None
    keeps_names: bool
    two: str | None
    three: str | None
    with_text: str | None
    answered: str | None
    long_id: str | None


def read_call_texts(
    renderings: Renderings, probe: Probe, units: Units, turn: Turn | None, strip: Callable[[str], str]
) -> CallTexts | None:
    """Render the sample calls; ``strip`` removes a reasoning block from their beginning."""

    def assistant_text(*after: dict[str, Any]) -> str | None:
        rendering = renderings.turn(probe, *after, tools=True)
        if rendering is None or s.NAME not in rendering:
            return None
        return strip(call_text(renderings, probe, units, turn, rendering))

    def calling(*calls: tuple[str, Any], **fields: Any) -> dict[str, Any]:
        return renderings.calling(probe, calls, **fields)

    both = assistant_text(calling((s.NAME, s.BOTH)))
    if both is None:
        return None
    first, second = s.BOTH.items()
    turned = renderings.turn(probe, calling((s.ODD_NAME, dict([second, first]))), tools=True)
    two = assistant_text(calling((s.NAME, s.BOTH), (s.OTHER_NAME, {})))
    goes_on = two is not None and s.OTHER_NAME in two
    return CallTexts(
        both=both,
        word=assistant_text(calling((s.NAME, dict([first])))),
        none=assistant_text(calling((s.NAME, {}))),
        all_types=assistant_text(calling((s.NAME, s.ALL_TYPES))),
        reversed_keys=turned,
        keeps_names=turned is None or s.ODD_NAME in turned,
        two=two,
        three=assistant_text(calling((s.NAME, s.BOTH), (s.OTHER_NAME, {}), (s.NAME, s.BOTH))) if goes_on else None,
        with_text=_with_text(renderings, probe),
        answered=assistant_text(calling((s.NAME, s.BOTH)), s.result(call_id=probe.call(s.NAME, {}, 0)["id"])),
        long_id=_with_long_id(renderings, probe),
    )


def in_one_turn(texts: CallTexts, end: str) -> CallTexts:
    """The texts without ``three`` if the template writes its later calls after the end of the turn."""
    three = texts.three
    if three is None or not end or end not in three[three.find(s.OTHER_NAME) : three.rfind(s.NAME)]:
        return texts
    return replace(texts, three=None)


def _with_text(renderings: Renderings, probe: Probe) -> str | None:
    return renderings.turn(probe, renderings.calling(probe, [(s.NAME, s.BOTH)], s.TEXT), tools=True)


#: An id in OpenAI's style: longer than nine characters and not only letters and digits.
LONG_ID = "call_0123456789abcdefq"


def _with_long_id(renderings: Renderings, probe: Probe) -> str | None:
    message = renderings.calling(probe, [(s.NAME, s.BOTH)])
    message["tool_calls"][0]["id"] = LONG_ID
    return renderings.turn(probe, message, tools=True)
