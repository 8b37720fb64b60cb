"""Grammars of answers: from the parts of a request to one plan with one grammar. No tokenizer, no engine, no tensor."""

from pathlib import Path as _Path

import special_tokens as _special_tokens

# As `guided.shadowing`, which runs before this where guided is imported.
_path, _ours = _Path(str(_special_tokens.__file__)), _Path(__file__).parent.parent / "special_tokens" / "__init__.py"
if _ours.exists() and not (_path.exists() and _path.samefile(_ours)):
    raise ImportError(
        f"{_path} hides the package 'special_tokens' of guided ({_ours}): rename it, or take its folder off sys.path",
        name="special_tokens",
        path=str(_path),
    )
