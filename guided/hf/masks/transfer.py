"""Small tensors copied between host and device without making the host wait."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["host_buffer", "on_device"]


def host_buffer(shape: tuple[int, ...] | torch.Size, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Return host memory that ``device`` can read and write directly: pinned, for CUDA.

    torch's caching host allocator reuses a buffer only when the copies that use it have finished.
    """
    return torch.empty(shape, dtype=dtype, pin_memory=device.type == "cuda")


def on_device(values: Any, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Return ``values`` (numbers, or lists of them) as a tensor on ``device``; the host does not wait for the copy."""
    host = torch.tensor(values, dtype=dtype)
    if device.type == "cpu":
        return host
    return host_buffer(host.shape, dtype, device).copy_(host).to(device, non_blocking=True)
