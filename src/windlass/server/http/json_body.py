"""JSON taken strictly, by one rule for HTTP and the command line.

An object with one name twice is refused: parsers differ in which of the two they take, so one that checks and one that
acts could see different things. NaN, infinities and what is no text are no JSON.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

import msgspec

from windlass.errors import Refused
from windlass.server.http.problems import wrong_shape


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
