"""Prompts of a batch, ready for ``generate``: rendered, tokenised, left padded, and bound to their plans."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from grammars.plan.plan import Plan, RowPlan, Stops
from guided.hf.model.context import ModelContext
from guided.hf.model.tokenizer_context import BoundPrompt
from guided.state.entry import Begin
from special_tokens.errors import PlanError

if TYPE_CHECKING:
    from guided.hf.generate.session import Session

__all__ = ["Inputs", "bind", "check_rows", "checked_inputs", "pad_left"]


class Inputs(UserDict[str, torch.Tensor]):
    """``input_ids`` and ``attention_mask`` (int64 ``[rows, length]``) for ``model.generate(**inputs)``.

    ``prompt_ids`` are the unpadded prompts; ``begins`` are the places at which the plans begin after these prompts.
    The session of the last ``generate`` call is kept here, so that `guided.hf.Batch.messages` can report what guidance
    did.
    """

    def __init__(
        self,
        data: dict[str, torch.Tensor],
        prompt_ids: Sequence[Sequence[int]],
        begins: Sequence[Begin],
    ) -> None:
        super().__init__(data)
        self.prompt_ids = tuple(tuple(ids) for ids in prompt_ids)
        self.begins = tuple(begins)
        self.session: Session | None = None

    def to(self, device: Any) -> Inputs:
        """Return the same inputs with their tensors on ``device``."""
        data = {key: value.to(device) for key, value in self.data.items()}
        moved = Inputs(data, self.prompt_ids, self.begins)
        moved.session = self.session
        return moved

    def repeated(self, counts: Sequence[int]) -> Inputs:
        """Return the same prompts, prompt ``row`` repeated ``counts[row]`` times, copies next to each other."""
        index = [row for row, count in enumerate(counts) for _ in range(count)]
        data = {key: value[torch.tensor(index, device=value.device)] for key, value in self.data.items()}
        return Inputs(data, [self.prompt_ids[row] for row in index], [self.begins[row] for row in index])

    @property
    def num_rows(self) -> int:
        return len(self.prompt_ids)

    @property
    def prompt_len(self) -> int:
        """The length of the padded prompts."""
        return int(self.data["input_ids"].shape[1])

    def generated(self, sequences: torch.Tensor) -> list[list[int]]:
        """Return the tokens after the prompts in ``sequences`` int64 ``[rows, length]``, which ``generate`` returned.

        The sequences begin with the prompts, or with the part of them that ``generate`` was given as ids: nothing with
        ``inputs_embeds``, perhaps only the new ids with ``past_key_values``.  Raises `PlanError` for the sequences of
        other prompts.
        """
        rows: list[list[int]] = sequences.tolist()
        expand = len(rows) // self.num_rows
        prompts = self.data["input_ids"].tolist()
        whole = self.prompt_len
        shown = self.session.prompt_len if self.session is not None else None
        for size in (whole,) if shown is None or shown >= whole else (whole, shown):
            if all(row[:size] == prompts[r // expand][whole - size :] for r, row in enumerate(rows)):
                return [row[size:] for row in rows]
        r = next(r for r, row in enumerate(rows) if row[:whole] != prompts[r // expand])
        raise PlanError(
            f"row {r} does not begin with the prompt of these inputs",
            place="messages",
            hint="read it with the batch that generate was called with",
        )


def checked_inputs(
    context: ModelContext, chats: Sequence[Any], plans: Sequence[RowPlan] | None = None, *, describe: bool = False
) -> Inputs:
    """Return the chats as a left-padded batch, each rendered with its plan's chat template arguments.

    ``describe`` adds the system text that describes tools and response format to the model.
    """
    if isinstance(chats, str | Mapping):
        raise PlanError("this is one chat", place="chats", expected="a list of chats")
    if not chats:
        raise PlanError("the list is empty", place="chats", expected="at least one chat")
    plans = check_rows(plans, len(chats))
    return bind(
        context, [context.prompt(chat, plan, describe=describe) for chat, plan in zip(chats, plans, strict=True)]
    )


def bind(context: ModelContext, prompts: Sequence[BoundPrompt]) -> Inputs:
    """Return bound prompts as a batch."""
    ids, begins = zip(*prompts, strict=True)
    data = {key: value.to(context.model.device) for key, value in pad_left(ids, context.pad_id).items()}
    return Inputs(data, ids, begins)


def pad_left(rows: Sequence[Sequence[int]], pad_id: int) -> dict[str, torch.Tensor]:
    """Return rows of token ids as one left-padded batch with its attention mask."""
    length = max(len(row) for row in rows)
    ids = torch.full((len(rows), length), pad_id, dtype=torch.long)
    mask = torch.zeros((len(rows), length), dtype=torch.long)
    for r, row in enumerate(rows):
        ids[r, length - len(row) :] = torch.tensor(list(row), dtype=torch.long)
        mask[r, length - len(row) :] = 1
    return {"input_ids": ids, "attention_mask": mask}


def check_rows(plans: Any, num_rows: int) -> list[RowPlan]:
    """Return one plan per row, None in place of empty stops; raises `PlanError` for another number of plans."""
    if plans is None:
        return [None] * num_rows
    if isinstance(plans, Plan | Stops):
        raise PlanError("plans is one plan", place="plans", expected="a list with one plan or None per row")
    if isinstance(plans, str | bytes) or not isinstance(plans, Sequence):
        raise PlanError(f"plans is {type(plans).__name__}", place="plans", expected="a list, one plan or None per row")
    if len(plans) != num_rows:
        raise PlanError(f"{len(plans)} plans for {num_rows} rows", place="plans", expected="one plan or None per row")
    for r, plan in enumerate(plans):
        if not isinstance(plan, Plan | Stops | None):
            raise PlanError(
                f"{type(plan).__name__} is not a plan",
                place=f"plans[{r}]",
                expected="what guide.plan() gave, stops, or None",
                hint="a type or a schema is passed as response_format=",
            )
    return [None if isinstance(plan, Stops) and not plan else plan for plan in plans]
