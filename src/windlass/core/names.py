"""Checks of names and text. Names appear in URLs, metrics, file names and log lines, so they are restricted."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from windlass.errors import InvalidTask

MAX_AUTHOR = 128
"""How many characters the name of an author may have."""
_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


def check_name(field: str, value: object) -> None:
    """Raise `InvalidTask` unless the value is a valid name."""
    if not isinstance(value, str) or not is_name(value):
        raise InvalidTask(f"{field}={shorten(value)} is not a valid name. Use 1 to 128 of A-Z a-z 0-9 _ . : -")


def check_text(field: str, value: object, longest: int = 512) -> None:
    """Raise `InvalidTask` unless the value is short, printable text."""
    fits = isinstance(value, str) and 0 < len(value) <= longest and "\0" not in value and value.isprintable()
    if not fits:
        raise InvalidTask(f"{field}={shorten(value)} is not valid text. Use 1 to {longest} printable characters.")


def check_type(field: str, value: object, kind: type[Any] | tuple[type[Any], ...], right: str) -> None:
    """Raise `InvalidTask` unless the value has one of these types. `right` says what to pass instead."""
    if not isinstance(value, kind):
        raise InvalidTask(f"{field}={shorten(value)} is a {type(value).__qualname__}; {right}")


def check_author(by: str, why: str) -> None:
    """Check that author and reason fit on one line of the audit log."""
    check_text("by", by, MAX_AUTHOR)
    if why:
        check_text("why", why, 500)


@lru_cache(maxsize=4_096)
def is_name(text: str) -> bool:
    """Return True if the text is a plain name. Cached, because the same few names come with every task."""
    return _NAME.fullmatch(text) is not None


def shorten(value: object) -> str:
    """Return a value as text for an error message, cut to one line."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - the repr of a caller's class must not replace the message
        text = object.__repr__(value)
    return text if len(text) <= 80 else text[:77] + "…"
