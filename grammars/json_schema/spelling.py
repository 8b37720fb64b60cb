"""How JSON is spelled: separators, white space, escapes.  One spelling holds for a whole grammar."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["DEFAULT_SPELLING", "Spelling"]


@dataclass(frozen=True, slots=True)
class Spelling:
    """The white space of JSON text.

    The default writes ``", "`` and ``": "`` and nothing else, which is how ``json.dumps`` and the chat templates
    of nearly all models spell JSON; no run of white space can be endless.  ``max_whitespace`` > 0 allows that
    many blanks or line breaks at each place instead (then the separators are ``,`` and ``:``).
    """

    item_separator: str = ", "
    key_separator: str = ": "
    max_whitespace: int = 0

    def engine_options(self) -> Mapping[str, Any]:
        """The engine's ``x-guidance`` object; its separators are regular expressions."""
        if self.max_whitespace:
            return {"whitespace_flexible": True, "whitespace_pattern": f"[ \\n]{{1,{self.max_whitespace}}}"}
        return {
            "whitespace_flexible": False,
            "item_separator": self.item_separator,
            "key_separator": self.key_separator,
        }


DEFAULT_SPELLING = Spelling()
