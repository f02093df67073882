"""Clocks. Nobody else in Windlass asks the machine for the time, or for randomness.

A store given a clock uses it in every statement, so a test can bend time; without one the store's own clock
(PostgreSQL's `clock_timestamp()`, the machine's for SQLite and memory) is the only judge.
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


class Clock(Protocol):
    """Tells the time in microseconds since 1970, UTC."""

    def now(self) -> Micros:
        """The present moment."""
        ...


class SystemClock:
    """The machine's wall clock."""

    def now(self) -> Micros:
        return time.time_ns() // 1_000


BOOT_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Counts from when the machine booted; sleep included, where the system has such a clock."""


class BootClock:
    """Time since this machine booted, sleep included. It never jumps, so leases on one machine are judged by it."""

    def now(self) -> Micros:
        return time.clock_gettime_ns(BOOT_CLOCK) // 1_000


def boot_id() -> str:
    """Which start of this machine `BootClock` counts from; empty where the system does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


class ManualClock:
    """A clock in the test's hand: it stands still until it is moved."""

    def __init__(self, start: Micros = 1_800_000_000_000_000) -> None:
        self._now = start
        self._lock = threading.Lock()

    def now(self) -> Micros:
        with self._lock:
            return self._now

    def advance(self, by: timedelta) -> None:
        """Move the clock; a negative step is a clock that was set back."""
        with self._lock:
            self._now += micros(by)


def monotonic() -> float:
    """Seconds on a clock that only goes forward, also while the machine sleeps, and that its processes share."""
    return time.clock_gettime(BOOT_CLOCK)


def sleep(seconds: float) -> None:
    """Wait, for the pauses between tries."""
    time.sleep(seconds)


def entropy(numbers: int) -> Callable[[], int]:
    """So many random 64-bit numbers, drawn from the system at once: different in every process, forked ones too."""
    return iter(struct.unpack(f"{numbers}Q", os.urandom(8 * numbers))).__next__


def jitter(low: float, high: float) -> float:
    """A random factor, so that many processes do not act at once."""
    return random.uniform(low, high)
