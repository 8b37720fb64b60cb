"""An engine of one's own.  You will see rows that take drafts and move elsewhere, with the answers of single steps."""

from collections.abc import Sequence

import numpy as np
from llguidance.numpy import apply_token_bitmask_inplace

import guided
from guided.landing.options import budgeting, token_limit
from guided.rows.making import make_row
from guided.rows.reader import AnswerReader

guide = guided.demo()
context = guide.context  # without weights: TokenizerContext.of(tokenizer, config, generation_config)
engine = context.engine


def scores_of(ids: Sequence[int]) -> np.ndarray:
    """A model: random logits [1, width], which may be wider than the vocabulary."""
    return np.random.default_rng(ids[-3:]).normal(size=(1, engine.vocab_size + 64)).astype(np.float32)


class EngineRow:
    """One request.  ``written`` are the tokens that it has when it comes from another process."""

    def __init__(self, chat: str, data: bytes | None, max_tokens: int, written: Sequence[int] = ()) -> None:
        plan = None if data is None else guided.decode_plan(data)
        prompt = context.prompt(chat, plan)
        begin, self.prompt, self.written = prompt.begin, prompt.token_ids, list(written)
        self.limit = token_limit(plan, max_tokens, len(self.prompt), 2048)  # the engine counts: no row ends there
        budget = budgeting(True, "cut")  # end the answer in time; a budget that holds none cuts it
        self.row = make_row(plan, engine, begin=begin, max_tokens=self.limit, budget=budget, lands_in_masks=True)
        self.reader = AnswerReader(plan, engine, begin=begin, prompt_tokens=len(self.prompt))
        for token in written:
            self.next_mask()  # the masks decide where an answer lands, so they are asked for again
            self.read(token)
        self.reader.feed(written)

    @property
    def is_done(self) -> bool:
        has_ended = self.reader.is_done or (self.row is not None and self.row.is_done)
        return has_ended or len(self.written) >= self.limit

    def next_mask(self) -> np.ndarray | None:
        mask = self.row.token_mask() if self.row is not None else None  # a request without a plan has no row
        return mask.words[None].copy() if mask is not None else None  # the next mask is written to the same memory

    def read(self, token: int) -> None:
        if self.row is not None:
            self.row.extend([token])

    def step(self, guess: Sequence[int]) -> list[object]:
        """Write a token, and the drafts in ``guess`` that the model would have written; return the new events."""
        drafts: list[int] = []
        if self.row is not None:
            room = self.limit - len(self.written) - 1
            drafts = [*guess[: min(room, self.row.validate(guess))]]
        masks = [self.next_mask()]
        for draft in drafts:
            self.read(draft)
            masks.append(self.next_mask())
        new: list[int] = []
        for i, mask in enumerate(masks):  # one forward of a real model
            if i == len(drafts) and self.is_done:
                break  # with the last draft
            scores = scores_of([*self.prompt, *self.written, *new])
            if mask is not None:
                apply_token_bitmask_inplace(scores, mask)
            new.append(int(scores[0, : engine.vocab_size].argmax()))
            if new[i:] != drafts[i : i + 1]:
                if self.row is not None:
                    self.row.rollback(len(drafts) - i)  # only what was refused
                self.read(new[i])
                break
        self.written += new
        return self.reader.feed(new)

    def message(self) -> guided.Message:
        return self.reader.message(report=self.row.report() if self.row is not None else None)


person = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name"],
}
plans = [guide.plan(response_format=person), guide.plan(response_format=["yes", "no"], reasoning_effort="minimal")]
requests = [("Who is it?", guided.encode_plan(plan), 30) for plan in plans] + [("Hello.", None, 30)]
single: dict[int, guided.Message] = {}
for has_drafts in (False, True):
    waiting, running, messages = list(enumerate(requests)), dict[int, EngineRow](), dict[int, guided.Message]()
    while waiting or running:
        if waiting:  # a request joins
            number, request = waiting.pop(0)
            running[number] = EngineRow(*request)
        for number, one in list(running.items()):
            at = len(one.written)
            # A draft model that is often right.
            one.step([*single[number].token_ids[at : at + 3], 0] if has_drafts else [])
            if has_drafts and at % 2:  # to another process: its plan and its tokens as bytes
                one = running[number] = EngineRow(*requests[number], one.written)
            if one.is_done:
                messages[number] = running.pop(number).message()
    single = single or messages
for number, message in sorted(messages.items()):
    other = single[number]
    is_same = (message.token_ids, message.landed) == (other.token_ids, other.landed)
    print(f"{message.content!r} {message.finish_reason}, landed {message.landed}, as in single steps: {is_same}")
