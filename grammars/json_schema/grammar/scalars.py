"""Scalars as lexemes: null, booleans, numbers and strings of a shape, each one token of JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

from grammars.json_schema.grammar.nonterminals import Nonterminal
from grammars.json_schema.shapes.number_texts import FARTHEST, Digits, digits, multiples_regex, regexes
from grammars.json_schema.shapes.numbers import (
    ANY_NUMBER,
    MAX_DIGITS,
    Numbers,
    is_double,
    spellings,
    tightened,
    within_digits,
)
from grammars.json_schema.shapes.shapes import Shape
from grammars.limits.schema_limits import with_deadline
from grammars.regular.json_strings import lexeme, spell, written
from grammars.regular.terms import NONE
from grammars.tree.nodes import And, Lexeme, Node, Not, Pattern, Text, alt
from grammars.values.report import Outcome

__all__ = ["finite_values", "scalar_nodes"]

_NULL, _FALSE, _TRUE = Text("null"), Text("false"), Text("true")
_WHOLE = Numbers(integer=True)

#: Outcome, pointers (none: the place of the lexeme), keyword and reason of something that a lexeme does not enforce.
Note = tuple[Outcome, tuple[str, ...], str, str]


def scalar_nodes(shape: Shape, most: int, *, compared: bool) -> tuple[list[Node], list[Note]]:
    """The lexemes of a shape's scalars, and what they do not enforce.

    Numbers have at most ``most`` digits on each side of the point; ``compared``: strings are compared while they are
    written.
    """
    notes: list[Note] = []
    out: list[Node] = [_NULL] if shape.null else []
    out += [_FALSE] if shape.booleans & 1 else []
    out += [_TRUE] if shape.booleans & 2 else []
    for numbers in shape.numbers:
        node = _number_node(_whole_if_blurred(numbers, notes), notes, most)
        out += [node] if node is not None else []
    if shape.strings != NONE:
        out.append(lexeme(shape.strings) if compared else written(shape.strings))
    return out, notes


@lru_cache(maxsize=4)
def _any_number(most: int, *, whole: bool) -> Node:
    """The lexeme of any number, or of any integer if ``whole``."""
    ((regex,), _) = regexes(_WHOLE if whole else ANY_NUMBER, most)
    return Lexeme("integer" if whole else "number", Pattern(regex))


def _listed(values: Iterable[tuple[Fraction, str]]) -> Node:
    """The lexeme of these numbers."""
    return Lexeme("number", alt(*dict.fromkeys(text for value in values for text in spellings(*value))))


def _number_node(numbers: Numbers, notes: list[Note], most: int) -> Node | None:
    if numbers in (ANY_NUMBER, _WHOLE):
        return _any_number(most, whole=numbers == _WHOLE)
    named = _edge(numbers)
    near = _without_far_steps(within_digits(numbers).listed(), notes)
    numbers = tightened(near).listed()
    if numbers.is_empty():
        return None
    if numbers.values is not None:
        return _listed(numbers.values)
    decided = tuple(step for step in numbers.steps if multiples_regex(step) is not None)
    if decided != numbers.steps:
        reason = "not enforced: the last digits of a number do not decide whether it is a multiple"
        notes.append((Outcome.RELAXED, numbers.steps_at, "multipleOf", reason))
        numbers = replace(numbers, steps=decided)
    match digits(numbers):
        case Digits.SHORT | Digits.NEAR:
            reason = (
                "numbers are written with at most 15 digits where more would matter, as doubles distinguish no more"
            )
            notes.append((Outcome.NARROWED, numbers.steps_at, _cause(numbers), reason))
        case Digits.LOST:
            reason = "numbers of more than 15 digits are not enforced: doubles do not distinguish them"
            notes.append((Outcome.RELAXED, numbers.steps_at, _cause(numbers), reason))
    if numbers.integer is None and _edge(numbers):
        reason = "numbers are written without exponent unless every number with that exponent is allowed"
        notes.append((Outcome.NARROWED, (), named, reason))
    wanted, unwanted = regexes(numbers, most)
    parts: list[Node] = [Pattern(w) for w in wanted]
    parts += [Not(Pattern(u)) for u in unwanted]
    return Lexeme("number", parts[0] if len(parts) == 1 else And(tuple(parts)))


def _without_far_steps(numbers: Numbers, notes: list[Note]) -> Numbers:
    """The set without steps so large that the digits of a text reach no multiple except 0."""
    if numbers.values is not None or all(step < 10 ** (MAX_DIGITS - 1) for step in (*numbers.steps, numbers.step or 0)):
        return numbers
    notes.append((Outcome.RELAXED, numbers.steps_at, "multipleOf", "not enforced: beyond the digits that are written"))
    return replace(numbers, steps=())


def _whole_if_blurred(numbers: Numbers, notes: list[Note]) -> Numbers:
    """The set, as integers if readers that keep doubles could find a text with a point or exponent outside it.

    A closed bound that is a double itself is safe: rounding keeps the order.
    """
    if numbers.integer is not None or numbers.values is not None:
        return numbers
    bounds = ((numbers.low, numbers.low_open), (numbers.high, numbers.high_open))
    blurred = [*numbers.excluded, *(b for b, is_open in bounds if b is not None and (is_open or not is_double(b)))]
    steps = [step for step in numbers.steps if step.denominator == 1]
    if all(abs(value) < FARTHEST for value in (*blurred, *steps)):
        return numbers
    reason = "beyond 13 digits, numbers are written without point and exponent"
    notes.append((Outcome.NARROWED, numbers.steps_at, _edge(numbers), reason))
    return replace(numbers, integer=True)


def _edge(numbers: Numbers) -> str:
    """The keyword because of which numbers are compared digit by digit; "" if there is none."""
    if numbers.steps or numbers.not_steps:
        return "multipleOf"
    if numbers.low is not None:
        return "exclusiveMinimum" if numbers.low_open else "minimum"
    if numbers.high is not None:
        return "exclusiveMaximum" if numbers.high_open else "maximum"
    return "enum" if numbers.excluded else ""


def _cause(numbers: Numbers) -> str:
    """The keyword because of which numbers have few digits."""
    if numbers.integer is False and not numbers.steps and not numbers.not_steps:
        return "type"
    return _edge(numbers)


def finite_values(nonterminal: Nonterminal) -> list[Node] | None:
    """The values of a nonterminal one by one, or None unless they are finitely many scalars."""
    shape = nonterminal.shape
    if nonterminal.arrays or nonterminal.objects or (shape.strings != NONE and shape.strings.op != "words"):
        return None
    out: list[Node] = [_NULL] if shape.null else []
    out += [_FALSE] if shape.booleans & 1 else []
    out += [_TRUE] if shape.booleans & 2 else []
    seen = set()
    for numbers in shape.numbers:
        listed = numbers.listed()
        if listed.values is None:
            return None
        for value, spelling in listed.values:
            if value not in seen:
                seen.add(value)
                out.append(_listed([(value, spelling)]))
    if shape.strings != NONE:
        out += [Text(spell(w)) for w in with_deadline(sorted(shape.strings.args))]
    return out
