"""The string formats of JSON Schema as regular languages, each after the RFC that the specification names.

If the RFC has rules that no regular language can check, the pattern is the largest safe subset that can be checked
(``narrowed``): a format is never wider than its RFC.  A negated format must not be wider either, so such a row also
has an outer pattern, wider than the RFC and than the checkers we know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from grammars.json_schema.document.dialects import Dialect
from grammars.json_schema.document.python_formats import python_patterns
from grammars.regular.syntax.ecma import language
from grammars.regular.terms import Regular
from grammars.values.report import Outcome

__all__ = ["ANY_TEXT", "FORMATS", "StringFormat", "later_format_reason", "unknown_format_reason"]

#: Formats by which pydantic and OpenAPI say what a text is for; any text is of them.
ANY_TEXT = frozenset({"binary", "directory-path", "file-path", "password", "path"})


@dataclass(frozen=True)
class StringFormat:
    """One format: its source, a whole-string pattern, what the pattern excludes, and an outer pattern if that differs.

    The outer pattern excludes no string of the format.
    """

    source: str
    pattern: str
    reason: str = ""
    outer: str = ""
    since: int = 4  #: the first draft that has it (8 is 2019-09)

    @property
    def outcome(self) -> Outcome:
        return Outcome.NARROWED if self.reason else Outcome.EXACT

    @cached_property
    def language(self) -> Regular:
        return language(f"^(?:{self.pattern})$")

    @cached_property
    def outer_language(self) -> Regular:
        """A superset of the format: a string outside it surely is not of the format."""
        return language(f"^(?:{self.outer})$") if self.outer else self.language

    @property
    def outer_reason(self) -> str:
        """The strings excluded where the format is negated; "" if none."""
        return "negated: strings that some checker may count to the format are not written" if self.outer else ""


# A schema that says ``uuid`` means it, whatever its draft.  Such a format is an annotation, which cannot be violated
# (though jsonschema-rs checks dates in all drafts).
def later_format_reason(name: str, dialect: Dialect) -> str:
    """The report's reason for a format that the dialect does not have yet; "" for one that it has."""
    row = FORMATS[name]
    return f"enforced, though {dialect.name} has no such format" if dialect.order < row.since else ""


def unknown_format_reason(name: str) -> str:
    """The report's reason for a format that is not in the table."""
    return f"{name!r} is not a format of JSON Schema: an annotation, not enforced"


# -- dates and times, RFC 3339

_LEAP_YEAR = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_YEAR = "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
_DATE = (
    f"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    f"|02-(?:0[1-9]|1[0-9]|2[0-8]))|{_LEAP_YEAR}-02-29)"
)
# some checkers accept a year 0; jsonschema-rs accepts the characters before the digits as digits (*020-01-01)
_ANY_DIGIT = "[*-9]"
_ANY_DATE = f"{_ANY_DIGIT}{{4}}-[01]{_ANY_DIGIT}-[0-3]{_ANY_DIGIT}"
_FRACTION = "(?:\\.[0-9]{1,18})?"
_OFFSET = "(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
_CLOCK = f"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]{_FRACTION}"
_TIME = f"{_CLOCK}{_OFFSET}"
_ANY_HOUR = f"[0-2]{_ANY_DIGIT}:[0-5]{_ANY_DIGIT}"
_ANY_TIME = f"{_ANY_HOUR}:[0-6]{_ANY_DIGIT}(?:[.,][0-9]+)?(?:[Zz]|[+-]{_ANY_HOUR})"
_NO_LEAP = "no leap second (:60), no lower-case t or z and at most 18 digits of a second are written"

_TIME_PART = "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
_DATE_PART = "(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)"
_DURATION = f"P(?:{_DATE_PART}(?:{_TIME_PART})?|{_TIME_PART}|[0-9]+W)".replace("+", "{1,12}")

# -- names of hosts and addresses

_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = f"(?:{_OCTET}\\.){{3}}{_OCTET}"
_H16 = "[0-9a-fA-F]{1,4}"
_LS32 = f"(?:{_H16}:{_H16}|{_IPV4})"


def _ipv6() -> str:
    """RFC 3986, appendix A: the position of ``::`` and the number of groups after it."""
    rows = [f"(?:{_H16}:){{6}}{_LS32}"]
    for before in range(8):
        head = f"(?:(?:{_H16}:){{0,{before - 1}}}{_H16})?" if before > 1 else f"(?:{_H16})?" if before else ""
        after = 5 - before
        tail = _H16 if before == 6 else ""
        if before < 6:
            tail = f"(?:{_H16}:){{{after}}}{_LS32}" if after else _LS32
        rows.append(f"{head}::{tail}")
    return "(?:" + "|".join(rows) + ")"


_IPV6 = _ipv6()

# labels with hyphens at the third and fourth position are A-labels, which only a Punycode decoder can judge, and are
# excluded
_LD, _LDH = "[a-zA-Z0-9]", "[a-zA-Z0-9-]"


def _labels(longest: int, most: int) -> str:
    """At most ``most`` labels of at most ``longest`` characters each."""
    label = (
        f"(?:{_LD}(?:{_LDH}?{_LD})?|{_LD}{_LDH}(?:{_LD}{_LD}|-{_LD})"
        f"|{_LD}{_LDH}(?:{_LD}{_LDH}|-{_LD}){_LDH}{{0,{longest - 5}}}{_LD})"
    )
    return f"{label}(?:\\.{label}){{0,{most - 1}}}"


# A name has at most 253 characters and a label 63: no short pattern counts both, so these two keep within both.
_NAME = f"(?:{_labels(63, 3)}|{_labels(27, 9)})"
_NAMES_LEFT_OUT = (
    "names of more than 3 labels with one of more than 27 characters, of more than 9 labels, and labels with -- "
    "(A-labels)"
)
_SAFE_LETTERS = (
    "a-z0-9\\u00e0-\\u00f6\\u00f8-\\u00ff\\u03b1-\\u03c1\\u03c3-\\u03c9\\u0430-\\u044f\\u4e00-\\u9fa5\\uac00-\\ud7a3"
    "\\u3041-\\u3096\\u30a1-\\u30fa"
)
_IDN_LABEL = f"[{_SAFE_LETTERS}](?:-?[{_SAFE_LETTERS}]){{0,14}}"

_ATEXT = "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]"
_QTEXT = "[ !#-;=-\\[\\]-~]"  # a < after a space begins an address for some checkers
_QUOTED = f'"(?:{_QTEXT}{{0,62}}|(?:{_QTEXT}|\\\\[!-~]){{0,31}})"'  # at most 64 characters, by RFC 5321
_EMAIL_HOST = f"(?:{_NAME}|\\[{_IPV4}\\])"
_UTEXT = "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~\\u00a1-\\ud7ff\\ue000-\\ufdcf\\ufdf0-\\uffef-]"


def _local(letter: str) -> str:
    """A name without dots, with short parts before its last one, or of parts of one greatest length: at most 64."""
    parts = (f"{letter}{{1,{size}}}(?:\\.{letter}{{1,{size}}}){{1,{most - 1}}}" for most, size in _PARTS.items())
    return f"{letter}{{1,64}}|(?:{letter}{{1,3}}\\.){{1,4}}{letter}{{1,48}}|{'|'.join(parts)}"


#: Parts of a name, and their greatest length.  More ways make searches of the solver give up.
_PARTS = {2: 31, 3: 20, 5: 12, 10: 5, 32: 1}
_LOCALS_LEFT_OUT = (
    "names of 2, 3, 5 or 10 parts between dots with one over 31, 20, 12 or 5 letters, but for a last one of at most 48 "
    "after at most 4 of at most 3"
)

# -- identifiers, RFC 3986, 3987 and 6570

_PCT = "%[0-9A-Fa-f]{2}"
_SUB = "!$&'()*+,;="
_UNRESERVED = "a-zA-Z0-9._~-"
_UCS = "\\u00a0-\\ud7ff\\uf900-\\ufdcf\\ufdf0-\\uffef\\u{10000}-\\u{1fffd}\\u{20000}-\\u{2fffd}"
_PRIVATE = "\\ue000-\\uf8ff"


def _identifier(letters: str, private: str, *, relative: bool) -> str:
    """The pattern of a URI or IRI (``letters``: the non-ASCII ones), with or without relative forms."""
    safe = letters + _SUB + _UNRESERVED
    pchar = f"(?:[:@{safe}]|{_PCT})"
    host = f"(?:\\[(?:{_IPV6}|[vV][0-9a-fA-F]+\\.[:{_SUB}{_UNRESERVED}]+)\\]|(?:[{safe}]|{_PCT})*)"
    authority = f"(?:(?:[:{safe}]|{_PCT})*@)?{host}(?::[0-9]*)?"
    empty_or_slash = f"(?:/{pchar}*)*"
    absolute = f"/(?:{pchar}+{empty_or_slash})?"
    hierarchy = f"(?://{authority}{empty_or_slash}|{absolute}|{pchar}+{empty_or_slash}|)"
    tail = f"(?:\\?(?:{pchar}|[/?{private}])*)?(?:#(?:{pchar}|[/?])*)?"
    full = f"[a-zA-Z][a-zA-Z0-9+.-]*:{hierarchy}{tail}"
    if not relative:
        return full
    first = f"(?:[@{safe}]|{_PCT})+{empty_or_slash}"
    return f"(?:{full}|(?://{authority}{empty_or_slash}|{absolute}|{first}|){tail})"


_VARNAME = "[A-Za-z0-9_](?:\\.?[A-Za-z0-9_])*"
_VARSPEC = f"{_VARNAME}(?::[1-9][0-9]{{0,2}}|\\*)?"
_LITERAL = f"(?:[!#$&-;=?-\\[\\]_a-z~{_UCS}{_PRIVATE}]|{_PCT})"
_TEMPLATE = f"(?:{_LITERAL}|\\{{[+#./;?&]?{_VARSPEC}(?:,{_VARSPEC})*\\}})*"

# -- regular expressions: pieces with quantifiers, groups two deep

_POINTER = "(?:/(?:[^/~]|~[01])*)*"
_ITEM = (
    "(?:[^\\\\()\\[\\]{}*+?|^$.]|\\.|\\\\[dDwWsStnrfv/.*+?^$|(){}\\[\\]\\\\-]"
    "|\\[\\^?(?:-|-?(?:[a-zA-Z0-9_ .,:;@#%&=!<>/'\"*+?(){}|$]|[a-y]-z|[A-Y]-Z|[0-8]-9|\\\\[dws.\\\\\\]\\[-])+-?)\\])"
)
# {m,n} with m <= n by their digits: fewer digits, or one digit that is not larger
_SPAN = "|".join(f"{low},(?:[{low}-9]|[1-9][0-9]{{1,2}})" for low in range(10)) + "|[1-9][0-9],[1-9][0-9]{2}"
_QUANTIFIER = f"(?:[*+?]|\\{{(?:[0-9]{{1,3}},?|{_SPAN})\\}})?"


def _regex() -> str:
    body = f"(?:{_ITEM}{_QUANTIFIER})*"
    for _ in range(2):
        body = f"(?:{_ITEM}{_QUANTIFIER}|\\((?:\\?:)?{body}(?:\\|{body})*\\){_QUANTIFIER})*"
    return f"\\^?{body}(?:\\|{body})*\\$?"


_PLANES = "planes above 2 are not written"
_ANY = "[\\s\\S]"
_ANY_MAIL = f"{_ANY}*@{_ANY}*"
_URI, _URI_REFERENCE = (_identifier("", "", relative=relative) for relative in (False, True))
_BEYOND = "\\u00a0-\\u{10ffff}"
_ANY_IRI, _ANY_IRI_REFERENCE = (f"(?:{_identifier(_BEYOND, '', relative=relative)})\\n?" for relative in (False, True))

FORMATS: Mapping[str, StringFormat] = {
    "date": StringFormat("RFC 3339 full-date", _DATE, outer=_ANY_DATE, since=7),
    "time": StringFormat("RFC 3339 full-time", _TIME, _NO_LEAP, f"{_ANY_TIME}\\n?", since=7),
    "date-time": StringFormat("RFC 3339 date-time", f"{_DATE}T{_TIME}", _NO_LEAP, f"{_ANY_DATE}[Tt ]{_ANY_TIME}\\n?"),
    "duration": StringFormat(
        "RFC 3339 appendix A", _DURATION, "numbers have at most 12 digits", "[+-]?P[0-9A-Z.,+-]*", since=8
    ),
    "email": StringFormat(
        "RFC 5321 Mailbox",
        f"(?:{_local(_ATEXT)}|{_QUOTED})@{_EMAIL_HOST}",
        f"not written: {_LOCALS_LEFT_OUT}; IPv6 literals; < and many pairs in quoted names; as hosts {_NAMES_LEFT_OUT}",
        _ANY_MAIL,
    ),
    "idn-email": StringFormat(
        "RFC 6531 Mailbox",
        f"(?:{_local(_UTEXT)})@(?:{_EMAIL_HOST}|{_IDN_LABEL}(?:\\.{_IDN_LABEL})*)",
        f"not written: quoted names; {_LOCALS_LEFT_OUT}; hosts of letters under the contextual rules of "
        f"IDNA, or beyond ASCII with labels of more than 15; {_NAMES_LEFT_OUT}",
        _ANY_MAIL,
    ),
    "hostname": StringFormat(
        "RFC 1123", _NAME, f"not written: {_NAMES_LEFT_OUT}", "[a-zA-Z0-9._\\u0080-\\u{10ffff}-]+\\n?"
    ),
    "idn-hostname": StringFormat(
        "RFC 5890",
        f"{_NAME}|{_IDN_LABEL}(?:\\.{_IDN_LABEL}){{0,6}}",
        "not written: letters under the contextual rules of IDNA; beyond ASCII names of more than 7 labels or labels "
        f"of more than 15 letters; {_NAMES_LEFT_OUT}",
        "[a-zA-Z0-9._\\u0080-\\u{10ffff}-]+",
        since=7,
    ),
    "ipv4": StringFormat("RFC 2673", _IPV4),
    "ipv6": StringFormat("RFC 4291", _IPV6),
    "uri": StringFormat("RFC 3986", _URI, outer=f"(?:{_URI})\\n?"),
    "uri-reference": StringFormat("RFC 3986", _URI_REFERENCE, outer=f"(?:{_URI_REFERENCE})\\n?", since=6),
    "iri": StringFormat("RFC 3987", _identifier(_UCS, _PRIVATE, relative=False), _PLANES, _ANY_IRI, since=7),
    "iri-reference": StringFormat(
        "RFC 3987", _identifier(_UCS, _PRIVATE, relative=True), _PLANES, _ANY_IRI_REFERENCE, since=7
    ),
    "uri-template": StringFormat(
        "RFC 6570 with erratum 6937",
        _TEMPLATE,
        "no % is written in variable names, and no prefix above 999",  # which Python's checker does not know
        "(?:[^{}]|\\{[^{}]+\\})*",
        since=6,
    ),
    "uuid": StringFormat(
        "RFC 4122",
        "[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}",
        # Python strips "urn:uuid:" and braces and parses the rest by int()
        outer=f"{_ANY}{{8}}-(?:{_ANY}{{4}}-){{3}}{_ANY}*",
        since=8,
    ),
    "json-pointer": StringFormat("RFC 6901", _POINTER, since=6),
    "relative-json-pointer": StringFormat(
        "draft-handrews-relative-json-pointer",
        f"(?:0|[1-9]{{1,8}}0?)(?:#|{_POINTER})",  # Python's checker takes 102 for a number that begins with 0
        "numbers have at most 9 digits and none after a 0",
        f"[0-9\\u0080-\\u{{10ffff}}]+(?:#|{_POINTER})",
        since=7,
    ),
    "regex": StringFormat(
        "ECMA-262",
        _regex(),
        "patterns with look-around, groups more than two deep and the rarer classes are not written",
        f"(?:[^*+?]{_ANY}*)?",  # nothing to repeat at the start is an error everywhere
    ),
    **{
        name: StringFormat("pydantic", pattern, reason, f"{_ANY}*", since=8)
        for name, (pattern, reason) in python_patterns(_DATE, _CLOCK, _OFFSET, _IPV4, _IPV6).items()
    },
}
