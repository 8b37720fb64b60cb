"""A vLLM that was not tried is refused by its version, before any of its other names is needed.

vLLM goes on without a plugin that cannot be imported, so the entry point always can.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


#: What guided imports from others.
PACKAGES = ("lark", "llguidance", "msgpack", "numpy", "pydantic", "starlette", "torch", "transformers")


def last_line(folder: Path, version: str, before: str = "") -> str:
    """The last line that Python says where the entry point is loaded and called next to this release."""
    (folder / "vllm").mkdir()
    (folder / "vllm" / "__init__.py").write_text(f'__version__ = "{version}"\n')
    code = f"import sys; sys.path[:0] = [{str(folder)!r}]; {before}from guided.vllm.plugin import register"
    code += "; print('loaded'); register()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode
    assert done.stdout == "loaded\n", done.stderr
    return done.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize("version", ["0.28.1", "0.31.0", "0.33.0", "1.0.0", "dev"])
def test_another_version_does_not_start(tmp_path: Path, version: str) -> None:
    last = last_line(tmp_path, version)
    assert "UnsupportedVllm" in last
    for part in (f"vllm {version}", "0.29 or 0.30 or 0.32", "VLLM_PLUGINS"):
        assert part in last


def test_the_entry_point_can_be_loaded_where_nothing_else_can(tmp_path: Path) -> None:
    """Only what raises when it is called ends the start, see `live/test_names.py`."""
    assert "UnsupportedVllm" in last_line(tmp_path, "0.32.0", f"sys.modules |= dict.fromkeys({PACKAGES}); ")
