"""Turn the shape of a call into a `ToolCallFormat`: the syntax that writes it, and all delimiters as data."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from grammars.formats.calls.call_shape import CallShape
from grammars.formats.calls.list_shape import KEY_AGAIN, ListShape, mark_around
from grammars.formats.probe import samples as s
from grammars.formats.probe.json_spelling import is_sorted, spelling_of
from grammars.formats.probe.sample_calls import LONG_ID, CallTexts
from grammars.formats.probe.text_units import Units
from grammars.tool_calls.pattern import escape_literal
from grammars.values.format import Option, ToolCallFormat

__all__ = ["Wrappers", "classify", "split_wrappers"]


@dataclass(frozen=True, slots=True)
class Wrappers:
    """The delimiters around a section of calls and around each call."""

    gap: str  #: white space before the section
    section_start: str
    section_end: str
    call_start: str
    call_end: str
    between: str


def split_wrappers(before: str, after: str, middle: str | None, units: Units) -> Wrappers:
    """Separate the delimiters of a section from those of a call: only the latter are repeated for a second call."""
    gap = _gap(before, units)
    before = before[len(gap) :]
    if middle is None:
        return Wrappers(gap, "", "", before, after, "")
    call_end = units.common_prefix(after, middle)
    closing = middle[len(call_end) :]
    call_start = units.common_suffix(before, closing)
    if not call_start.strip():  # white space between list items belongs to the list
        call_start = ""
    if not call_end.strip():
        call_end, closing = "", middle
    section_start = before[: len(before) - len(call_start)]
    section_end = after[len(call_end) :]
    between = closing[: len(closing) - len(call_start)]
    mark = mark_around(call_end)
    if mark and not between and section_start.endswith(mark):
        section_start, call_start = section_start.removesuffix(mark), mark + call_start
        call_end, section_end = call_end.removesuffix(mark), mark + section_end
    return Wrappers(gap, section_start, section_end, call_start, call_end, between)


def _gap(before: str, units: Units) -> str:
    """The line breaks before the calls; all white space if a marker follows it."""
    white = before[: len(before) - len(before.lstrip())]
    first = next(iter(units.split(before.lstrip())), "")
    return white if units.is_marker(first) else white[: len(white) - len(white.lstrip("\n"))]


def classify(shape: CallShape, texts: CallTexts, wrappers: Wrappers, units: Units) -> ToolCallFormat:
    """The format of calls of this shape, except the fields about text before or after calls."""
    syntax, options = _syntax(shape, texts, wrappers)
    call_start, id_style = wrappers.call_start, _id_style(shape, texts)
    if syntax == "harmony":
        call_start = ""
    elif shape.kind == "name" and shape.index_base is not None:
        prefix = _word_before_name(call_start, units)
        numbered = _numbered_id(escape_literal(prefix) + shape.pattern)
        if numbered:
            call_start = call_start[: len(call_start) - len(prefix)]
            options["call"], id_style = escape_literal(prefix) + shape.pattern, numbered
    if shape.index_base:
        options["index_base"] = shape.index_base
    if shape.list is None and is_sorted(texts):
        options["order"] = "sorted"
    return ToolCallFormat(
        syntax,
        section_start=wrappers.section_start,
        section_end=wrappers.section_end,
        call_start=call_start,
        call_end=wrappers.call_end,
        between=wrappers.between,
        gap_without_text=wrappers.gap,
        max_calls=None if shape.middle is not None else 1,
        id_style=id_style,
        options=tuple(sorted(options.items())),
        spelling=spelling_of(texts),
    )


def _syntax(shape: CallShape, texts: CallTexts, wrappers: Wrappers) -> tuple[str, dict[str, Option]]:
    if shape.list is not None:
        return _list_syntax(shape, shape.list, texts)
    if shape.kind == "name":
        header = _ADDRESSED.fullmatch(wrappers.call_start + shape.pattern)
        if header is not None:
            return "harmony", {name: text for name, text in header.groupdict().items() if text}
        return "name_then_json", {"call": shape.pattern}
    options = _object_options(shape.pattern)
    if wrappers.section_start.rstrip().endswith("["):
        return "json_array", options
    return "json_in_tags" if wrappers.section_start + wrappers.call_start else "bare_json", options


#: A message addressed to the function, in a channel, with a content type.
_ADDRESSED = re.compile(
    r"(?P<recipient> to=[\w.]*)\$name(?P<channel><\|[^|]*\|>\w+)(?P<type> \w+)(?P<message><\|[^|]*\|>)\$arguments"
)
_USUAL_BODY = re.compile(r'\{("[^"$]+"): "\$name", ("[^"$]+"): \$arguments\}')


def _object_options(pattern: str) -> dict[str, Option]:
    """The two keys if the object is spelled in the usual way, else the whole pattern."""
    usual = _USUAL_BODY.fullmatch(pattern)
    if usual is None:
        return {"body": pattern}
    return {"name_key": json.loads(usual[1]), "args_key": json.loads(usual[2])}


# -- arguments one by one


def _list_syntax(shape: CallShape, listed: ListShape, texts: CallTexts) -> tuple[str, dict[str, Option]]:
    options: dict[str, Option] = {"call": shape.pattern, "separator": listed.separator}
    if listed.is_sorted:
        options["order"] = "sorted"
    words = _words(texts)
    if words != "true false null":
        options["words"] = words
    if listed.head.startswith("(") and listed.number_value.rstrip("\"' ") == "=":
        quote = listed.word_value.lstrip("= ")[:1] or '"'
        return "pythonic", {**options, "parameter": "$key=$value", "quote": quote}
    opening, closing = _quotes(listed)
    if opening == closing == '"':
        options["strings"] = "json"
    elif opening and opening == closing:
        parameter = f"{_escaped(listed.opening)}$key{_escaped(listed.number_value)}$value{_escaped(listed.number_end)}"
        return "gemma", {**options, "parameter": parameter, "quote": opening}
    if opening and closing and opening != closing:
        options |= {"quote": opening, "quote_end": closing}
        leading = _escaped(listed.number_value)
    else:
        leading = _flagged(listed, texts, options)
        if options.get("strings") != "json":
            options |= _occasional_quotes(listed, texts) | _nested(listed, texts)
    end = listed.number_end
    options["parameter"] = f"{_escaped(listed.opening)}$key{leading}$value{_escaped(end)}"
    return _tag_syntax(listed), options


def _escaped(literal: str) -> str:
    return escape_literal(literal).replace(KEY_AGAIN, "$key")


def _tag_syntax(listed: ListShape) -> str:
    if listed.opening.endswith("=") and "<" in listed.opening:
        return "xml_equals"
    return "invoke" if listed.opening.endswith(('="', "='")) else "key_tags"


def _quotes(listed: ListShape) -> tuple[str, str]:
    """The texts before and after strings that numbers do not have."""
    if not listed.word_value.startswith(listed.number_value) or not listed.word_end.endswith(listed.number_end):
        return "", ""
    return (
        listed.word_value[len(listed.number_value) :],
        listed.word_end[: len(listed.word_end) - len(listed.number_end)],
    )


def _occasional_quotes(listed: ListShape, texts: CallTexts) -> dict[str, Option]:
    """The delimiters that only strings with unusual characters have; {} if there are none."""
    before, after = s.KEYS[7] + listed.word_value, listed.word_end.replace(KEY_AGAIN, s.KEYS[7])
    inside = rf"(\S+?)\s*{re.escape(s.TRICKY.strip())}\s*(\S+?)"
    shown = re.search(re.escape(before) + inside + re.escape(after), texts.all_types or "") if after else None
    return {"quote": shown[1], "quote_end": shown[2], "plain_strings": True} if shown else {}


def _nested(listed: ListShape, texts: CallTexts) -> dict[str, Option]:
    """The key of a list's items, if objects and lists are written as arguments are; {} if not."""
    text = texts.all_types or ""

    def element(key: str, value: str) -> str:
        return f"{listed.opening}{key}{listed.number_value}{value}{listed.number_end.replace(KEY_AGAIN, key)}"

    item = re.search(f"{re.escape(listed.opening)}(\\w+){re.escape(listed.number_value)}aq", text)
    is_nested = item is not None and element("u", "Cq") in text and element(item[1], "aq") in text
    return {"items": item[1]} if item is not None and is_nested and KEY_AGAIN in listed.number_end else {}


def _flagged(listed: ListShape, texts: CallTexts, options: dict[str, Option]) -> str:
    """The literal between key and value, with a hole for the value's type if it contains that."""
    word, number = listed.word_value, listed.number_value
    if word == number or options.get("strings") == "json":
        return _escaped(number)
    prefix, suffix = _around_flag(word, number)
    flags = _flag_words(prefix, suffix, texts)
    if set(flags.values()) == {"true", "false"}:
        return f"{_escaped(prefix)}$is_string{_escaped(suffix)}"
    unusual = {name: flag for name, flag in flags.items() if flag != name or name == "integer"}
    if unusual:
        options["types"] = " ".join(f"{name}={flag}" for name, flag in sorted(unusual.items()))
    return f"{_escaped(prefix)}$type{_escaped(suffix)}"


def _around_flag(word: str, number: str) -> tuple[str, str]:
    """The texts before and after the word in which two literals differ."""
    at = next((i for i, (a, b) in enumerate(zip(word, number, strict=False)) if a != b), min(len(word), len(number)))
    while at and (word[at - 1].isalnum() or word[at - 1] == "_"):
        at -= 1
    flag = re.match(r"\w*", word[at:])
    return word[:at], word[at + (flag.end() if flag else 0) :]


_TYPE_OF_KEY = {0: "string", 1: "integer", 2: "number", 3: "boolean", 4: "null", 5: "object", 6: "array"}


def _flag_words(prefix: str, suffix: str, texts: CallTexts) -> dict[str, str]:
    """JSON type -> type flag, as far as the template shows them."""
    flags: dict[str, str] = {}
    for index, name in _TYPE_OF_KEY.items():
        shown = re.search(re.escape(s.KEYS[index] + prefix) + r"(\w+)" + re.escape(suffix), texts.all_types or "")
        flags[name] = shown[1] if shown else name
    if flags["integer"] == flags["number"]:
        del flags["integer"]  # the flag does not distinguish integers
    return flags


def _words(texts: CallTexts) -> str:
    """The template's words for true, false and null, separated by spaces."""
    text = texts.all_types or ""
    true = _value_after(text, s.KEYS[3], s.KEYS[4])
    null = _value_after(text, s.KEYS[4], s.KEYS[5])
    words = "True False" if "True" in true else "true false"
    return f"{words} {'None' if 'None' in null else 'null'}"


def _value_after(text: str, key: str, following: str) -> str:
    at = text.find(key)
    end = text.find(following, at)
    return text[at:end] if 0 <= at < end else ""


# -- ids


def _id_style(shape: CallShape, texts: CallTexts) -> str:
    """``alnum9`` if the template refuses or shortens an id in OpenAI's style, else ""."""
    shortened = texts.long_id is not None and "$id" in shape.pattern and LONG_ID not in texts.long_id
    return "alnum9" if texts.long_id is None or shortened else ""


def _word_before_name(call_start: str, units: Units) -> str:
    """The text between the last marker and the name (``functions.``)."""
    split = units.split(call_start)
    last = max((i for i, unit in enumerate(split) if units.is_marker(unit) or unit.isspace()), default=-1)
    return "".join(split[last + 1 :])


def _numbered_id(pattern: str) -> str:
    """The text around name and number without markers or white space, which serves as the call's id."""
    match = re.search(r"[\w.:/-]*\$name[\w.:/-]*\$index[\w.:/-]*", pattern)
    return match[0] if match else ""
