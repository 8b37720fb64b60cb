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

__all__ = ["expand_path", "load_format", "load_json", "parse_json", "read_text", "resolve_model"]

_PYTHON_NAME = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_HUB_NAME = re.compile(r"(?:\w[\w.-]*/)?\w[\w.-]*")
_FILE_SUFFIXES = (".json", ".jinja", ".jinja2", ".j2", ".gguf", ".safetensors")


def resolve_model(value: str | None) -> str | None:
    """Return the path of a model's folder or file if it exists, else ``value`` as a name on the hub; None stays None.

    Raises `ModelError` for a value that can only be a path and does not exist; the hub is not asked for it.
    """
    if value is None:
        return None
    path = expand_path(value)
    if path.exists():
        return str(path)
    if _HUB_NAME.fullmatch(value) and not value.endswith(_FILE_SUFFIXES):
        return value
    raise ModelError(f"no such file or folder: {shown(str(path))}", place="model",
                     expected="a folder, a file in it, or a name like owner/name")  # fmt: skip


def expand_path(value: str | Path) -> Path:
    """Return the path with ``~`` expanded."""
    try:
        return Path(value).expanduser()
    except RuntimeError as error:
        raise RequestError(str(error), place=str(value), expected="the path of a file or folder") from None


def load_format(value: str, place: str) -> Any:
    """Return the response format that ``value`` names: a type as ``module:Class``, else a JSON schema (`load_json`)."""
    if not _PYTHON_NAME.fullmatch(value) or expand_path(value).exists():
        return guided.JsonSchema(load_json(value, place))
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


def load_json(value: str, place: str) -> Any:
    """Return a JSON value: that of ``value`` itself, of the file with this path, or of standard input for ``-``.

    ``true``, ``false`` and what begins with a brace or a bracket are JSON; all else is a path.
    """
    looks_like_json = value.lstrip()[:1] in ("{", "[") or value in ("true", "false")
    return parse_json(value if looks_like_json else read_text(value, place), place)


def parse_json(text: str, place: str) -> Any:
    """Return the value of a JSON text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"not JSON: {error}", place=place, expected="JSON, or the path of a JSON file") from None


def read_text(value: str | Path, place: str) -> str:
    """Return the text of a file, or of standard input for ``-``.  Standard input can be read by one option only."""
    try:
        if str(value) != "-":
            return expand_path(value).read_text(encoding="utf-8-sig")  # -sig drops a byte order mark
        text = sys.stdin.read()
    except UnicodeDecodeError as error:
        raise RequestError(f"not UTF-8: {error}", place=f"{place} {value}", expected="text in UTF-8") from None
    except OSError as error:
        raise RequestError(f"cannot read the file: {error.strerror or error}", place=f"{place} {value}",
                           expected="a text file") from None  # fmt: skip
    if not text:
        raise RequestError("standard input is empty", place=place, hint="it can be read by one option only")
    return text
