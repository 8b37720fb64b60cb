"""A fake accelerator: host memory that claims to be a device's, and counts what is transferred.

Tensors of the device are a subclass whose data lie on the CPU.  Whatever makes the host wait for the device is a
*sync*: reading a value, copying without ``non_blocking``, copying from or to memory that is not pinned.  Copies to
pinned memory arrive with the next sync and not before; pinned memory that is being copied to the device must not
change until then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

__all__ = ["DEVICE", "FakeDevice", "FakeEvent", "OnDevice"]

DEVICE = torch.device("cuda")
_T = torch.Tensor
_DEVICE_OF = _T.device.__get__  # type: ignore[attr-defined]
_IS_CPU = _T.is_cpu.__get__  # type: ignore[attr-defined]
_READS = {
    _T.item, _T.tolist, _T.numpy, _T.__bool__, _T.__int__, _T.__float__, _T.__index__, _T.is_nonzero, _T.nonzero,
    torch.nonzero, torch.equal, _T.equal, torch.masked_select, _T.masked_select, _T.cpu, torch.is_nonzero,
    _T.__contains__, _T.__array__, _T.__complex__, _T.__repr__, _T.__format__, torch.allclose, _T.allclose,
    torch.unique, _T.unique, torch.argwhere, _T.argwhere, torch.bincount, _T.bincount,
    torch.repeat_interleave, _T.repeat_interleave,
}  # fmt: skip
#: What is made of numbers of the host, which are not in pinned memory.
_FROM_HOST = {torch.tensor, torch.as_tensor, torch.asarray}
_COPIES = {_T.to, _T.copy_}


class Pinned(torch.Tensor):
    """Host memory that the device reaches by itself."""

    __torch_function__ = torch._C._disabled_torch_function_impl


class OnDevice(torch.Tensor):
    """A tensor of the fake device."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return FakeDevice.current().call(func, args, kwargs or {})


class FakeEvent:
    """A place in the device's queue."""

    def __init__(self, device: torch.device) -> None:
        self.number: int | None = None

    def record(self) -> None:
        self.number = FakeDevice.current().syncs_done

    def synchronize(self) -> None:
        device = FakeDevice.current()
        assert self.number is not None
        if self.number == device.syncs_done:  # nothing has waited since: this does
            device.sync("event")


class FakeDevice(TorchFunctionMode):
    """While it is active, tensors can be made on `DEVICE` and moved there."""

    _current: FakeDevice | None = None

    def __init__(self, *, has_float64: bool = True) -> None:
        super().__init__()
        self.has_float64 = has_float64
        self.syncs: list[str] = []
        self.async_copies = 0
        self.bytes_to_host = 0
        self.syncs_done = 0
        self._arriving: list[Callable[[], Any]] = []
        self._leaving: list[tuple[torch.Tensor, torch.Tensor]] = []

    @classmethod
    def current(cls) -> FakeDevice:
        assert cls._current is not None
        return cls._current

    def __enter__(self) -> FakeDevice:
        FakeDevice._current = self
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        FakeDevice._current = None

    def sync(self, why: str) -> None:
        """The host waits until the device has done everything."""
        self.syncs.append(why)
        self.syncs_done += 1
        for host, sent in self._leaving:
            assert torch.equal(host.as_subclass(torch.Tensor), sent), "host memory changed while it was being copied"
        arriving, self._arriving, self._leaving = self._arriving, [], []
        for copy in arriving:
            copy()

    # -- calls

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        device = kwargs.get("device")
        if device is not None and torch.device(device).type == DEVICE.type and func not in _COPIES:
            assert not kwargs.get("pin_memory")
            if func in _FROM_HOST and not isinstance(args[0], OnDevice):
                self.sync("pageable memory to device")
            return self._on_device(func(*args, **kwargs | {"device": "cpu"}))
        if kwargs.get("pin_memory"):
            return func(*args, **kwargs | {"pin_memory": False}).as_subclass(Pinned)
        if func in _COPIES:
            return self.call(func, args, kwargs)
        if any(issubclass(t, OnDevice) for t in types):
            return self.call(func, args, kwargs)
        return func(*args, **kwargs)

    def call(self, func: Any, args: Any, kwargs: Any) -> Any:
        if func == _DEVICE_OF:  # a new method wrapper at every access
            return DEVICE
        if func == _IS_CPU:
            return False
        if func in _READS or (func in (torch.where, _T.where) and len(args) == 1):
            self.sync(func.__name__)
            self.bytes_to_host += sum(arg.nbytes for arg in args if isinstance(arg, OnDevice))
        elif func in (_T.__getitem__, _T.__setitem__):
            self._index(args[1] if isinstance(args[1], tuple) else (args[1],))
        if func is _T.to and (target := self._target(args[1:], kwargs)) is not None:
            return self._to(args[0], target, args[1:], kwargs)
        if func is _T.copy_:
            return self._copy(*args, **kwargs)
        with torch._C.DisableTorchFunctionSubclass():
            out = func(*args, **kwargs)
        if func is _T.cpu:
            return out.as_subclass(torch.Tensor)
        return self._wrapped(out)

    def _index(self, parts: Sequence[Any]) -> None:
        """Counting the places of a bool index needs a read; an index on the host must be sent."""
        for part in parts:
            if isinstance(part, OnDevice):
                if part.dtype is torch.bool:
                    self.sync("bool index")
            elif isinstance(part, torch.Tensor | list | np.ndarray):
                self.sync("index on the host")

    def _on_device(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dtype is torch.float64 and not self.has_float64:
            raise TypeError("the device has no float64")
        return tensor if isinstance(tensor, OnDevice) else tensor.as_subclass(OnDevice)

    def _wrapped(self, out: Any) -> Any:
        if isinstance(out, torch.Tensor) and not isinstance(out, torch.nn.Parameter):
            return self._on_device(out)
        if type(out) in (tuple, list):
            return type(out)(map(self._wrapped, out))
        return out

    def _target(self, args: Any, kwargs: Any) -> torch.device | None:
        """The device that ``to`` is to reach, None for the one where the tensor is."""
        target = kwargs.get("device", args[0] if args and isinstance(args[0], str | torch.device) else None)
        return None if target is None else torch.device(target)

    def _to(self, tensor: torch.Tensor, target: torch.device, args: Any, kwargs: Any) -> torch.Tensor:
        is_here, goes_here = isinstance(tensor, OnDevice), target.type == DEVICE.type
        kwargs = {key: value for key, value in kwargs.items() if key not in ("device", "non_blocking")}
        args = tuple(arg for arg in args if not isinstance(arg, str | torch.device))
        with torch._C.DisableTorchFunctionSubclass():
            plain = tensor.as_subclass(torch.Tensor)
            moved = plain.to(*args, **kwargs) if args or kwargs else plain
        if is_here and goes_here:
            return self._on_device(moved)
        if not goes_here:
            if is_here:
                self.sync("to host")
                self.bytes_to_host += tensor.nbytes
            return moved.clone()
        if isinstance(tensor, Pinned):
            self.async_copies += 1
            self._leaving.append((tensor, plain.clone()))
        else:
            self.sync("pageable memory to device")
        return self._on_device(moved.clone())

    def _copy(self, to: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
        data = source.as_subclass(torch.Tensor).clone()
        plain = to.as_subclass(torch.Tensor)
        if isinstance(source, OnDevice) and not isinstance(to, OnDevice):
            self.bytes_to_host += source.nbytes
            if non_blocking and isinstance(to, Pinned):
                self.async_copies += 1
                self._arriving.append(lambda: plain.copy_(data))
                return to
            self.sync("copy to host")
        with torch._C.DisableTorchFunctionSubclass():
            plain.copy_(data)
        return to
