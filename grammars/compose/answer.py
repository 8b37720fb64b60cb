"""The grammar of the answer after reasoning: free text, tool calls, the response format, and their ends.

Free text in front of calls ends in one of two ways.  Where the calls open with a token, text cannot contain it, and
the token is the border.  Where they open with characters, the text's lexeme ends with them: it is everything up to
the first of these openings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from grammars.compose.response import ResponsePart
from grammars.compose.strip_prefix import strip_prefix
from grammars.compose.tool_section import ToolSection
from grammars.plan.plan import RegionName
from grammars.regular.languages import ALL
from grammars.regular.syntax.raw_text import ANY_TEXT
from grammars.tool_calls.arguments.raw_text import ended
from grammars.tree.markers import Markers
from grammars.tree.nodes import (
    And,
    Group,
    Lexeme,
    Node,
    Not,
    Pattern,
    Ref,
    Rule,
    RuleDef,
    Text,
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


@dataclass(frozen=True)
class Answer:
    """The answer of one plan.

    ``end`` returns the node that ends a region; ``must_call`` allows nothing but calls.  ``ends_by_trigger``: the token
    that opens calls also ends an answer, so that calls differ from an end only at the very beginning.  ``separators``
    are such tokens where the answer has other ends too: one of them after text ends it, unless a call follows.
    """

    content: ContentFormat
    markers: Markers
    section: ToolSection | None
    response: ResponsePart | None
    end: Callable[[RegionName], Node]
    must_call: bool = False
    ends_by_trigger: bool = False
    separators: tuple[int, ...] = ()

    def node(self, lead: str = "", *, after_reasoning: bool = False) -> Node:
        """Return the whole answer; ``lead`` is the white space between reasoning and it."""
        options: list[Node] = []
        if self.response is not None and not self.must_call:
            options.append(seq(lead, self._response()))
        if self.section is not None and (self.response is not None or self.must_call):
            options.append(seq(lead, self._calls_at_once()))
        elif self.section is not None:
            options += self._text_or_calls(lead, after_reasoning)
        elif self.response is None:
            options.append(seq(self._framed_lead(lead), self._text(after_reasoning, ())))
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
        assert self.section is not None
        gap = self.markers.node(self.section.form.gap_without_text)
        return seq(gap, self.section.node, self.end(RegionName.TOOL_CALLS))

    def _framed_lead(self, lead: str) -> str:
        """The white space after reasoning; free text without a frame of its own may begin with it anyway."""
        return lead if self.content.start else ""

    def _text(self, required: bool, barred: Sequence[str]) -> Node:
        """An answer's text, which contains none of ``barred``, and its end."""
        start, end = self.markers.node(self.content.start), self.end(RegionName.CONTENT)
        closing = self.markers.node(self.content.end)
        is_token = bool(self.content.end) and isinstance(self.markers.pieces(self.content.end)[0], int)
        if self.content.end and not (is_token and barred):
            return seq(start, Rule("content", ended(ALL, self.content.end, self.markers), region="content"), end)
        if not barred:
            return seq(start, Rule("content", self.markers.any_text(not_blank=required), region="content"), end)
        some = _NOT_BLANK if required else ANY_TEXT
        if self.section is not None and self.section.opens_at_start and not self.content.start:
            whole = Lexeme("content", And((some, Not(_beginning(barred)))))
            content = self.markers.with_tags(whole, ANY_TEXT)
        else:
            whole = Lexeme("content", And((some, Not(_containing(barred)))))
            content = self.markers.with_tags(whole, self._text_without(barred))
        return seq(start, Rule("content", content, region="content"), closing, end)

    def _text_or_calls(self, lead: str, required: bool) -> Iterable[Node]:
        assert self.section is not None
        if self.content.start:
            ended_by = [
                text for text in self.section.triggers_after_text if isinstance(self.markers.pieces(text)[0], str)
            ]
            yield seq(lead, self._lead_text(), self._text(required, ended_by))
            gap = self.markers.node(self.section.form.gap_without_text)
            yield seq(lead, self._lead_text(), gap, self.calls())
            if self.section.triggers_after_text:
                yield seq(lead, self.markers.node(self.content.start), alt(*self._text_then_calls(ended_by)))
            return
        tokens, mixed, literal = self._triggers()
        yield self._text(required or self.ends_by_trigger, literal)
        if self.separators and self.section.form.text_before:
            over = seq(alt(*(token(i, "separator") for i in self.separators)), self.end(RegionName.TOOL_CALLS))
            text = self.markers.any_text(not_blank=True)
            yield seq(Rule("lead", text, region="content"), alt(self.calls(), over))
        if not self.section.form.text_before or self.ends_by_trigger:
            white = self.section.form.gap_without_text
            if tokens:
                yield seq(lead, self.markers.node(white), self.calls())
            yield from (self._opened(lead + white, trigger) for trigger in (*mixed, *literal))
            return
        if tokens:
            text = self._text_without(literal)
            yield seq(Rule("lead", self.markers.with_tags(text, text), region="content"), self.calls())
        yield from (seq(text, self._calls_after(opening)) for opening, text in self._leads(mixed, literal))

    def _text_then_calls(self, ended_by: Sequence[str]) -> Iterable[Node]:
        """Text in the answer's own frame, which nothing but the gap and a call's opening (``ended_by``) ends."""
        assert self.section is not None
        gap = self.section.form.gap
        if not ended_by:
            yield seq(Rule("lead", self.markers.any_text(), region="content"), self.markers.node(gap), self.calls())
        for opening, text in self._leads((), ended_by):
            yield seq(Rule("lead", text, region="content"), self._calls_after(opening.removeprefix(gap)))

    def _leads(self, mixed: Sequence[str], literal: Sequence[str]) -> Iterable[tuple[str, Node]]:
        """The first characters of calls that open with characters, and text that ends with them."""
        for trigger in mixed:  # the token after the first characters is the border, so text may contain those
            head = self._head(trigger)
            yield head, Lexeme("lead", seq(self._text_without(literal), Text(head)))
        for trigger in literal:
            others = [other for other in literal if other != trigger]
            tag = self.markers.tag
            tagged = repeat(seq(self._text_without(literal), tag)) if tag is not None else seq()
            yield trigger, seq(tagged, Until("lead", self._text_without(others), Text(trigger)))

    def _opened(self, lead: str, trigger: str) -> Node:
        """Calls that open with characters, where text is allowed too: one lexeme, so that the text's is not longer."""
        head = self._head(trigger)
        return seq(Text(lead + head), self._calls_after(head))

    def _head(self, trigger: str) -> str:
        """The characters at the beginning of a trigger."""
        head = self.markers.pieces(trigger)[0]
        assert isinstance(head, str)
        return head

    def _calls_after(self, opening: str) -> Node:
        """Calls whose first characters, ``opening``, are written already."""
        assert self.section is not None
        written = strip_prefix(self.section.node, (opening,))
        return self._then_end(Rule("calls", written, region="tool_calls"))

    def _lead_text(self) -> Node:
        """Optional text in front of calls, where the family has a frame for it."""
        if not self.content.lead_start:
            return seq()
        text = Rule("lead", ended(ALL, self.content.lead_end, self.markers, name="lead"), region="content")
        return opt(seq(self.markers.node(self.content.lead_start), text))

    def _triggers(self) -> tuple[bool, list[str], list[str]]:
        """Whether a token opens calls; the triggers of text and then a token; the triggers of text alone."""
        assert self.section is not None
        pieces = {trigger: self.markers.pieces(trigger) for trigger in self.section.triggers}
        literal = [trigger for trigger, parts in pieces.items() if not any(isinstance(p, int) for p in parts)]
        mixed = [t for t, parts in pieces.items() if t not in literal and isinstance(parts[0], str)]
        return len(literal) + len(mixed) < len(pieces), mixed, literal

    def _text_without(self, barred: Sequence[str]) -> Node:
        """Text, as one lexeme, that contains none of ``barred``."""
        if not barred:
            return ANY_TEXT
        return Lexeme("text", And((ANY_TEXT, Not(_containing(barred)))))

    def _then_end(self, calls: Node) -> Node:
        """Calls and their end, or the text and the calls that follow them where the family writes any."""
        assert self.section is not None
        end, node = self.end(RegionName.TOOL_CALLS), self.section.node
        if not self.section.form.text_after or not self._may_talk:
            return seq(calls, end)
        tokens, mixed, literal = self._triggers()
        text = self.markers.with_tags(self._text_without(literal), self._text_without(literal))
        options = [end, seq(Rule("content", text, region="content"), self.end(RegionName.CONTENT))]
        if self.section.max_calls == 1:
            return seq(calls, alt(*options))
        if tokens:
            options.append(seq(Rule("content", text, region="content"), node, Ref("more")))
        for opening, lead in self._leads(mixed, literal):
            options.append(seq(lead, Rule("calls", strip_prefix(node, (opening,)), region="tool_calls"), Ref("more")))
        return seq(calls, Group("after", Ref("more"), {"more": RuleDef(alt(*options))}))


def _beginning(texts: Sequence[str]) -> Node:
    """Text that begins with one of ``texts``, or with white space and one of them."""
    options = "|".join(map(re.escape, texts))
    return Pattern(f"[ \\t\\r\\n]*(?:{options})(?s:.*)")


def _containing(texts: Sequence[str]) -> Node:
    """Text that contains one of ``texts``."""
    options = "|".join(map(re.escape, texts))
    return Pattern(f"(?s:.*)(?:{options})(?s:.*)")
