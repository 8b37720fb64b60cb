"""The rows of one call of ``generate``, kept in step with the token histories that the call shows to its hooks.

A session belongs to prompts; all tokens after them were generated.  ``generate`` does not say when a call begins, when
it permutes rows or when it takes drafts back, so `Session.read` compares every history with the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from threading import Lock, get_ident
from typing import TypeAlias

import numpy as np
import torch

from guided.bitmask import from_ids, num_words
from guided.engine.engine import Engine
from guided.hf.generate.new_call import Ids, Prompts, Shown, at_once, is_new_call
from guided.hf.masks.accelerator import OVERRIDDEN, RESCUED, TOKEN, UNSOUND, DeviceLink, Seen
from guided.hf.masks.apply import RowMask, not_numbers
from guided.hf.masks.cpu import HostLink
from guided.rows.alone import attempt
from guided.rows.beams import BeamTracker, Row
from guided.rows.sequence import RowSequence
from special_tokens.errors import ModelError, TokenRefused

__all__ = ["RowMaker", "Session"]

#: Makes the row number ``row`` that continues prompt number ``prompt`` (given by its tokens), None where nothing
#: is to be guided there.
RowMaker: TypeAlias = Callable[[int, int, Sequence[int]], Row | None]


class Session:
    """All rows of one call of ``generate``; a new call with the same hooks gets new rows.

    ``prompts`` are the unpadded prompts and ``padded`` those that ``generate`` gets; both are None for a session that
    accepts any prompts.  ``filler`` is the id that a failed row writes.  With ``in_place`` masks are written into the
    scores themselves.  ``widths`` are further widths that the model's scores may have; scores of any other width belong
    to an assistant model.
    """

    def __init__(
        self,
        make_row: RowMaker,
        engine: Engine,
        *,
        num_prompts: int | None,
        prompts: Sequence[Sequence[int]] | None = None,
        padded: Sequence[Sequence[int]] | None = None,
        filler: int = 0,
        in_place: bool = False,
        widths: Collection[int] = (),
    ) -> None:
        self.engine = engine
        self.lock = Lock()  # held while a hook runs
        self.in_place = in_place
        self.has_budgets = False  # whether a row must end within a budget
        self.filler = filler
        self.prompt_len: int | None = None
        self.expand = 1  # rows that continue each prompt
        self.host = HostLink()
        self.prompts = Prompts(num_prompts, prompts, padded)
        self._make_row = make_row
        self._trackers: list[BeamTracker | None] = []
        self._num_rows = 0
        self._whole: Ids = np.empty((0, 0), dtype=np.int64)  # the history that the rows have read
        self._tail: list[list[int]] = []  # the newest tokens of all rows, which are not in it yet
        self._seen: Seen | None = None  # the tensor that showed it
        self._thread: int | None = None  # of the running call
        self._settled = 0  # length of the history that the criterion was asked about last; 0: not asked in this call
        self._is_asked = False  # the criterion was, since the last step
        self._widths = frozenset((engine.vocab_size, *widths))
        self._strange: int | None = None  # the width of the last scores if it was none of `_widths`
        self._link: DeviceLink | None = None
        self._rows: tuple[Row | None, ...] = ()
        if prompts is not None:
            self._make_rows(len(prompts), prompts)

    # -- rows

    @property
    def rows(self) -> tuple[Row | None, ...]:
        """The rows in their order as far as the host knows, see `settle`; None for a row without a plan."""
        return self._rows

    def _line_up(self) -> None:
        """The trackers' rows as one batch."""
        self._rows = tuple(
            row for tracker in self._trackers for row in (tracker.rows if tracker is not None else [None] * self.expand)
        )
        self.has_budgets = any(isinstance(row, RowSequence) and row.landing is not None for row in self._rows)

    def _make_rows(self, num_rows: int, prompts: Sequence[Sequence[int]]) -> None:
        self.expand = expand = self.prompts.expand_of(num_rows, prompts)
        self._num_rows = num_rows
        self._trackers = []
        for p in range(num_rows // expand):
            prompt = prompts[p if self.prompts.ids is not None else p * expand]
            made = [self._make_row(p, p * expand + k, prompt) for k in range(expand)]
            rows = [row for row in made if row is not None]
            self._trackers.append(BeamTracker(rows) if rows else None)
        self._line_up()

    # -- following

    def read(self, input_ids: torch.Tensor, width: int | None = None) -> bool:
        """Bring every row to ``input_ids`` int64 ``[rows, prompt + generated]``; False for ids of an assistant model.

        ``width`` is the width of the scores, None for a stopping criterion.  An assistant model with another vocabulary
        runs the same processors over its own ids; its scores have another width.  `is_new_call` decides whether the
        history continues the running call.  Raises `PlanError` for prompts that these rows were not created for, for a
        history that does not begin with its prompt, and in a thread whose call was followed by one in another thread.
        """
        if width is not None and width not in self._widths and self._is_foreign(input_ids):
            self._strange = width
            return False
        self._strange = None
        is_own, prompt = self._thread == get_ident(), self.prompt_len
        length, is_asked = input_ids.shape[1], self._is_asked
        if is_own and self._seen is not None and length != prompt and self._seen.is_same(input_ids):
            self._is_asked = width is None
            self._settled = length if width is None else self._settled
            return True
        newest = self._newest(input_ids) if is_own else None
        size = self._size
        next_sizes = (self._settled,) if is_asked else (size, size + 1)
        is_next = is_own and prompt is not None and length > prompt and length in next_sizes
        if newest is not None and is_next:
            self._extend(newest)  # the usual case on an accelerator
        else:
            ids = self._on_host(input_ids) if newest is None else np.column_stack([self._ids, newest])
            continues = newest is not None or self._begins(ids, size)
            if continues and is_next:
                self._follow(ids, continues)  # the usual case: the same again, or one token more
            elif is_new_call(self._shown(is_asked), self.prompts, ids, is_step=width is not None):
                self._begin(ids)
            elif not is_own:
                raise at_once()
            else:
                self._follow(ids, continues)
        self._is_asked = width is None
        if width is None:
            self._settled = length
        elif is_asked and self.prompts.ids is None and length != self.prompt_len and all(self.is_done()):
            self._begin(self._ids)  # all answers are complete: if this history comes again, it is a prompt
        if not input_ids.is_cpu or self.prompts.ids is not None:  # else the same tensor may be the next call's prompt
            self._seen = Seen(input_ids)
        return True

    def _is_foreign(self, input_ids: torch.Tensor) -> bool:
        """Whether scores of another width belong to an assistant model with other ids: the prompts are not ours."""
        if self.prompts.ids is None:
            return True
        ids = _on_host(input_ids)
        if self.prompt_len and self._begins(ids, self.prompt_len):
            return False
        return not self.prompts.fit(ids)

    def _begins(self, ids: Ids, size: int) -> bool:
        """Whether ``ids`` and the history that the rows have read share their first ``size`` columns."""
        mine = self._ids
        if len(ids) != len(mine) or ids.shape[1] < size:
            return False
        return ids[:, :size].tobytes() == mine[:, :size].tobytes()  # a sixth of the time of == and all()

    def _shown(self, is_asked: bool) -> Shown:
        return Shown(self._ids, self.prompt_len, self._settled, is_asked, self.expand)

    def _newest(self, input_ids: torch.Tensor | None = None) -> list[int] | None:
        """Wait for the tokens ``[rows]`` that are being copied from the device, and note the effects of the masks."""
        marked = self._link.newest(input_ids) if self._link is not None else None
        if marked is None:
            return None
        self._note_effects(marked)
        return [number & TOKEN for number in marked]

    def _on_host(self, input_ids: torch.Tensor) -> Ids:
        """Return ``input_ids`` on the host; effects of the masks that were not noted yet are found by the same copy."""
        effects = self._link.take_effects() if self._link is not None else None
        if effects is None:
            return _on_host(input_ids)
        if len(effects) != len(input_ids):
            self._note_effects(effects.tolist())
            return _on_host(input_ids)
        ids = _on_host(torch.cat([input_ids, effects[:, None]], dim=-1))
        self._note_effects(ids[:, -1].tolist())
        return ids[:, :-1]

    def _note_effects(self, marked: Sequence[int]) -> None:
        """Count what the last masks did on the device, see `DeviceLink.mark`.

        Rows whose scores were NaN end before the token that was chosen from them counts.
        """
        assert self._link is not None
        for row, effects, is_guided in zip(self._rows, marked, self._link.is_guided, strict=True):
            if not is_guided or not isinstance(row, RowSequence):
                continue
            if effects & UNSOUND:
                row.fail(not_numbers(f"row {row.row}"))
            else:
                row.overridden += bool(effects & OVERRIDDEN)
                row.rescued += bool(effects & RESCUED)

    def _extend(self, tokens: list[int]) -> None:
        """Let every row read its next token."""
        for row, token in zip(self._rows, tokens, strict=True):
            if row is not None:
                row.extend((token,))
        self._tail.append(tokens)

    @property
    def _ids(self) -> Ids:
        """The history that the rows have read; not to be written to."""
        if self._tail:
            self._whole, self._tail = np.column_stack([self._whole, *self._tail]), []
        return self._whole

    @property
    def _size(self) -> int:
        """Its length."""
        return int(self._whole.shape[1]) + len(self._tail)

    def _begin(self, ids: Ids) -> None:
        """The rows of a new call, whose prompts are ``ids`` int64 ``[rows, length]``."""
        if not self.prompts.fit(ids):
            self.prompts.refuse(ids)
        if len(ids) != self._num_rows or self.prompts.ids is None:
            self._make_rows(len(ids), self.prompts.ids if self.prompts.ids is not None else ids.tolist())
        else:
            for row in self._rows:
                if row is not None:
                    row.restart()
        self.prompt_len = ids.shape[1]
        self._whole, self._tail = ids.copy(), []
        self._thread = get_ident()
        self._settled, self._is_asked = 0, False
        self._link = self._seen = None

    def _follow(self, ids: Ids, continues: bool) -> None:
        """Bring every row to ``ids`` int64 ``[rows, prompt + generated]``."""
        size = self._size
        if not continues:
            self._move(ids[:, self.prompt_len :].tolist())
        elif ids.shape[1] > size:
            for row, tokens in zip(self._rows, ids[:, size:].tolist(), strict=True):
                if row is not None:
                    row.extend(tokens)
        if not continues or ids.shape[1] > size:
            self._whole, self._tail = ids.copy(), []

    def _move(self, histories: list[list[int]]) -> None:
        """The general case: rows permuted, copied or taken back."""
        for p, tracker in enumerate(self._trackers):
            if tracker is not None:
                tracker.sync(histories[p * self.expand : (p + 1) * self.expand])
        self._line_up()

    # -- masks and ends

    def masks(self) -> list[RowMask]:
        """Return the masks for the scores of the next token; rows without a mask are left out."""
        out: list[RowMask] = []
        for r, row in enumerate(self._rows):
            if row is None:
                continue
            mask = row.token_mask() if isinstance(row, RowSequence) else None
            if mask is not None:
                out.append(RowMask(r, mask.words, mask.end_ids, only=mask.forced))
            elif row.has_failed:
                out.append(RowMask(r, from_ids([self.filler], self.engine.vocab_size), is_imposed=True))
            elif row.is_done and (self.expand > 1 or isinstance(row, RowSequence)):
                # A row that has ended writes its end again: beam search may go on with it, and sampling fails for
                # the whole batch where others leave it no score.
                end = attempt(row.fail, (), row.state.open_end_ids) if isinstance(row, RowSequence) else ()
                out.append(RowMask(r, from_ids(end or [self.filler], self.engine.vocab_size), has_ended=True))
        return out

    def count(self, masks: Sequence[RowMask]) -> None:
        """Count overridden and rescued steps in the rows of these masks; rows whose scores were NaN fail."""
        for mask in masks:
            row = self._rows[mask.row]
            if row is not None and mask.error is not None:
                row.fail(mask.error)
            if row is None or mask.is_imposed or mask.has_ended:
                continue
            if mask.unsound and isinstance(row, RowSequence):
                row.fail(not_numbers(f"row {row.row}"))
            else:
                row.overridden += mask.overridden
                row.rescued += mask.rescued

    def link(self, device: torch.device) -> DeviceLink:
        """Return the link to ``device``, created once per call."""
        if self._link is None or self._link.device != device:
            most = max((len(row.plan.end_ids()) for row in self._rows if isinstance(row, RowSequence)), default=0)
            self._link = DeviceLink(device, self._num_rows, num_words(self.engine.vocab_size), max(1, most))
        return self._link

    def ended(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Return which rows of ``input_ids`` int64 ``[rows, length]`` have ended, bool ``[rows]`` on their device.

        Beam search shows its candidates instead: more rows than the session has, each of which continues one of them.
        Raises `ModelError` if the last scores had another width than this model's.
        """
        if self._strange is not None:
            raise ModelError(
                f"the scores are {self._strange} wide, those of the guide's model {max(self._widths)}",
                place="logits",
                hint="call generate of the model that the guide was made with",
            )
        link = self._link if self._thread == get_ident() else None
        if self.prompt_len is not None and input_ids.shape[0] != self._num_rows:
            if self._thread != get_ident():
                raise at_once()
            self._settled, self._is_asked = input_ids.shape[1], True
            done = self._candidates_ended(self._on_host(input_ids)[:, self.prompt_len :].tolist())
        elif link is not None and self._shows_next(input_ids, link) and self._end_by_id():
            self._settled, self._is_asked = input_ids.shape[1], True
            return link.ended(input_ids)
        else:
            self.read(input_ids)
            done = self.is_done()
        ended = torch.from_numpy(np.array(done, dtype=np.bool_))
        return ended if input_ids.is_cpu else ended.to(input_ids.device)

    def _shows_next(self, input_ids: torch.Tensor, link: DeviceLink) -> bool:
        """Whether the last token of ``input_ids`` was chosen from the last scores: not where drafts were taken back."""
        return link.can_end and input_ids.device == link.device and input_ids.shape[1] == self._size + 1

    def _end_by_id(self) -> bool:
        return all(row is None or row.ends_by_id for row in self._rows)

    def _candidates_ended(self, histories: list[list[int]]) -> list[bool]:
        """Return which candidates of beam search have ended; one that no row can have written counts (score -inf)."""
        count = len(histories) // len(self._trackers)
        seen = self._ids[:, self.prompt_len :].tolist()
        done: list[bool] = []
        for p, tracker in enumerate(self._trackers):
            candidates = histories[p * count : (p + 1) * count]
            if tracker is None:
                done += [False] * count
                continue
            first = p * self.expand
            rows = {tuple(seen[first + k]): row for k, row in enumerate(tracker.rows)}
            for history in candidates:
                row = rows.get(tuple(history[:-1]))
                done.append(row is None or row.ends_with(history[-1]))
        return done

    def is_done(self) -> list[bool]:
        """Return which rows have ended."""
        return [row is not None and row.is_done for row in self._rows]

    # -- afterwards

    def settle(self) -> None:
        """Wait for the last tokens, and what is known of them, that are being copied from the device, and read them."""
        if self._link is None:
            return
        newest = self._newest()
        effects = self._link.take_effects()
        if effects is not None:
            self._note_effects(effects.tolist())
        if newest is not None:
            self._extend(newest)

    def rows_at(self, generated: Sequence[Sequence[int]]) -> list[Row | None]:
        """Return the rows that wrote ``generated``, the tokens after each prompt.

        A row that is at its history is returned itself; for any other history an independent row is brought there.
        """
        if self.prompt_len is None or len(generated) % len(self._trackers):
            return [None] * len(generated)
        self.settle()
        count = len(generated) // len(self._trackers)
        rows: list[Row | None] = []
        for r, history in enumerate(generated):
            tracker = self._trackers[r // count]
            if tracker is None:
                rows.append(None)
            elif count == len(tracker.rows) and tracker.rows[r % count].is_at(history):
                rows.append(tracker.rows[r % count])
            else:
                row = tracker.at(history)
                if self.expand > 1 and isinstance(row.error, TokenRefused):
                    row.error.hint = "left over by a search that had fewer legal answers than rows to return"
                rows.append(row)
        return rows


def _on_host(input_ids: torch.Tensor) -> Ids:
    ids: Ids = input_ids.numpy() if input_ids.is_cpu else input_ids.numpy(force=True)
    return ids
