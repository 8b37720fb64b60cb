"""Grammars of answers: from the parts of a request to one plan with one grammar. No tokenizer, no engine, no tensor."""

from pathlib import Path as _Path

import special_tokens as _special_tokens

# As `guided.shadowing`, which runs before this where guided is imported.
_found, _own = _Path(str(_special_tokens.__file__)), _Path(__file__).parent.parent / "special_tokens" / "__init__.py"
if _own.exists() and not (_found.exists() and _found.samefile(_own)):
    raise ImportError(
        f"{_found} hides the package 'special_tokens' of guided ({_own}): rename it, or take its folder off sys.path",
        name="special_tokens",
        path=str(_found),
    )
