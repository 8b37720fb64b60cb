"""Detect a foreign package that hides `grammars` or `special_tokens`, the packages that guided ships next to itself.

Both names are common: a folder or module of the user's own project that comes first on ``sys.path`` would be imported
in their place.  ``import guided`` and all imports from it say so; ``import grammars.plan`` alone says it where
``special_tokens`` is foreign.  Where ``grammars`` is, no code of ours runs, so that Python's own error stays.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

__all__ = ["check_shadowing"]


def check_shadowing(root: Path = Path(__file__).parent.parent) -> None:
    """Raise `ImportError`, naming the foreign file and the cure, when a package of ours under ``root`` is hidden.

    Imports nothing.  A package that is not under ``root`` at all cannot be hidden there and is not checked.
    """
    for name in ("special_tokens", "grammars"):
        own_file, spec = root / name / "__init__.py", find_spec(name)
        file = Path(spec.origin) if spec is not None and spec.origin else own_file
        if own_file.exists() and not (file.exists() and file.samefile(own_file)):
            folder = file.parent.parent if file.name.startswith("__init__.") else file.parent
            raise ImportError(
                f"{file} hides the package {name!r} of guided ({own_file}): rename it, or take {folder} off sys.path "
                "(the folder of the script and the current folder come first)",
                name=name,
                path=str(file),
            )
