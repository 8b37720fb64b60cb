"""The boundary around one row: whatever is raised in a step of it ends that row, and no other.

Not of a row are interrupts and exits, lack of memory, a device that failed, and errors of the model itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeVar, TypeVarTuple

from guided.output.message import Message
from special_tokens.errors import GuidanceError, GuidedError, ModelError

__all__ = ["Fail", "alone", "completed", "contained", "together"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

#: Ends a row with what was raised in it; raises what is not of a row.
Fail = Callable[[BaseException], object]

#: Errors of torch, which the core does not import: no row of the process can go on.
_OF_THE_DEVICE = ("OutOfMemoryError", "AcceleratorError")
_PACKAGES = ("guided", "grammars", "special_tokens")


def alone(fail: Fail, default: T, ask: Callable[[*Ts], T], *args: *Ts) -> T:
    """Return what ``ask`` returns for one row; if it raises, end the row with ``fail`` and return ``default``."""
    try:
        return ask(*args)
    except BaseException as error:
        fail(error)
        return default


def together(fails: Sequence[Fail], ask: Callable[[Collection[int]], None]) -> None:
    """Call ``ask`` for the indices of all rows; if it raises, for each index alone, so that only its own row ends."""
    try:
        ask(range(len(fails)))
    except BaseException as error:
        contained(error, 0, 0)
        for i, fail in enumerate(fails):
            alone(fail, None, ask, (i,))


def completed(message: Message, row: int, ask: Callable[[Message], Message]) -> Message:
    """Return what ``ask`` makes of the message of row number ``row``; if it raises, the message with the error."""
    try:
        return ask(message)
    except BaseException as error:
        return message.failed(contained(error, row, len(message.token_ids)))


def contained(error: BaseException, row: int, token: int) -> GuidedError:
    """Return the error with which row number ``row`` ends because ``error`` was raised at its token number ``token``.

    A `GuidedError` is returned itself; of any other the cause is kept in ``__cause__``.  Raises ``error`` if it is not
    of a row.
    """
    is_panic = type(error).__module__ == "pyo3_runtime"  # of an extension in Rust; no `Exception`
    if not (isinstance(error, Exception) or is_panic) or isinstance(error, MemoryError | ModelError):
        raise error
    if isinstance(error, GuidedError):
        return error
    if type(error).__name__ in _OF_THE_DEVICE:
        raise error
    found = GuidanceError(
        f"{type(error).__name__} in {_room(error)}: {error}",
        place=f"token {token}",
        hint=f"row {row}; the other rows are not touched; a fault of guided or of what it calls: see error.__cause__",
    )
    found.__cause__ = error
    return found


def _room(error: BaseException) -> str:
    """Return the innermost module of ours that raised, with the line."""
    found, trace = "an unknown module", error.__traceback__
    while trace is not None:
        name = str(trace.tb_frame.f_globals.get("__name__"))
        if name.partition(".")[0] in _PACKAGES:
            found = f"{name} (line {trace.tb_lineno})"
        trace = trace.tb_next
    return found
