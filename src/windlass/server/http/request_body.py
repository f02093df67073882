"""Reading request bodies, with a limit on their size and on the time they take.

Compressed bodies are refused: a small one can expand to any size.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request

from windlass.errors import Refused
from windlass.server.http.body_budget import HeldBytes
from windlass.server.settings import MAX_BODY
from windlass.wire.strict_json import decode_json

JSON = "application/json"
NDJSON = "application/x-ndjson"
FORM = "application/x-www-form-urlencoded"
MAX_FIELDS = 2_000
PARSED_AT_ONCE = 8_192
"""The number of bytes above which a body is parsed in a thread, so that other requests are not delayed."""


async def read_json(request: Request, type: Any, seconds: float, held: HeldBytes, *, optional: bool) -> Any:
    """Read and decode the body. An empty body is None if it is optional."""
    data = await _read(request, seconds, held)
    if not data and optional:
        return None
    check_media(request, JSON)
    if len(data) > PARSED_AT_ONCE:
        return await asyncio.to_thread(decode_json, data, type)
    return decode_json(data, type)


async def read_form(request: Request, seconds: float, held: HeldBytes) -> list[tuple[str, str]]:
    """Read the fields of an HTML form, in their order."""
    check_media(request, FORM)
    data = await _read(request, seconds, held)
    try:
        return parse_qsl(data.decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict")
    except ValueError:
        text = f"The form is not valid URL-encoded text with at most {MAX_FIELDS:,} fields."
        raise Refused("invalid_request", text) from None


async def read_lines(request: Request, seconds: float) -> AsyncGenerator[list[bytes]]:
    """Yield the lines of a body of any length, in groups as they arrive. `seconds` limits the wait for more data."""
    chunks = request.stream()
    rest: list[bytes] = []
    """The parts of a line whose end has not arrived. They are joined once, however many they are."""
    size = 0
    while True:
        try:
            async with asyncio.timeout(seconds):
                chunk = await anext(chunks, None)
        except TimeoutError:
            raise Refused("request_too_slow", f"No data arrived for {seconds:g} s.") from None
        if chunk is None:
            break
        first, *more = chunk.split(b"\n")
        rest.append(first)
        size += len(first)
        _check_line(size)
        if more:
            whole = [b"".join(rest), *more[:-1]]
            rest, size = [more[-1]], len(more[-1])
            _check_line(size)
            yield whole
    last = b"".join(rest)
    if last.strip():
        yield [last]


def _check_line(size: int) -> None:
    if size > MAX_BODY:
        raise Refused("body_too_large", f"A line is longer than {MAX_BODY:,} bytes.")


def check_media(request: Request, expected: str) -> None:
    """Refuse a body of another media type, and a compressed one."""
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given != expected:
        raise Refused("unsupported_media_type", f"Content-Type is {given or 'missing'}. Send {expected}.")
    encoding = request.headers.get("content-encoding", "identity").lower()
    if encoding != "identity":
        raise Refused("unsupported_media_type", f"Content-Encoding is {encoding}. Send the body uncompressed.")


async def _read(request: Request, seconds: float, held: HeldBytes) -> bytes:
    if _declared_length(request) > MAX_BODY:
        raise _too_large()
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                size += len(part)
                if size > MAX_BODY:
                    raise _too_large()
                held.add(len(part))
                parts.append(part)
    except TimeoutError:
        raise Refused("request_too_slow", f"The body did not arrive within {seconds:g} s.") from None
    except ClientDisconnect:
        raise Refused("request_too_slow", "The client closed the connection before the body arrived.") from None
    return b"".join(parts)


def _declared_length(request: Request) -> int:
    text = request.headers.get("content-length", "0")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0


def _too_large() -> Refused:
    return Refused("body_too_large", f"The body is larger than {MAX_BODY:,} bytes. Send less, or use tasks:stream.")
