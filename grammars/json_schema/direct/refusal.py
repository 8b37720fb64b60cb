"""What the fast path says to a schema that is not for it."""

__all__ = ["NotDirect"]


class NotDirect(Exception):
    """The schema needs more than the engine's own compiler."""
