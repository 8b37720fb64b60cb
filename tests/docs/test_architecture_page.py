"""docs/architecture.md names files that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_files_that_the_page_names_exist() -> None:
    named = re.findall(r"`((?:tests|docs|special_tokens|grammars|guided)/[\w/.]+)`", PAGE)
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []
