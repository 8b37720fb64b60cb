"""Choose the source of the drafts of one run, prompt look-up or an assistant, or say why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from guided.engine.engine import Engine
from guided.hf.cache.self_test import abilities_of
from guided.hf.drafts.assistant import AssistantDrafts
from guided.hf.drafts.cost import measured_cost, relative_cost
from guided.hf.drafts.drafts import Drafts, Guesser
from guided.hf.drafts.lookup import PromptLookup
from guided.hf.drafts.settings import DraftSettings
from guided.rows.answer import RowAnswer

__all__ = ["drafts_of"]


def drafts_of(
    settings: DraftSettings,
    model: Any,
    engine: Engine,
    answers: Sequence[RowAnswer],
    prompts: Sequence[Sequence[int]],
) -> Drafts | str:
    """Return the drafts of one run, or the reason why there are none: the assistant's cache, or its time."""
    source: Guesser
    if settings.assistant is None:
        source = PromptLookup(engine, answers, prompts, settings.num_tokens)
    else:
        abilities = abilities_of(settings.assistant)
        if not (abilities.ragged or (abilities.crop and len(answers) == 1)):
            return "; ".join(abilities.notes)
        share = relative_cost(settings.assistant, model)
        if share >= 1:
            return "a forward of the assistant takes as long as one of the model"
        source = AssistantDrafts(
            settings.assistant, answers, prompts, engine.tokens.end_ids, vocab_size=engine.tokens.facts.vocab_size,
            most=settings.num_tokens, least_chance=share,
        )  # fmt: skip
    return Drafts(source, measured_cost(model), len(answers))
