"""Special tokens of language models: roles, tokens that end a turn, model families.  Standard library only."""

from special_tokens.catalog import Catalog, SpecialToken, TokenSet
from special_tokens.facts import AddedToken, TokenizerFacts, facts_from_folder
from special_tokens.family import Family, families, load_family, match_family
from special_tokens.registry import EndToken, Marker, SpecialTokens
from special_tokens.roles import PAIRS, Category, Role, Source

__all__ = [
    "PAIRS",
    "AddedToken",
    "Catalog",
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
    "facts_from_folder",
    "families",
    "load_family",
    "match_family",
]
