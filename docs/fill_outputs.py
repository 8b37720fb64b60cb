#!/usr/bin/env python3
"""Runs the Python blocks of Markdown pages and writes their real output into the text blocks that follow them.

    python docs/fill_outputs.py README.md docs/*.md

The blocks of one page share their names, in order.  A ``text`` block directly after a ``python`` block is that
block's output; pages are changed only in those blocks.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from pathlib import Path
from typing import Any

BLOCK = re.compile(r"```python\n(?P<code>.*?)```\n(?:```text\n(?P<output>.*?)```\n)?", re.DOTALL)


def run_page(text: str, names: dict[str, Any] | None = None) -> str:
    """The page with the outputs of its blocks; ``names`` are there before the first block."""
    namespace: dict[str, Any] = {"__name__": "page", **(names or {})}

    def run(match: re.Match[str]) -> str:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(match["code"], "page", "exec", dont_inherit=True), namespace)
        block = f"```python\n{match['code']}```\n"
        if match["output"] is None:
            return block
        return f"{block}```text\n{printed.getvalue().rstrip()}\n```\n"

    return BLOCK.sub(run, text)


def main() -> None:
    import torch

    torch.set_num_threads(1)  # as the tests do: sums in another order may choose another token
    for name in sys.argv[1:]:
        page = Path(name)
        page.write_text(run_page(page.read_text(encoding="utf-8")), encoding="utf-8")
        print(f"{name}: done")


if __name__ == "__main__":
    main()
