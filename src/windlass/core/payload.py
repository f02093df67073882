"""Encoding of arguments and results as plain JSON, the same for every store.

PostgreSQL and SQLite treat NaN, NUL, lone surrogates and huge numbers differently, so these are refused here, before a
store sees them. The error names the argument.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, cast

import msgspec

from windlass.errors import InvalidPayload

MAX_BYTES = 256 * 1024
MAX_DEPTH = 64
DAMAGED = "[damaged]"
"""Marks stored arguments or a result that cannot be read."""
_LARGEST_INTEGER = 2**63 - 1

_encoder = msgspec.json.Encoder()
_canonical = msgspec.json.Encoder(order="sorted")


def encode_args(args: Mapping[Any, Any]) -> str:
    """Encode arguments as JSON text. Raise `InvalidPayload` with the name of the invalid argument."""
    for name, value in args.items():
        if type(name) is not str:
            raise InvalidPayload(f"args: the name {name!r} is a {type(name).__name__}. Argument names must be str.")
        _check_text(name, "args")
        _check(value, name, 2)
    text = _encoder.encode(dict(args))
    if len(text) > MAX_BYTES:
        largest = max(args, key=lambda name: len(_encoder.encode(args[name])))
        raise InvalidPayload(
            f"args: {len(text):,} bytes of JSON, of which {largest!r} is the largest part; "
            f"at most {MAX_BYTES:,} are allowed. Pass a reference to large data."
        )
    return text.decode()


def encode_result(value: Any, *, max_bytes: int = MAX_BYTES, name: str = "result") -> str | None:
    """Encode a handler's return value, or another value of this name, as JSON text; None for None."""
    if value is None:
        return None
    _check(value, name, 1)
    text = _encoder.encode(value)
    if len(text) > max_bytes:
        raise InvalidPayload(f"{name}: {len(text):,} bytes of JSON; at most {max_bytes:,} are allowed")
    return text.decode()


def canonical(value: Any) -> bytes:
    """Encode as canonical JSON, in which equal values are equal bytes."""
    return _canonical.encode(value)


def _check(value: Any, where: str, depth: int) -> None:
    kind = cast("type[object]", type(value))
    if kind is str:
        _check_text(value, where)
    elif kind is int:
        if not -_LARGEST_INTEGER <= value <= _LARGEST_INTEGER:
            raise InvalidPayload(f"{where}: the integer exceeds 64 bits. Pass it as text.")
    elif kind is float:
        if not isfinite(value):
            raise InvalidPayload(f"{where}: {value} is not valid JSON. Pass None or text instead.")
    elif kind is list or kind is tuple or kind is dict:
        _check_members(value, where, depth)
    elif value is not None and kind is not bool:
        raise InvalidPayload(f"{where}: a {type(value).__qualname__} cannot be encoded as JSON. Convert it first.")


def _check_members(value: list[Any] | tuple[Any, ...] | dict[Any, Any], where: str, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise InvalidPayload(f"{where.partition('[')[0]}: nested deeper than {MAX_DEPTH} levels, or it contains itself")
    if isinstance(value, dict):
        for name, member in value.items():
            if type(name) is not str:
                raise InvalidPayload(f"{where}: the key {name!r} is a {type(name).__name__}. JSON keys must be str.")
            _check_text(name, where)
            _check(member, f"{where}[{name!r}]", depth + 1)
    else:
        for index, member in enumerate(cast("list[Any]", value)):
            _check(member, f"{where}[{index}]", depth + 1)


def _check_text(text: str, where: str) -> None:
    if "\0" in text:
        raise InvalidPayload(f"{where}: NUL characters are not allowed. Remove them or encode the data.")
    if not text.isascii() and not _check_encodable(text):
        raise InvalidPayload(f"{where}: lone surrogates are not valid text. Decode the data with the right codec.")


def _check_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def decode_stored(text: str, *, is_object: bool = False) -> Any:
    """Decode stored arguments or a stored result. Text that is not JSON, as in a damaged row, becomes a note."""
    try:
        return msgspec.json.decode(text, type=dict[str, Any] if is_object else Any)
    except (msgspec.DecodeError, TypeError, RecursionError):
        pass
    note = f"{len(text):,} characters that are not valid"
    return {DAMAGED: note} if is_object else f"{DAMAGED} {note}"


def json_object(text: str) -> dict[str, Any]:
    """Decode a JSON object from an untrusted source. Anything else becomes an empty object."""
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, Any])
    except msgspec.DecodeError:
        return {}
