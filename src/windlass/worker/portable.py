"""Values that workers and nodes exchange as msgpack.

Where a caller may pass several types (times, ids), the value is a msgpack extension.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
from msgspec.structs import replace

from windlass.core.task import Added, NewTask
from windlass.core.times import micros, to_datetime, to_instant

_SPAN, _MOMENT, _ID = 1, 2, 3


def make_portable(value: Any) -> Any:
    """Return a `NewTask` or `Change` with its loosely typed fields encoded as extensions."""
    loose = [field for field in ("id", "deadline", "at", "expires") if field in value.__struct_fields__]
    changes: dict[str, Any] = {field: _to_extension(getattr(value, field)) for field in loose}
    if isinstance(value, NewTask):
        changes["prerequisites"] = [_to_extension(above) for above in value.prerequisites]
    return replace(value, **changes)


def encode_added(added: Added) -> bytes:
    """Encode the steps that an attempt adds."""
    then = None if added.then is None else make_portable(added.then)
    return encode(Added(steps=[make_portable(step) for step in added.steps], then=then))


def decode_added(data: bytes) -> Added:
    """Decode the steps that an attempt adds. Raise `msgspec.DecodeError`."""
    return decode(data, Added)


def _to_extension(value: object) -> object:
    match value:
        case timedelta():
            return msgspec.msgpack.Ext(_SPAN, str(micros(value)).encode())
        case datetime() if value.tzinfo is not None:
            return msgspec.msgpack.Ext(_MOMENT, str(to_instant(value)).encode())
        case UUID():
            return msgspec.msgpack.Ext(_ID, value.bytes)
        case _:
            return value


def _from_extension(code: int, data: memoryview) -> object:
    if code == _ID:
        return UUID(bytes=bytes(data))
    number = int(bytes(data))
    return timedelta(microseconds=number) if code == _SPAN else to_datetime(number).astimezone(UTC)


encode = msgspec.msgpack.Encoder(uuid_format="bytes").encode


def decode(value: bytes, kind: Any) -> Any:
    """Decode what `encode` encoded, by its type."""
    return msgspec.msgpack.decode(value, type=kind, ext_hook=_from_extension)
