"""The terminals of ``%import common.NAME``, as llguidance has them; a test holds each against its own."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["COMMON"]

_EXPONENT = "[eE][+-]?[0-9]+"
_DECIMAL = r"[0-9]+\.[0-9]*|\.[0-9]+"
_FLOAT = f"({_DECIMAL})({_EXPONENT})?|[0-9]+{_EXPONENT}"

#: Regular expressions of Rust, by name.
COMMON: Mapping[str, str] = {
    "DIGIT": "[0-9]",
    "HEXDIGIT": "[0-9A-Fa-f]",
    "INT": "[0-9]+",
    "SIGNED_INT": "[+-]?[0-9]+",
    "DECIMAL": _DECIMAL,
    "_EXP": _EXPONENT,
    "FLOAT": _FLOAT,
    "SIGNED_FLOAT": f"[+-]?({_FLOAT})",
    "NUMBER": f"{_FLOAT}|[0-9]+",
    "SIGNED_NUMBER": f"[+-]?({_FLOAT}|[0-9]+)",
    "ESCAPED_STRING": r'"([^"\\]|\\.)*"',
    "LCASE_LETTER": "[a-z]",
    "UCASE_LETTER": "[A-Z]",
    "LETTER": "[A-Za-z]",
    "WORD": "[A-Za-z]+",
    "CNAME": "[A-Za-z_][A-Za-z0-9_]*",
    "WS_INLINE": r"[ \t]+",
    "WS": r"[ \t\f\r\n]+",
    "CR": r"\r",
    "LF": r"\n",
    "NEWLINE": r"(\r?\n)+",
    "SH_COMMENT": r"#[^\n]*",
    "CPP_COMMENT": r"//[^\n]*",
    "C_COMMENT": r"/\*([^*]|\*+[^*/])*\*+/",
    "SQL_COMMENT": r"--[^\n]*",
}
