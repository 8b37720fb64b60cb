"""Writes a checked grammar as text in the engine's dialect; all quoting and escaping is our own.

``%ignore`` becomes ordinary rules: the engine's own ``%ignore`` would also apply to the text around the grammar in the
same plan (llguidance 1.9.1).  ``%json`` becomes a grammar of our own schema compiler.
"""

from __future__ import annotations

from collections.abc import Iterable

from grammars.text_grammars.lark.ast import (
    AltExpr,
    AndExpr,
    Definition,
    Expr,
    JsonExpr,
    LarkGrammar,
    Literal,
    Name,
    NotExpr,
    RegexExt,
    Regexp,
    Repeated,
    SeqExpr,
    SourcePlace,
    is_lexeme,
)
from grammars.text_grammars.lark.endless_lexemes import BEGIN, ignored_after
from grammars.tree.nodes import quantifier
from grammars.tree.render import quote, quote_regex

__all__ = ["write"]

_ALT, _SEQ, _ATOM = 0, 1, 2

_ANY_TEXT = "/(?s:.*)/"


def write(source: LarkGrammar) -> str:
    """Return the text of a grammar that has passed `check`, with the grammars of its JSON values."""
    return _LarkWriter(source).text()


class _LarkWriter:
    def __init__(self, source: LarkGrammar) -> None:
        self.source = source
        self.lexeme_rules = {d.name for d in source.definitions if d.is_lexeme_rule}
        taken = {d.name for d in source.definitions}
        self.skip = self.begin = ""
        self.ignored = ignored_after(source)
        if source.ignores:
            self.skip = next(n for n in ("skip", *(f"skip_{i}" for i in range(len(taken) + 1)))
                             if not any(name.lower().startswith(n) for name in taken))  # fmt: skip
            self.begin = next(n for n in ("begin", *(f"begin_{i}" for i in range(len(taken) + 1))) if n not in taken)

    def text(self) -> str:
        lines = [self.definition(definition) for definition in self.source.definitions]
        if self.skip:
            # each text is a lexeme of its own: in one for several, a "-" after a blank, or after the end of a "--"
            # comment, would be the beginning of the next comment
            lines.append(f"{self.skip}: {self.choice(range(len(self.source.ignores)))}")
            bodies = (self.expr(ignore.body, _SEQ, lexeme=True) for ignore in self.source.ignores)
            lines += [f"{self.skip.upper()}_{i}: {body}" for i, body in enumerate(bodies)]
            lines.insert(0, f"start: {self.skipped(BEGIN)} {self.begin}")
        return "\n".join(lines) + "\n"

    def skipped(self, place: SourcePlace) -> str:
        """Return what is ignored after the lexeme at a place."""
        ignored = self.ignored.get(place)
        return self.skip if ignored is None or len(ignored) == len(self.source.ignores) else self.choice(ignored)

    def choice(self, ignored: Iterable[int]) -> str:
        names = [f"{self.skip.upper()}_{i}" for i in sorted(ignored)]
        return f"({' | '.join(names)})*" if names else ""

    def definition(self, definition: Definition) -> str:
        head = self.name(definition.name)
        if definition.is_lexeme_rule:
            end = "lazy" if definition.suffix is None else f"suffix={self.expr(definition.suffix, _ATOM, lexeme=True)}"
            head += f"[{end}]"
        return f"{head}: {self.expr(definition.body, _ALT, lexeme=definition.is_lexeme)}"

    def name(self, name: str) -> str:
        """Return the name that a rule is written with: what is ignored comes before the rule that was ``start``."""
        return self.begin if self.begin and name == "start" else name

    def expr(self, expr: Expr, tight: int, *, lexeme: bool) -> str:
        """Return the text of an expression; ``lexeme`` is true inside a lexeme, where nothing is ignored."""
        if not lexeme and self.skip and is_lexeme(expr, self.lexeme_rules.__contains__):
            text = f"{self.bare(expr, _ATOM, lexeme=True)} {self.skipped(getattr(expr, 'at', BEGIN))}".rstrip()
            return f"({text})" if tight == _ATOM else text
        return self.bare(expr, tight, lexeme=lexeme)

    def bare(self, expr: Expr, tight: int, *, lexeme: bool) -> str:
        match expr:
            case Literal(text=text, ignore_case=ignore_case):
                return quote(text, ignore_case=ignore_case)
            case Regexp(regex=regex, flags=flags):
                return quote_regex(regex) + flags
            case Name(name=name):
                return self.name(name)
            case JsonExpr(lark=text):
                return text
            case RegexExt(json=text):
                return "%regex " + text.replace("\x7f", "\\u007f")
            case SeqExpr(parts=()):
                return '""'
            case SeqExpr(parts=parts):
                return self.join(" ", parts, _SEQ, tight, lexeme)
            case AltExpr(options=options):
                return self.join(" | ", options, _ALT, tight, lexeme)
            case AndExpr(parts=parts):
                written = [
                    self._without(p) if isinstance(p, NotExpr) else self.expr(p, _ATOM, lexeme=True) for p in parts
                ]
                lead = [_ANY_TEXT] if all(isinstance(part, NotExpr) for part in parts) else []
                return f"({' & '.join([*lead, *written])})"
            case NotExpr():
                return f"({_ANY_TEXT} & {self._without(expr)})"
            case Repeated(body=body, least=least, most=most):
                inner = self.expr(body, _ATOM, lexeme=lexeme)
                if isinstance(body, Repeated):
                    inner = f"({inner})"
                return inner + quantifier(least, most)
        raise TypeError(f"not an expression: {expr!r}")

    def _without(self, expr: NotExpr) -> str:
        """Return a complement; it includes the bytes of marker tokens, unless another conjunct excludes them."""
        return "~" + self.expr(expr.body, _ATOM, lexeme=True)

    def join(self, glue: str, parts: tuple[Expr, ...], precedence: int, tight: int, lexeme: bool) -> str:
        inner = _SEQ if precedence == _ALT else _ATOM
        text = glue.join(self.expr(part, inner, lexeme=lexeme) for part in parts)
        return f"({text})" if precedence < tight or precedence == _ATOM else text
