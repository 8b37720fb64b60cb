"""The registry against what publishers say, and its laws on made-up tokenizers."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from special_tokens import AddedToken, Category, Role, Source, SpecialTokens, TokenizerFacts
from special_tokens.errors import RequestError, TokenizerError
from special_tokens.facts import facts_from_config
from special_tokens.family import load_family
from special_tokens.known_markers import CATEGORY_PATTERNS, KNOWN_PAIRS, category_of_text, marker_name
from special_tokens.roles import PAIRS
from tests.conftest import tokens_of_folder
from tests.judges.published_roles import UPSTREAM, Upstream


def registry(*texts: str, special: bool = True, **facts: object) -> SpecialTokens:
    """A registry over these added tokens, ids from 100."""
    added = tuple(AddedToken(100 + i, text, special) for i, text in enumerate(texts))
    return SpecialTokens(TokenizerFacts(added, 100 + len(texts), **facts))  # type: ignore[arg-type]


@pytest.fixture(scope="module", params=UPSTREAM, ids=lambda u: u.folder)
def published(request, tokenizer_folder) -> tuple[Upstream, SpecialTokens]:
    """The publisher's own table, and the registry of its tokenizer, which takes a second to read."""
    facts = tokens_of_folder(tokenizer_folder(request.param.folder)).facts
    return request.param, SpecialTokens(replace(facts, generation_eos=request.param.generation_eos))


def test_P1_roles_and_ids_are_the_publishers(published):
    upstream, tokens = published
    found = {role.value: (m.text, m.id) for role, m in tokens.roles.items()}
    for role, expected in upstream.roles.items():
        assert found.get(role) == expected, role
    # a family file may name more roles, never others for tokens of the publisher's table
    extra = {role: marker for role, marker in found.items() if role not in upstream.roles}
    assert all(tokens.roles[Role(role)].origin.startswith("family") for role in extra)


def test_E1_ends_are_those_of_the_generation_config(published):
    upstream, tokens = published
    assert tokens.end_ids == upstream.ends
    assert tokens.category("eos").ids == upstream.ends
    for text in upstream.never:
        assert tokens.id_of(text) is not None
        assert tokens.id_of(text) not in tokens.category("eos").ids


def test_P2_every_token_is_in_exactly_one_category(published):
    upstream, tokens = published
    ids = [i for category in Category for i in tokens.category(category).ids]
    assert sorted(ids) == sorted(set(ids)) == [token.id for token in tokens.catalog]
    assert set(tokens.added) <= set(ids)
    for category, texts in upstream.categories.items():
        for text in texts:
            assert text in tokens.category(category).texts, (category, text)


def test_P2_sources_tell_how_the_tokenizer_holds_a_token():
    vocab = {"[THINK]": 7, "[/THINK]": 8}
    tokens = SpecialTokens(
        TokenizerFacts((AddedToken(10, "<|im_end|>", True), AddedToken(11, "<tool_call>", False)), 12, lookup=vocab.get)
    )
    assert [(t.id, t.source) for t in tokens.catalog] == [
        (7, Source.COMMON),
        (8, Source.COMMON),
        (10, Source.SPECIAL),
        (11, Source.ADDED),
    ]
    assert tokens.search(source="common").texts == ("[THINK]", "[/THINK]")
    # an ordinary entry of the vocabulary is not a marker: the block would not be found by its id
    assert Role.REASONING_START not in tokens.roles


#: Of the published tokenizers, those whose base vocabulary has well-known tokens of others: read off `tokenizer.json`.
COMMON = {"qwen3": ("<unk>", "<s>", "</s>"), "llama3_1": (), "smollm2": ()}


@pytest.mark.parametrize("name", COMMON)
def test_P2_common_names_well_known_tokens_that_no_file_of_the_model_names(
    name: str, tokenizer_folder: Callable[[str], Path]
) -> None:
    folder = tokenizer_folder(name)
    tokens = tokens_of_folder(folder)
    common = tokens.search(source="common")
    assert common.texts == COMMON[name]
    files = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    for token in common:
        assert files["model"]["vocab"][token.text] == token.id
        assert token.text not in {added["content"] for added in files["added_tokens"]}
        assert token.id not in tokens.end_ids  # ordinary text: it neither ends nor frames anything
        assert token.text not in {marker.text for marker in tokens.roles.values()}
        assert tokens.pieces(token.text) == (token.text,)


def test_P3_search_filters_are_anded_and_sorted_by_id():
    tokens = registry("<tool_call>", "</tool_call>", "<think>", "</think>", "<|im_end|>")
    assert tokens.search(substring="tool").ids == (100, 101)
    assert tokens.search(substring="/", category="tool").ids == (101,)
    assert tokens.search(substring="/", category="tool", id=100).ids == ()
    assert tokens.search(source="added").ids == ()
    assert tokens.search().ids == (100, 101, 102, 103, 104)
    with pytest.raises(RequestError, match=r"category: there is no category 'toll'; expected eos, pad, bos"):
        tokens.search(category="toll")
    with pytest.raises(RequestError, match=r"source: there is no source 'x'; expected special, added, common"):
        tokens.search(source="x")


@given(
    st.lists(st.sampled_from(sorted({t for *_, pairs in KNOWN_PAIRS for p in pairs for t in p})), unique=True),
    st.sampled_from([None, "<", "tool", "｜"]),
    st.sampled_from([None, *Category]),
)
def test_P3_search_is_the_plain_filter(texts, substring, category):
    tokens = registry(*texts)
    expected = [
        t.id
        for t in tokens.catalog
        if (substring is None or substring in t.text) and (category is None or t.category == category)
    ]
    assert list(tokens.search(substring=substring, category=category).ids) == sorted(expected)


def test_P3_fullwidth_texts_are_kept_exactly_and_found(tokenizer_folder):
    tokens = tokens_of_folder(tokenizer_folder("deepseek_v3"))
    found = tokens.search(substring="｜tool▁calls▁begin｜")
    assert found.texts == ("<｜tool▁calls▁begin｜>",)
    assert tokens.search(substring="|tool_calls_begin|").texts == ()
    assert tokens.id_of("<｜User｜>") == 128803
    assert tokens.pieces("a<｜User｜>b") == ("a", 128803, "b")


@given(st.sets(st.sampled_from(sorted({t for *_, pairs in KNOWN_PAIRS for p in pairs for t in p}))))
def test_P4_pairs_are_complete_and_from_one_pair(texts):
    tokens = registry(*sorted(texts))
    for start, end in PAIRS:
        found = tokens.pair(start, end)
        assert (start in tokens.roles) == (end in tokens.roles) == (found is not None)
        if found is not None:
            known = {pair for a, b, pairs in KNOWN_PAIRS if (a, b) == (start, end) for pair in pairs}
            assert (found[0].text, found[1].text) in known


def test_P4_an_incomplete_pair_of_a_family_is_not_reported():
    family = load_family('id = "half"\n[roles]\ntool_call_start = "[TOOL_CALLS]"\n', place="half.toml")
    facts = TokenizerFacts((AddedToken(100, "[TOOL_CALLS]", True),), 101)
    assert SpecialTokens(facts, family=family).roles == {}


def test_E1_an_added_end_does_not_leak_into_the_registry_it_came_from():
    tokens = registry("<|im_end|>", "<|user|>", generation_eos=(100,))
    more = tokens.add_end("<|user|>")
    assert (tokens.end_ids, more.end_ids) == ((100,), (100, 101))
    assert more.category("eos").ids == (100, 101)
    assert more.ends[1].sources == ("request",)
    assert tokens.fingerprint == more.fingerprint
    assert more.add_end(101).end_ids == (100, 101)


@pytest.mark.parametrize("token", ["hello", 5, "<nosuch>", None, True, [100]])
def test_an_end_must_be_an_added_token(token):
    with pytest.raises(TokenizerError, match="is not an added token"):
        registry("<|im_end|>").add_end(token)


def test_an_ordinary_id_in_a_config_is_no_end():
    assert registry("<|im_end|>", generation_eos=(0, 100), config_eos=(7,)).end_ids == (100,)


def test_ends_of_all_sources_are_united_and_named():
    tokens = registry(
        "<|im_end|>", "<|endoftext|>", "<|vision_end|>", generation_eos=(101,), named={"eos_token": "<|im_end|>"}
    )
    assert [(end.id, end.sources) for end in tokens.ends] == [(100, ("tokenizer",)), (101, ("generation_config",))]
    assert registry("<|endoftext|>", "<|im_end|>").looks_like_end[0].text == "<|endoftext|>"


def test_a_family_says_what_is_no_end():
    family = load_family('id = "h"\nends = ["<|call|>"]\nnot_ends = ["<|end|>"]\n', place="h.toml")
    added = tuple(AddedToken(i, t, True) for i, t in enumerate(("<|end|>", "<|call|>")))
    tokens = SpecialTokens(TokenizerFacts(added, 2, generation_eos=(0,)), family=family)
    assert tokens.end_ids == (1,)
    assert tokens.add_end("<|end|>").end_ids == (0, 1)  # the caller's own wish wins


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("<｜tool▁calls▁begin｜>", "tool"),
        ("｜DSML｜", "tool"),
        ("<|vision_end|>", "content_type"),
        ("</s>", "other"),
        ("<b>", "other"),
        ("<|reserved_special_token_3|>", "other"),
        ("<tool_response>", "tool"),
        ("[ARGS]", "parameter"),
        ("<|begin_of_text|>", "bos"),
        ("<seed:think>", "reasoning"),
        ("]", "other"),
    ],
)
def test_category_of_a_text(text, category):
    assert category_of_text(text) == category


def test_no_text_alone_makes_an_end():
    assert all(category is not Category.EOS for category, _ in CATEGORY_PATTERNS)
    assert marker_name("</tool_call>") == marker_name("<｜tool▁call｜>") == "tool_call"


def test_pieces_take_the_longest_marker_and_spell_the_rest():
    tokens = registry("<think>", "<thinking>", special=False)
    assert tokens.pieces("a<thinking><think>b<thin>") == ("a", 101, 100, "b<thin>")


def test_a_list_of_chat_templates_gives_the_one_for_tools(tmp_path: Path):
    added = {"0": {"content": "<a>"}}
    templates = [{"name": "default", "template": "D"}, {"name": "tool_use", "template": "T"}]
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps({"added_tokens_decoder": added, "chat_template": templates}))
    assert facts_from_config(path).chat_template == "T"
