"""Which failures are one bug: a short name for an error that leaves out what differs from run to run. Pure.

Two errors have one fingerprint when they are of one kind, came from the same functions, and say the same but for
numbers, ids and quoted values. Line numbers are left out, so that an edit above the bug does not make it a new one.
"""

from __future__ import annotations

import re
from hashlib import sha256

from windlass.core.retry import Error

FRAMES = 3
"""So many of the innermost frames count: the way to them may differ."""
LENGTH = 8

_FRAME = re.compile(r'^\s*File "(?P<file>[^"\n]*)", line \d+, in (?P<name>.+)$', re.MULTILINE)
_VARIES = re.compile(
    r"""'[^'\n]{0,200}'|"[^"\n]{0,200}"|"""  # what is quoted is mostly a value
    r"""\b0x[0-9a-f]+\b|\b[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}\b|\b(?=[a-f]*\d)[0-9a-f]{8,}\b|"""
    r"""\d+(?:[.,:]\d+)*""",
    re.IGNORECASE,
)


def fingerprint(error: Error) -> str:
    """Eight hexadecimal digits.

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
    """The innermost frames, as file and function; of a file's path only its end, which is the same on every machine."""
    found = [(match["file"], match["name"]) for match in _FRAME.finditer(traceback)]
    return [f"{_tail(file)}:{name}" for file, name in found[-FRAMES:]]


def likeness(message: str) -> str:
    """What a message says whatever the values in it: its first line, with # for them."""
    first = message.strip().partition("\n")[0][:500]
    return _VARIES.sub("#", first)


def _tail(path: str) -> str:
    return "/".join(path.replace("\\", "/").split("/")[-2:])
