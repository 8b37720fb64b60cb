"""Choose tokens of rows near their budgets: a token after which the answer might not end in time is drawn again."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from guided.hf.loop.sampling import RowSampler, choose
from guided.rows.alone import attempt
from guided.rows.answer import RowAnswer
from guided.rows.sequence import RowSequence

__all__ = ["land"]

#: The most tokens drawn for one position; then the next token of the known path to the end is taken.
_MAX_DRAWS = 4
#: Places that the searches after all later draws of one position may try together.
_DRAWN_PLACES = 100
#: Later draws at a position use the random numbers of positions this far away, which no answer reaches.
_STRIDE = 1 << 32


def land(
    rows: Sequence[RowSampler],
    scores: torch.Tensor,
    tokens: torch.Tensor,
    sound: torch.Tensor,
    answers: Sequence[RowAnswer | None],
) -> torch.Tensor:
    """Replace the tokens int64 ``[rows]`` after which no end within the budget was found, in place; return ``tokens``.

    A refused token gets the score -inf in ``scores`` float ``[rows, vocab]``, and one of the others is drawn; after a
    few refusals the next token of the known path is taken.  Rows far from their budgets cost nothing.
    """
    landing = {
        i: answer.sequence
        for i, answer in enumerate(answers)
        if answer is not None and isinstance(answer.sequence, RowSequence) and answer.sequence.is_landing()
    }
    chosen = torch.where(sound, tokens, -1).tolist() if landing else []  # one wait, whatever the number of rows
    for i, sequence in landing.items():
        token = chosen[i]
        if token >= 0:
            landed = attempt(sequence.fail, token, _landed, rows[i], scores[i], token, sequence)
            if landed != token:
                tokens[i] = landed
    return tokens


def _landed(row: RowSampler, scores: torch.Tensor, token: int, sequence: RowSequence) -> int:
    assert sequence.landing is not None
    effort = sequence.landing.step_effort()
    position = sequence.num_tokens
    ids: torch.Tensor | None = None  # of the tokens that the mask allows: drawing from these alone is quick
    for draw in range(1, _MAX_DRAWS + 1):
        if sequence.lands(token, effort, is_own=draw == 1):
            return token
        if draw == 1:
            sequence.note_landing(token)
            effort = effort.part(_DRAWN_PLACES, is_small=True)
        if draw == _MAX_DRAWS or effort.is_spent:
            break
        if ids is None:
            ids = scores.isfinite().nonzero().squeeze(-1)
        scores[token] = -torch.inf
        chosen, sound = choose(scores[ids][None], [row], [position + draw * _STRIDE])
        if not sound[0]:
            break
        token = int(ids[chosen[0]])
    nearest = sequence.landing_token()
    if nearest is None:
        return token
    scores.fill_(-torch.inf)
    scores[nearest] = 0.0
    return nearest
