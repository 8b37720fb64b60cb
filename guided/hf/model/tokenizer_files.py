"""A tokenizer and a model's two configurations, read from the files of a folder without torch and transformers.

`TokenizerFiles` has what the rest of this room reads off a transformers tokenizer, by the same names.  The tests hold
it equal to what transformers loads from the same files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

from tokenizers import AddedToken, Tokenizer

from guided.hf.model.renderers import template_renderer
from guided.hf.model.tokenizer import NAMED
from special_tokens.errors import TemplateError, TokenizerError
from special_tokens.facts import json_object

__all__ = ["HUB_FILES", "TokenizerFiles", "configurations", "is_readable"]

#: The files of a model that are read here.
HUB_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "additional_chat_templates/*.jinja",
    "config.json",
    "generation_config.json",
)


def is_readable(folder: Path) -> bool:
    """Whether the folder has the files of a fast tokenizer.  Others are loaded by transformers."""
    return (folder / "tokenizer.json").is_file() and (folder / "tokenizer_config.json").is_file()


class TokenizerFiles:
    """The tokenizer of a folder: its backend, added and named tokens, and chat templates.

    Raises `TokenizerError` for files that are damaged.
    """

    def __init__(self, folder: Path, name: str | None = None) -> None:
        self.name_or_path = name or str(folder)
        config = json_object(folder / "tokenizer_config.json")
        listed = config.get("added_tokens_decoder")
        if listed is None:  # as older versions of transformers saved them
            config |= json_object(folder / "special_tokens_map.json")
        roles = dict.fromkeys((*NAMED, *(key for key in config if key.endswith("_token"))))
        named = {key: text for key in roles if (text := _text(config.get(key)))}
        extra = config.get("extra_special_tokens") or config.get("additional_special_tokens") or ()
        if isinstance(extra, Mapping):
            named |= {key: text for key, value in extra.items() if (text := _text(value))}
            extra = ()
        self.named = named
        self.chat_template = _templates(folder, config.get("chat_template"))
        try:
            self.backend_tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as error:  # the library raises bare exceptions
            place = str(folder / "tokenizer.json")
            raise TokenizerError(f"the tokenizers library cannot read it: {error}", place=place,
                                 hint="save_pretrained() the tokenizer again") from None  # fmt: skip
        self._add(listed or {}, json_object(folder / "added_tokens.json") if listed is None else {}, extra)

    def _add(self, listed: Mapping[str, Any], older: Mapping[str, int], extra: Sequence[Any]) -> None:
        """Add the tokens that only the other files have; those with a special role are special."""
        special = dict.fromkeys((*self.named.values(), *(text for token in extra if (text := _text(token)))))
        tokens = [AddedToken(**_fields(value)) for _, value in sorted(listed.items(), key=lambda entry: int(entry[0]))]
        tokens += [AddedToken(text, special=text in special) for text, _ in sorted(older.items(), key=lambda e: e[1])]
        added = {repr(token) for token in self.added_tokens_decoder.values()}
        self.backend_tokenizer.add_tokens([token for token in tokens if repr(token) not in added])
        added = {token.content for token in self.added_tokens_decoder.values() if token.special}
        self.backend_tokenizer.add_special_tokens(
            [AddedToken(text, special=True, normalized=False) for text in special if text not in added]
        )

    @property
    def added_tokens_decoder(self) -> dict[int, AddedToken]:
        return dict(self.backend_tokenizer.get_added_tokens_decoder())

    def __getattr__(self, name: str) -> str | None:
        if name in NAMED:
            return self.named.get(name)
        raise AttributeError(name)

    def apply_chat_template(
        self, messages: Sequence[Mapping[str, Any]], *, tokenize: Literal[False], **kwargs: Any
    ) -> str:
        """Return the text that the chat template writes; raise what it raises, as `TemplateError`."""
        if not messages:
            raise TemplateError("the list is empty", place="messages", expected="at least one message")
        template = self.chat_template
        if isinstance(template, Mapping):
            template = template["tool_use" if kwargs.get("tools") is not None and "tool_use" in template else "default"]
        given = [{key: value for key, value in message.items() if value is not None} for message in messages]
        return template_renderer(str(template), self.named)(given, **kwargs)


def configurations(folder: Path) -> SimpleNamespace:
    """Return ``config`` and ``generation_config`` of a folder, with the fields that guided reads; None where absent."""
    config, generation = json_object(folder / "config.json"), json_object(folder / "generation_config.json")
    text = config.get("text_config") or {}
    made = SimpleNamespace(
        vocab_size=text.get("vocab_size", config.get("vocab_size")),
        eos_token_id=config.get("eos_token_id", text.get("eos_token_id")),
    )
    return SimpleNamespace(
        config=made if config else None,
        generation_config=SimpleNamespace(eos_token_id=generation.get("eos_token_id")) if generation else None,
    )


def _text(value: Any) -> str:
    """The text of a token that is given as such or with its settings."""
    value = value.get("content") if isinstance(value, dict) else value
    return value if isinstance(value, str) else ""


def _fields(value: Mapping[str, Any]) -> dict[str, Any]:
    names = ("content", "single_word", "lstrip", "rstrip", "normalized", "special")
    return {name: value[name] for name in names if name in value}


def _templates(folder: Path, value: Any) -> str | dict[str, str] | None:
    """The chat template, or several by name; files of their own come before the entry of the configuration."""
    files = {"default": folder / "chat_template.jinja"}
    files |= {path.stem: path for path in sorted((folder / "additional_chat_templates").glob("*.jinja"))}
    templates = {name: path.read_text(encoding="utf-8") for name, path in files.items() if path.is_file()}
    if not templates and isinstance(value, list):
        return {entry["name"]: entry["template"] for entry in value}
    return (templates["default"] if list(templates) == ["default"] else templates) if templates else value
