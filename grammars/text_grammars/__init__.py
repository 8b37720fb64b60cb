"""Grammars that clients send as text: Lark, GBNF, structural tags, llguidance's JSON."""
