"""Fingerprints group failures that are probably the same bug.

Two errors have the same fingerprint if they have the same class, come from the same functions, and have the same
message except for numbers, ids and quoted values. Line numbers do not count, so an edit elsewhere changes nothing.
"""

from __future__ import annotations

import re
from hashlib import sha256

from windlass.core.retry import Error

FRAMES = 3
"""The number of innermost frames that count. Outer frames may differ between calls."""
LENGTH = 8

_FRAME = re.compile(r'^[ \t]*File "(?P<file>[^"\n]*)", line \d+, in (?P<name>.+)$', re.MULTILINE)
_VARIES = re.compile(
    r"""'[^'\n]{0,200}'|"[^"\n]{0,200}"|"""  # quoted text is usually a value
    r"""\b0x[0-9a-f]+\b|\b[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}\b|\b(?=[a-f]*\d)[0-9a-f]{8,}\b|"""
    r"""\d+(?:[.,:]\d+)*""",
    re.IGNORECASE,
)


def fingerprint(error: Error) -> str:
    """Return the fingerprint of an error: eight hexadecimal digits.

    >>> fingerprint(Error(kind="KeyError", message="'a1'")) == fingerprint(Error(kind="KeyError", message="'b2'"))
    True
    """
    parts = [error.kind, *frames(error.traceback), likeness(error.message)]
    return sha256("\0".join(parts).encode(errors="replace")).hexdigest()[:LENGTH]


def error_group(error: Error | None, reason: str | None) -> str:
    """Return the group of a failed task: the fingerprint of the error that ended it."""
    return fingerprint(error or ended_without_error(reason))


def ended_without_error(reason: str | None) -> Error:
    """Return what stands in for the error of a task that failed without one, as in a cycle of prerequisites."""
    return Error(kind="Ended", message=reason or "")


def frames(traceback: str) -> list[str]:
    """Return the innermost frames as "file:function", with only the end of the path, which every machine shares."""
    found = [(match["file"], match["name"]) for match in _FRAME.finditer(traceback)]
    return [f"{_tail(file)}:{name}" for file, name in found[-FRAMES:]]


def likeness(message: str) -> str:
    """Return the first line of a message with # in place of values."""
    first = message.strip().partition("\n")[0][:500]
    return _VARIES.sub("#", first)


def _tail(path: str) -> str:
    return "/".join(path.replace("\\", "/").split("/")[-2:])
