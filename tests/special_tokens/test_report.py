"""P6: what ``guided tokens`` prints and the family file that it writes."""

from __future__ import annotations

import json

import pytest

from special_tokens import AddedToken, Role, SpecialTokens, TokenizerFacts, load_family
from special_tokens.report import family_file, report_of, report_text, template_sections
from tests.judges.published_roles import Upstream

TEMPLATE = """{% if tools %}{{ tools }}{% endif %}
{% for m in messages %}<think>{{ m }}{% endfor %}
{% if add_generation_prompt %}"""
TOKENS = SpecialTokens(
    TokenizerFacts(
        tuple(
            AddedToken(100 + i, text, special)
            for i, (text, special) in enumerate(
                [("<|im_start|>", True), ("<|im_end|>", True), ("<think>", False), ("</think>", False), ("<eos>", True),
                 ('<"quoted\\">', True)]
            )
        ),
        106,
        logits_size=128,
        named={"eos_token": "<|im_end|>"},
        chat_template=TEMPLATE,
        name="My Model 7B",
    ),
)  # fmt: skip


def test_P6_report_lists_every_token_once_with_its_category():
    report = report_of(TOKENS)
    listed = sorted(token[0] for tokens in report.categories.values() for token in tokens)
    assert listed == list(range(100, 106))
    assert report.categories["reasoning"] == ((102, "<think>", "added"), (103, "</think>", "added"))
    assert report.roles["turn_end"] == (101, "<|im_end|>", "vocabulary")
    assert report.looks_like_end == ((104, "<eos>"),)


def test_P6_report_as_json_is_plain_values():
    body = json.loads(json.dumps(report_of(TOKENS).to_json()))
    assert body["ends"] == [{"id": 101, "text": "<|im_end|>", "sources": ["tokenizer"]}]
    assert body["categories"]["eos"] == [[101, "<|im_end|>", "special"]]
    assert {section["topic"] for section in body["sections"]} == {"tools", "reasoning", "generation prompt"}


def test_P6_report_text_names_ids_roles_and_lookalikes():
    text = report_text(report_of(TOKENS))
    assert "My Model 7B: 106 ids, logits 128" in text
    assert "  101  <|im_end|>  tokenizer" in text
    assert "reasoning_start  '<think>'" in text
    assert text.index("Looks like an end of turn but is not one") < text.index("<eos>", text.index("Looks like"))
    assert "  (none" in report_text(report_of(SpecialTokens(TokenizerFacts((), 10))))


def test_P6_long_categories_are_counted_not_listed():
    added = tuple(AddedToken(i, f"<unused{i}>", True) for i in range(50))
    assert "... and 38 more" in report_text(report_of(SpecialTokens(TokenizerFacts(added, 50))))


def test_P6_template_sections_name_the_lines():
    sections = {s.topic: s for s in template_sections(TEMPLATE)}
    assert sections["tools"].lines == (1,)
    assert sections["reasoning"].first.startswith("{% for m")
    assert template_sections("") == ()


def test_P6_family_file_can_be_loaded_and_says_what_the_registry_says():
    family = load_family(family_file(TOKENS), place="written.toml")
    assert family.id == "my_model_7b"
    assert family.ends == ("<|im_end|>",)
    assert family.roles[Role.REASONING_START] == "<think>"
    assert set(family.signature) <= {token.text for token in TOKENS.added.values()}
    again = SpecialTokens(TOKENS.facts, family=family)
    assert {r: m.text for r, m in again.roles.items()} == {r: m.text for r, m in TOKENS.roles.items()}


def test_P6_family_file_takes_an_inferred_format():
    text = family_file(TOKENS, format={"tool_calls": {"syntax": "json_in_tags", "options": (("name_key", "name"),)}})
    assert load_family(text, place="x").format["tool_calls"] == {
        "syntax": "json_in_tags",
        "options": {"name_key": "name"},
    }


def test_P6_real_tokenizers_give_files_that_load(published: tuple[Upstream, SpecialTokens]) -> None:
    upstream, tokens = published
    family = load_family(family_file(tokens), place=upstream.folder)
    assert family.ends == tuple(end.text for end in tokens.ends)
    assert report_text(report_of(tokens)).startswith(f"{upstream.folder}: ")


@pytest.mark.parametrize("name", ["Owner/My-Model.v2", "/models/My-Model.v2/", "My-Model.v2"])
def test_P6_family_file_is_named_after_the_model_not_its_folders(name):
    tokens = SpecialTokens(TokenizerFacts((AddedToken(5, "<x>", True),), 6, name=name))
    text = family_file(tokens)
    assert 'id = "my_model_v2"' in text
    assert text.startswith("# The family of My-Model.v2, as")
