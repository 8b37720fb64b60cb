"""Model families as data: one TOML file per family under ``families/``.

A family file states what rendering the chat template cannot show; for everything else it is the last evidence that is
used.  Its sections are documented in ``docs/families.md``; `grammars.formats` reads the section ``format``.
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
    """The contents of one family file.

    A tokenizer belongs to the family if all of ``signature`` are added tokens and all of ``template_has`` occur in
    the chat template.  ``roles`` maps roles to marker texts; ``ends`` and ``not_ends`` are marker texts;
    ``plain_markers`` allows markers to be written as plain text if the tokenizer has no such token.
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
    """Parse the text of a family file; raises `ModelError` naming the place and the problem."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ModelError(f"not valid TOML: {error}", place=place, expected="a family as TOML") from None
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
    """All families that ship with the package, sorted by file name."""
    folder = resources.files("special_tokens") / "families"
    files = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".toml")), key=lambda e: e.name)
    return tuple(load_family(entry.read_text(encoding="utf-8"), place=entry.name) for entry in files)


def match_family(added: Collection[str], template: str) -> Family | None:
    """Return the matching family with the most evidence, or None.

    If ``added`` is empty (no vocabulary known), the signature is searched in the template.
    """
    matching = [
        family
        for family in families()
        if (family.signature or family.template_has)
        and all(text in (added or template) for text in family.signature)
        and all(text in template for text in family.template_has)
    ]
    return max(matching, key=lambda f: (len(f.signature) + len(f.template_has), f.id), default=None)
