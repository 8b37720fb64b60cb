"""The raw data of one tokenizer from which the registry is built: plain records, no tokenizer object.

`TokenizerFacts` is filled from a tokenizer (`guided.hf.model.tokenizer`) or from a ``tokenizer_config.json`` alone
(`facts_from_config`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from special_tokens.errors import TemplateError, TokenizerError

__all__ = ["AddedToken", "TokenizerFacts", "facts_from_config", "json_object", "template_of"]


@dataclass(frozen=True, slots=True)
class AddedToken:
    """An added token; ``special`` is the tokenizer's flag (``skip_special_tokens`` drops such tokens when decoding)."""

    id: int
    text: str
    special: bool

    @property
    def is_marker(self) -> bool:
        """Whether llguidance treats it as a special token, which free text never contains.

        llguidance 1.9.1 does so for tokens flagged special and for tokens spelled ``<...>``, whatever their flag.
        """
        return self.special or (self.text.startswith("<") and self.text.endswith(">") and len(self.text) > 2)


@dataclass(frozen=True, slots=True)
class TokenizerFacts:
    """The input of `SpecialTokens`.

    ``vocab_size`` is the largest token id plus one (not ``len(tokenizer)``: some ids are unused); ``logits_size`` is
    the width of the model's logits, None if no model is known; ``named`` maps the tokenizer's named tokens
    (``eos_token`` ...) to their texts; ``generation_eos`` and ``config_eos`` are the eos ids of the two config files.
    """

    added: tuple[AddedToken, ...]
    vocab_size: int
    logits_size: int | None = None
    named: Mapping[str, str] = field(default_factory=dict)
    generation_eos: tuple[int, ...] = ()
    config_eos: tuple[int, ...] = ()
    chat_template: str = ""
    name: str = ""
    #: exact text -> id of the entry of the base vocabulary with this text, or None
    lookup: Callable[[str], int | None] = field(default=lambda text: None, compare=False, repr=False)


def facts_from_config(path: str | Path) -> TokenizerFacts:
    """Read the facts from a ``tokenizer_config.json`` alone: added and named tokens and the chat template.

    The base vocabulary stays unknown.  Raises `TokenizerError` if the file lists no added tokens.
    """
    path = Path(path)
    config = json_object(path)
    listed = config.get("added_tokens_decoder")
    if not isinstance(listed, dict) or not listed:
        raise TokenizerError(
            "the file lists no added tokens",
            place=str(path),
            expected="a tokenizer_config.json with added_tokens_decoder",
            hint="pass the folder with its tokenizer.json",
        )
    added = tuple(
        AddedToken(int(i), entry["content"], bool(entry.get("special", False)))
        for i, entry in sorted(listed.items(), key=lambda item: int(item[0]))
    )
    return TokenizerFacts(
        added=added,
        vocab_size=added[-1].id + 1,
        named=_named(config),
        chat_template=_template(config.get("chat_template")),
        name=path.parent.name,
    )


def template_of(path: Path) -> str:
    """Read the file of a chat template; raises `TemplateError` if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        message = f"byte {error.start} is not valid UTF-8"
        raise TemplateError(message, place=str(path), expected="text in UTF-8") from None
    except OSError as error:
        raise TemplateError(f"cannot read it: {error.strerror}", place=str(path), expected="a text file") from None


def json_object(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file, {} where there is no file; raises `TokenizerError`."""
    if not path.is_file():
        return {}
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise TokenizerError(f"not valid JSON: {error}", place=str(path), expected="a JSON object") from None
    if not isinstance(data, dict):
        raise TokenizerError(f"JSON of type {type(data).__name__}", place=str(path), expected="a JSON object")
    return data


def _template(value: Any) -> str:
    """The chat template; of several named ones that for tools, because it shows how calls are written."""
    if isinstance(value, list):
        named = {entry.get("name"): entry.get("template") for entry in value if isinstance(entry, dict)}
        value = named.get("tool_use") or named.get("default")
    return value if isinstance(value, str) else ""


def _named(config: Mapping[str, Any]) -> dict[str, str]:
    out = {}
    for key, value in config.items():
        if not key.endswith("_token"):
            continue
        text = value.get("content") if isinstance(value, dict) else value
        if isinstance(text, str):
            out[key] = text
    return out
