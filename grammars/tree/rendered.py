"""A rendered grammar: the text that the engine compiles, with what a legend needs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

__all__ = ["Rendered"]


@dataclass(frozen=True, slots=True)
class Rendered:
    """A grammar as text, with one or more places to begin (entries).

    ``starts`` are pairs of an entry's name and the body of its ``start`` rule, ``rules`` the rules that the entries
    share, ``subs`` the sub-grammars that those name (``@name``).  ``regions``, pairs of rule
    name and region, and ``labels``, pairs of token syntax and marker text, are for legends.
    """

    starts: tuple[tuple[str, str], ...]
    rules: str
    subs: tuple[tuple[str, str], ...] = ()
    regions: tuple[tuple[str, str], ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    #: Engine text by entry, made once: the compile cache finds the very same string without comparing it.
    _texts: dict[str, str] = field(default_factory=dict, init=False, compare=False, repr=False)

    def lark(self, entry: str = "") -> str:
        """Return the top grammar in Lark, beginning at ``entry`` (the first one when empty)."""
        starts = dict(self.starts)
        return f"start: {starts[entry or self.starts[0][0]]}\n{self.rules}"

    def engine_text(self, entry: str = "") -> str:
        """Return what the engine compiles: plain Lark, or its JSON wrapper when there are sub-grammars."""
        text = self._texts.get(entry)
        if text is None:
            text = self._texts[entry] = self._engine_text(entry)
        return text

    @property
    def size(self) -> int:
        """Characters of the texts that the grammar holds."""
        return len(self.rules) + sum(len(text) for _, text in (*self.starts, *self.subs))

    def _engine_text(self, entry: str) -> str:
        if not self.subs:
            return self.lark(entry)
        parts = [{"name": "main", "lark_grammar": self.lark(entry)}]
        parts += [{"name": name, "lark_grammar": lark} for name, lark in self.subs]
        return json.dumps({"grammars": parts}, ensure_ascii=False)
