"""The answer read back: the parser from token ids to events, and the typed message."""
