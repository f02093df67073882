"""A duty of the node: one thread that calls a `step` in a loop.

A step that raises is called again after a wait that grows with every failure. Too many failures in a short time end
the node: a node that looks alive but does only half its work is worse than none.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from windlass.clock import Clock

logger = logging.getLogger("windlass.node")

MAX_FAILURES = 10
"""How many failures of one duty within `WITHIN_SECONDS` end the node."""
WITHIN_SECONDS = 60.0
SHORTEST_WAIT, LONGEST_WAIT = 0.1, 1.0
"""Seconds before a failed duty is restarted: after the first failure, and at most."""

OnFailure: TypeAlias = Callable[[str, Exception, float | None], None]
"""Called with the duty's name, the error, and the seconds until the restart; None without a restart."""


class NotRestartable(Exception):
    """The state of the node is no longer reliable. A duty that raises this is not restarted."""


class Failures:
    """The failures of one duty, and the wait after each."""

    def __init__(self) -> None:
        self._moments: deque[float] = deque()

    def next_wait(self, now: float) -> float | None:
        """Count a failure. Return how long to wait before the restart; None after too many failures."""
        self._moments.append(now)
        while self._moments[0] < now - WITHIN_SECONDS:
            self._moments.popleft()
        if len(self._moments) >= MAX_FAILURES:
            return None
        return min(LONGEST_WAIT, SHORTEST_WAIT * 2.0 ** (len(self._moments) - 1))


class Duty(threading.Thread):
    """Calls one `step` until the node ends or the duty has failed too often."""

    def __init__(
        self,
        name: str,
        step: Callable[[], None],
        over: threading.Event,
        failed: OnFailure,
        clock: Clock,
        *,
        restarts: bool = True,
    ) -> None:
        super().__init__(name=f"windlass-{name}", daemon=True)
        self._duty = name
        self._step = step
        self._over = over
        self._failed = failed
        self._restarts = restarts
        self._clock = clock
        self._failures = Failures()

    def run(self) -> None:
        while not self._over.is_set():
            try:
                self._step()
            except Exception as error:
                if self._over.is_set():  # The node is closing, and has closed the store.
                    return
                again_in = self._failures.next_wait(self._clock.monotonic())
                if not self._restarts or isinstance(error, NotRestartable):
                    again_in = None
                logger.exception("the duty %s failed", self._duty)
                self._failed(self._duty, error, again_in)
                if again_in is None:
                    return
                self._clock.wait(self._over, again_in)
