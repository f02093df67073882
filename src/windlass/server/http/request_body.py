"""Reading what a request brings: counted while it is read, and timed.

Compressed bodies are refused, because a small one can unfold to anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from starlette.requests import ClientDisconnect, Request

from windlass.errors import Refused
from windlass.server.settings import MAX_BODY

JSON = "application/json"
NDJSON = "application/x-ndjson"


def check_media(request: Request, expected: str) -> None:
    """Refuse a body of another type, and one that is compressed."""
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given != expected:
        raise Refused("unsupported_media_type", f"Content-Type is {given or 'missing'}; send {expected}")
    encoding = request.headers.get("content-encoding", "identity").lower()
    if encoding != "identity":
        raise Refused("unsupported_media_type", f"Content-Encoding is {encoding}; send the body as it is")


async def read_body(request: Request, seconds: float) -> bytes:
    """All of the body, if it is not too large and comes in time."""
    if _length(request) > MAX_BODY:
        raise _too_large()
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                size += len(part)
                if size > MAX_BODY:
                    raise _too_large()
                parts.append(part)
    except TimeoutError:
        raise Refused("request_too_slow", f"the body did not come within {seconds:g} s") from None
    except ClientDisconnect:
        raise Refused("request_too_slow", "the connection was closed before the body had come") from None
    return b"".join(parts)


async def read_lines(request: Request, seconds: float) -> AsyncGenerator[list[bytes]]:
    """The lines of a body without end, as many at a time as have come; none of them too long, none too slow."""
    chunks, rest = request.stream(), b""
    while True:
        try:
            async with asyncio.timeout(seconds):
                chunk = await anext(chunks, None)
        except TimeoutError:
            raise Refused("request_too_slow", f"nothing came for {seconds:g} s") from None
        if chunk is None:
            break
        *whole, rest = (rest + chunk).split(b"\n")
        if len(rest) > MAX_BODY:
            raise Refused("body_too_large", f"a line has more than {MAX_BODY:,} bytes")
        if whole:
            yield whole
    if rest.strip():
        yield [rest]


def _length(request: Request) -> int:
    text = request.headers.get("content-length", "0")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0


def _too_large() -> Refused:
    return Refused("body_too_large", f"the body has more than {MAX_BODY:,} bytes; send less, or use tasks:stream")
