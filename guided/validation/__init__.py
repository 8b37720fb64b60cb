"""Finished values validated by jsonschema and jsonschema-rs, in bounded time."""
