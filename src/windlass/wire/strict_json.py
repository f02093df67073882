"""Strict JSON decoding for HTTP bodies and command line input. Each text is parsed once.

Objects with a duplicate name are rejected: parsers differ in which value they keep, so a proxy that checks a request
and a server that acts on it could see different values. NaN, infinities and unpaired surrogates are not JSON.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

import msgspec

from windlass.errors import Refused

_PATH = re.compile(r" - at `\$?\.?(?P<path>[^`]*)`$")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def decode_json(data: bytes, type: Any, where: str = "body") -> Any:
    """Decode JSON as `type`, or raise `Refused` naming the field."""
    try:
        text = data.decode()
        value = _DECODER.decode(text)
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise Refused("invalid_json", f"{where}: nested too deeply. The limit is 64 levels.") from None
    except ValueError as error:
        raise Refused("invalid_json", f"{where}: {error}") from None
    try:
        return msgspec.convert(value, type)
    except msgspec.ValidationError as error:
        raise invalid_shape(error, where) from None
    except RecursionError:
        raise Refused("invalid_json", f"{where}: nested too deeply. The limit is 64 levels.") from None


def invalid_shape(error: msgspec.ValidationError, where: str) -> Refused:
    """Turn a validation error of a body or of query parameters into a refusal that names the field."""
    text = str(error)
    at = _PATH.search(text)
    field = at["path"] if at is not None and at["path"] else where
    return Refused("invalid_request", f"{field}: {_PATH.sub('', text)}", field=field)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise ValueError(f"duplicate name {name[:80]!r} in one object")
            seen.add(name)
    return found


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"number out of range: {text[:80]}")
    return value


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_finite, parse_constant=_reject_constant)
