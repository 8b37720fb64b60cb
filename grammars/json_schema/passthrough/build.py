"""The fast path: pass a schema through to the engine's own compiler, which is known to enforce it exactly.

Most schemas need none of our machinery.  `pass_through` returns a copy of such a schema without annotations, with
patterns and formats in a syntax that the engine reads as ECMA-262 does and references gathered under ``$defs``; it
returns None for any other schema.  A schema passes only if it has features that were compared with our own grammars
and with validators (``tests``); in doubt the result is None.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any

from grammars.json_schema.passes.kinds import CHECKS
from grammars.json_schema.passthrough import applicators as branches
from grammars.json_schema.passthrough import members, values
from grammars.json_schema.passthrough.copy import KeywordReader, Passthrough, SchemaCopy
from grammars.json_schema.passthrough.refusal import NotPassedThrough
from grammars.values.spelling import Spelling

__all__ = ["Passthrough", "pass_through"]


def pass_through(schema: Any, spelling: Spelling, keys: AbstractSet[str] | None = None) -> Passthrough | None:
    """Return the schema for the engine's own compiler, or None if it needs ours.

    ``keys`` are all object keys in the schema, as `limits.survey` found them, if known.
    """
    if spelling.max_whitespace:
        return None  # only our own rules bound the white space between tokens
    try:
        return SchemaCopy(schema, _READERS, keys).result(spelling)
    except NotPassedThrough:
        return None


def _refuse(copy: SchemaCopy, value: Any, schema: Any, out: dict[str, Any]) -> None:
    raise NotPassedThrough


_READERS: dict[str, KeywordReader] = {
    **dict.fromkeys(CHECKS, _refuse),
    **values.READERS,
    **members.READERS,
    **branches.READERS,
}
