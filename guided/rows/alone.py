"""The boundary around one row: what is raised in a step of it ends that row, and no other.

Interrupts and exits, lack of memory, a device that failed, and errors of the model itself do not belong to a row:
`Fail` raises them again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from traceback import walk_tb
from typing import TypeAlias, TypeVar, TypeVarTuple

from guided.output.message import Message
from special_tokens.errors import GuidanceError, GuidedError, ModelError

__all__ = ["Fail", "attempt", "completed", "made", "row_error", "together"]

D = TypeVar("D")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")

#: Ends a row with what was raised in it; raises what is not of a row.
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


def made(fail: Fail, default: D, make: Callable[[*Ts], T], *args: *Ts) -> T | D:
    """As `attempt`, for parts of a new row.  A `GuidedError` is raised: the caller asked for what cannot be made."""
    try:
        return make(*args)
    except GuidedError:
        raise
    except BaseException as error:
        fail(error)
        return default


def together(fails: Sequence[Fail], ask: Callable[[Sequence[T]], None], values: Sequence[T], none: T) -> None:
    """Call ``ask`` with a value of each row; if it raises, once for each row alone, with ``none`` for all others."""
    try:
        ask(values)
    except BaseException as error:
        row_error(error, 0, 0)
        for i, fail in enumerate(fails):
            attempt(fail, None, ask, [value if i == k else none for k, value in enumerate(values)])


def completed(message: Message, row: int, ask: Callable[[Message], Message]) -> Message:
    """Return what ``ask`` makes of the message of row number ``row``; if it raises, the message with the error."""
    try:
        return ask(message)
    except BaseException as error:
        return message.failed(row_error(error, row, len(message.token_ids)))


def row_error(error: BaseException, row: int, token: int) -> GuidedError:
    """Return the error with which row number ``row`` ends because ``error`` was raised at its token number ``token``.

    A `GuidedError` is returned itself; any other is the ``__cause__``.  Raises ``error`` if it is not of a row.
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
