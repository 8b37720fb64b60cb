"""Special tokens of language models: roles, tokens that end a turn, model families.  Standard library only."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from special_tokens.catalog import SpecialToken, TokenSet
    from special_tokens.facts import AddedToken, TokenizerFacts
    from special_tokens.family import Family, families, load_family, match_family
    from special_tokens.registry import EndToken, Marker, SpecialTokens
    from special_tokens.roles import PAIRS, Category, Role, Source

__all__ = [
    "PAIRS",
    "AddedToken",
    "Category",
    "EndToken",
    "Family",
    "Marker",
    "Role",
    "Source",
    "SpecialToken",
    "SpecialTokens",
    "TokenSet",
    "TokenizerFacts",
    "families",
    "load_family",
    "match_family",
]

#: Modules that define these names, which are imported on their first use: most programs need the errors alone.
_HOMES = ("catalog", "facts", "family", "registry", "roles")


def __getattr__(name: str) -> Any:
    for home in _HOMES if name in __all__ else ():
        module = import_module(f"special_tokens.{home}")
        if name in module.__all__:
            return getattr(module, name)
    raise AttributeError(f"module 'special_tokens' has no attribute {name!r}")
