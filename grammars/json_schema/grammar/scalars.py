"""Scalars as lexemes: null, booleans, numbers and strings of a shape, each one token of JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from grammars.json_schema.grammar.nonterminals import Nonterminal
from grammars.json_schema.shapes.engine_multiples import engine_steps
from grammars.json_schema.shapes.extreme_numbers import extreme_regexes
from grammars.json_schema.shapes.number_texts import FARTHEST, Digits, digits, multiples_regex, regexes
from grammars.json_schema.shapes.numbers import (
    ANY_NUMBER,
    MAX_DIGITS,
    Numbers,
    as_doubles,
    num_decimals,
    spellings,
    tightened,
    within_digits,
)
from grammars.json_schema.shapes.shapes import Shape
from grammars.limits.schema_limits import timely
from grammars.regular.json_strings import lexeme, spell
from grammars.regular.languages import NONE
from grammars.tree.nodes import And, Json, Lexeme, Node, Not, Pattern, Text, alt
from grammars.values.report import Outcome
from special_tokens.errors import GrammarError

__all__ = ["engine_number", "finite_values", "scalar_nodes"]

_NULL, _FALSE, _TRUE = Text("null"), Text("false"), Text("true")
_WHOLE = Numbers(integer=True)
_MAX_STEP = 10_000  # the engine's automaton grows with the step
_MOST_GAPS = 20  # excluded multiples: each gap between them is an alternative
_TOP = 10**15  # limit on the multiples that the engine is asked for

#: Outcome, pointers (none: the place of the lexeme), keyword and reason of something that a lexeme does not enforce.
Note = tuple[Outcome, tuple[str, ...], str, str]


def scalar_nodes(shape: Shape, options: Mapping[str, Any], most: int) -> tuple[list[Node], list[Note]]:
    """The lexemes of a shape's scalars, and what they do not enforce.

    ``options`` are for the engine's numbers, others have at most ``most`` digits on each side of the point.
    """
    notes: list[Note] = []
    out: list[Node] = [_NULL] if shape.null else []
    out += [_FALSE] if shape.booleans & 1 else []
    out += [_TRUE] if shape.booleans & 2 else []
    for numbers in shape.numbers:
        far = _extreme_node(numbers, notes)
        found = [far] if far is not None else [_number_node(part, options, notes, most) for part in as_doubles(numbers)]
        out += [node for node in found if node is not None]
    if shape.strings != NONE:
        out.append(lexeme(shape.strings))
    return out, notes


def _extreme_node(numbers: Numbers, notes: list[Note]) -> Node | None:
    """Numbers that digits without an exponent cannot express; None for others."""
    found = extreme_regexes(numbers)
    if found is None:
        return None
    reason = "numbers of this size are written with an exponent, and one digit before the point"
    notes.append((Outcome.NARROWED, (), _edge(numbers), reason))
    return Lexeme("number", And(tuple(map(Pattern, found))))


@lru_cache(maxsize=4)
def _any_number(most: int, *, whole: bool) -> Node:
    """The lexeme of any number, or of any integer if ``whole``."""
    ((regex,), _) = regexes(_WHOLE if whole else ANY_NUMBER, most)
    return Lexeme("integer" if whole else "number", Pattern(regex))


def _listed(values: Iterable[tuple[Fraction, str]]) -> Node:
    """The lexeme of these numbers."""
    return Lexeme("number", alt(*dict.fromkeys(text for value in values for text in spellings(*value))))


def _number_node(numbers: Numbers, options: Mapping[str, Any], notes: list[Note], most: int) -> Node | None:
    if numbers in (ANY_NUMBER, _WHOLE):
        return _any_number(most, whole=numbers == _WHOLE)
    named, reachable = _edge(numbers), within_digits(numbers)
    if numbers.integer and _is_cut(numbers):
        reason = f"integers are written with at most {MAX_DIGITS} digits"
        notes.append((Outcome.NARROWED, (), named, reason))
    if reachable.values is not None and numbers.values is None:
        reason = "beyond the range of numbers without exponent, only the bound itself is written"
        notes.append((Outcome.NARROWED, (), named, reason))
    near = _without_far_steps(reachable.listed(), notes)
    numbers = _without_far_points(tightened(near).listed(), notes)
    if numbers.is_empty():
        return None
    if any(multiples_regex(s) is None for s in numbers.steps):
        return _multiples(numbers, options, notes, most)
    if numbers.values is not None:
        return _listed(numbers.values)
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


def _is_cut(numbers: Numbers) -> bool:
    """Whether there are bounds on both sides and one is beyond the digits of a text (an open side has a row anyway)."""
    top = 10**MAX_DIGITS
    if numbers.low is None or numbers.high is None:
        return False
    return bool(numbers.low <= -top < numbers.high or numbers.low < top <= numbers.high)


def _without_far_steps(numbers: Numbers, notes: list[Note]) -> Numbers:
    """The set without steps so large that the digits of a text reach no multiple except 0."""
    if numbers.values is not None or all(step < 10 ** (MAX_DIGITS - 1) for step in (*numbers.steps, numbers.step or 0)):
        return numbers
    notes.append((Outcome.RELAXED, numbers.steps_at, "multipleOf", "not enforced: beyond the digits that are written"))
    return replace(numbers, steps=())


def _without_far_points(numbers: Numbers, notes: list[Note]) -> Numbers:
    """The set, as integers if its step is so large that short texts with a point reach no multiple."""
    step = numbers.step
    if numbers.integer is not None or numbers.values is not None or step is None:
        return numbers
    if step.denominator != 1 or step < FARTHEST:
        return numbers
    reason = "multiples beyond 15 digits are written without point and exponent"
    notes.append((Outcome.NARROWED, numbers.steps_at, "multipleOf", reason))
    return tightened(replace(numbers, integer=True)).listed()


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


def _multiples(numbers: Numbers, options: Mapping[str, Any], notes: list[Note], most: int) -> Node | None:
    """Multiples of a step that its last digits do not decide: the engine tracks remainders."""
    step = numbers.step
    assert step is not None
    parts = _without_exceptions(numbers)
    if len(parts) > 1:
        nodes = [node for part in parts if (node := _number_node(part, options, notes, most)) is not None]
        return alt(*nodes) if nodes else None
    (numbers,) = parts
    places = num_decimals(step)
    reason, found = "", []
    if step.numerator > _MAX_STEP or step.denominator > 10**6 or numbers.not_steps or numbers.excluded:
        reason = f"not enforced: the step is above {_MAX_STEP} or has exceptions"
    elif numbers.integer is False:
        reason = "not enforced: the engine cannot exclude the integers among the multiples"
    elif places is None or engine_steps(step) is None:
        reason = "not enforced: the engine does not read the step exactly"
    else:
        found = [_with_places(numbers, n, options) for n in range(places + 1)]
        reason = "" if any(found) else f"not enforced: the bounds are beyond {_TOP:.0e}"
    counted = [node for node in found if node is not None]
    if reason:
        notes.append((Outcome.RELAXED, numbers.steps_at, "multipleOf", reason))
        decided = tuple(s for s in numbers.steps if multiples_regex(s) is not None)
        return _number_node(replace(numbers, steps=decided), options, notes, most)
    reason = "multiples are written without exponent, with no more decimals than the step, and at most 15 digits"
    notes.append((Outcome.NARROWED, numbers.steps_at, "multipleOf", reason))
    return alt(*counted)


def _without_exceptions(numbers: Numbers) -> tuple[Numbers, ...]:
    """The gaps between the excluded multiples, one set each, if these are few; else the set itself."""
    whole = replace(numbers, excluded=frozenset())
    members = sorted(filter(whole.holds, numbers.excluded))
    if numbers.not_steps or len(members) > _MOST_GAPS:
        return (numbers,)
    out = []
    for member in members:
        out.append(replace(whole, high=member, high_open=True))
        whole = replace(whole, low=member, low_open=True)
    return (*out, whole)


def _with_places(numbers: Numbers, places: int, options: Mapping[str, Any]) -> Node | None:
    """The multiples with exactly ``places`` decimals, in 15 digits; None if there are none.

    The engine accepts a multiple only with exactly as many decimals as its step, and integers: for 0.75 it accepts 1.50
    but not 1.5.  So each number of decimals has a step of its own.
    """
    assert numbers.step is not None
    step = replace(numbers, steps=(numbers.step, Fraction(1, 10**places))).step
    steps = engine_steps(step) if step is not None else None
    if step is None or steps is None:
        return None
    inside = _within(numbers, step, Fraction(_TOP, 10**places)).listed()
    if inside.values is not None:
        return _listed(inside.values) if inside.values else None
    first, last = inside.index_range()
    whole = step.denominator == 1
    as_engine: type[int] | type[float] = int if whole else float
    schema: dict[str, Any] = {
        "type": "integer" if whole else "number",
        "multipleOf": as_engine(steps[0]),
        "minimum": as_engine(first * step),
        "maximum": as_engine(last * step),
    }
    if len(steps) > 1:
        schema["allOf"] = [{"multipleOf": as_engine(other)} for other in steps[1:]]
    return engine_number(schema, options)


def _within(numbers: Numbers, step: Fraction, top: Fraction) -> Numbers:
    """The multiples of ``step`` between -``top`` and ``top``, with both bounds set."""
    low, high = numbers.low, numbers.high
    inside = Numbers(-top, False, top, False, steps=(step,))
    if low is not None and low >= -top:
        inside = replace(inside, low=low, low_open=numbers.low_open)
    if high is not None and high <= top:
        inside = replace(inside, high=high, high_open=numbers.high_open)
    return inside


#: The keywords of the engine's numbers that we use: it ignores unknown ones silently.
_ENGINE_WORDS = frozenset(("type", "multipleOf", "minimum", "maximum", "allOf"))


def engine_number(schema: Mapping[str, Any], options: Mapping[str, Any]) -> Json:
    """A number by the engine's own compiler.  Raises `GrammarError` for a keyword that it would silently ignore."""
    unknown = {word for part in (schema, *schema.get("allOf", ())) for word in part} - _ENGINE_WORDS
    if unknown:
        raise GrammarError(
            f"the engine's numbers have no keyword {sorted(unknown)[0]!r}", expected=", ".join(sorted(_ENGINE_WORDS))
        )
    return Json(dict(schema), options)


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
        for value, own in listed.values:
            if value not in seen:
                seen.add(value)
                out.append(_listed([(value, own)]))
    if shape.strings != NONE:
        out += [Text(spell(w)) for w in timely(sorted(shape.strings.args))]
    return out
