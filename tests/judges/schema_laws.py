"""Laws of schemas and their grammars, with judges that are not ours: honesty, and walks that must end valid.

*Honesty*: an invalid instance that the masks accept needs a ``relaxed`` row of the report at a keyword of each of its
violations; a valid one that they refuse in every order of its keys needs a ``narrowed`` row that lies on its way, at a
subschema that one of its values is held against (`json_schema_ways`), and one that they accept in another order than
its own a row that mentions order.  *Walks*: what is written at random under the masks, closing tokens and ends at a
fifth or more, is valid, except under relaxed rows.

Labels of the data are checked first: where no validator shares one it is *doubtful* and is listed by name.
"""

from __future__ import annotations

import json
import random
import re
import string
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from grammars.values.report import ReportRow
from guided.bitmask import allowed_ids, is_allowed
from guided.engine.engine import Engine
from guided.inspect.shortest import shortest
from guided.state.state import GuidanceState
from special_tokens.errors import LimitExceeded
from tests.guided.validation.validators import Verdict, judge
from tests.judges.schema_causes import unexcused
from tests.judges.schema_masks import Compiled, Judge
from tests.judges.schema_ways import excuses, in_named_order, speaks_of_order

__all__ = ["Breach", "Walked", "accepted_in_some_order", "byte_judge", "honest", "walk"]

_MOST_STEPS = 4_000
_ESCAPE = re.compile(rb"\\.", re.DOTALL)
#: What patterns ask for, by kind: of many letters and few signs each kind comes as often.
_KINDS = [
    [bytes((ord(char),)) for char in kind]
    for kind in (string.punctuation.replace("\\", ""), string.digits, string.ascii_letters)
]
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


@dataclass(frozen=True)
class Breach:
    """A law that was broken, or (``doubtful``) a label that the validators do not share."""

    kind: str  #: accepted, refused valid, order or doubtful
    detail: str


# -- honesty


def honest(
    compiled: Compiled, by_bytes: Compiled, schema: Any, test: Any, texts: list[str], documents: Any
) -> Iterator[Breach]:
    """The breaches of the honesty law by one labelled instance.  ``by_bytes`` is the schema over single bytes."""
    accepted = any(compiled.accepts(text) for text in texts)
    if accepted == test["valid"]:
        return
    verdicts = judge(schema, test["data"], documents=documents)
    opinions = {verdict.is_valid for verdict in verdicts}
    if test["valid"] not in opinions and opinions != {None}:
        label = "valid" if test["valid"] else "invalid"
        yield Breach("doubtful", f"{json.dumps(test['data'])[:120]} is labelled {label}; {quoted(verdicts)}"[:600])
        return
    report = compiled.plan.schema_report
    if accepted:
        for causes in unexcused(schema, test["data"], documents, report.relaxed)[:1]:
            yield Breach("accepted", f"violates {sorted(causes)}, relaxed: {_places(report.relaxed)}"[:600])
    elif accepted_in_some_order(by_bytes, in_named_order(schema, test["data"], documents)):
        if not any(map(speaks_of_order, report.narrowed)):
            yield Breach("order", f"accepted in another order of its keys, narrowed: {_places(report.narrowed)}"[:600])
    elif not any(excuses(schema, test["data"], documents, report.narrowed)):
        yield Breach("refused valid", f"{compiled.explain(texts[0])}, narrowed: {_places(report.narrowed)}"[:600])


def quoted(verdicts: Iterable[Verdict]) -> str:
    """Return the violations that each validator states, in its own words."""

    def words(verdict: Verdict) -> str:
        if verdict.violations is None:
            return f"no opinion ({verdict.failure})"
        return f"invalid ({'; '.join(verdict.violations)})" if verdict.violations else "valid"

    return "; ".join(f"{verdict.validator}: {words(verdict)}" for verdict in verdicts)


def _places(rows: Iterable[ReportRow]) -> list[str]:
    return sorted(f"{row.pointer}/{row.keyword}" for row in rows)


def accepted_in_some_order(by_bytes: Compiled, value: Any) -> bool:
    """Whether the value can be written with the keys of its objects in some order.

    Searched within a budget, from the order that its keys have.
    """
    steps = [_MOST_STEPS]
    return any(state.is_accepting for state in _written(by_bytes.start.fork(), value, steps))


def _written(state: GuidanceState, value: Any, steps: list[int]) -> Iterator[GuidanceState]:
    """The states after the value, by the order in which its keys were written."""
    if isinstance(value, dict):
        for opened in _fed(state, "{", steps):
            yield from _members(opened, value, list(value), True, steps)
    elif isinstance(value, list):
        for opened in _fed(state, "[", steps):
            yield from _items(opened, value, 0, steps)
    else:
        texts = [json.dumps(value, ensure_ascii=False)]
        if isinstance(value, float) and value.is_integer():
            texts.append(str(int(value)))
        for text in texts:
            yield from _fed(state, text, steps)


def _members(
    state: GuidanceState, value: dict[str, Any], left: list[str], first: bool, steps: list[int]
) -> Iterator[GuidanceState]:
    if not left:
        yield from _fed(state, "}", steps)
    for key in left:
        for head in _fed(state, ("" if first else ", ") + json.dumps(key, ensure_ascii=False) + ": ", steps):
            for after in _written(head, value[key], steps):
                yield from _members(after, value, [other for other in left if other != key], False, steps)


def _items(state: GuidanceState, value: list[Any], at: int, steps: list[int]) -> Iterator[GuidanceState]:
    if at == len(value):
        yield from _fed(state, "]", steps)
        return
    for begun in _fed(state, ", ", steps) if at else [state]:
        for after in _written(begun, value[at], steps):
            yield from _items(after, value, at + 1, steps)


def _fed(state: GuidanceState, text: str, steps: list[int]) -> Iterator[GuidanceState]:
    """The state after the text, if the masks let it through and steps are left."""
    if steps[0] <= 0:
        return
    steps[0] -= 1
    state = state.fork()
    for token in state.engine.tokenize(text):
        if state.is_stopped or not is_allowed(state.mask(), token):
            return
        state.commit([token])
    yield state


def byte_judge(documents: Any) -> Judge:
    """Schemas over single bytes, where a text has one cut only."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE(vocab={char: i for i, char in enumerate(alphabet)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(["<|end|>"])
    return Judge(PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|end|>"), documents)


# -- walks


@dataclass(frozen=True)
class Walked:
    """One random answer; ``faults`` is what the validators say, () for a valid one.

    Of an answer that has not ``ended`` they are the error that ended its row, () where there were too many tokens.
    """

    text: str
    ended: bool
    faults: tuple[str, ...] = ()
    doubtful: bool = False  #: the validators disagree


def walk(
    compiled: Compiled, schema: Any, rng: random.Random, *, wander: int = 60, most: int = 1_000, documents: Any = None
) -> Walked:
    """Writes at random until an end, and has the answer judged.

    After ``wander`` tokens it takes the shortest way out that it sees: ends, brackets, quotes; in a string that cannot
    end yet the words of the plan's shortest answer, which hold what a pattern asks for, or anything.
    """
    state, engine = compiled.start.fork(), compiled.start.engine
    ends = compiled.plan.end_ids()
    pieces = _pieces(engine)
    while not state.is_stopped and state.num_tokens < most:
        try:
            ids = allowed_ids(state.mask())
        except LimitExceeded as error:
            return Walked(_text(state, ends), False, (str(error),))
        late = state.num_tokens >= wander
        allowed = set(ids)
        closing = [i for i in ids if i in ends]
        # a bracket is text in a string
        inside = all(not allowed.isdisjoint(pieces.get(byte, ())) for byte in (b'"', b"a", b"}"))
        begun = late and not inside and _is_in_string(state)
        for byte in (b'"',) if inside or begun else (b"}", b"]", b'"', b",", b"0"):  # the outermost first
            closing = closing or [i for i in pieces.get(byte, ()) if i in allowed]
        if begun and not closing:
            ended = _string_ended(state, compiled) if state.num_tokens % 8 == 0 else None
            state = ended or state
            if ended is None:
                kinds = [[i for byte in kind for i in pieces.get(byte, ()) if i in allowed] for kind in _KINDS]
                state.commit([rng.choice(rng.choice([kind for kind in kinds if kind] or [ids]))])
            continue
        if late:
            closing = closing or sorted(allowed.difference(pieces[b""]))
        state.commit([rng.choice(closing if closing and (late or rng.random() < 0.25) else ids)])
    text = _text(state, ends)
    if not state.is_stopped:
        return Walked(text, False)
    try:
        value = json.loads(text, object_pairs_hook=_no_twins)
    except ValueError as error:
        return Walked(text, True, (str(error),))
    verdicts = judge(schema, value, documents=documents)
    faults = tuple(f"{v.validator}: {fault}" for v in verdicts for fault in v.violations or ())
    return Walked(text, True, faults, len({v.is_valid for v in verdicts} - {None}) > 1)


def _text(state: GuidanceState, ends: Collection[int]) -> str:
    return b"".join(state.engine.token_bytes(i) for i in state.tokens if i not in ends).decode("utf-8", "replace")


def _is_in_string(state: GuidanceState) -> bool:
    """Whether the text ends within a string."""
    text = b"".join(map(state.engine.token_bytes, state.tokens))
    return _ESCAPE.sub(b"", text).count(b'"') % 2 == 1


def _string_ended(state: GuidanceState, compiled: Compiled) -> GuidanceState | None:
    """A copy after the end of the string that is being written, by one of the words of the plan's shortest answer."""
    return next((ended for word in _words(compiled) for ended in _fed(state, word[1:], [1])), None)


@lru_cache(maxsize=4)
def _words(compiled: Compiled) -> list[str]:
    """The strings of the plan's shortest answer, shortest first."""
    text = shortest(compiled.plan, compiled.start.engine)
    return sorted(set(_STRING.findall(text or "")), key=len)


@lru_cache(maxsize=4)
def _pieces(engine: Engine) -> dict[bytes, list[int]]:
    """The tokens that write one byte, by that byte; under the empty one those that open an array or object."""
    pieces: dict[bytes, list[int]] = {b"": []}
    for token in range(engine.vocab_size):
        piece = engine.token_bytes(token)
        if len(piece) == 1:
            pieces.setdefault(piece, []).append(token)
        if set(piece) & set(b"{["):
            pieces[b""].append(token)
    return pieces


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) < len(pairs):
        raise ValueError("a key is written twice")
    return out
