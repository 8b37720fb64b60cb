"""Counts what a decode loop makes torch do: bytes that are allocated for results, and operations that compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["Allocations", "Launches", "bytes_per_token"]


class Allocations(TorchDispatchMode):
    """In the block, adds up in ``num_bytes`` the sizes of all results that are no views of an operation's inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.num_bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        known = {part.untyped_storage().data_ptr() for part in args if isinstance(part, torch.Tensor)}
        for part in out if isinstance(out, tuple | list) else (out,):
            if isinstance(part, torch.Tensor) and part.untyped_storage().data_ptr() not in known:
                self.num_bytes += part.nbytes
        return out


class Launches(TorchDispatchMode):
    """In the block, counts in ``number`` the operations that a device would launch: neither views nor empty memory."""

    def __init__(self) -> None:
        super().__init__()
        self.number = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        aliases = [returned.alias_info for returned in func._schema.returns]
        is_view = any(alias is not None and not alias.is_write for alias in aliases)
        self.number += not is_view and not func.__name__.startswith("empty")
        return func(*args, **(kwargs or {}))


def bytes_per_token(call: Callable[[int], Any], short: int, long: int) -> float:
    """Return the bytes that ``call(tokens)`` allocates for each of the tokens ``short`` to ``long``."""
    found = []
    for tokens in (short, long):
        with Allocations() as counted:
            call(tokens)
        found.append(counted.num_bytes)
    return (found[1] - found[0]) / (long - short)
