"""What was written so far: as a plain list has it, also where several go on from one place."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from guided.watchers.persistent_set import Mode, Seen


@pytest.mark.parametrize("seed", range(8))
def test_it_answers_as_a_list_does(seed: int) -> None:
    chance = random.Random(seed)
    all_values: list[object] = [b"", b"a", b"ab", b"abc", b"b", "é".encode(), Fraction(1), (Mode.LITERAL, b"true")]
    all_values += [(Mode.STRING, b"true"), (Mode.NUMBER, b"1e99999")]
    known: list[tuple[Seen, list[object]]] = [(Seen(), [])]
    for _ in range(150):
        seen, values = chance.choice(known[-4:])
        value = chance.choice(all_values)
        known.append((seen.with_value(value), [*values, value]))
        if chance.random() < 0.5:
            continue
        seen, values = chance.choice(known)
        texts = [value[1] if isinstance(value, tuple) and value[0] is Mode.STRING else value for value in values]
        strings = sorted(text for text in texts if isinstance(text, bytes))
        assert len(seen) == len(values)
        assert list(seen) == values[::-1]
        assert [value in seen for value in all_values] == [value in values for value in all_values]
        assert sorted(seen.beginning(b"a") or []) == [text for text in strings if text.startswith(b"a")]
        assert (seen.beginning(b"", 3) is None) == (len(strings) > 3)
        assert set(seen.among(frozenset((b"a", b"true", b"x")))) == {b"a", b"true"} & set(strings)
        assert seen.has_text(b"true") == (b"true" in strings)
        assert seen.has_numbers == (Fraction(1) in values)
