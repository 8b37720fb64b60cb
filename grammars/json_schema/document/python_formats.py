"""String formats of Python types, as pydantic names them, and those of times with an optional or without a zone.

They are in no draft of JSON Schema, and validators take any string for them.  A string of the pattern is one that
pydantic reads as the type; the outer pattern is any string, as it is for validators.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

__all__ = ["python_patterns", "url_pattern"]

_PLAIN_JSON = '(?:null|true|false|-?(?:0|[1-9][0-9]{0,18})(?:\\.[0-9]{1,6})?|"[^"\\\\\\u0000-\\u001f]*")'
_LIST = f"\\[(?:{_PLAIN_JSON}(?:, ?{_PLAIN_JSON})*)?\\]"
_MEMBER = f'"[^"\\\\\\u0000-\\u001f]*": ?(?:{_PLAIN_JSON}|{_LIST})'
_LABEL = "[a-z](?:[a-z0-9]{0,30}|[a-z0-9]{0,15}-[a-z0-9]{1,15})"
_WORD = "[A-Za-z0-9._~-]"


def url_pattern(schemes: Iterable[str]) -> str:
    """Addresses that every reader takes: plain letters, hosts by name, ports of at most 4 digits."""
    path = f"(?:/{_WORD}*)*(?:\\?[A-Za-z0-9._~=&/-]*)?(?:#{_WORD}*)?"
    host = f"(?:{_LABEL}\\.){{0,6}}[a-z][a-z0-9]{{0,30}}(?::[0-9]{{1,4}})?"
    hosted = [re.sub(r"([+.])", r"\\\1", scheme) for scheme in schemes if scheme != "file"]
    lead = [f"(?:{'|'.join(hosted)})://{host}"] if hosted else []
    return f"(?:{'|'.join([*lead, 'file:///'] if len(hosted) < len([*schemes]) else lead)}){path}"


def _network_octets() -> Iterator[str]:
    """The addresses of IPv4 networks with their lengths: all bits after the length are zero."""
    octet = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
    yield "0\\.0\\.0\\.0/0"
    for before in range(4):
        head, tail = f"{octet}\\." * before, "\\.0" * (3 - before)
        for bits in range(1, 9):
            values = "|".join(map(str, range(0, 256, 1 << (8 - bits))))
            yield f"{head}(?:{values}){tail}/{8 * before + bits}"


def _network_groups() -> Iterator[str]:
    """IPv6 networks of whole groups: ``2001:db8::/32``."""
    group = "[0-9a-fA-F]{1,4}"
    yield "::/0"
    for count in range(1, 8):
        yield f"{group}(?::{group}){{{count - 1}}}::/{16 * count}"
    yield f"{group}(?::{group}){{6}}:0/112|{group}(?::{group}){{7}}(?:/128)?"


def _base64(signs: str) -> str:
    """Base64 with padding; bits that no byte holds are zero."""
    any_sign = f"[A-Za-z0-9{signs}]"
    return f"(?:{any_sign}{{4}})*(?:{any_sign}[AQgw]==|{any_sign}{{2}}[AEIMQUYcgkosw048]=)?"


def _ascii_base64(signs: str) -> str:
    """The pattern of Base64 of ASCII text; ``signs`` are the last two of the alphabet, as in a character class."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789" + signs.replace("\\", "")

    def without(*bits: int) -> str:
        letters = (char for i, char in enumerate(alphabet) if not any(i & bit for bit in bits))
        return f"[{''.join(letters).replace('-', chr(92) + '-')}]"

    first, second, third = without(32), without(8), without(2)  # the top bits of the three bytes
    ends = f"{first}[AQgw]==|{first}{second}{without(1, 2)}="
    return f"(?:{first}{second}{third}[A-Za-z0-9{signs}])*(?:{ends})?"


def _patterns(date: str, clock: str, offset: str, ipv4: str, ipv6: str) -> Iterator[tuple[str, str, str]]:
    uuid = "[0-9a-fA-F]{{8}}-[0-9a-fA-F]{{4}}-{}[0-9a-fA-F]{{3}}-[89abAB][0-9a-fA-F]{{3}}-[0-9a-fA-F]{{12}}"
    for version in range(1, 9):
        yield f"uuid{version}", uuid.format(version), "only the variant of RFC 9562 is written"
    yield "iso-date-time", f"{date}T{clock}(?:{offset})?", "no leap second (:60)"
    yield "local-date-time", f"{date}T{clock}", "no leap second (:60)"
    yield "iso-time", f"{clock}(?:{offset})?", "no leap second (:60)"
    yield "local-time", clock, "no leap second (:60)"
    second = "(?:[0-9]{1,4}(?:\\.[0-9]{1,6})?S)"
    time = f"T(?:[0-9]{{1,4}}H(?:[0-9]{{1,4}}M)?{second}?|[0-9]{{1,4}}M{second}?|{second})"
    days = "(?:[0-9]{1,6}Y)?(?:[0-9]{1,4}M)?[0-9]{1,8}D|(?:[0-9]{1,6}Y)?[0-9]{1,4}M|[0-9]{1,6}Y|[0-9]{1,7}W"
    yield "timedelta", f"-?P(?:(?:{days})(?:{time})?|{time})", "at most 8 digits of days, 6 of years, 4 of other units"
    octets, groups = "|".join(_network_octets()), "|".join(_network_groups())
    interface4, interface6 = f"{ipv4}(?:/(?:[12]?[0-9]|3[0-2]))?", f"{ipv6}(?:/(?:[1-9]?[0-9]|1[01][0-9]|12[0-8]))?"
    yield "ipvanyaddress", f"{ipv4}|{ipv6}", ""
    yield "ipv4interface", interface4, ""
    yield "ipv6interface", interface6, ""
    yield "ipvanyinterface", f"{interface4}|{interface6}", ""
    whole = "networks of IPv6 are written in whole groups"
    yield "ipv4network", f"{octets}|{ipv4}", ""
    yield "ipv6network", groups, whole
    yield "ipvanynetwork", f"{octets}|{groups}", whole
    yield "base64", _base64("+/"), ""
    yield "base64url", _base64("\\-_"), ""
    yield "base64-ascii", _ascii_base64("+/"), ""
    yield "base64url-ascii", _ascii_base64("\\-_"), ""
    yield "decimal", "-?(?:0|[1-9][0-9]{0,39})(?:\\.[0-9]{1,40})?", "at most 40 digits on each side of the point"
    yield "json-string", f"{_PLAIN_JSON}|{_LIST}|\\{{(?:{_MEMBER}(?:, ?{_MEMBER})*)?\\}}", "no escapes, little depth"
    yield "http-url", url_pattern(("http", "https")), "addresses of plain letters, with a host by name"


def python_patterns(date: str, clock: str, offset: str, ipv4: str, ipv6: str) -> Mapping[str, tuple[str, str]]:
    """Format -> (pattern, what it leaves out), from the patterns of the standard formats that they are made of."""
    return {name: (f"(?:{pattern})", reason) for name, pattern, reason in _patterns(date, clock, offset, ipv4, ipv6)}
