"""Record each start of a handler in a file: the task, the time and the process. Results are checked against it.

The handlers of all systems call `record_start` and nothing else, so all have the same cost: one atomic `write` of 24
bytes to a file opened for appending.
"""

from __future__ import annotations

import os
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

FILE = "BENCH_EFFECTS"
_FORM = struct.Struct("<qqq")


class Effect(NamedTuple):
    """One start of a handler."""

    number: int
    at: int
    """`time.monotonic_ns`, which all processes of a machine share."""
    pid: int


class WrongResult(RuntimeError):
    """Tasks ran too often, too rarely or in the wrong order, so the measurement is invalid."""


def record_start(number: int) -> None:
    """Record that the task with this number starts."""
    os.write(_open_file(), _FORM.pack(number, time.monotonic_ns(), os.getpid()))


@cache
def _open_file() -> int:
    """Open the file of this process, which records in one file only."""
    return os.open(os.environ[FILE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)


def record_and_sleep(number: int, seconds: float) -> None:
    """Record the start of the long task, and sleep."""
    record_start(number)
    time.sleep(seconds)


def count_effects(path: Path) -> int:
    """Return the number of starts. It is cheap enough for polling."""
    return path.stat().st_size // _FORM.size if path.exists() else 0


def read_effects(path: Path) -> list[Effect]:
    """Return all starts in the order in which they were written."""
    data = path.read_bytes() if path.exists() else b""
    return [Effect(*fields) for fields in _FORM.iter_unpack(data[: len(data) // _FORM.size * _FORM.size])]


def check_once(path: Path, numbers: Iterable[int]) -> list[Effect]:
    """Check that each of these tasks started exactly once, and return their starts. Other tasks are ignored."""
    wanted = set(numbers)
    found = [one for one in read_effects(path) if one.number in wanted]
    often = Counter(one.number for one in found)
    more = [number for number, times in often.items() if times > 1]
    if more or len(often) < len(wanted):
        raise WrongResult(
            f"Of {len(wanted)} tasks, {len(wanted) - len(often)} did not run and {len(more)} ran more than once."
        )
    return found


def wait_until(condition: Callable[[], bool], what: str, within: float, pause: float = 0.001) -> None:
    """Poll until a condition is true, or raise WrongResult."""
    give_up_at = time.monotonic() + within
    while not condition():
        if time.monotonic() > give_up_at:
            raise WrongResult(f"Not true after {within:.0f} s: {what}")
        time.sleep(pause)
