"""Clocks, waiting and randomness. No other module asks the system for the time or for random numbers.

A store with a clock uses it in every statement, so that tests control the time. A store without one uses its own:
`clock_timestamp()` in PostgreSQL, the system clock for SQLite and memory. The threads of a node measure durations and
wait only through their clock, so that a test or a simulation can run a node in virtual time.
"""

from __future__ import annotations

import os
import random
import struct
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from windlass.core.times import Micros, micros


class Flag(Protocol):
    """An event that can be waited for, such as `threading.Event`."""

    def wait(self, timeout: float | None = None) -> bool: ...


class Clock(Protocol):
    """The time, and the ways to let it pass."""

    def now(self) -> Micros:
        """Return the wall-clock time in microseconds since 1970, UTC. It may jump."""
        ...

    def monotonic(self) -> float:
        """Return seconds on a clock that only goes forward."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait this long."""
        ...

    def wait(self, flag: Flag, seconds: float) -> bool:
        """Wait until the flag is set, at most this long. Return True if it is set."""
        ...

    def wait_for_notify(self, condition: threading.Condition, seconds: float) -> bool:
        """Wait for a notification of the condition, which the caller holds, at most this long."""
        ...


BOOT_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""The system clock that counts from boot. It includes the time asleep where the system has such a clock."""


def monotonic() -> float:
    """Return seconds since boot. The clock never jumps, runs while the machine sleeps, and is shared by processes."""
    return time.clock_gettime(BOOT_CLOCK)


def sleep(seconds: float) -> None:
    """Wait this long."""
    time.sleep(seconds)


class SystemClock:
    """The clocks of this machine."""

    def now(self) -> Micros:
        return time.time_ns() // 1_000

    def monotonic(self) -> float:
        return time.clock_gettime(BOOT_CLOCK)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def wait(self, flag: Flag, seconds: float) -> bool:
        return flag.wait(seconds)

    def wait_for_notify(self, condition: threading.Condition, seconds: float) -> bool:
        return condition.wait(seconds)


class BootClock(SystemClock):
    """A clock whose `now` counts from boot. It never jumps, so leases on one machine are judged by it."""

    def now(self) -> Micros:
        return time.clock_gettime_ns(BOOT_CLOCK) // 1_000


def boot_id() -> str:
    """Return an id of the boot that `BootClock` counts from; empty if the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


class ManualClock:
    """A clock for tests. It stands still until it is advanced; waiting advances it and returns at once."""

    def __init__(self, start: Micros = 1_800_000_000_000_000) -> None:
        self._now = start
        self._monotonic = start
        self._lock = threading.Lock()

    def now(self) -> Micros:
        with self._lock:
            return self._now

    def monotonic(self) -> float:
        with self._lock:
            return self._monotonic / 1e6

    def advance(self, by: timedelta) -> None:
        """Move the clock. A negative step sets back the wall clock only."""
        with self._lock:
            self._now += micros(by)
            self._monotonic += max(0, micros(by))

    def sleep(self, seconds: float) -> None:
        self.advance(timedelta(seconds=max(0.0, seconds)))

    def wait(self, flag: Flag, seconds: float) -> bool:
        if not flag.wait(0):
            self.sleep(seconds)
        return flag.wait(0)

    def wait_for_notify(self, condition: threading.Condition, seconds: float) -> bool:
        del condition  # Nobody else runs while the test waits.
        self.sleep(seconds)
        return False


def entropy(numbers: int) -> Callable[[], int]:
    """Return a source of this many random 64-bit numbers, drawn from the system in one call.

    They differ in every process, also in forked ones.
    """
    return iter(struct.unpack(f"{numbers}Q", os.urandom(8 * numbers))).__next__


def jitter(low: float, high: float) -> float:
    """Return a random factor, so that many processes do not act at the same moment."""
    return random.uniform(low, high)
