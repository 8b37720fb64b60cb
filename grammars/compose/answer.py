"""The grammar of the answer after reasoning: free text, tool calls, the response format, and their ends.

Free text in front of calls ends in one of two ways.  If calls open with a special token, this token ends the text,
because free text cannot contain special tokens.  If calls open with characters, one lexeme holds the text and the
opening, and this lexeme ends at the first opening in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from grammars.compose.response import ResponsePart
from grammars.compose.tool_section import ToolSection
from grammars.plan.plan import Pieces, RegionName
from grammars.regular.syntax.write import ANY_TEXT, containing
from grammars.regular.terms import ALL
from grammars.tool_calls.arguments.raw_text import text_until
from grammars.tree.markers import Markers
from grammars.tree.nodes import (
    Alt,
    And,
    Group,
    Lexeme,
    Node,
    Not,
    Pattern,
    Ref,
    Repeat,
    Rule,
    RuleDef,
    Seq,
    Text,
    Tokens,
    Until,
    alt,
    opt,
    repeat,
    seq,
    token,
)
from grammars.values.format import ContentFormat

__all__ = ["Answer"]

_NOT_BLANK = Pattern(r"(?s:\s*\S.*)")


class _Triggers(NamedTuple):
    """The triggers of calls, sorted by how they begin."""

    has_token: bool  #: whether some trigger begins with a token
    mixed: list[str]  #: triggers that begin with characters and contain a token
    literal: list[str]  #: triggers of characters only


@dataclass(frozen=True)
class Answer:
    """The answer of one plan.

    ``end`` returns the node that ends a region; ``must_call`` allows nothing but calls.  ``ends_by_trigger`` says that
    a token that opens calls also ends answers: after text this token is an end, so calls can only come first.
    If the plan has other end tokens as well, ``separators`` are the tokens that do both: such a token may come after
    text, and then calls or the end of the answer must follow.
    """

    content: ContentFormat
    markers: Markers
    section: ToolSection | None
    response: ResponsePart | None
    end: Callable[[RegionName], Node]
    must_call: bool = False
    ends_by_trigger: bool = False
    separators: tuple[int, ...] = ()

    def node(self, space: str = "", *, after_reasoning: bool = False) -> Node:
        """Return the whole answer; ``space`` is the white space between reasoning and it."""
        options: list[Node] = []
        if self.response is not None and not self.must_call:
            options.append(seq(space, self._response()))
        if self.section is not None and (self.response is not None or self.must_call):
            options.append(seq(space, self._calls_at_once()))
        elif self.section is not None:
            options += self._text_or_calls(space, after_reasoning)
        elif self.response is None:
            framed = space if self.content.start else ""  # text without a frame may begin with white space itself
            options.append(seq(framed, self._text(after_reasoning, ())))
        return alt(*options)

    def calls(self) -> Node:
        """Return the calls, from their opening on, and what may follow them."""
        assert self.section is not None
        return self._then_end(self.section.node)

    @property
    def _may_talk(self) -> bool:
        """Whether free text is an answer: only then may text stand next to calls."""
        return self.response is None and not self.must_call

    # -- parts

    def _response(self) -> Node:
        assert self.response is not None
        node = Rule("response", self.response.node, region="response")
        closing = self.markers.node(self.content.end)
        return seq(self.markers.node(self.content.start), node, closing, self.end(RegionName.RESPONSE))

    def _calls_at_once(self) -> Node:
        """Calls without text before them.  The white space may be another than between text and calls."""
        assert self.section is not None
        gap = self.markers.node(self.section.form.gap_without_text)
        return seq(gap, self.section.node, self.end(RegionName.TOOL_CALLS))

    def _text(self, not_blank: bool, excluded: Sequence[str]) -> Node:
        """An answer's text, which contains none of ``excluded``, and its end."""
        start, end = self.markers.node(self.content.start), self.end(RegionName.CONTENT)
        closing = self.markers.node(self.content.end)
        # `ALL` is any text as a regular language, `ANY_TEXT` the same as a node of the grammar.
        is_token = bool(self.content.end) and isinstance(self.markers.pieces(self.content.end)[0], int)
        if self.content.end and not (is_token and excluded):
            return seq(start, Rule("content", text_until(ALL, self.content.end, self.markers), region="content"), end)
        if not excluded:
            return seq(start, Rule("content", self.markers.any_text(not_blank=not_blank), region="content"), end)
        text = _NOT_BLANK if not_blank else ANY_TEXT
        if self.section is not None and self.section.opens_at_start and not self.content.start:
            lexeme = Lexeme("content", And((text, Not(_beginning(excluded)))))
            content = self.markers.with_tags(lexeme, ANY_TEXT)
        else:
            lexeme = Lexeme("content", And((text, Not(containing(excluded)))))
            content = self.markers.with_tags(lexeme, self._text_without(excluded))
        return seq(start, Rule("content", content, region="content"), closing, end)

    def _text_or_calls(self, space: str, not_blank: bool) -> Iterable[Node]:
        assert self.section is not None
        if self.content.start:
            openings = [
                text for text in self.section.triggers_after_text if isinstance(self.markers.pieces(text)[0], str)
            ]
            yield seq(space, self._lead_text(), self._text(not_blank, openings))
            gap = self.markers.node(self.section.form.gap_without_text)
            yield seq(space, self._lead_text(), gap, self.calls())
            if self.section.triggers_after_text:
                yield seq(space, self.markers.node(self.content.start), alt(*self._text_then_calls(openings)))
            return
        triggers = self._triggers()
        literal = triggers.literal
        yield self._text(not_blank or self.ends_by_trigger, literal)
        if self.separators and self.section.form.text_before:
            separated_end = seq(alt(*(token(i, "separator") for i in self.separators)), self.end(RegionName.TOOL_CALLS))
            text = self.markers.any_text(not_blank=True)
            yield seq(Rule("lead", text, region="content"), alt(self.calls(), separated_end))
        if not self.section.form.text_before or self.ends_by_trigger:
            white_space = self.section.form.gap_without_text
            if triggers.has_token:
                yield seq(space, self.markers.node(white_space), self.calls())
            yield from (self._opened(space + white_space, trigger) for trigger in (*triggers.mixed, *literal))
            return
        if triggers.has_token:
            text = self._text_without(literal)
            yield seq(Rule("lead", self.markers.with_tags(text, text), region="content"), self.calls())
        yield from (seq(text, self._calls_after(opening)) for opening, text in self._leads(triggers.mixed, literal))

    def _text_then_calls(self, openings: Sequence[str]) -> Iterable[Node]:
        """Text in the answer's own frame, then calls; an opening is the gap, followed by the start of a call."""
        assert self.section is not None
        gap = self.section.form.gap
        if not openings:
            yield seq(Rule("lead", self.markers.any_text(), region="content"), self.markers.node(gap), self.calls())
        for opening, text in self._leads((), openings):
            yield seq(Rule("lead", text, region="content"), self._calls_after(opening.removeprefix(gap)))

    def _leads(self, mixed: Sequence[str], literal: Sequence[str]) -> Iterable[tuple[str, Node]]:
        """Yield, for each trigger, the characters that it begins with, and the grammar of text that ends with them."""
        for trigger in mixed:  # only its token ends the text, which may contain the characters before this token
            opening = self._first_characters(trigger)
            yield opening, Lexeme("lead", seq(self._text_without(literal), Text(opening)))
        for trigger in literal:
            others = [other for other in literal if other != trigger]
            tag = self.markers.tag
            tagged = repeat(seq(self._text_without(literal), tag)) if tag is not None else seq()
            yield trigger, seq(tagged, Until("lead", self._text_without(others), Text(trigger)))

    def _opened(self, space: str, trigger: str) -> Node:
        """Calls that open with characters, in an answer that may also be text."""
        # White space and opening are one lexeme.  As two, each would be shorter than the lexeme of free text, and the
        # engine takes the longest lexeme.
        opening = self._first_characters(trigger)
        return seq(Text(space + opening), self._calls_after(opening))

    def _first_characters(self, trigger: str) -> str:
        """The characters before the first token of a trigger."""
        opening = self.markers.pieces(trigger)[0]
        assert isinstance(opening, str)
        return opening

    def _calls_after(self, opening: str) -> Node:
        """Calls whose first characters, ``opening``, are written already."""
        assert self.section is not None
        written = _strip_prefix(self.section.node, (opening,))
        return self._then_end(Rule("calls", written, region="tool_calls"))

    def _lead_text(self) -> Node:
        """Optional text in front of calls, where the family has a frame for it."""
        if not self.content.lead_start:
            return seq()
        text = Rule("lead", text_until(ALL, self.content.lead_end, self.markers, name="lead"), region="content")
        return opt(seq(self.markers.node(self.content.lead_start), text))

    def _triggers(self) -> _Triggers:
        assert self.section is not None
        pieces = {trigger: self.markers.pieces(trigger) for trigger in self.section.triggers}
        literal = [trigger for trigger, parts in pieces.items() if not any(isinstance(p, int) for p in parts)]
        mixed = [t for t, parts in pieces.items() if t not in literal and isinstance(parts[0], str)]
        return _Triggers(len(literal) + len(mixed) < len(pieces), mixed, literal)

    def _text_without(self, excluded: Sequence[str]) -> Node:
        """Text, as one lexeme, that contains none of ``excluded``."""
        if not excluded:
            return ANY_TEXT
        return Lexeme("text", And((ANY_TEXT, Not(containing(excluded)))))

    def _then_end(self, calls: Node) -> Node:
        """Calls and their end; where the family writes text after calls, also that text and more calls."""
        assert self.section is not None
        end, node = self.end(RegionName.TOOL_CALLS), self.section.node
        if not self.section.form.text_after or not self._may_talk:
            return seq(calls, end)
        triggers = self._triggers()
        literal = triggers.literal
        text = self.markers.with_tags(self._text_without(literal), self._text_without(literal))
        options = [end, seq(Rule("content", text, region="content"), self.end(RegionName.CONTENT))]
        if self.section.max_calls == 1:
            return seq(calls, alt(*options))
        if triggers.has_token:
            options.append(seq(Rule("content", text, region="content"), node, Ref("more")))
        for opening, lead in self._leads(triggers.mixed, literal):
            options.append(seq(lead, Rule("calls", _strip_prefix(node, (opening,)), region="tool_calls"), Ref("more")))
        return seq(calls, Group("after", Ref("more"), {"more": RuleDef(alt(*options))}))


def _beginning(texts: Sequence[str]) -> Node:
    """Text that begins with one of ``texts``, or with white space and one of them."""
    options = "|".join(map(re.escape, texts))
    return Pattern(f"[ \\t\\r\\n]*(?:{options})(?s:.*)")


def _strip_prefix(node: Node, written: Pieces) -> Node:
    """Return the grammar of what may follow ``written`` (marker text in pieces, see `SpecialTokens.pieces`).

    Options that do not begin with it are left out.  Raises `ValueError` where none does.
    """
    left = _strip((node,), written)
    if not left:
        raise ValueError(f"nothing here begins with {written!r}")
    return alt(*left)


def _strip(parts: tuple[Node, ...], written: Pieces) -> list[Node]:
    """The grammar of what may follow ``written``, for each way in which the parts can begin with it."""
    if not written:
        return [seq(*parts)]
    if not parts:
        return []
    first, parts_after, piece = parts[0], parts[1:], written[0]
    match first:
        case Seq(parts=inner):
            return _strip((*inner, *parts_after), written)
        case Alt(options=options):
            return [left for option in options for left in _strip((option, *parts_after), written)]
        case Rule(body=body):
            return _strip((body, *parts_after), written)
        case Repeat(body=body, least=0, most=1):
            return _strip((body, *parts_after), written) + _strip(parts_after, written)
        case Tokens(ranges=((low, high),)) if low == high == piece:
            return _strip(parts_after, written[1:])
        case Text(text=text) if isinstance(piece, str) and text.startswith(piece):
            return _strip((Text(text[len(piece) :]), *parts_after) if text != piece else parts_after, written[1:])
        case Text(text=text) if isinstance(piece, str) and piece.startswith(text):
            return _strip(parts_after, (piece[len(text) :], *written[1:]))
    return []
