"""Detect a foreign package that hides `grammars` or `special_tokens`, the packages that guided ships next to itself.

Both names are common: a folder or module of the user's own project that comes first on ``sys.path`` would be imported
in their place.  ``import guided`` and all imports from it say so; ``import grammars.plan`` alone says it where
``special_tokens`` is foreign.  Where ``grammars`` is, no code of ours runs, so that Python's own error stays.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

__all__ = ["check_shadowing"]


def check_shadowing(root: Path = Path(__file__).parent.parent) -> None:
    """Raise `ImportError`, naming the foreign file and the cure, when a package of ours under ``root`` is hidden.

    Imports nothing.  A package that is not under ``root`` at all cannot be hidden there and is not checked.
    """
    for name in ("special_tokens", "grammars"):
        own_file, file = root / name / "__init__.py", _file_of(name)
        if file is not None and own_file.exists() and not (file.exists() and file.samefile(own_file)):
            raise ImportError(
                f"{file} hides the package {name!r} of guided ({own_file}): rename it, or take {_folder_on_path(file)} "
                "off sys.path (the folder of the script and the current folder come first)",
                name=name,
                path=str(file),
            )


def _file_of(name: str) -> Path | None:
    """The file that ``import name`` loads or has loaded; None where that cannot be known."""
    if name in sys.modules:
        module = sys.modules[name]  # one without a file is a folder without __init__.py, or was made by hand
        return Path(getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), repr(module)))
    spec = find_spec(name)
    return Path(spec.origin) if spec is not None and spec.origin and spec.has_location else None


def _folder_on_path(file: Path) -> Path:
    """The entry of ``sys.path`` that led to ``file``, a module or the file of a package."""
    return file.parent.parent if file.name.startswith("__init__.") else file.parent
