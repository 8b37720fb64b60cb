"""Make a `Format` from plain data: the ``[format]`` section of a family file, or JSON.

Unknown keys are errors, so that a typo in a family file is not silently ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from grammars.plan.records import Misfit, from_record
from grammars.values.format import Ends, Format
from special_tokens import Family
from special_tokens.errors import ModelError

__all__ = ["format_from_data", "format_of_family"]


def format_of_family(family: Family) -> Format:
    """The format stated in a family file."""
    data = format_from_data({"name": family.id, **family.format}, place=f"{family.id}.toml [format]")
    ends = data.ends if data.ends.content else Ends(family.ends, data.ends.calls, family.not_ends)
    return replace(data, ends=ends, evidence=tuple((key, f"family {family.id}") for key in family.format))


def format_from_data(data: Mapping[str, Any], *, place: str = "format") -> Format:
    """Make a format from plain values; raises `ModelError` naming an unknown key or a wrong value, and its place."""
    body = dict(data)
    for part, pairs in (("tool_calls", "options"), ("inputs", "kwargs")):
        given = body.get(part)
        if isinstance(given, Mapping) and isinstance(given.get(pairs), Mapping):
            body[part] = {**given, pairs: [list(pair) for pair in sorted(given[pairs].items())]}
    try:
        format: Format = from_record(Format, body, place)
    except Misfit as misfit:
        raise ModelError(str(misfit), place=misfit.place) from None
    return format
