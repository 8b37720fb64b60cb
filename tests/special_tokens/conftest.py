"""The registries of published tokenizers, one after the other: each takes about a second to read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from special_tokens import SpecialTokens
from tests.conftest import tokens_of_folder
from tests.judges.published_roles import UPSTREAM, Upstream


@pytest.fixture(scope="session", params=UPSTREAM, ids=lambda upstream: upstream.folder)
def published(
    request: pytest.FixtureRequest, tokenizer_folder: Callable[[str], Path]
) -> tuple[Upstream, SpecialTokens]:
    """Return what a publisher states, and the registry of the tokenizer with the ends of its generation config."""
    upstream = request.param
    facts = tokens_of_folder(tokenizer_folder(upstream.folder)).facts
    return upstream, SpecialTokens(replace(facts, generation_eos=upstream.generation_eos))
