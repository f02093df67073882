"""Parses the parameters of a request: those in the path, those of the query, and the fields of a form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, get_origin

import msgspec
from starlette.requests import Request

from windlass.errors import Refused
from windlass.wire.strict_json import invalid_shape


def parse_path(types: Mapping[str, Any], request: Request) -> dict[str, Any]:
    """Parse the parameters in the path."""
    return convert_path(types, request.path_params)


def convert_path(types: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the texts of path parameters to their types. A text that does not fit names nothing."""
    try:
        return {name: msgspec.convert(given[name], type, strict=False) for name, type in types.items()}
    except msgspec.ValidationError:
        raise Refused("not_found", "Nothing exists under this name.") from None


def parse_query(type: Any, request: Request) -> Any:
    """Parse the query parameters. Only list fields may be repeated."""
    return convert_fields(type, request.query_params.multi_items(), "query")


def convert_fields(type: Any, given: Iterable[tuple[str, str]], what: str) -> Any:
    """Convert names and texts to a struct. Only list fields may be repeated."""
    lists = {field.name for field in msgspec.structs.fields(type) if get_origin(field.type) is list}
    found: dict[str, Any] = {}
    for name, value in given:
        if name in lists:
            found.setdefault(name, []).append(value)
        elif name in found:
            raise Refused("invalid_request", f"{name}: given more than once", field=name)
        else:
            found[name] = value
    try:
        return msgspec.convert(found, type, strict=False)
    except msgspec.ValidationError as error:
        raise invalid_shape(error, what) from None
