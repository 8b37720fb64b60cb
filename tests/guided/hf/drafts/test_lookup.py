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


@pytest.mark.parametrize(
    ("prompt", "written", "begins"),
    [
        ("She is 4711 years old.", '{"age": 4', "711"),
        ("She is 4711 years old, not 4x.", '{"age": 4', "711"),  # the grammar passes over the later one
        ("She is 4711 years old, and has 814 friends.", '{"age": 4', "711"),  # not inside a word
        ("She is 4711 years old; 4699 said so.", '{"age": 4', "699"),  # the latest
        ("She is 12 years old.", '{"age": 4', ""),
    ],
)
def test_a_number_is_guessed_as_soon_as_it_has_begun(tiny_guide: Any, prompt: str, written: str, begins: str) -> None:
    draft = guessed(tiny_guide, prompt, written, age=NUMBER)
    assert draft.startswith(begins) if begins else not draft


def test_a_word_of_the_prompt_is_guessed_after_a_quote(tiny_guide: Any) -> None:
    draft = guessed(tiny_guide, "We met Quimby in Ulm.", '{"name": "Q', name=TEXT)
    assert draft == "uimby"  # the name alone: what closes it ends the answer, which is not a draft


READ = "Read this:\n\nQuimby Fox of Ulm is 47 years old, her name is Bo."


@pytest.mark.parametrize(
    ("prompt", "written", "properties", "begins"),
    [
        (READ, '{"name": "', {"name": TEXT, "town": TEXT}, 'Quimby Fox", "town'),
        (READ, '{"name": "Quimby Fox", "town": "', {"name": TEXT, "town": TEXT}, "Ulm"),  # the next one after it
        (READ, '{"town": "Ulm", "age": ', {"town": TEXT, "age": NUMBER}, "47"),  # the next number
        (READ, '{"kind": "', {"kind": {"enum": ["new", "old"]}, "town": TEXT}, 'old", "town'),  # a legal word
        (READ, '{"town": "Bo", "age": ', {"town": TEXT, "age": NUMBER}, ""),  # no number is left
        ("no text", '{"name": "', {"name": TEXT}, ""),
    ],
)
def test_a_value_is_guessed_before_its_first_byte(
    tiny_guide: Any, prompt: str, written: str, properties: Any, begins: str
) -> None:
    draft = guessed(tiny_guide, prompt, written, **properties)
    assert draft.startswith(begins) if begins else not draft


def test_a_name_that_was_copied_is_closed(tiny_guide: Any) -> None:
    draft = guessed(tiny_guide, "We met Quimby Fox in Ulm.", '{"name": "Quimby Fox', name=TEXT, town=TEXT)
    assert draft.startswith('", "town')


def test_a_letter_inside_words_hides_no_word(tiny_guide: Any) -> None:
    draft = guessed(tiny_guide, "We met Quimby: xQ, yQ, zQ, aQ, bQ.", '{"name": "Q', name=TEXT)
    assert draft.startswith("uimby")


def test_the_tokens_that_go_on_are_those_of_the_whole_word(tiny_guide: Any) -> None:
    """A token of the prompt that begins before the guess cannot be written any more."""
    draft = guessed(tiny_guide, "the weather, the weather", '{"name": "w', name=TEXT)
    assert draft.startswith("eather")


def test_marks_are_guessed_from_the_answer_itself(tiny_guide: Any) -> None:
    form = {"a": {"type": "array", "items": TEXT, "minItems": 3}}
    assert guessed(tiny_guide, "?", '{"a": ["one", "two", ', **form).startswith('"')


def test_in_free_text_only_long_ends_are_looked_for(tiny_guide: Any) -> None:
    assert guessed(tiny_guide, "She is 4711 years old.", "He is 4") == ""
    assert guessed(tiny_guide, "She is 4711 years old.", "I: She is 4").startswith("711 years")
