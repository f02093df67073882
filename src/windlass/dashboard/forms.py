"""Read the fields of forms, which are text and may be empty."""

from __future__ import annotations

from windlass.errors import Refused


def parse_count(field: str, text: str) -> int:
    """Return a whole number that is 0 or more."""
    try:
        number = int(text.strip())
    except ValueError:
        number = -1
    if number < 0:
        raise Refused("invalid_request", f"{field}={text!r} is not a whole number. Use 0 or more.", field=field)
    return number
