"""Checks the outcome that a worker reports. Handlers can write to its socket, so nothing in it is trusted.

A worker of ours has checked and cut the same values before. So whatever is found here was written by a handler, and the
node treats it as a crash of the worker.
"""

from __future__ import annotations

import re

import msgspec
from msgspec.structs import replace

from windlass.client.execution import MAX_KIND, MAX_MESSAGE, MAX_TRACEBACK
from windlass.core.continuation import MAX_ADDED
from windlass.core.payload import MAX_DEPTH
from windlass.core.retry import Error, storable
from windlass.worker.portable import decode_added
from windlass.worker.wire import Done

_OMITTED = 100
"""Characters of the line that says how much of a text was left out."""
_ESCAPED = re.compile(rb"\\.")
_AS_LISTS = bytes.maketrans(b"{}", b"[]")
_REST = bytes(set(range(256)) - set(b'"[]{}'))
_validate = msgspec.json.Decoder(msgspec.Raw).decode


def find_fault(end: Done, max_result_bytes: int) -> str | None:
    """Return what is wrong with a reported end; None if it can be stored."""
    if end.error is not None and (fault := _find_error_fault(end.error)) is not None:
        return fault
    if end.added is not None and (fault := _find_added_fault(end.added)) is not None:
        return fault
    return None if end.result is None else _find_result_fault(end.result, max_result_bytes)


def make_storable(end: Done) -> Done:
    """Return the end with characters that a database cannot store replaced."""
    if end.log is None and end.error is None and end.stopped is None:
        return end
    return replace(
        end,
        log=None if end.log is None else storable(end.log),
        error=None if end.error is None else end.error.storable(),
        stopped=None if end.stopped is None else storable(end.stopped),
    )


def _find_error_fault(error: Error) -> str | None:
    for field, limit in (("kind", MAX_KIND), ("message", MAX_MESSAGE), ("traceback", MAX_TRACEBACK)):
        size = len(getattr(error, field))
        if size > limit + _OMITTED:
            return f"an error whose {field} has {size:,} characters; at most {limit:,} are accepted"
    return None


def _find_added_fault(added: bytes) -> str | None:
    """Return what is wrong with added steps. Whether they make sense is up to the store, which may refuse them."""
    try:
        steps = decode_added(added).steps
    except (msgspec.DecodeError, ValueError, OverflowError, RecursionError) as error:
        return f"added steps that cannot be decoded: {error}"
    return None if len(steps) <= MAX_ADDED else f"{len(steps):,} added steps; at most {MAX_ADDED:,} are accepted"


def _find_result_fault(result: str, max_bytes: int) -> str | None:
    encoded = result.encode()
    if len(encoded) > max_bytes:
        return f"a result of {len(encoded):,} bytes; at most {max_bytes:,} are accepted"
    try:
        _validate(encoded)
    except (ValueError, RecursionError) as error:
        return f"a result that is not JSON: {error}"
    if b"\\" in encoded and b"\\u0000" in encoded.replace(b"\\\\", b""):
        return "a result with a NUL character"
    if len(encoded) > 2 * MAX_DEPTH and _is_too_deep(encoded):
        return f"a result that is nested deeper than {MAX_DEPTH} levels"
    return None


def _is_too_deep(result: bytes) -> bool:
    """Return True if valid JSON is nested deeper than allowed. Only brackets outside of strings count.

    It does not decode the text: the hub waits for this.
    """
    unescaped = _ESCAPED.sub(b"", result) if b"\\" in result else result
    # Only quotes and brackets, then without the strings that contain none, then without the other strings.
    brackets = unescaped.translate(_AS_LISTS, _REST).replace(b'""', b"")
    if b'"' in brackets:
        brackets = b"".join(brackets.split(b'"')[::2])
    for _ in range(MAX_DEPTH):
        brackets = brackets.replace(b"[]", b"")
        if not brackets:
            return False
    return True
