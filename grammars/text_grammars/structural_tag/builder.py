"""Builds the grammar of a tree of formats, with one method per format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from grammars.json_schema.build import Policy, ReportRow, Spelling, build
from grammars.regular.syntax.parser import InvalidRegex
from grammars.regular.syntax.rust import approximate_language
from grammars.regular.syntax.write import ANY_TEXT, containing
from grammars.regular.terms import alt as regular_alt
from grammars.regular.terms import text as regular_text
from grammars.text_grammars.gbnf.convert import gbnf_grammar
from grammars.text_grammars.lark.check import MAX_LEAST_LENGTH, check_length
from grammars.text_grammars.structural_tag.free_text import (
    alternatives,
    check_triggers,
    end_text,
    ends_with_free_text,
    literal_prefix,
    merge_lexemes,
    without_prefix,
)
from grammars.text_grammars.structural_tag.values import (
    only_keys,
    read_count,
    read_flag,
    read_format,
    read_list,
    read_object,
    read_rules,
    read_string,
    read_strings,
)
from grammars.tree.markers import Markers
from grammars.tree.nodes import (
    And,
    Group,
    Node,
    Not,
    Pattern,
    Ref,
    Rule,
    RuleDef,
    Seq,
    Sub,
    Text,
    Tokens,
    Until,
    alt,
    opt,
    repeat,
    seq,
    token,
)
from special_tokens.errors import GrammarError, SchemaError, shown

__all__ = ["FORMATS", "TagBuilder"]

_BOUNDS = {"optional": (0, 1), "plus": (1, None), "star": (0, None)}
#: The end of a format: any of some texts, each with its place; one token; or none.
FormatEnd: TypeAlias = tuple[Text, ...] | Tokens | None


@dataclass
class TagBuilder:
    """Builds one structural tag; ``rows`` collects the report of its schemas."""

    markers: Markers | None
    trusted: bool
    spelling: Spelling
    policy: Policy
    rows: list[ReportRow] = field(default_factory=list)
    depth: int = 0
    times: int = 1  #: how often what is being built is repeated at least

    def build(self, spec: Any, end: FormatEnd, place: str) -> Node:
        """Return the format followed by ``end``; free text needs it to know where it ends."""
        body = read_object(spec, place)
        kind = body.get("type")
        if not isinstance(kind, str) or kind not in FORMATS:
            raise GrammarError(
                f"unknown format {shown(kind)}", place=f"{place}.type", expected=", ".join(sorted(FORMATS))
            )
        make, keys = FORMATS[kind]
        only_keys(body, {"type", *keys}, place)
        self.depth += 1
        if self.depth > 60:
            raise GrammarError("formats are nested too deeply", place=place, expected="at most 60 levels")
        node = make(self, body, end, place)
        self.depth -= 1
        return node

    # -- primitives

    def const_string(self, body: Mapping[str, Any], end: FormatEnd, place: str) -> Node:
        return self.with_end(self._text(read_string(body, "value", place, empty=True), place), end)

    def json_schema(self, body: Mapping[str, Any], end: FormatEnd, place: str) -> Node:
        if body.get("style", "json") != "json":
            raise GrammarError(
                f"style {shown(body['style'])} is not supported here", place=f"{place}.style", expected="json",
                hint="pass the functions as tools: their syntax is the model's own",
            )  # fmt: skip
        if read_flag(body, "any_order", place):
            raise GrammarError("keys come in the schema's order", place=f"{place}.any_order", expected="false")
        for key in ("excludes", "max_whitespace_cnt"):
            if body.get(key) not in (None, []):
                raise GrammarError(f"{shown(body[key])} is not supported here", place=f"{place}.{key}", expected="null")
        if "json_schema" not in body:
            raise GrammarError("there is no schema", place=f"{place}.json_schema", expected="a JSON schema")
        try:
            built = build(body["json_schema"], spelling=self.spelling, policy=self.policy)
        except SchemaError as error:
            error.place = f"{place}.json_schema{error.pointer}"
            raise
        self.rows += built.report.rows
        return self.with_end(Rule("payload", built.node, at=place), end)

    def grammar(self, body: Mapping[str, Any], end: FormatEnd, place: str) -> Node:
        then = regular_alt(*map(regular_text, _texts(end))) if isinstance(end, tuple) else None
        part = gbnf_grammar(read_string(body, "grammar", place), place=f"{place}.grammar", then=then)
        self.rows += part.report.rows
        return self.with_end(Sub("grammar", part.lark), end)

    def regex(self, body: Mapping[str, Any], end: FormatEnd, place: str) -> Node:
        text = read_string(body, "pattern", place)
        try:
            check_length(approximate_language(text), "the pattern", place=f"{place}.pattern")
        except InvalidRegex as error:
            at = f"{place}.pattern"
            raise GrammarError(str(error), line=1, column=error.at + 1, place=at, expected="a regex of Rust") from None
        pattern = Pattern(text, at=place)
        return (
            Until("text", pattern, end_text(_texts(end), place))
            if isinstance(end, tuple)
            else self.with_end(pattern, end)
        )

    def any_text(self, body: Mapping[str, Any], end: FormatEnd, place: str) -> Node:
        if body.get("max_tokens") is not None:
            raise GrammarError(
                "tokens cannot be counted inside a grammar", place=f"{place}.max_tokens", hint="use max_chars"
            )
        most = read_count(body, "max_chars", place)
        text: Node = (
            Pattern(ANY_TEXT.regex if most is None else f"(?s:.{{0,{most}}})", at=place) if most != 0 else Text("")
        )
        excludes = read_strings(body.get("excludes", []), f"{place}.excludes")
        return self.free_text(text, [e for e in excludes if e not in _texts(end)], end, place)

    def free_text(self, text: Node, excludes: Sequence[str], end: FormatEnd, place: str) -> Node:
        """Return ``text`` that contains none of ``excludes``, followed by ``end``."""
        if excludes:
            text = And((text, Not(containing(excludes))))
        if isinstance(end, tuple):
            return Until("text", text, end_text(_texts(end), place))
        return self.with_end(Rule("text", text), end)

    # -- composition

    def sequence(self, body: Mapping[str, Any], end: FormatEnd, place: str) -> Node:
        elements = read_list(body.get("elements"), f"{place}.elements")
        parts: list[Node] = []
        for i, element in enumerate(elements):
            at = f"{place}.elements[{i}]"
            if i and ends_with_free_text(elements[i - 1]):  # which this element's prefix has ended
                element = without_prefix(element)
            is_last = i + 1 == len(elements)
            then: FormatEnd = end if is_last else None
            if not is_last and ends_with_free_text(element):
                then = (Text(literal_prefix(elements[i + 1], at), at=f"{place}.elements[{i + 1}]"),)
            parts.append(self.build(element, then, at))
        return merge_lexemes(parts)

    def options(self, body: Mapping[str, Any], end: FormatEnd, place: str) -> Node:
        elements = read_list(body.get("elements"), f"{place}.elements")
        return alternatives([self.build(e, end, f"{place}.elements[{i}]") for i, e in enumerate(elements)])

    def repeated(self, body: Mapping[str, Any], end: FormatEnd, place: str) -> Node:
        bounds: tuple[int | None, int | None] = _BOUNDS.get(body["type"], (0, 0))
        least, most = bounds
        if body["type"] == "repeat":
            least, bound = read_count(body, "min", place, needed=True), body.get("max")
            if bound is None:
                raise GrammarError("there is no max", place=f"{place}.max", expected="a number, or -1 for any number")
            most = None if bound == -1 else read_count(body, "max", place, needed=True)
            if most is not None and most < (least or 0):
                raise GrammarError(f"from {least} to {most} times", place=f"{place}.max", expected="at least min")
        _check_repeated(body.get("content"), f"{place}.content")
        times, self.times = self.times, self.times * (least or 1)
        if self.times > MAX_LEAST_LENGTH:
            raise GrammarError(f"the shortest text repeats {self.times} times", place=place,
                               expected=f"at most {MAX_LEAST_LENGTH}", hint="use fewer or smaller repeats")  # fmt: skip
        inner = self.build(body.get("content"), None, f"{place}.content")
        self.times = times
        return self.with_end(repeat(inner, least or 0, most), end)

    # -- tags

    def tag(self, body: Mapping[str, Any], end: FormatEnd, place: str) -> Node:
        return self.tag_after(body, "", end, place)

    def tag_after(self, body: Mapping[str, Any], written: str, end: FormatEnd, place: str) -> Node:
        """Return a tag whose prefix ``written`` has been written already."""
        opening = self._text(read_string(body, "begin", place, empty=True)[len(written) :], f"{place}.begin")
        content = self.build(body.get("content"), self._end_of(body, place), f"{place}.content")
        return self.with_end(merge_lexemes([opening, content]), end)

    def _end_of(self, body: Mapping[str, Any], place: str) -> FormatEnd:
        end = body.get("end")
        texts = read_strings([end] if isinstance(end, str) else end, f"{place}.end")
        if not texts:
            raise GrammarError("the tag has no end", place=f"{place}.end", expected="a text, or a list of texts")
        if self.trusted and self.markers is not None and len(texts) == 1:
            pieces = self.markers.pieces(texts[0])
            if len(pieces) == 1 and isinstance(pieces[0], int):
                return token(pieces[0], texts[0])
        return tuple(Text(text, at=f"{place}.end") for text in texts)

    def triggered_tags(self, body: Mapping[str, Any], end: FormatEnd, place: str) -> Node:
        triggers = read_strings(body.get("triggers"), f"{place}.triggers")
        tags = read_list(body.get("tags"), f"{place}.tags")
        loop = not read_flag(body, "stop_after_first", place)
        then, by_trigger = None if loop else end, dict[str, list[Callable[[], Node]]]()
        openings: list[Callable[[], Node]] = []
        for i, tag in enumerate(tags):
            at = f"{place}.tags[{i}]"
            begin = read_string(read_format(tag, "tag", at), "begin", at)
            trigger = min((t for t in triggers if begin.startswith(t)), key=len, default=None)
            if trigger is None:
                raise GrammarError(
                    f"{shown(begin)} begins with no trigger",
                    place=f"{at}.begin",
                    expected=" or ".join(map(repr, triggers)),
                )
            by_trigger.setdefault(trigger, []).append(partial(self.tag_after, tag, trigger, then, at))
            openings.append(partial(self.tag_after, tag, "", then, at))
        for i, trigger in enumerate(triggers):
            if not trigger.startswith(tuple(by_trigger)):
                raise GrammarError(f"no tag begins with {shown(trigger)}", place=f"{place}.triggers[{i}]")
        return self._dispatching(by_trigger, openings, body, end, place, loop=loop)

    def dispatch(self, body: Mapping[str, Any], end: FormatEnd, place: str) -> Node:
        rules = read_rules(body, place)
        loop = read_flag(body, "loop", place, default=True)
        then, by_trigger = None if loop else end, dict[str, list[Callable[[], Node]]]()
        for i, (pattern, spec) in enumerate(rules):
            if not isinstance(pattern, str) or not pattern:
                raise GrammarError(
                    f"{shown(pattern)} is not a trigger", place=f"{place}.rules[{i}][0]", expected="text"
                )
            make = partial(self.build, spec, then, f"{place}.rules[{i}][1]")
            by_trigger.setdefault(pattern, []).append(make)
        return self._dispatching(by_trigger, [], body, end, place, loop=loop)

    def _dispatching(
        self,
        by_trigger: Mapping[str, Sequence[Callable[[], Node]]],
        openings: Sequence[Callable[[], Node]],
        body: Mapping[str, Any],
        end: FormatEnd,
        place: str,
        *,
        loop: bool,
    ) -> Node:
        """Return free text up to a trigger, the format after it, and with ``loop`` free text again."""
        excludes = read_strings(body.get("excludes", []), f"{place}.excludes")
        enders = _texts(end)
        at = f"{place}.{'rules' if 'rules' in body else 'triggers'}"
        check_triggers(by_trigger, enders, at)
        for i, (_, content) in enumerate(body.get("rules", ()) if loop else ()):
            _check_repeated(content, f"{at}[{i}][1]")
        barred = [*by_trigger, *(text for text in excludes if text not in enders)]
        again: Node = Ref("text") if loop else Seq(())
        ways: list[Node] = [self.free_text(ANY_TEXT, barred, end, at)]
        for trigger, makers in by_trigger.items():
            others = [text for text in (*barred, *enders) if text != trigger]
            lead_text: Node = And((ANY_TEXT, Not(containing(others)))) if others else ANY_TEXT
            lead = Until("lead", lead_text, Text(trigger))
            ways.append(seq(lead, merge_lexemes([alternatives([make() for make in makers])]), again))
        rules = {"text": RuleDef(alt(*ways))}
        start: Node = Ref("text")
        if read_flag(body, "at_least_one", place):
            start = seq(merge_lexemes([alternatives([make() for make in openings])]), again)
        return Group("tags", start, rules)

    def tags_with_separator(self, body: Mapping[str, Any], end: FormatEnd, place: str) -> Node:
        tags = read_list(body.get("tags"), f"{place}.tags")
        any_tag = alt(*(self.tag_after(read_format(tag, "tag", f"{place}.tags[{i}]"), "", None, f"{place}.tags[{i}]")
                    for i, tag in enumerate(tags)))  # fmt: skip
        many = any_tag
        if not read_flag(body, "stop_after_first", place):
            separator = self._text(read_string(body, "separator", place, empty=True), f"{place}.separator")
            many = seq(any_tag, repeat(seq(separator, any_tag), 0, None))
        return self.with_end(many if read_flag(body, "at_least_one", place) else opt(many), end)

    # -- texts

    def _text(self, text: str, place: str = "") -> Node:
        return self.markers.node(text) if self.trusted and self.markers is not None else Text(text, at=place)

    def with_end(self, node: Node, end: FormatEnd) -> Node:
        """Return ``node`` followed by ``end``."""
        if end is None:
            return node
        if isinstance(end, Tokens):
            return seq(node, end)
        return merge_lexemes([node, alternatives([self._text(one.text, one.at) for one in end])])


def _texts(end: FormatEnd) -> list[str]:
    return [one.text for one in end] if isinstance(end, tuple) else []


def _check_repeated(content: Any, place: str) -> None:
    if ends_with_free_text(content):
        raise GrammarError("free text cannot be repeated: nothing would end it", place=place, hint="put it into a tag")


#: Format type -> its method, and the keys that it accepts.
FORMATS: Mapping[str, tuple[Callable[[TagBuilder, Mapping[str, Any], FormatEnd, str], Node], frozenset[str]]] = {
    kind: (maker, frozenset(keys.split()))
    for kind, maker, keys in (
        ("const_string", TagBuilder.const_string, "value"),
        ("json_schema", TagBuilder.json_schema, "any_order excludes json_schema max_whitespace_cnt style"),
        ("grammar", TagBuilder.grammar, "grammar"),
        ("regex", TagBuilder.regex, "pattern"),
        ("any_text", TagBuilder.any_text, "excludes max_chars max_tokens"),
        ("sequence", TagBuilder.sequence, "elements"),
        ("or", TagBuilder.options, "elements"),
        ("optional", TagBuilder.repeated, "content"),
        ("plus", TagBuilder.repeated, "content"),
        ("star", TagBuilder.repeated, "content"),
        ("repeat", TagBuilder.repeated, "content min max"),
        ("tag", TagBuilder.tag, "begin content end"),
        ("triggered_tags", TagBuilder.triggered_tags, "triggers tags at_least_one stop_after_first excludes"),
        ("tags_with_separator", TagBuilder.tags_with_separator, "tags separator at_least_one stop_after_first"),
        ("dispatch", TagBuilder.dispatch, "rules loop excludes"),
    )
}
