"""The sample calls as one template writes them: the texts from which the shape of a call is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from grammars.formats.probe import samples as s
from grammars.formats.probe.renderings import Asking, Renderings
from grammars.formats.probe.turns import Turn, call_text
from grammars.formats.probe.text_units import Units

__all__ = ["CallTexts", "in_one_turn", "read_call_texts"]


@dataclass(frozen=True, slots=True)
class CallTexts:
    """Each from where the assistant's own text begins to the end of the rendering; None where the template fails.

    ``both`` calls with a string and an integer, ``word`` with the string alone, ``none`` without arguments,
    ``all_types`` with a value of every type, ``turned`` with the two keys in reverse order and a name that
    ``keeps_names`` says is written as it was given, ``two`` makes a second
    call without arguments, ``three`` a third one like the first, ``beside`` has text beside the call, ``answered`` is
    followed by the call's result, and ``long_id`` has an id as OpenAI's are (`LONG_ID`).
    """

    both: str
    word: str | None
    none: str | None
    all_types: str | None
    turned: str | None
    keeps_names: bool
    two: str | None
    three: str | None
    beside: str | None
    answered: str | None
    long_id: str | None


def read_call_texts(
    renderings: Renderings, asking: Asking, units: Units, turn: Turn | None, strip: Callable[[str], str]
) -> CallTexts | None:
    """The texts of a template; ``strip`` takes a reasoning block off their beginning."""

    def own(*after: dict[str, Any]) -> str | None:
        rendering = renderings.turn(asking, *after, tools=True)
        if rendering is None or s.NAME not in rendering:
            return None
        return strip(call_text(renderings, asking, units, turn, rendering))

    def calling(*calls: tuple[str, Any], **fields: Any) -> dict[str, Any]:
        return renderings.calling(asking, calls, **fields)

    both = own(calling((s.NAME, s.BOTH)))
    if both is None:
        return None
    first, second = s.BOTH.items()
    turned = renderings.turn(asking, calling((s.ODD_NAME, dict([second, first]))), tools=True)
    two = own(calling((s.NAME, s.BOTH), (s.OTHER_NAME, {})))
    goes_on = two is not None and s.OTHER_NAME in two
    return CallTexts(
        both=both,
        word=own(calling((s.NAME, dict([first])))),
        none=own(calling((s.NAME, {}))),
        all_types=own(calling((s.NAME, s.ALL_TYPES))),
        turned=turned,
        keeps_names=turned is None or s.ODD_NAME in turned,
        two=two,
        three=own(calling((s.NAME, s.BOTH), (s.OTHER_NAME, {}), (s.NAME, s.BOTH))) if goes_on else None,
        beside=_beside(renderings, asking),
        answered=own(calling((s.NAME, s.BOTH)), s.result(call_id=asking.call(s.NAME, {}, 0)["id"])),
        long_id=_with_long_id(renderings, asking),
    )


def in_one_turn(texts: CallTexts, end: str) -> CallTexts:
    """The texts without those calls that the template writes behind the end of the turn, and so can write no more."""
    three = texts.three
    if three is None or not end or end not in three[three.find(s.OTHER_NAME) : three.rfind(s.NAME)]:
        return texts
    return replace(texts, three=None)


def _beside(renderings: Renderings, asking: Asking) -> str | None:
    return renderings.turn(asking, renderings.calling(asking, [(s.NAME, s.BOTH)], s.TEXT), tools=True)


#: An id as OpenAI's are: longer than nine characters and not only letters and digits.
LONG_ID = "call_0123456789abcdefq"


def _with_long_id(renderings: Renderings, asking: Asking) -> str | None:
    message = renderings.calling(asking, [(s.NAME, s.BOTH)])
    message["tool_calls"][0]["id"] = LONG_ID
    return renderings.turn(asking, message, tools=True)
