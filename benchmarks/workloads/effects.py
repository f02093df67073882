"""What handlers leave behind: which task began, when, and in which process. Counted instead of trusting a library.

Every handler of every system calls `leave` and nothing else, so all pay the same for being counted: one `write` of 24
bytes to a file opened for appending, which is never torn.
"""

from __future__ import annotations

import os
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

FILE = "BENCH_EFFECTS"
_FORM = struct.Struct("<qqq")
_open: dict[str, int] = {}


class Effect(NamedTuple):
    """One start of a handler."""

    number: int
    at: int
    """`time.monotonic_ns`, which is the same clock in every process of a machine."""
    pid: int


class Wrong(RuntimeError):
    """Tasks ran too often, too rarely or in the wrong order: what was measured would mean nothing."""


def leave(number: int) -> None:
    """Say that the task of this number begins."""
    path = os.environ[FILE]
    file = _open.get(path)
    if file is None:
        file = _open[path] = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.write(file, _FORM.pack(number, time.monotonic_ns(), os.getpid()))


def linger(number: int, seconds: float) -> None:
    """The handler of the long task."""
    leave(number)
    time.sleep(seconds)


def count(path: Path) -> int:
    """How many starts there are; cheap enough to be asked all the time."""
    return path.stat().st_size // _FORM.size if path.exists() else 0


def read(path: Path) -> list[Effect]:
    """All starts, in the order in which they were written."""
    data = path.read_bytes() if path.exists() else b""
    return [Effect(*fields) for fields in _FORM.iter_unpack(data[: len(data) // _FORM.size * _FORM.size])]


def check_once(path: Path, numbers: Iterable[int]) -> list[Effect]:
    """That each of these tasks began exactly once; their starts. Other numbers are not looked at."""
    wanted = set(numbers)
    found = [one for one in read(path) if one.number in wanted]
    often = Counter(one.number for one in found)
    more = [number for number, times in often.items() if times > 1]
    if more or len(often) < len(wanted):
        raise Wrong(f"of {len(wanted)} tasks {len(wanted) - len(often)} did not run and {len(more)} ran more than once")
    return found


def wait_until(condition: Callable[[], bool], what: str, within: float, pause: float = 0.001) -> None:
    """Wait for what gives no sign of itself."""
    give_up_at = time.monotonic() + within
    while not condition():
        if time.monotonic() > give_up_at:
            raise Wrong(f"after {within:.0f} s still not so: {what}")
        time.sleep(pause)
