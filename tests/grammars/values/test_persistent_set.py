"""A persistent set holds what a plain list holds, also where several continue from one place."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from grammars.values.persistent_set import Mode, PersistentSet


@pytest.mark.parametrize("seed", range(8))
def test_it_answers_as_a_list_does(seed: int) -> None:
    chance = random.Random(seed)
    all_values: list[object] = [b"", b"a", b"ab", b"abc", b"b", "é".encode(), Fraction(1), (Mode.LITERAL, b"true")]
    all_values += [(Mode.STRING, b"true"), (Mode.NUMBER, b"1e99999")]
    known: list[tuple[PersistentSet, list[object]]] = [(PersistentSet(), [])]
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
        assert sorted(seen.with_prefix(b"a") or []) == [text for text in strings if text.startswith(b"a")]
        assert (seen.with_prefix(b"", 3) is None) == (len(strings) > 3)
        assert set(seen.intersection(frozenset((b"a", b"true", b"x")))) == {b"a", b"true"} & set(strings)
        assert seen.has_text(b"true") == (b"true" in strings)
        assert seen.has_numbers == (Fraction(1) in values)
