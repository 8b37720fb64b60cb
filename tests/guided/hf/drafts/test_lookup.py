"""Prompt look-up: what is guessed from the text before, by what the answer is about to write."""

from __future__ import annotations

from typing import Any

import pytest

from guided.hf.drafts.draft import Ask
from guided.hf.drafts.lookup import PromptLookup
from guided.rows.answer import RowAnswer


def guessed(guide: Any, prompt: str, written: str, **properties: Any) -> str:
    """Return the text of the draft after ``written``, under a schema of an object with ``properties``, or none."""
    form = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    plan = guide.plan(response_format=form) if properties else None
    answer = RowAnswer(plan, guide.engine)
    answer.push_forced(100)
    while len(text := guide.tokenizer.decode(answer.tokens)) < len(written):
        answer.push(guide.engine.tokenize(written[len(text) :])[0])
        answer.push_forced(100)
    assert text == written
    lookup = PromptLookup(guide.engine, [answer], [guide.engine.tokenize(prompt)], 30)
    (draft,) = lookup.propose([Ask(0, 1, 100)])
    return guide.tokenizer.decode(draft.tokens)


NUMBER, TEXT = {"type": "integer"}, {"type": "string"}


READ = "Read this:\n\nQuimby Fox of Ulm is 47 years old, her name is Bo."
TWO, AGED, AGE = {"name": TEXT, "town": TEXT}, {"town": TEXT, "age": NUMBER}, {"age": NUMBER}
LIST = {"a": {"type": "array", "items": TEXT, "minItems": 3}}


@pytest.mark.parametrize(
    ("prompt", "written", "properties", "begins"),
    [
        # a number, as soon as it has begun
        ("She is 4711 years old.", '{"age": 4', AGE, "711"),
        ("She is 4711 years old, not 4x.", '{"age": 4', AGE, "711"),  # the grammar passes over the later one
        ("She is 4711 years old, and has 814 friends.", '{"age": 4', AGE, "711"),  # not inside a word
        ("She is 4711 years old; 4699 said so.", '{"age": 4', AGE, "699"),  # the latest
        ("She is 12 years old.", '{"age": 4', AGE, ""),
        # a value, before its first byte
        (READ, '{"name": "', TWO, 'Quimby Fox", "town'),
        (READ, '{"name": "Quimby Fox", "town": "', TWO, "Ulm"),  # the next one after it
        (READ, '{"town": "Ulm", "age": ', AGED, "47"),  # the next number
        (READ, '{"kind": "', {"kind": {"enum": ["new", "old"]}, "town": TEXT}, 'old", "town'),  # a legal word
        (READ, '{"town": "Bo", "age": ', AGED, ""),  # no number is left
        ("no text", '{"name": "', {"name": TEXT}, ""),
        # a name that was copied is closed; letters inside words hide no word
        ("We met Quimby Fox in Ulm.", '{"name": "Quimby Fox', TWO, '", "town'),
        ("We met Quimby: xQ, yQ, zQ, aQ, bQ.", '{"name": "Q', {"name": TEXT}, "uimby"),
        # the tokens of the whole word: one that begins before the guess cannot be written any more
        ("the weather, the weather", '{"name": "w', {"name": TEXT}, "eather"),
        ("?", '{"a": ["one", "two", ', LIST, '"'),  # marks, from the answer itself
        # in free text only long ends are looked for
        ("She is 4711 years old.", "He is 4", {}, ""),
        ("She is 4711 years old.", "I: She is 4", {}, "711 years"),
    ],
)
def test_what_is_guessed(tiny_guide: Any, prompt: str, written: str, properties: Any, begins: str) -> None:
    draft = guessed(tiny_guide, prompt, written, **properties)
    assert draft.startswith(begins) if begins else not draft


def test_a_word_of_the_prompt_is_guessed_after_a_quote(tiny_guide: Any) -> None:
    draft = guessed(tiny_guide, "We met Quimby in Ulm.", '{"name": "Q', name=TEXT)
    assert draft == "uimby"  # the name alone: what closes it ends the answer, which is not a draft
