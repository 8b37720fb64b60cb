"""The escaped forms of a JSON string: ``\\n`` can also be written ``\\u000a`` and ``\\u000A``.

Strings are compared in one form, `canonical`; tokens that would complete an earlier string are looked up in all its
escaped forms.  Texts are the bytes between the quotes, as the answer has them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache
from json.encoder import encode_basestring

__all__ = ["canonical", "decoded", "escaped_forms", "split_escape", "unfinished_escape"]

_PAIR = rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_OTHERS = re.compile(_PAIR + rb"|\\u[0-9a-fA-F]{4}|\\[^u]|\x7f", re.DOTALL)
_UNITS = re.compile(rb"\\u[0-9a-f]{4}|\\.|[^\\]+", re.DOTALL)


def canonical(text: bytes) -> bytes:
    """Return the canonical form of ``text``; an unfinished escape at its end is left as it is."""
    if b"\\" not in text and b"\x7f" not in text:
        return text
    return _OTHERS.sub(lambda match: _canonical_unit(match[0]), text)


@lru_cache(maxsize=512)
def _canonical_unit(unit: bytes) -> bytes:
    try:
        char = "\x7f" if unit == b"\x7f" else json.loads(b'"%s"' % unit)
    except ValueError:
        return unit
    if char == "\x7f" or 0xD800 <= ord(char) < 0xE000:
        return b"\\u%04x" % ord(char)
    return encode_basestring(char)[1:-1].encode()


def decoded(text: bytes) -> str:
    """Return the string that ``text`` stands for."""
    if b"\\" in text:
        try:
            return str(json.loads(b'"%s"' % text, strict=False))
        except ValueError:
            pass
    return text.decode("utf-8", "replace")


def unfinished_escape(text: bytes) -> bytes:
    """Return the unfinished escape at the end of ``text``; empty if there is none."""
    if b"\\" not in text[-5:]:
        return b""
    tail = _OTHERS.sub(b"", text)
    at = tail.find(b"\\")
    return tail[at:] if at >= 0 else b""


def split_escape(text: bytes) -> tuple[bytes, bytes]:
    """Return the canonical form of ``text`` without the unfinished escape at its end, and that escape."""
    if b"\\" not in text and b"\x7f" not in text:
        return text, b""
    begun = unfinished_escape(text)
    return canonical(text).removesuffix(begun), begun


def escaped_forms(text: bytes, begun: bytes, has_token: Callable[[bytes], bool]) -> list[bytes]:
    """Return the ways to write ``text`` (canonical), of whose first escape ``begun`` is written already.

    A form ends where ``has_token`` says that no token begins like it: there may be very many.
    """
    if not begun and b"\\" not in text:
        return [text]
    if not text:
        return []
    done: list[bytes] = []
    ways = [b""]
    for unit in _UNITS.findall(text):
        units = _ways(unit)
        if begun:
            units = tuple(way[len(begun) :] for way in units if way.startswith(begun))
            begun = b""
        longer = dict.fromkeys(way + more for way in ways for more in units)
        ways = [way for way in longer if has_token(way)]
        done += [way for way in longer if not has_token(way)]
        if not ways:
            return done
    return done + ways


@lru_cache(maxsize=512)
def _ways(unit: bytes) -> tuple[bytes, ...]:
    """Return all ways to write one canonical character."""
    if not unit.startswith(b"\\"):
        return (unit,)
    code = ord(json.loads(b'"%s"' % unit))
    ways = [unit, b"\\u%04x" % code, b"\\u%04X" % code]
    if code == 0x7F:
        ways.append(b"\x7f")
    return tuple(dict.fromkeys(ways))
