"""The exception for schemas that cannot be passed through."""

__all__ = ["NotPassedThrough"]


class NotPassedThrough(Exception):
    """The schema needs more than the engine's own compiler."""
