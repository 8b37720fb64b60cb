"""Scalars as lexemes: null, booleans, numbers and strings of a shape, each one token of JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from grammars.json_schema.number_texts import Digits, digits, regexes, step_digits
from grammars.json_schema.numbers import ANY_NUMBER, Numbers, as_doubles, num_decimals, tight, writable
from grammars.json_schema.regular import NONE
from grammars.json_schema.report import Outcome
from grammars.json_schema.shapes import Shape
from grammars.json_schema.states import State
from grammars.json_schema.strings import lexeme, spell
from grammars.tree import And, Json, Lexeme, Node, Not, Pattern, Text
from special_tokens.errors import GrammarError

__all__ = ["engine_number", "finite_values", "scalar_nodes"]

_NULL, _FALSE, _TRUE = Text("null"), Text("false"), Text("true")
_WHOLE = Numbers(integer=True)
_NUMBER = Lexeme("number", Pattern(regexes(ANY_NUMBER)[0][0]))
_INTEGER = Lexeme("integer", Pattern(regexes(_WHOLE)[0][0]))
_MAX_STEP = 10_000  # the engine's automaton of a step grows with it
_TOP = 10**15  # how far multiples are counted

#: Outcome, pointers (none: where the lexeme stands), keyword and reason of something that a lexeme does not hold to.
Note = tuple[Outcome, tuple[str, ...], str, str]


def scalar_nodes(shape: Shape, options: Mapping[str, Any]) -> tuple[list[Node], list[Note]]:
    """The lexemes of a shape's scalars, and what they leave unenforced.  ``options`` are for the engine's numbers."""
    notes: list[Note] = []
    out: list[Node] = [_NULL] if shape.null else []
    out += [_FALSE] if shape.booleans & 1 else []
    out += [_TRUE] if shape.booleans & 2 else []
    for part in (part for numbers in shape.numbers for part in as_doubles(numbers)):
        node = _number_node(part, options, notes)
        out += [node] if node is not None else []
    if shape.strings != NONE:
        out.append(lexeme(shape.strings))
    return out, notes


def _number_node(numbers: Numbers, options: Mapping[str, Any], notes: list[Note]) -> Node | None:
    if numbers == ANY_NUMBER:
        return _NUMBER
    if numbers == _WHOLE:
        return _INTEGER
    reachable = writable(numbers)
    if reachable.values is not None and numbers.values is None:
        reason = "beyond what the digits of a number without exponent reach, only the bound itself is written"
        notes.append((Outcome.NARROWED, (), _edge(numbers), reason))
    numbers = tight(reachable).listed()
    if numbers.is_empty():
        return None
    if any(step_digits(s) is None for s in numbers.steps):
        return _multiples(numbers, options, notes)
    match digits(numbers):
        case Digits.SHORT | Digits.NEAR:
            reason = "numbers are written with at most 15 digits where more would count, as doubles keep no more apart"
            notes.append((Outcome.NARROWED, numbers.steps_at, _cause(numbers), reason))
        case Digits.LOST:
            reason = "numbers of more than 15 digits are not enforced: doubles do not keep them apart"
            notes.append((Outcome.RELAXED, numbers.steps_at, _cause(numbers), reason))
    if numbers.integer is None and (edge := _edge(numbers)):
        reason = "numbers are written without exponent but where every number of it is allowed"
        notes.append((Outcome.NARROWED, (), edge, reason))
    wanted, unwanted = regexes(numbers)
    parts: list[Node] = [Pattern(w) for w in wanted]
    parts += [Not(Pattern(u)) for u in unwanted]
    return Lexeme("number", parts[0] if len(parts) == 1 else And(tuple(parts)))


def _edge(numbers: Numbers) -> str:
    """A keyword for which numbers are compared digit by digit; "" where there is none."""
    if numbers.steps or numbers.not_steps:
        return "multipleOf"
    if numbers.low is not None:
        return "exclusiveMinimum" if numbers.low_open else "minimum"
    if numbers.high is not None:
        return "exclusiveMaximum" if numbers.high_open else "maximum"
    return "enum" if numbers.excluded else ""


def _cause(numbers: Numbers) -> str:
    """The keyword for which numbers have few digits."""
    if numbers.integer is False and not numbers.steps and not numbers.not_steps:
        return "type"
    return _edge(numbers)


def _multiples(numbers: Numbers, options: Mapping[str, Any], notes: list[Note]) -> Node | None:
    """Multiples of a step that its last digits do not decide: the engine counts remainders."""
    step = numbers.step
    assert step is not None
    bounds = _engine_bounds(numbers, step)
    reason = ""
    if step.numerator > _MAX_STEP or step.denominator > 10**6 or numbers.not_steps or numbers.excluded:
        reason = f"not enforced: the step is above {_MAX_STEP} or has exceptions"
    elif numbers.integer is False:
        reason = "not enforced: the engine counts no multiples without the integers among them"
    elif bounds is None:
        reason = f"not enforced: the bounds are beyond {_TOP:.0e}"
    if reason or bounds is None:
        notes.append((Outcome.RELAXED, numbers.steps_at, "multipleOf", reason))
        decided = tuple(s for s in numbers.steps if step_digits(s) is not None)
        return _number_node(replace(numbers, steps=decided), options, notes)
    low, high = bounds
    if low > high:
        return None
    whole = numbers.integer or step.denominator == 1
    schema: dict[str, Any] = {
        "type": "integer" if whole else "number",
        "multipleOf": step.numerator if step.denominator == 1 else float(step),
        "minimum": int(low) if whole else float(low),
        "maximum": int(high) if whole else float(high),
    }
    reason = "multiples are written without exponent or zeros at the end, and with at most 15 digits"
    notes.append((Outcome.NARROWED, numbers.steps_at, "multipleOf", reason))
    return engine_number(schema, options)


#: What a number of the engine may be asked: it takes no notice of any other word.
_ENGINE_WORDS = frozenset(("type", "multipleOf", "minimum", "maximum"))


def engine_number(schema: Mapping[str, Any], options: Mapping[str, Any]) -> Json:
    """A number by the engine's own compiler.  Raises `GrammarError` for a word that it would pass over in silence."""
    unknown = schema.keys() - _ENGINE_WORDS
    if unknown:
        raise GrammarError(
            f"the engine's numbers know no {sorted(unknown)[0]!r}", expected=", ".join(sorted(_ENGINE_WORDS))
        )
    return Json(dict(schema), options)


def _engine_bounds(numbers: Numbers, step: Fraction) -> tuple[Fraction, Fraction] | None:
    """The first and the last multiple of ``step`` for the engine, which keep numbers of digits finite.

    The first is the larger where there is none between them; None where the bounds are beyond what it counts to.
    """
    top = Fraction(_TOP, 10 ** (num_decimals(step) or 0))
    if (numbers.low is not None and numbers.low > top) or (numbers.high is not None and numbers.high < -top):
        return None
    low, high = -top, top
    bounds = replace(
        numbers,
        low=low if numbers.low is None else max(low, numbers.low),
        high=high if numbers.high is None else min(high, numbers.high),
    )
    first, last = replace(bounds, steps=(step,)).index_range()
    return first * step, last * step


def finite_values(state: State) -> list[Node] | None:
    """The values of a state one by one, or None when they are not finitely many scalars."""
    shape = state.shape
    if state.arrays or state.objects or (shape.strings != NONE and shape.strings.op != "words"):
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
                single = Numbers(values=((value, own),))
                out.append(Lexeme("number", Pattern(regexes(single)[0][0])))
    if shape.strings != NONE:
        out += [Text(spell(w)) for w in sorted(shape.strings.args)]
    return out
