"""The fast path: schemas that the engine's own compiler is known to take at their word.

Most schemas need none of our machinery.  `direct` copies such a schema, annotations left out, patterns and formats
in words that the engine reads as ECMA-262 does, references gathered under ``$defs``; for any other it answers None.
What is let through is what was compared with our own grammars and with validators (``tests``): when in doubt, None.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any

from grammars.json_schema.passthrough import applicators as branches, members, values
from grammars.json_schema.passthrough.copy import Copy, Direct, Reader
from grammars.json_schema.direct.refusal import NotDirect
from grammars.json_schema.passes.kinds import CHECKS
from grammars.values.spelling import Spelling

__all__ = ["Direct", "direct"]


def direct(schema: Any, spelling: Spelling, keys: AbstractSet[str] | None = None) -> Direct | None:
    """The schema for the engine's own compiler, or None when it needs ours.

    ``keys`` are all keys of objects in the schema, as `limits.survey` saw them, where they are known.
    """
    if spelling.max_whitespace:
        return None  # only our own rules bound white space between tokens one by one
    try:
        return Copy(schema, _READERS, keys).result(spelling)
    except NotDirect:
        return None


def _refuse(copy: Copy, value: Any, schema: Any, out: dict[str, Any]) -> None:
    raise NotDirect


_READERS: dict[str, Reader] = {
    **dict.fromkeys(CHECKS, _refuse),
    **values.READERS,
    **members.READERS,
    **branches.READERS,
}
