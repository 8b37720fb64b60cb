"""Plain terms as regexes of Python's `re`, where its backtracking is sure to be soon done with a word."""

from __future__ import annotations

import re
import sys
from functools import lru_cache
from typing import TYPE_CHECKING

from grammars.regular.backtracking import effort

if TYPE_CHECKING:
    from grammars.regular.terms import Regular

__all__ = ["quick_regex"]

_EVERY = ((0, sys.maxunicode),)
_FEW_STEPS = 20_000  # of a backtracking engine: some tenths of a millisecond
_MOST_STEPS = 2_000_000
_STEPS_A_STATE = 50  # of a backtracking engine in the time of one step of one state of ours
_MOST_SPELLED = 20_000  # parts of a term that is spelled for it


def quick_regex(term: Regular, word: str) -> re.Pattern[str] | None:
    """The regex of a plain term, to be matched in full; None where it may be slow over a word of that length."""
    return _compiled(term) if _is_quick(term, _scale(word)) else None


def _scale(word: str) -> int:
    """The length of a word, roughly and never less."""
    return max(64, 1 << (len(word).bit_length() + 1 & ~1))


@lru_cache(maxsize=10_000)
def _is_quick(term: Regular, length: int) -> bool:
    """Does a backtracking engine read so long a word, and surely sooner than the automaton?

    Repeats within repeats, and several in a row, can take it for ever.
    """
    if term.size > _MOST_SPELLED:
        return False
    compiled = _compiled(term)
    if compiled is None:
        return False
    steps = effort(compiled.pattern, length, search=False)
    return steps <= _FEW_STEPS or steps <= min(_MOST_STEPS, _STEPS_A_STATE * length * _states(term))


def _states(term: Regular) -> int:
    """Characters of a plain term with its repeats written out."""
    if term.op == "rep":
        body, least, most = term.args
        times: int = max(1, least if most is None else most)
        return times * _states(body)
    return 1 if term.op in ("chars", "words") else sum(map(_states, term.args))


@lru_cache(maxsize=10_000)
def _compiled(term: Regular) -> re.Pattern[str] | None:
    """A Python regex of a plain term."""
    try:
        return re.compile(_python(term), re.DOTALL)
    except (re.error, OverflowError, RecursionError):
        return None


def _python(term: Regular) -> str:
    match term.op:
        case "chars":
            if term.args == _EVERY:
                return "."
            return "[" + "".join(f"{_escape(a)}-{_escape(b)}" if a != b else _escape(a) for a, b in term.args) + "]"
        case "words":
            return "(?:" + "|".join(re.escape(w) for w in sorted(term.args)) + ")"
        case "cat":
            return "".join(_python(p) for p in term.args)
        case "alt":
            return "(?:" + "|".join(_python(p) for p in term.args) + ")" if term.args else "(?!)"
    body, least, most = term.args
    return f"(?:{_python(body)}){{{least},{'' if most is None else most}}}"


def _escape(code: int) -> str:
    return f"\\U{code:08x}"
