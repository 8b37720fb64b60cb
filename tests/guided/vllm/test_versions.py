"""A vLLM that was not tried is refused by its version, before any of its other names is needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("version", ["0.28.1", "0.31.0", "0.33.0", "1.0.0", "dev"])
def test_another_version_does_not_start(tmp_path: Path, version: str) -> None:
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "__init__.py").write_text(f'__version__ = "{version}"\n')
    code = f"import sys; sys.path[:0] = [{str(tmp_path)!r}]; from guided.vllm.plugin import register; register()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode
    (last,) = done.stderr.strip().splitlines()[-1:]
    assert "UnsupportedVllm" in last
    for part in (f"vllm {version}", "0.29 or 0.30 or 0.32", "VLLM_PLUGINS"):
        assert part in last
