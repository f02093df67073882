"""Limits of the call that runs in the current thread: is its result still wanted, and how long may it wait?

Nothing can stop a thread from outside. A server that gave up a read marks it as canceled here, and the loops and
database calls of that thread check it. Without limits, as in an application or a node, every call runs to its end.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager

from windlass.errors import Refused


class CallLimits:
    """The limits of one call."""

    def __init__(self, *, patience: float | None = None) -> None:
        self.patience = patience
        """How many seconds to wait for a database that does not answer; None for the store's own patience."""
        self.canceled = False
        """True once nobody waits for the result. Only calls that write nothing may be canceled."""


class _Current(threading.local):
    limits: CallLimits | None = None
    lock_wait: float | None = None


_current = _Current()


@contextmanager
def limited(limits: CallLimits) -> Generator[None]:
    """Apply limits to everything that this thread does within the block."""
    before, _current.limits = _current.limits, limits
    try:
        yield
    finally:
        _current.limits = before


@contextmanager
def limited_lock_wait(seconds: float | None) -> Generator[None]:
    """Let the transaction of a submit wait at most this long for each lock; then it raises `KeyBusy`."""
    before, _current.lock_wait = _current.lock_wait, seconds
    try:
        yield
    finally:
        _current.lock_wait = before


def current_lock_wait() -> float | None:
    """Return how many seconds a submit of this thread may wait for a lock; None for the store's own limits."""
    return _current.lock_wait


def is_canceled() -> bool:
    """Return True if nobody waits for the result of the current call."""
    limits = _current.limits
    return limits is not None and limits.canceled


def check_canceled() -> None:
    """Raise `Refused` if nobody waits for the result of the current call."""
    if is_canceled():
        raise Refused("timed_out", "The caller no longer waits for the result.")


def too_long(seconds: float) -> Refused:
    """Return the error for a read that took too long. The store is available, so it is not an outage."""
    return Refused("timed_out", f"A read took longer than {seconds:g} s and was stopped. Use a narrower filter.")


def current_patience() -> float | None:
    """Return how many seconds the current call may wait for a database that does not answer; None if not limited."""
    return None if _current.limits is None else _current.limits.patience
