"""The trace of one answer: for each token, the legal tokens, those that the model preferred, and the chosen one.

A trace is a record with a page: `Trace.to_html` is one HTML file that loads no script, style or font from elsewhere.
`guided.inspect.trace` builds traces.
"""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from special_tokens.errors import RequestError, shown

__all__ = ["TokenTrace", "Trace", "check_writable"]


@dataclass(frozen=True, slots=True)
class TokenTrace:
    """One token.

    ``region`` is the part of the answer in which it begins, ``marker`` for the markers between parts and what frames
    them, ``end`` for an end of turn.  ``probability`` is the model's own, ``masked`` the one after mask, bias and
    penalties, ``removed`` the model's own probability of all that was not legal; ``top`` and ``top_masked`` are the
    best tokens before and after, as (text, probability).  ``events`` are sentences: stops, budgets, ends, errors.
    ``in_run``: it was not sampled, but fed together with the token before it (a forced run).  ``seconds`` since the
    token before it was chosen; those of the first include the prompt's.
    """

    token_id: int
    text: str
    region: str
    num_allowed: int
    forced: bool
    overridden: bool
    probability: float
    masked: float
    removed: float = 0.0
    top: tuple[tuple[str, float], ...] = ()
    top_masked: tuple[tuple[str, float], ...] = ()
    events: tuple[str, ...] = ()
    in_run: bool = False
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Trace:
    """All tokens of one answer, with the text of the prompt and the name of the model."""

    tokens: tuple[TokenTrace, ...]
    vocab_size: int
    prompt_tokens: int = 0
    cached_tokens: int = 0
    finish_reason: str = ""
    stop_reason: str | int | None = None
    lark: str = field(default="", repr=False)
    model: str = ""
    prompt: str = field(default="", repr=False)

    def of_run(self, seconds: Sequence[float], model: str, prompt: str) -> Trace:
        """Return the trace with the seconds of each token, the model's name and the prompt's text."""
        tokens = tuple(replace(token, seconds=s) for token, s in zip(self.tokens, seconds, strict=False))
        return replace(self, tokens=tokens, model=model, prompt=prompt)

    def to_dict(self) -> dict[str, Any]:
        """Return the trace as JSON values."""
        return asdict(self)

    def to_html(self) -> str:
        """Return one HTML page that loads nothing from elsewhere."""
        page = files("guided.output").joinpath("trace.html").read_text(encoding="utf-8")
        parts = {
            "tokens": "".join(_span(i, token) for i, token in enumerate(self.tokens)),
            "data": _script_safe(_data(self)),
        }
        return re.sub(r"\{\{(\w+)\}\}", lambda slot: parts[slot[1]], page)

    def write(self, path: str | Path) -> Path:
        """Write the page to ``path``, or with the suffix ``.json`` all that it shows.

        Raises `RequestError` when that cannot be done.
        """
        is_data = Path(path).suffix == ".json"
        try:
            Path(path).write_text(json.dumps(self.to_dict()) if is_data else self.to_html(), encoding="utf-8")
        except OSError as error:
            raise _unwritable(path, "trace", error.strerror or str(error)) from error
        return Path(path)


# -- the page


def _span(number: int, token: TokenTrace) -> str:
    classes = [f"r-{token.region.replace('_', '-')}"]
    classes += (
        ["run"] * token.in_run
        + ["forced"] * token.forced
        + ["over"] * token.overridden
        + ["event"] * bool(token.events)
    )
    bar = f"--p:{token.probability * 100:.0f}%"
    return f'<span class="t {" ".join(classes)}" data-i="{number}" style="{bar}">{_visible(token.text)}</span>'


def _visible(text: str) -> str:
    """A token's text with its line breaks and blanks made visible, as HTML."""
    out = html.escape(text).replace("\r", "␍").replace("\t", "⇥\t")
    if not text.strip(" "):
        out = out.replace(" ", "·")
    return out.replace("\n", '<i class="nl">⏎</i>\n') or "∅"


def _data(trace: Trace) -> dict[str, Any]:
    """Return what the page's script shows; a token is a list of its fields: a long answer has thousands of tokens."""
    return {**replace(trace, tokens=()).to_dict(), "tokens": [_rounded(astuple(token)) for token in trace.tokens]}


def _rounded(value: Any) -> Any:
    """Return a field's value with at most five decimals."""
    if isinstance(value, tuple):
        return [_rounded(inner) for inner in value]
    return round(value, 5) if isinstance(value, float) else value


def _script_safe(value: Any) -> str:
    """JSON that may stand inside a script element: nothing in it can close the element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def check_writable(path: str | Path, place: str) -> Path:
    """Raise `RequestError`, naming ``place``, when a file could not be written to ``path`` after long work."""
    target = Path(path)
    folder = target.parent if str(target.parent) else Path()
    if target.is_dir():
        raise _unwritable(path, place, "it is a folder")
    if not folder.is_dir():
        raise _unwritable(path, place, f"there is no folder {shown(str(folder))}")
    if not os.access(target if target.exists() else folder, os.W_OK):
        raise _unwritable(path, place, "permission denied")
    return target


def _unwritable(path: str | Path, place: str, why: str) -> RequestError:
    """Return the error for a file that cannot be written."""
    return RequestError(
        f"cannot write {shown(str(path))}: {why}", place=place, expected="a file name in a folder that can be written"
    )
