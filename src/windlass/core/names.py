"""What may be a name. Names stand in URLs, metrics, file names and log lines, so they are plain."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from windlass.errors import InvalidTask

_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


def check_name(field: str, value: object) -> None:
    """Refuse what is not a plain name: those stand in URLs, metrics and file names."""
    if not isinstance(value, str) or not is_name(value):
        raise InvalidTask(f"{field}={shorten(value)} is not a name; give 1 to 128 of A-Z a-z 0-9 _ . : -")


def check_text(field: str, value: object, longest: int = 512) -> None:
    """Refuse what is not short, clean text."""
    fits = isinstance(value, str) and 0 < len(value) <= longest and "\0" not in value and value.isprintable()
    if not fits:
        raise InvalidTask(f"{field}={shorten(value)} is not taken; give 1 to {longest} printable characters")


def check_type(field: str, value: object, kind: type[Any] | tuple[type[Any], ...], right: str) -> None:
    """Refuse a value that is of none of these types; `right` says what to give instead."""
    if not isinstance(value, kind):
        raise InvalidTask(f"{field}={shorten(value)} is a {type(value).__qualname__}; {right}")


def check_author(by: str, why: str) -> None:
    """Refuse who orders something and why, if it is too long for one line of the ledger beside what follows from it."""
    check_text("by", by, 128)
    if why:
        check_text("why", why, 500)


@lru_cache(maxsize=4_096)
def is_name(text: str) -> bool:
    """Return True if the text is a plain name. Cached, because the same few names come with every task."""
    return _NAME.fullmatch(text) is not None


def shorten(value: object) -> str:
    """Return a value as an error message shows it: never more than a line."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - of a caller's own class; the message is about something else
        text = object.__repr__(value)
    return text if len(text) <= 80 else text[:77] + "…"
