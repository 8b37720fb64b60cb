"""The texts of a template, cut into the tokens of a real vocabulary, pass the masks and are read back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from benchmarks.harmless import FITTING
from guided.engine.engine import Engine
from guided.hf.model.tokenizer import facts_of, tokenizer_json
from guided.hf.model.wire_format import inference_of
from guided.inspect.format_check import check_golden_texts
from special_tokens import SpecialTokens
from tests.shared_templates import shared_template


@pytest.mark.slow
@pytest.mark.parametrize("name", FITTING)
def test_golden_texts_under_a_real_tokenizer(tokenizer_folder: Callable[[str], Path], name: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder(name))
    engine = Engine(tokenizer_json(tokenizer), SpecialTokens(facts_of(tokenizer)))
    for template in FITTING[name]:
        tokenizer.chat_template = shared_template(template)
        engine.tokens = SpecialTokens(facts_of(tokenizer))
        found = inference_of(tokenizer, engine.tokens)
        assert found.golden_texts, template
        assert check_golden_texts(found.format, found.golden_texts, engine) == (), template
