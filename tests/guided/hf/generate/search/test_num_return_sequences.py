"""Several sampled rows for each prompt."""

from __future__ import annotations

from typing import Any

import torch

from tests.judges.generation import CHATS, check_all, generate

MODE = ("num_return_sequences", "right", "rows of one prompt are adjacent; their number is taken from the call")


def test_every_row_of_every_prompt_is_right(tiny_guide: Any) -> None:
    names = ["json", None, "choice"]
    torch.manual_seed(0)
    result = generate(tiny_guide, CHATS[:3], names, do_sample=True, top_k=0, num_return_sequences=3)
    check_all(tiny_guide, names, result)
    messages = result[3]
    assert len(messages) == 9
    assert len({m.token_ids for m in messages[:3]}) > 1
    assert [m.guidance.applied for m in messages] == [True] * 3 + [False] * 3 + [True] * 3
    for message in messages[:3] + messages[6:]:
        assert message.guidance.masks == message.guidance.commits == len(message.token_ids)
