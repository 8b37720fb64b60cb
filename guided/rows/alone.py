"""The boundary around one row: an error that is raised in a step of one row ends this row, and no other row.

Some exceptions do not belong to a row: interrupts, exits, lack of memory, a failed device, errors of the model itself.
A function of type `Fail` raises these again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from traceback import walk_tb
from typing import TypeAlias, TypeVar, TypeVarTuple

from guided.output.message import Message
from special_tokens.errors import GuidanceError, GuidedError, ModelError

__all__ = ["Fail", "attempt", "completed", "row_error", "together"]

D = TypeVar("D")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")

#: Ends a row with the exception that was raised in it; raises an exception again that does not belong to a row.
Fail: TypeAlias = Callable[[BaseException], object]

#: Errors of torch, which the core does not import.
_OF_THE_DEVICE = ("OutOfMemoryError", "AcceleratorError")


def attempt(fail: Fail, default: D, ask: Callable[[*Ts], T], *args: *Ts) -> T | D:
    """Return what ``ask`` returns for one row; if it raises, end the row with ``fail`` and return ``default``."""
    try:
        return ask(*args)
    except BaseException as error:
        fail(error)
        return default


def together(fails: Sequence[Fail], ask: Callable[[Sequence[T]], None], values: Sequence[T], none: T) -> None:
    """Call ``ask`` with the values of all rows; if it raises, once for each row, with ``none`` for all other rows."""
    try:
        ask(values)
    except BaseException as error:
        row_error(error, 0, 0)
        for i, fail in enumerate(fails):
            attempt(fail, None, ask, [value if i == k else none for k, value in enumerate(values)])


def completed(message: Message, row: int, ask: Callable[[Message], Message]) -> Message:
    """Return what ``ask`` makes of the message of row number ``row``; if it raises, return the message as failed."""
    try:
        return ask(message)
    except BaseException as error:
        return message.failed(row_error(error, row, len(message.token_ids)))


def row_error(error: BaseException, row: int, token: int) -> GuidedError:
    """Return the error with which row number ``row`` ends because ``error`` was raised at its token number ``token``.

    A `GuidedError` is returned itself; another exception becomes the ``__cause__`` of the returned error.  Raises
    ``error`` again if it does not belong to a row.
    """
    is_panic = type(error).__module__ == "pyo3_runtime"  # of an extension in Rust; no `Exception`
    if isinstance(error, MemoryError | ModelError) or not (isinstance(error, Exception) or is_panic):
        raise error
    if type(error).__name__ in _OF_THE_DEVICE:
        raise error
    if isinstance(error, GuidedError):
        return error
    trace = ((frame.f_globals.get("__name__", ""), line) for frame, line in walk_tb(error.__traceback__))
    rooms = [f"{name}, line {line}" for name, line in trace if name.startswith(("guided.", "grammars."))]
    wrapped = GuidanceError(
        f"{type(error).__name__} in {rooms[-1] if rooms else 'an unknown module'}: {error}",
        place=f"token {token}",
        hint=f"row {row}; the other rows are not touched; a fault of guided: error.__cause__ shows where",
    )
    wrapped.__cause__ = error
    return wrapped
