"""The heap of a long-lived process, which torch and transformers fill: kept out of garbage collections."""

from __future__ import annotations

import gc

__all__ = ["freeze_heap"]


def freeze_heap() -> None:
    """Keep all objects that live now out of later garbage collections; call it once a model is loaded.

    A full collection takes 0.25 to 0.6 seconds with torch loaded, in which no row writes a token.
    """
    gc.collect()
    gc.freeze()
