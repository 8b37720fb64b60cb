"""Prompts without a chat template: text or token ids, with token healing at the end of the prompt under a plan.

Where a prompt ends inside a word, the tokenizer splits the beginning of the word in a way that the whole word rarely
has, and a model continues this split badly.  So under a plan the last tokens are removed from the prompt, and the
grammar of the answer begins with the text of these tokens, which the model may write in other tokens.  This text is a
region of its own and not part of the message.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from grammars.plan.plan import Entry, Exit, Plan, Region, RegionName, RowPlan
from grammars.tree.render import quote
from guided.engine.engine import Engine
from guided.hf.model.chat_template import token_ids
from guided.hf.model.context import ModelContext
from special_tokens.errors import RequestError

__all__ = ["heal", "healed_plan", "read_prompts"]

#: The most tokens at the end of a prompt that are removed and written again.
MAX_HEALED = 8


def read_prompts(context: ModelContext, prompt: Any) -> list[list[int]]:
    """Return the token ids of each prompt: a text, a list of ids, a list of these, or the output of a tokenizer.

    A text is tokenised with the tokenizer's defaults, special tokens at its beginning included.  Raises `RequestError`
    for a value of another kind and for ids that the model does not have.
    """
    if isinstance(prompt, Mapping):  # a BatchEncoding
        return _unpadded(prompt)
    if isinstance(prompt, torch.Tensor):
        prompt = prompt.tolist()
    if isinstance(prompt, bytes) or not isinstance(prompt, Sequence) or not (prompt or isinstance(prompt, str)):
        raise RequestError(f"{type(prompt).__name__} is not a prompt", place="prompt", expected="a text or token ids")
    if isinstance(prompt, str) or _is_id(prompt[0]):
        prompt = [prompt]
    rows = [token_ids(context.tokenizer, item) if isinstance(item, str) else item for item in prompt]
    size = context.tokens.vocab_size
    for r, row in enumerate(rows):
        if isinstance(row, torch.Tensor):
            row = rows[r] = row.tolist()
        if not isinstance(row, Sequence) or not all(_is_id(i) and 0 <= i < size for i in row):
            raise RequestError(
                "not token ids of this model",
                place=f"prompt[{r}]",
                expected=f"a text, or token ids below {size}",
            )
        if not row:
            raise RequestError("the prompt is empty", place=f"prompt[{r}]", expected="at least one token")
    return [list(row) for row in rows]


def _is_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _unpadded(encoding: Mapping[str, Any]) -> list[list[int]]:
    """Return the rows of ``input_ids`` without the positions that ``attention_mask`` masks."""
    ids, mask = encoding.get("input_ids"), encoding.get("attention_mask")
    rows = ids.tolist() if isinstance(ids, torch.Tensor) else ids
    if not isinstance(rows, Sequence) or not rows:
        raise RequestError("there are no input_ids", place="prompt", expected="what a tokenizer gives")
    rows = [rows] if _is_id(rows[0]) else rows
    masks = mask.tolist() if isinstance(mask, torch.Tensor) else mask
    if masks is None:
        return [list(row) for row in rows]
    masks = [masks] if _is_id(masks[0]) else masks
    return [[i for i, keep in zip(row, kept, strict=True) if keep] for row, kept in zip(rows, masks, strict=True)]


def heal(ids: Sequence[int], plan: RowPlan, engine: Engine) -> tuple[list[int], RowPlan]:
    """Return the prompt without its last tokens, and the plan whose answer begins with their text.

    The last n tokens are removed for the largest n, at most `MAX_HEALED`, such that a longer token of the vocabulary
    begins with their text.  Nothing is removed if the prompt ends with a special token or inside a character, or if
    stop strings of the plan act everywhere, because they would then act on that text as well.
    """
    if not isinstance(plan, Plan) or plan.stops.everywhere:
        return list(ids), plan
    vocabulary = engine.derived(_sorted_tokens)
    num_removed, tail = 0, b""
    for n in range(1, min(MAX_HEALED, len(ids) - 1) + 1):
        token = ids[-n]
        if token in engine.tokens.added:
            break
        tail = engine.token_bytes(token) + tail
        # Tokens that begin with `tail` follow it in the sorted list.  The NUL byte skips the token that equals `tail`.
        at = bisect_left(vocabulary, tail + b"\0")
        if at < len(vocabulary) and vocabulary[at].startswith(tail):
            num_removed = n
    try:
        text = b"".join(map(engine.token_bytes, ids[len(ids) - num_removed :])).decode()
    except UnicodeDecodeError:
        return list(ids), plan
    if not text or any(added.text in text for added in engine.tokens.added.values()):
        return list(ids), plan
    return list(ids[: len(ids) - num_removed]), healed_plan(plan, text)


def _sorted_tokens(engine: Engine) -> list[bytes]:
    """The bytes of all tokens, sorted, without those of `marker_ids`: added tokens that are never text."""
    markers = engine.tokens.marker_ids
    return sorted({engine.token_bytes(i) for i in range(engine.vocab_size) if i not in markers})


def healed_plan(plan: Plan, text: str) -> Plan:
    """Return a plan whose answers begin with ``text``, the end of a prompt, in a region before that of each entry."""
    grammar = plan.grammar
    starts = tuple((name, f"{quote(text)} ({body})") for name, body in grammar.starts)
    regions, entries = list(plan.regions), []
    for entry in plan.entries:
        into_answer = Exit((text,), entry.region, after=entry.first)  # drops the white space that begins the answer
        entries.append(Entry(entry.name, len(regions)))
        regions.append(Region(RegionName.PROMPT, (into_answer,)))
    return replace(
        plan,
        grammar=replace(grammar, starts=starts),
        regions=tuple(regions),
        entries=tuple(entries),
    )
