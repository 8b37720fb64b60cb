"""The job that composes plans in a worker process, see `guided.engine.worker_child`; never imported.

Composing is Python, and in a thread next to the engine's it would stall every stream.  A request names the file of the
pickled ``(tokens, format)``, and holds the pickled ``(parts, limits, seconds)`` of a plan; in the answer is the plan as
bytes, or the pickled error.  Both ends are one installation, and nothing of a client is unpickled.
"""

from __future__ import annotations

import base64
import os
import pickle
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

if hasattr(os, "nice"):
    os.nice(5)  # where processors are short, streams go first
sys.path.insert(0, str(Path(__file__).parents[2]))  # the packages of the parent, installed or not

_paths: list[str] = []


def answer_to(request: dict[str, Any]) -> dict[str, Any]:
    """Return the plan of a request, or its error; a request without parts only loads what composing needs."""
    from grammars.compose.compose import compose
    from grammars.limits.deadline import deadline, use_time_limits
    from grammars.plan.wire import encode_plan
    from special_tokens.errors import GuidanceError, GuidedError

    tokens, format = vocabulary(request["vocabulary"])
    if not request["parts"]:
        return {}
    parts, limits, seconds = pickle.loads(base64.b64decode(request["parts"]))
    try:
        with use_time_limits(limits), deadline(seconds):
            plan = compose(parts, tokens=tokens, format=format)
        return {"plan": base64.b64encode(encode_plan(plan)).decode()}
    except GuidedError as error:
        reported = error
    except Exception as error:
        reported = GuidanceError(f"composing the plan raised {type(error).__name__}: {error}", place="plan")
    return {"error": base64.b64encode(pickle.dumps(reported)).decode()}


def at_end() -> None:
    """Remove the file of a parent that was killed."""
    for path in _paths:
        Path(path).unlink(missing_ok=True)


@lru_cache(maxsize=1)
def vocabulary(path: str) -> Any:
    """Return the special tokens and the format in the parent's file."""
    _paths.append(path)
    return pickle.loads(Path(path).read_bytes())
