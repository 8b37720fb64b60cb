"""The checks of one client: each is a function that asserts, and prints one line."""

from __future__ import annotations

import inspect
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

__all__ = ["ADDRESS", "run_checks"]

#: The server's; the first argument of each script.
ADDRESS = sys.argv[1] if len(sys.argv) > 1 else ""

os.environ |= {"OPENAI_API_KEY": "any", "OPENAI_BASE_URL": ADDRESS}


def run_checks(package: str, checks: Sequence[Callable[[], Any]]) -> None:
    """Run the checks, coroutines as well; exit with 1 where one fails."""
    import asyncio

    failed = 0
    for check in checks:
        try:
            found = check()
            if inspect.iscoroutine(found):
                asyncio.run(found)
            print(f"{package} {version(package)}: {check.__name__}: ok", flush=True)
        except Exception:
            failed += 1
            traceback.print_exc()
            print(f"{package} {version(package)}: {check.__name__}: FAILED", flush=True)
    sys.exit(failed > 0)
