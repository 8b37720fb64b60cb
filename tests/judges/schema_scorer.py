"""The scorer of JSON Schema engines, which is not ours: a script in the folder of shared data."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

__all__ = ["SCORER", "scorer_module"]

ROOT = Path(__file__).resolve().parents[2]
SCORER = Path(os.environ.get("GUIDED_SHARED", ROOT.parent / "shared")) / "bench" / "schema_score.py"


def scorer_module() -> Any:
    """Load the scorer, which is not ours: it is in ``../shared`` or under GUIDED_SHARED."""
    spec = importlib.util.spec_from_file_location("schema_score", SCORER)
    if spec is None or spec.loader is None or not SCORER.is_file():
        raise SystemExit(f"there is no scorer at {SCORER}; set GUIDED_SHARED")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
