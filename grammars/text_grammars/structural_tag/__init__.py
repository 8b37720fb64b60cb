"""Structural tags: free text with tagged parts, converted to grammars."""
