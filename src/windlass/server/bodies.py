"""Reading what a request brings: counted while it is read, timed, and strict about JSON.

Compressed bodies are refused, because a small one can unfold to anything. An object with one name twice is refused too:
parsers differ in which of the two they take, so one that checks and one that acts could see different things.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any, NoReturn

import msgspec
from starlette.requests import ClientDisconnect, Request

from windlass.server.problems import Refused, wrong_shape
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


def decoded(text: bytes, kind: Any, where: str = "body") -> Any:
    """JSON as this type, or a refusal that names the field."""
    try:
        value = msgspec.json.decode(text, type=kind)
        json.loads(text, object_pairs_hook=_once, parse_constant=_constant)
    except msgspec.ValidationError as error:
        raise wrong_shape(error, where) from None
    except RecursionError:
        raise Refused("invalid_json", f"{where}: nested too deeply; at most 64 levels are taken") from None
    except ValueError as error:  # Of msgspec for what is no JSON, of UTF-8 for what is no text, of `_once`.
        raise Refused("invalid_json", f"{where}: {error}") from None
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {twice[:80]!r} stands twice in one object")
    return found


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _length(request: Request) -> int:
    text = request.headers.get("content-length", "0")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0


def _too_large() -> Refused:
    return Refused("body_too_large", f"the body has more than {MAX_BODY:,} bytes; send less, or use tasks:stream")
