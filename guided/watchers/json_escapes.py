"""The ways in which JSON can spell one text: ``\\n`` is ``\\u000a`` and ``\\u000A`` as well.

Strings are compared in one spelling, ``canonical``; what would write the rest of a string that was written before is
looked up in all its spellings.  Texts are bytes between quotes, as they stand in the answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache
from json.encoder import encode_basestring

__all__ = ["canonical", "decoded", "spellings", "unfinished"]

_PAIR = rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_OTHERS = re.compile(_PAIR + rb"|\\u[0-9a-fA-F]{4}|\\[^u]|\x7f", re.DOTALL)
_UNITS = re.compile(rb"\\u[0-9a-f]{4}|\\.|[^\\]+", re.DOTALL)


def canonical(text: bytes) -> bytes:
    """The one spelling of what ``text`` spells; an escape that is not finished stays as it is, at the end."""
    if b"\\" not in text and b"\x7f" not in text:
        return text
    return _OTHERS.sub(lambda found: _canonical_unit(found[0]), text)


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
    """What ``text`` spells."""
    if b"\\" in text:
        try:
            return str(json.loads(b'"%s"' % text, strict=False))
        except ValueError:
            pass
    return text.decode("utf-8", "replace")


def unfinished(text: bytes) -> bytes:
    """The escape that ``text`` ends in the middle of; empty where it does not."""
    if b"\\" not in text[-5:]:
        return b""
    rest = _OTHERS.sub(b"", text)
    at = rest.find(b"\\")
    return rest[at:] if at >= 0 else b""


def spellings(rest: bytes, begun: bytes, may_be: Callable[[bytes], bool]) -> list[bytes]:
    """How ``rest``, which is canonical, can be written where its first escape has ``begun`` already.

    Of spellings that begin alike as far as ``may_be`` follows them, none goes further: there may be very many.
    """
    if not begun and b"\\" not in rest:
        return [rest]
    if not rest:
        return []
    done: list[bytes] = []
    ways = [b""]
    for unit in _UNITS.findall(rest):
        units = _ways(unit)
        if begun:
            units = tuple(way[len(begun) :] for way in units if way.startswith(begun))
            begun = b""
        longer = dict.fromkeys(way + more for way in ways for more in units)
        ways = [way for way in longer if may_be(way)]
        done += [way for way in longer if not may_be(way)]
        if not ways:
            return done
    return done + ways


@lru_cache(maxsize=512)
def _ways(unit: bytes) -> tuple[bytes, ...]:
    """All spellings of one canonical unit."""
    if not unit.startswith(b"\\"):
        return (unit,)
    code = ord(json.loads(b'"%s"' % unit))
    ways = [unit, b"\\u%04x" % code, b"\\u%04X" % code]
    if code == 0x7F:
        ways.append(b"\x7f")
    return tuple(dict.fromkeys(ways))
