"""Resolve the files, Python types and models that a command line names, before any model is loaded."""

from __future__ import annotations

import json
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import guided
from special_tokens.errors import ModelError, RequestError, shown

__all__ = ["format_of", "json_of", "model_of", "parsed_json", "path_of", "text_of"]

_PYTHON_NAME = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_HUB_NAME = re.compile(r"(?:\w[\w.-]*/)?\w[\w.-]*")
_FILES = (".json", ".jinja", ".jinja2", ".j2", ".gguf", ".safetensors")


def model_of(value: str | None) -> str | None:
    """Return the path of a model's folder or file if it exists, else ``name`` as a name on the hub.

    Raises `ModelError` for a name that can only be a path and does not exist; the hub is not asked for it.
    """
    if value is None or (_HUB_NAME.fullmatch(value) and not value.endswith(_FILES) and not Path(value).exists()):
        return value
    path = path_of(value)
    if path.exists():
        return str(path)
    raise ModelError(
        f"there is no {shown(str(path))}", place="model", expected="a folder, a file in it, or a name like owner/name"
    )


def path_of(value: str | Path) -> Path:
    """Return the path with ``~`` expanded."""
    try:
        return Path(value).expanduser()
    except RuntimeError as error:
        raise RequestError(str(error), place=str(value)) from None


def format_of(value: str, place: str) -> Any:
    """Return the response format that ``value`` names: a type as ``module:Class``, or a JSON schema (see `json_of`)."""
    if not _PYTHON_NAME.fullmatch(value) or path_of(value).exists():
        return guided.JsonSchema(json_of(value, place))
    module, _, name = value.partition(":")
    sys.path.insert(0, "")  # as `python -m` does: modules of the current folder come first
    try:
        target: Any = import_module(module)
        for part in name.split("."):
            target = getattr(target, part)
    except Exception as error:  # a module may raise anything
        raise RequestError(
            f"cannot import {value}: {type(error).__name__}: {error}", place=place, expected="module:Class"
        ) from error
    finally:
        sys.path.remove("")
    return target


def json_of(value: str, place: str) -> Any:
    """Return the value of JSON text, of the JSON file with this path, or of standard input for ``-``."""
    looks_like_json = value.lstrip()[:1] in ("{", "[") or value in ("true", "false")
    return parsed_json(value if looks_like_json else text_of(value, place), place)


def parsed_json(text: str, place: str) -> Any:
    """Return the value of a JSON text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"not JSON: {error}", place=place, expected="a JSON file, or JSON") from None


def text_of(value: str | Path, place: str) -> str:
    """Return the text of a file, or of standard input for ``-``, which can be read only once."""
    try:
        if str(value) != "-":
            return path_of(value).read_text(encoding="utf-8-sig")  # a byte order mark is none of the text
        text = sys.stdin.read()
    except UnicodeDecodeError as error:
        raise RequestError(f"not UTF-8: {error}", place=f"{place} {value}") from None
    except OSError as error:
        raise RequestError(f"cannot read it: {error.strerror or error}", place=f"{place} {value}") from None
    if not text:
        raise RequestError("standard input is empty", place=place, hint="it can be read for one option alone")
    return text
