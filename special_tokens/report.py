"""The output of ``guided tokens``: tokens by category, roles, ends, template sections, and a family file to edit.

Pure functions from a registry to values and text; `special_tokens.facts` reads the model folder.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from special_tokens.registry import EndToken, SpecialTokens
from special_tokens.roles import Category, Role

__all__ = ["Section", "TokensReport", "family_file", "report_of", "report_text", "template_sections"]

#: Topic -> words in a chat template that indicate it.
_SECTION_WORDS: Mapping[str, tuple[str, ...]] = {
    "tools": ("tool", "function", "available_tools"),
    "tool calls": ("tool_call", "arguments"),
    "tool results": ("tool_response", "tool_result", "tool_output", "'tool'", '"tool"', "observation"),
    "reasoning": ("think", "reason", "thought", "analysis"),
    "system": ("system", "developer"),
    "generation prompt": ("add_generation_prompt",),
}
#: At most this many tokens of a category are printed; the others are counted.
_MAX_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Section:
    """A topic of a chat template, the numbers (from 1) of the lines that mention it, and the first of these lines."""

    topic: str
    lines: tuple[int, ...]
    first: str


@dataclass(frozen=True, slots=True)
class TokensReport:
    """The contents of one registry as plain values."""

    name: str
    family: str
    vocab_size: int
    logits_size: int | None
    fingerprint: str
    categories: Mapping[str, tuple[tuple[int, str, str], ...]]
    roles: Mapping[str, tuple[int | None, str, str]]
    ends: tuple[EndToken, ...]
    looks_like_end: tuple[tuple[int, str], ...]
    sections: tuple[Section, ...]

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values: tokens are ``[id, text, source]``, roles ``[id, text, origin]``."""
        return {**asdict(self), "ends": [asdict(end) for end in self.ends]}


def report_of(tokens: SpecialTokens) -> TokensReport:
    """Build the report of one registry."""
    return TokensReport(
        name=tokens.facts.name,
        family=tokens.family.id if tokens.family else "",
        vocab_size=tokens.facts.vocab_size,
        logits_size=tokens.facts.logits_size,
        fingerprint=tokens.fingerprint,
        categories={
            category.value: tuple((t.id, t.text, t.source.value) for t in tokens.category(category))
            for category in Category
        },
        roles={role.value: (marker.id, marker.text, marker.origin) for role, marker in tokens.roles.items()},
        ends=tokens.ends,
        looks_like_end=tuple((token.id, token.text) for token in tokens.looks_like_end),
        sections=template_sections(tokens.facts.chat_template),
    )


def template_sections(template: str) -> tuple[Section, ...]:
    """Find the topics of a chat template by the words in its lines."""
    lines = template.splitlines()
    sections = []
    for topic, words in _SECTION_WORDS.items():
        numbers = tuple(n for n, line in enumerate(lines, 1) if any(word in line for word in words))
        if numbers:
            sections.append(Section(topic, numbers, lines[numbers[0] - 1].strip()[:160]))
    return tuple(sections)


def report_text(report: TokensReport) -> str:
    """The report as text for a terminal."""
    out = [
        f"{report.name or 'tokenizer'}: {report.vocab_size} ids, logits {report.logits_size or 'unknown'}, "
        f"family {report.family or 'unknown'}, fingerprint {report.fingerprint}",
        "",
        "Ends of turn",
        *_rows((str(end.id), end.text, ", ".join(end.sources)) for end in report.ends),
        *(["  (none: no source names a token that ends a turn)"] if not report.ends else []),
        "",
        "Roles",
        *_rows((role, repr(text), f"{_id(i)}, {origin}") for role, (i, text, origin) in report.roles.items()),
    ]
    for category, tokens in report.categories.items():
        if tokens:
            out += ["", f"{category} ({len(tokens)})"]
            out += _rows((str(i), repr(text), source) for i, text, source in tokens[:_MAX_SHOWN])
            out += [f"  ... and {len(tokens) - _MAX_SHOWN} more"] if len(tokens) > _MAX_SHOWN else []
    if report.looks_like_end:
        out += [
            "",
            "Looks like an end of turn but is not one",
            *_rows((str(i), text, "") for i, text in report.looks_like_end),
        ]
    if report.sections:
        out += ["", "Chat template"]
        out += _rows((s.topic, f"{len(s.lines)} lines", f"line {s.lines[0]}: {s.first}") for s in report.sections)
    return "\n".join(out) + "\n"


def family_file(tokens: SpecialTokens, *, format: Mapping[str, Any] | None = None) -> str:
    """The text of a family file for this tokenizer, to be edited; unknown roles are written as comments.

    ``format`` is `Format.to_json()` if a format was inferred.
    """
    model = re.split(r"[/\\]", tokens.facts.name.rstrip("/\\"))[-1]  # without folders or owner
    name = re.sub(r"[^a-z0-9]+", "_", model.lower()).strip("_") or "my_family"
    signature = [token.text for token in tokens.added.values() if token.special and _is_distinctive(token.text)][:4]
    roles = {role: marker.text for role, marker in tokens.roles.items() if role not in _NOT_IN_FILE}
    missing = [role.value for role in Role if role not in tokens.roles and role not in _NOT_IN_FILE]
    out = [
        f"# The family of {model or 'this tokenizer'}, as `guided tokens` found it.",
        "# Check every line against the model card and the chat template, then put it into special_tokens/families/.",
        f"id = {_toml(name)}",
        f"ends = {_toml([end.text for end in tokens.ends])}",
        *(f"# looks like an end of turn but is not one: {t.text!r} ({t.id})" for t in tokens.looks_like_end),
        "",
        "[match]",
        f"tokens = {_toml(signature)}",
        "",
        "[roles]",
        *(f"{role.value} = {_toml(text)}" for role, text in roles.items()),
        *(f'# {role} = ""' for role in missing),
    ]
    if format is not None:
        out += _format_lines(format)
    return "\n".join(out) + "\n"


_NOT_IN_FILE = {Role.BOS, Role.EOS, Role.PAD, Role.UNK}


def _is_distinctive(text: str) -> bool:
    """Whether the token can identify a family; reserved and numbered tokens occur in many."""
    return not re.search(r"(?i)reserved|unused|place|special_\d|\d{2}", text)


def _format_lines(format: Mapping[str, Any]) -> list[str]:
    out: list[str] = []
    for key in ("reasoning", "content", "tool_calls", "ends", "inputs", "spelling"):
        values = {k: v for k, v in (format.get(key) or {}).items() if v not in (None, "", (), [], {})}
        if values:
            out += ["", f"[format.{key}]", *(f"{k} = {_toml(v)}" for k, v in values.items())]
    return out


def _toml(value: Any) -> str:
    """A value in TOML syntax; strings, lists and booleans are spelled as in JSON."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{k} = {_toml(v)}" for k, v in value.items() if v is not None) + " }"
    if isinstance(value, list | tuple):
        if value and all(isinstance(v, list | tuple) and len(v) == 2 and isinstance(v[0], str) for v in value):
            return _toml(dict(value))
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _id(token_id: int | None) -> str:
    return "plain text" if token_id is None else f"id {token_id}"


def _rows(rows: Iterable[tuple[str, str, str]]) -> list[str]:
    cells = list(rows)
    first, second = (max((len(row[i]) for row in cells), default=0) for i in (0, 1))
    return [f"  {a:<{first}}  {b:<{second}}  {c}".rstrip() for a, b, c in cells]
