"""Finished values validated by jsonschema, in bounded time."""
