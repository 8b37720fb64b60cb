"""The hidden states that a call asks for, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from guided.hf.hidden.self_test import check_hidden_states
from special_tokens.errors import RequestError, shown

__all__ = ["HiddenStates", "hidden_settings"]

Strategy = Literal["auto", "hybrid", "prefill"]


@dataclass(frozen=True, slots=True)
class HiddenStates:
    """The way to compute the hidden state of the last token.

    ``hybrid`` takes it from the forwards of the answer, and feeds the last token together with the next step of the
    other rows.  ``prefill`` computes it after the answers, from kept rows or else from whole texts, those within a
    tenth of the shortest one's length together, at most ``max_prefill_batch_size`` at once.  ``auto`` is ``hybrid`` in
    our own loop; states that no step has shown are computed as in ``prefill``.
    """

    strategy: Strategy = "auto"
    max_prefill_batch_size: int = 8

    def __post_init__(self) -> None:
        if self.strategy not in get_args(Strategy):
            raise RequestError(
                f"unknown strategy {shown(self.strategy)}",
                place="return_last_hidden_state",
                expected="auto, hybrid or prefill",
            )
        size = self.max_prefill_batch_size
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise RequestError(
                f"{shown(size)} is out of range", place="max_prefill_batch_size", expected="an integer of 1 or more"
            )


def hidden_settings(value: object, model: Any) -> HiddenStates | None:
    """Return the settings of the hidden states that a call asks for; None if it asks for none.

    Raises `RequestError` for a wrong value, `ModelError` for a model that shows no hidden states.
    """
    if value is False or value is None:
        return None
    if value is not True and not isinstance(value, HiddenStates):
        raise RequestError(
            f"{shown(value)} is not a way to compute hidden states",
            place="return_last_hidden_state",
            expected="True, False or guided.hf.HiddenStates(...)",
        )
    check_hidden_states(model)
    return HiddenStates() if value is True else value
