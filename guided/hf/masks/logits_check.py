"""The error for logits that are NaN or all infinite."""

from __future__ import annotations

from special_tokens.errors import GuidanceError

__all__ = ["not_numbers"]


def not_numbers(place: str) -> GuidanceError:
    """Return the error for the row or option at ``place``."""
    return GuidanceError(
        "the model's logits are not numbers (NaN or all infinite)",
        place=place,
        hint="load the model in float32 or bfloat16, and check its weights",
    )
