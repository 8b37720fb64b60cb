"""A rendered grammar: the text that the engine compiles, with what a legend needs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

__all__ = ["Rendered"]


@dataclass(frozen=True, slots=True)
class Rendered:
    """A grammar as text, with one or more places to begin (entries).

    ``starts`` are pairs of an entry's name and the body of its ``start`` rule, ``rules`` the rules that the entries
    share, ``subs`` the sub-grammars that those name (``@name``).  ``json_rule`` is set where the whole answer is one
    JSON value: the name of its rule, which is the only one, and the JSON schema that the engine compiles.
    ``regions``, pairs of rule name and region, and ``labels``, pairs of token syntax and marker text, are for legends.
    """

    starts: tuple[tuple[str, str], ...]
    rules: str
    subs: tuple[tuple[str, str], ...] = ()
    regions: tuple[tuple[str, str], ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    json_rule: tuple[str, str] | None = None
    #: Engine text by entry, made once (the JSON alone under None): the compile cache finds the very same string
    #: without comparing it.
    _texts: dict[str | None, str] = field(default_factory=dict, init=False, compare=False, repr=False)

    def lark(self, entry: str = "") -> str:
        """Return the top grammar in Lark, beginning at ``entry`` (the first one when empty)."""
        starts = dict(self.starts)
        rules = self.rules if self.json_rule is None else "{}: %json {}\n".format(*self.json_rule)
        return f"start: {starts[entry or self.starts[0][0]]}\n{rules}"

    def engine_text(self, entry: str = "") -> str:
        """Return what the engine compiles: plain Lark, or its JSON wrapper when there are sub-grammars."""
        found = self._texts.get(entry)
        if found is None:
            found = self._texts[entry] = self._engine_text(entry)
        return found

    def json_text(self) -> str | None:
        """Return what the engine compiles, without Lark, where the whole answer is one JSON value; None elsewhere.

        Reading any Lark takes the engine half a millisecond, as long as most schemas.  No sentinel follows the value:
        the engine's own end token is allowed where it may end.
        """
        if self.json_rule is None:
            return None
        found = self._texts.get(None)
        if found is None:
            found = self._texts[None] = f'{{"grammars":[{{"json_schema":{self.json_rule[1]}}}]}}'
        return found

    @property
    def size(self) -> int:
        """Characters of the texts that the grammar holds."""
        json_schema = self.json_rule[1] if self.json_rule is not None else ""
        return len(self.rules) + len(json_schema) + sum(len(text) for _, text in (*self.starts, *self.subs))

    def _engine_text(self, entry: str) -> str:
        if not self.subs:
            return self.lark(entry)
        parts = [{"name": "main", "lark_grammar": self.lark(entry)}]
        parts += [{"name": name, "lark_grammar": lark} for name, lark in self.subs]
        return json.dumps({"grammars": parts}, ensure_ascii=False)
