"""Schemas that llguidance's own JSON Schema compiler handles exactly, copied for it."""
