"""What is known of model families, as data: one TOML file a family under ``families/``.

A family file is the last resort for everything that a template's own rendering can show, and the only place for
what it cannot.  Its sections are documented in ``docs/special_tokens.md``; `grammars.formats` reads ``format``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from special_tokens.errors import ModelError, shown
from special_tokens.roles import Role

__all__ = ["Family", "families", "load_family", "match_family"]


@dataclass(frozen=True, slots=True)
class Family:
    """One family file.

    ``signature`` lists added tokens that must all be there; ``template_has`` strings that must all stand in the
    chat template.  ``roles`` maps roles to marker text, ``ends`` and ``not_ends`` are marker texts, and
    ``plain_markers`` says that markers may be written as plain text where the tokenizer has no such token.
    """

    id: str
    signature: tuple[str, ...] = ()
    template_has: tuple[str, ...] = ()
    roles: Mapping[Role, str] = field(default_factory=dict)
    ends: tuple[str, ...] = ()
    not_ends: tuple[str, ...] = ()
    plain_markers: bool = False
    format: Mapping[str, Any] = field(default_factory=dict)
    notes: str = ""


_KEYS = {"id", "match", "roles", "ends", "not_ends", "plain_markers", "format", "notes"}


def load_family(text: str, *, place: str) -> Family:
    """A family from the text of its TOML file; raises `ModelError` naming what is wrong where."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ModelError(f"not valid TOML: {error}", place=place) from None
    unknown = sorted(set(data) - _KEYS)
    if unknown:
        raise ModelError(f"unknown key {shown(unknown[0])}", place=place, expected=", ".join(sorted(_KEYS)))
    if not isinstance(data.get("id"), str):
        raise ModelError("the family has no id", place=place, expected='id = "name"')
    try:
        roles = {Role(role): marker for role, marker in data.get("roles", {}).items()}
    except ValueError as error:
        raise ModelError(str(error), place=f"{place} [roles]", expected=", ".join(Role)) from None
    match = data.get("match", {})
    return Family(
        id=data["id"],
        signature=tuple(match.get("tokens", ())),
        template_has=tuple(match.get("template", ())),
        roles=roles,
        ends=tuple(data.get("ends", ())),
        not_ends=tuple(data.get("not_ends", ())),
        plain_markers=bool(data.get("plain_markers", False)),
        format=data.get("format", {}),
        notes=data.get("notes", ""),
    )


@cache
def families() -> tuple[Family, ...]:
    """All shipped families, by id."""
    folder = resources.files("special_tokens") / "families"
    files = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".toml")), key=lambda e: e.name)
    return tuple(load_family(entry.read_text(encoding="utf-8"), place=entry.name) for entry in files)


def match_family(added: Collection[str], template: str) -> Family | None:
    """The family whose evidence is all there and is the most; None when there is none.

    Where there is no vocabulary, a signature is looked for in the template.
    """
    fitting = [
        family
        for family in families()
        if (family.signature or family.template_has)
        and all(text in (added or template) for text in family.signature)
        and all(text in template for text in family.template_has)
    ]
    return max(fitting, key=lambda f: (len(f.signature) + len(f.template_has), f.id), default=None)
