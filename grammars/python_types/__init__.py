"""Python types as JSON Schema and back: what pydantic says of a type, values read from texts, parts of values."""
