"""An answer that ends within ``max_tokens`` without landing is the same with it: in our loop and in ``generate``.

The judge is the same run with ``landing=False``.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

import guided
from guided.hf.generate import hooks
from guided.rows.sequence import RowSequence
from tests.cases import seeds, slow_where
from tests.judges.generation import GuidedCall
from tests.made_up.schemas import closed

CHATS = ["Who is it?", "List them, please."]
MODES = {"enum": ["on", "off", "by night"]}
SHAPE = closed(
    {
        "name": {"type": "string", "maxLength": 6},
        "mode": MODES,
        "at": {"type": "string", "format": "date"},
        "to": {"type": "string", "pattern": "^[a-z]{1,4}@[a-z]{1,4}[.]org$"},
        "n": {"type": "integer", "minimum": 0, "maximum": 999},
    },
    optional=("at", "n"),
)
EITHER = {"anyOf": [SHAPE, {"type": "array", "items": MODES, "maxItems": 4}, {"type": "boolean"}]}
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": parameters}}
    for name, parameters in (("look_up", SHAPE), ("set_mode", closed({"mode": MODES})))
]
REQUESTS: dict[str, dict[str, Any]] = {
    "json": {"response_format": SHAPE, "thinking": False},
    "one of several": {"response_format": EITHER, "thinking": False},
    "call": {"tools": TOOLS, "tool_choice": "required", "thinking": False},
    "call or json": {"tools": TOOLS, "response_format": EITHER, "thinking": False},
    "choice": {"response_format": guided.Choice(["yes", "no", "not yet, and perhaps never"]), "thinking": False},
}
EXTRA = (0, 1, 2, 5, 20)
LONG = 300


@pytest.mark.parametrize("seed", seeds(40, default=2))
@pytest.mark.parametrize("name", REQUESTS)
def test_in_our_loop(tiny_guide: Any, name: str, seed: int) -> None:
    plan, options = tiny_guide.plan(**REQUESTS[name]), {"temperature": (0.0, 0.7, 1.5)[seed % 3], "seed": seed}
    own = tiny_guide.chat(CHATS[seed % 2], plan, max_tokens=LONG, landing=False, **options)
    if own.finish_reason == "length":
        pytest.skip("this answer has no end")
    size = len(own.token_ids)
    for most in (*(size + extra for extra in EXTRA), 2 * size, 5 * size):
        message = tiny_guide.chat(CHATS[seed % 2], plan, max_tokens=most, **options)
        assert message.token_ids == own.token_ids, most
        assert message.landed is None


SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "sampling": {"do_sample": True, "top_k": 50},
    "beams": {"num_beams": 3, "do_sample": False},
    "look-up": {"prompt_lookup_num_tokens": 4, "do_sample": False},
}


@pytest.mark.parametrize("seed", seeds(20, default=1))
@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("name", slow_where(lambda name: name not in ("call", "choice"), REQUESTS))
def test_in_generate(tiny_guide: Any, name: str, search: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A beam without room leaves its place to another, which may win; of the answer itself no token is refused."""
    chats, plans = [f"{CHATS[seed % 2]} {seed}"], [tiny_guide.plan(**REQUESTS[name])]

    def message(most: int, landing: bool) -> guided.Message:
        torch.manual_seed(seed)
        call = GuidedCall(tiny_guide, chats, plans, max_tokens=most, landing=landing)
        (found,) = call.run(**SEARCHES[search])[1]
        return found

    own = message(LONG, False)
    if own.finish_reason == "length":
        pytest.skip("this answer has no end")
    refused: list[int] = []
    narrowings: list[bool] = []  # of any beam

    def narrowed(row: RowSequence, scores: torch.Tensor, numbers: list[int]) -> torch.Tensor:
        out, at = narrow(row, scores, numbers), row.num_tokens
        narrowings.append(not torch.equal(out, scores))
        if tuple(row.state.tokens) == own.token_ids[:at] and out[own.token_ids[at]] == -torch.inf:
            refused.append(at)
        return out

    narrow = hooks._narrowed
    monkeypatch.setattr(hooks, "_narrowed", narrowed)
    size = len(own.token_ids)
    for most in (*(size + extra for extra in (EXTRA if seed else EXTRA[::2])), 2 * size):
        # beams may go elsewhere where others are cut
        if search != "beams" or message(most, False).token_ids == own.token_ids:
            narrowings.clear()
            found = message(most, True)
            assert found.token_ids == own.token_ids or (search == "beams" and any(narrowings)), most
            assert not refused, most
            assert found.landed is None or search in ("sampling", "beams")  # another token was refused there
