"""Read the descriptions of a function and its parameters from docstrings in the styles of Google, NumPy and Sphinx."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

__all__ = ["Docstring", "ParameterDoc", "read_docstring"]

_SECTIONS = (
    "args|arguments|parameters|params|other parameters|keyword args|keyword arguments|attributes|returns?|raises"
    "|yields?|receives|warns|warnings?|examples?|notes?|references|see also|todo"
)
_OF_PARAMETERS = re.compile("args|arguments|parameters|params|other parameters|keyword args|keyword arguments")
_GOOGLE = re.compile(rf"({_SECTIONS})\s*:\s*$", re.IGNORECASE)
_NUMPY = re.compile(rf"({_SECTIONS})\s*$", re.IGNORECASE)
_RULE = re.compile(r"-{3,}\s*$")
_GOOGLE_ENTRY = re.compile(
    r"\*{0,2}(?P<names>\w+)\s*(?:\((?P<type>[^()]*(?:\([^()]*\)[^()]*)*)\))?\s*:(?:\s+(?P<text>.*))?$"
)
_NUMPY_ENTRY = re.compile(r"(?P<names>\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::\s*(?P<type>.*))?$")
_SPHINX_ENTRY = re.compile(r"[:@]param(?:eter)?\s+(?:(?P<type>[^:]*?)\s+)?\*{0,2}(?P<names>\w+)\s*:\s*(?P<text>.*)$")
_SPHINX_TYPE = re.compile(r"[:@]type\s+(\w+)\s*:\s*(.*)$")
_SPHINX_OTHER = re.compile(r"[:@](?:return|returns|rtype|raises?|except|yields?|keyword|kwarg|var|ivar|cvar|meta)\b")


@dataclass
class ParameterDoc:
    """One parameter as a docstring describes it; ``type`` is its words for the type, empty without any."""

    text: str = ""
    type: str = ""


@dataclass
class Docstring:
    """``description`` is all that comes before the parameters, results and examples, one line for each paragraph."""

    description: str = ""
    parameters: Mapping[str, ParameterDoc] = field(default_factory=dict)


def read_docstring(doc: str) -> Docstring:
    """Return the contents of a docstring; ``doc`` is dedented, as `inspect.getdoc` returns it."""
    lines = [line.rstrip() for line in doc.strip().splitlines()]
    first = next((i for i in range(len(lines)) if _begins_section(lines, i)), len(lines))
    parameters: dict[str, ParameterDoc] = {}
    for names, kind, text in [*_from_sections(lines[first:]), *_from_fields(lines[first:])]:
        for name in re.split(r"[\s,*]+", names.strip("* ")):
            entry = parameters.setdefault(name, ParameterDoc())
            entry.text, entry.type = entry.text or text, entry.type or kind
    return Docstring(_joined(lines[:first]), parameters)


def _begins_section(lines: list[str], at: int) -> bool:
    line = lines[at]
    if _SPHINX_ENTRY.match(line) or _SPHINX_TYPE.match(line) or _SPHINX_OTHER.match(line):
        return True
    return bool(_GOOGLE.match(line) or (_NUMPY.match(line) and at + 1 < len(lines) and _RULE.match(lines[at + 1])))


def _from_sections(lines: list[str]) -> Iterator[tuple[str, str, str]]:
    """Names, type and text of the entries of Google's and NumPy's sections of parameters."""
    section, entry, entry_indent, body = "", None, 0, list[str]()
    for line in [*lines, "Returns:"]:
        heading = _GOOGLE.match(line) or (_NUMPY.match(line) if section != "google" else None)
        indent = len(line) - len(line.lstrip())
        pattern = _GOOGLE_ENTRY if section == "google" else _NUMPY_ENTRY
        match = pattern.match(line.strip()) if section and (entry is None or indent <= entry_indent) else None
        if (heading or match) and entry is not None:
            yield entry["names"], (entry["type"] or "").strip(), _joined([*body])
            entry = None
        if heading:
            section = ("google" if ":" in line else "numpy") if _OF_PARAMETERS.fullmatch(heading[1].lower()) else ""
        elif match and line.strip() and not _RULE.match(line):
            entry, entry_indent = match, indent
            body = [match["text"] or ""] if section == "google" else []
        elif entry is not None:
            body.append(line.strip())


def _from_fields(lines: list[str]) -> Iterator[tuple[str, str, str]]:
    """Names, type and text of the fields of Sphinx (``:param int size: text``)."""
    entry, body = None, list[str]()
    for line in [*lines, ":return:"]:
        match = _SPHINX_ENTRY.match(line)
        ends = match or _SPHINX_TYPE.match(line) or _SPHINX_OTHER.match(line)
        if entry is not None and (ends or (line and not line[0].isspace())):
            yield entry["names"], (entry["type"] or "").strip(), _joined(body)
            entry = None
        if match:
            entry, body = match, [match["text"]]
        elif entry is not None:
            body.append(line.strip())
        if typed := _SPHINX_TYPE.match(line):
            yield typed[1], typed[2].strip(), ""


def _joined(lines: Iterable[str]) -> str:
    """The paragraphs of these lines, each on one line."""
    paragraphs = re.split(r"\n\s*\n", "\n".join(lines).strip())
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
