"""Lark grammars of clients: parsed, checked and written again for llguidance."""
