"""Leaf values that grammars, plans and parsers share. Nothing here imports a compiler."""
