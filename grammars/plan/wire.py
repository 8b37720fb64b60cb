"""Plans between processes: a plan as msgpack bytes, and back.

The bytes are a map: ``guided`` (the word ``plan``), ``version``, ``digest`` (SHA-256 of the version's byte and
``plan``) and ``plan``, the plan's fields as msgpack of its own.  The digest detects damage; it is not a signature.
Decode only bytes from processes that you trust: the grammar of a plan is what the model will be allowed to write.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgpack

from grammars.plan.plan import SENTINELS, Pieces, Plan, checked_plan
from grammars.plan.records import Misfit, from_record, to_record, unpack_extension
from special_tokens.errors import MalformedPlan, NotMsgpack, PlanError, UnknownVersion, shown

__all__ = ["MAX_BYTES", "VERSION", "decode_plan", "encode_plan"]

#: A release reads the version that it writes and refuses others: earlier plans hold grammars for the engine's schema
#: compiler, and watchers that were removed.  Fields with default values are left out, so that a new field with one
#: changes neither the version nor the bytes of plans that do not use it.
VERSION = 3
#: Larger plans are refused before they are unpacked.
MAX_BYTES = 64 * 1024 * 1024

_KIND = "plan"
_BYTES = "what encode_plan returned"


def encode_plan(plan: Plan) -> bytes:
    """Return the plan as bytes; raises `PlanError` for what is no plan or holds no JSON value (a set in a schema, say).

    ``plan.python_type`` is not sent: pass it to `decode_plan`.  Nor are the functions of tools.
    """
    try:
        record = to_record(checked_plan(plan))
    except Misfit as error:
        raise PlanError(f"cannot be sent: {error}", place=error.place, expected="JSON values") from None
    return _envelope(msgpack.packb(record))


def _envelope(fields: bytes) -> bytes:
    data: bytes = msgpack.packb({"guided": _KIND, "version": VERSION, "digest": _digest(fields), "plan": fields})
    return data


def _digest(fields: bytes) -> bytes:
    return hashlib.sha256(bytes([VERSION]) + fields).digest()


def decode_plan(data: bytes, *, python_type: Any = None) -> Plan:
    """Return the plan of these bytes.

    Raises `NotMsgpack`, `UnknownVersion` or `MalformedPlan`; nothing else, whatever the bytes are.
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        raise NotMsgpack(f"{type(data).__name__} is not bytes", place="plan", expected=_BYTES)
    if len(data) > MAX_BYTES:
        raise MalformedPlan(f"the plan has {len(data)} bytes", place="plan", expected=f"at most {MAX_BYTES}")
    record = _record(bytes(data))
    try:
        plan: Plan = from_record(Plan, record)
        _check(plan)
    except Misfit as error:
        raise MalformedPlan(str(error), place=error.place, hint=f"send {_BYTES}") from None
    if python_type is not None:
        object.__setattr__(plan, "python_type", python_type)
    return plan


def _record(data: bytes) -> Any:
    """The fields of the plan in these bytes, not yet looked at."""
    body = _unpacked(data)
    if not isinstance(body, dict) or body.get("guided") != _KIND:
        raise MalformedPlan("this is msgpack, but not a plan", place="plan", expected=_BYTES)
    version, fields = body.get("version"), body.get("plan")
    is_sealed = isinstance(fields, bytes) and body.get("digest") == _digest(fields)  # by us, whatever version it says
    if not is_sealed and (type(version) is not int or version != VERSION):
        raise UnknownVersion(
            f"version {shown(version)}",
            place="plan",
            expected=str(VERSION),
            hint="use the same release on both sides, or compose the plan again",
        )
    if not isinstance(fields, bytes) or data != _envelope(fields):
        raise MalformedPlan("the bytes do not fit their digest", place="plan", expected=_BYTES,
                            hint="send them again: they were damaged on their way")  # fmt: skip
    return _unpacked(fields)


def _unpacked(data: bytes) -> Any:
    try:
        return msgpack.unpackb(data, ext_hook=unpack_extension, strict_map_key=True)
    except (ValueError, TypeError, OverflowError, RecursionError, MemoryError, msgpack.UnpackException) as error:
        reason = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
        raise NotMsgpack(f"not msgpack: {reason}", place="plan", expected=_BYTES) from None


# -- what a plan must be in addition to well-formed


def _check(plan: Plan) -> None:
    starts = {name for name, _ in plan.grammar.starts}
    if not plan.entries or not plan.grammar.starts:
        raise Misfit("there is no entry", "plan.entries")
    if not 0 < plan.vocab_size <= 2**31:
        raise Misfit(f"{plan.vocab_size} is not a size of a vocabulary", "plan.vocab_size")
    for i, entry in enumerate(plan.entries):
        place = f"plan.entries[{i}]"
        if entry.name not in starts:
            raise Misfit(f"no start is called {shown(entry.name)}", f"{place}.name")
        _check_region(plan, entry.region, f"{place}.region")
    for i, region in enumerate(plan.regions):
        for j, way in enumerate(region.exits):
            _check_region(plan, way.to, f"plan.regions[{i}].exits[{j}].to")
            _check_pieces(plan, way.trigger, f"plan.regions[{i}].exits[{j}].trigger")
    for i, step in enumerate(plan.call_values):
        for j, number in enumerate((step.to, *(marker_way.to for marker_way in step.ways))):
            if not 0 <= number < len(plan.call_values):
                raise Misfit(f"there is no step {number}", f"plan.call_values[{i}].{f'ways[{j - 1}].' if j else ''}to")
        for j, marker_way in enumerate(step.ways):
            _check_pieces(plan, marker_way.trigger, f"plan.call_values[{i}].ways[{j}].trigger")
    for i, end in enumerate(plan.ends):
        if not plan.vocab_size <= end.sentinel < plan.vocab_size + SENTINELS:
            raise Misfit(f"{end.sentinel} is not a sentinel", f"plan.ends[{i}].sentinel")
        _check_pieces(plan, end.ids, f"plan.ends[{i}].ids")
    for i, budget in enumerate(plan.budgets):
        _check_region(plan, budget.region, f"plan.budgets[{i}].region")
        _check_pieces(plan, budget.close, f"plan.budgets[{i}].close")


def _check_region(plan: Plan, number: int, place: str) -> None:
    if not 0 <= number < len(plan.regions):
        raise Misfit(f"there is no region {number}", place)


def _check_pieces(plan: Plan, pieces: Pieces, place: str) -> None:
    for piece in pieces:
        if isinstance(piece, int) and not 0 <= piece < plan.vocab_size:
            raise Misfit(f"there is no token {piece}", place)
