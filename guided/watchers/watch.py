"""Run-time watchers of one sequence: remove tokens that would write a key or an item twice.

The watchers of a plan come with its schemas (`grammars.values.watchers`): that of the response and those of the JSON
values in tool calls.  A `SequenceWatcher` follows the text of each of these values from its first byte to its last.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from grammars.plan.plan import Plan, RegionName
from grammars.values.json_scanner import ScanState, feed, read_value
from grammars.values.persistent_set import Mode
from guided.engine.engine import Engine
from guided.tracking.commit_log import CommitLog
from guided.tracking.regions import Position, RegionMap, symbols_of
from guided.watchers.call_values import CallValueTable
from guided.watchers.lookahead_duplicates import LookaheadDuplicates
from guided.watchers.vocabulary_index import VocabularyIndex

__all__ = ["SequenceWatcher"]

_BEGIN = ScanState()


class _Record(NamedTuple):
    """The state after one token: the value being written, if any, and the position in the tool calls, if there."""

    value: LookaheadDuplicates | None = None
    scan: ScanState = _BEGIN
    call: Position | None = None


_IDLE = _Record()


class SequenceWatcher:
    """The watchers of one plan on one sequence; the caller passes the sequence's `CommitLog`.

    ``fork`` copies; ``cut`` follows a rollback; ``restrict`` narrows a mask in place.  Cost: about 2 us a token inside
    values, a few hundred us near a duplicate.
    """

    def __init__(self, plan: Plan, regions: RegionMap, entry: int, tokens: VocabularyIndex) -> None:
        self.tokens = tokens
        self.regions = regions
        self._response = LookaheadDuplicates(plan.watchers, tokens) if plan.watchers else None
        self._calls = CallValueTable(plan.call_values) if plan.call_values else None
        self._values = [LookaheadDuplicates(s.watchers, tokens) if s.is_value else None for s in plan.call_values]
        name = regions.regions[entry].name
        self._asked, self._answer = _IDLE, False  # the record that `may_restrict` was asked about, and its answer
        #: the state before the first token, then one per token
        self._records = [_Record(self._response) if name is RegionName.RESPONSE else _IDLE]

    @classmethod
    def of(cls, plan: Plan, regions: RegionMap, entry: int, engine: Engine) -> SequenceWatcher | None:
        """Return the watcher of a sequence that begins in region number ``entry``; None if the plan has none."""
        if not plan.watchers and not plan.call_values:
            return None
        return cls(plan, regions, entry, engine.derived(VocabularyIndex.of))

    def _follow(self, log: CommitLog) -> None:
        """Read the tokens of ``log`` that are new."""
        while len(self._records) <= len(log.tokens):
            self._read(log, len(self._records) - 1)

    def _read(self, log: CommitLog, number: int) -> None:
        """Read token number ``number`` of ``log``."""
        token_id, before, after = log.tokens[number], log.positions[number], log.positions[number + 1]
        regions, records = self.regions, self._records
        last = records[-1]
        response = self._response
        if before is after and last.value is response is not None and last.call is None:  # the usual case
            scan = last.scan
            if scan.mode is not Mode.STRING or scan.escaped or response.nodes or not self.tokens.is_plain[token_id]:
                scan = feed(scan, self.tokens.token_bytes[token_id], response.nodes)
            records.append(last if scan is last.scan else _Record(response, scan))
            return
        region = regions.region_number(after)
        opening: tuple[int, ...] = ()
        begin = 0
        if region != regions.region_number(before):
            last = _IDLE
            if number in log.exits:
                leaving = log.exits[number][-1]
                begin, opening = leaving.last, symbols_of(leaving.exit.trigger) if leaving.exit is not None else ()
        name = regions.regions[region].name
        if name is RegionName.RESPONSE and response is not None:
            scan = feed(last.scan, self.tokens.token_bytes[token_id][begin:], response.nodes)
            records.append(_Record(response, scan))
        elif name is RegionName.TOOL_CALLS and self._calls is not None:
            record = last if last.call is not None else self._with_value(_Record(call=self._calls.enter(opening)))
            records.append(self._in_calls(self._calls, record, regions.symbols(token_id)[begin:]))
        else:
            records.append(_IDLE)

    def _in_calls(self, calls: CallValueTable, record: _Record, symbols: tuple[int, ...]) -> _Record:
        """Return the record after more symbols of the tool calls."""
        at = 0
        while at < len(symbols):
            value, scan, position = record
            assert position is not None
            if value is None:
                record = self._with_value(_Record(call=calls.advance(position, symbols[at])))
                at += 1
                continue
            data = (
                bytes(symbols[at:]) if symbols[at] < 256 else b""
            )  # a marker is a single symbol outside of all values
            scan, used = read_value(scan, data, value.nodes)
            at += used
            if scan.is_complete or not data:
                record = self._with_value(_Record(call=calls.after_value(position.state)))
            else:
                record = _Record(value, scan, position)
        return record

    def _with_value(self, record: _Record) -> _Record:
        """Return the record with the watcher of the value that begins there, if one does."""
        value = self._values[record.call.state] if record.call is not None else None
        return record if value is None else record._replace(value=value)

    def cut(self, num_tokens: int) -> None:
        """Keep only the first ``num_tokens`` tokens."""
        del self._records[num_tokens + 1 :]

    def fork(self) -> SequenceWatcher:
        """An independent copy at the same position."""
        twin = object.__new__(SequenceWatcher)
        twin.__dict__.update(self.__dict__)
        twin._records = self._records.copy()
        return twin

    def free_run(self, log: CommitLog, tokens: list[int]) -> list[int]:
        """Return those of the ``tokens``, forced after ``log``, before which no mask need be restricted.

        Inside a value these are all if they write nothing twice; elsewhere, those before a value that could.
        """
        self._follow(log)
        value, scan, _ = self._records[-1]
        texts = [self.tokens.token_bytes[i] for i in tokens]
        if value is None:
            end = next((i for i, text in enumerate(texts) if b"{" in text or b"[" in text), len(texts))
            return tokens[:end]
        after = feed(scan, b"".join(texts), value.nodes)
        return [] if after.is_duplicate or after.is_complete else tokens

    def may_restrict(self, log: CommitLog) -> bool:
        """Whether `restrict` could remove a token after those of ``log``."""
        self._follow(log)
        record = self._records[-1]
        if record is not self._asked:  # inside a string that is compared with nothing it stays the same
            self._asked = record
            self._answer = record.value is not None and record.value.may_restrict(record.scan)
        return self._answer

    def is_quiet(self, words: NDArray[np.int32]) -> bool:
        """Whether `restrict` surely leaves ``words`` alone; call it after `may_restrict`."""
        value, scan, _ = self._records[-1]
        return value is None or value.is_quiet(words, scan)

    def restrict(self, words: NDArray[np.int32], matcher: Any) -> None:
        """Clear the forbidden tokens in ``words``, as `LookaheadDuplicates.restrict`; call it after `may_restrict`."""
        value, scan, _ = self._records[-1]
        if value is not None:
            value.restrict(words, scan, matcher)
