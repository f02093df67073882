"""The order of runnable tasks. A strategy maps a task to (band, rank, tie); equal ones are ordered by id.

The three numbers are stored with the task, so a claim scans one index, and the order is the same in every store. They
are computed when the task is submitted, and again when its priority, deadline or due time changes or its queue gets
another strategy. A retry keeps its place (docs/decisions/0003-a-retry-keeps-its-place.md).

A task is due when it is submitted, or at the later time that its caller gave. Under `aging`, its rank is
`urgent - priority * step`, where `urgent` is between the due time and `horizon` after it. So no task starves:

    A task with priority q that becomes due later than `horizon + (q - p) * step` after a task with priority p that can
    start does not start before it, whatever arrives.

Under `deadline`, a task that becomes due after the deadline of a task that can start does not start before it. Both
hold because a deadline before the due time counts as the due time: nobody gets ahead by a deadline in the past. Under
`priority`, tasks of a higher priority go first for as long as there are any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from windlass.core.names import check_name, check_type, shorten
from windlass.core.times import FOREVER, LATEST, Micros, micros, span
from windlass.errors import InvalidTask

MAX_WAITING = 2**62
_BAND = 2**62
OPEN: Mapping[str, Any] = {"paused": False, "paused_by": None, "paused_why": None, "paused_until": None}
"""The settings of a queue that is not paused."""


class Strategy(StrEnum):
    """How a queue orders its tasks."""

    PRIORITY = "priority"
    """Highest priority first, then earliest deadline, then first due."""
    DEADLINE = "deadline"
    """Earliest deadline first; without one, `horizon` after it was due. A deadline before the due time counts as it."""
    AGING = "aging"
    """One point of priority is worth `step` of waiting, so no task starves. A deadline counts within the `horizon`."""
    FIFO = "fifo"
    """First due, first served."""


class Place(NamedTuple):
    """A task's place in its queue; smaller comes first."""

    band: int
    rank: int
    tie: int


class Queue(Struct, frozen=True, kw_only=True):
    """The settings of a queue. A queue that was never configured has these defaults."""

    name: str
    strategy: Strategy = Strategy.PRIORITY
    horizon: timedelta = timedelta(hours=1)
    """For `deadline` and `aging`: the deadline of a task that has none, counted from when it is due."""
    step: timedelta = timedelta(minutes=1)
    """For `aging`: how much waiting one point of priority is worth."""
    paused: bool = False
    paused_by: str | None = None
    paused_why: str | None = None
    paused_until: Micros | None = None
    """When the pause ends by itself; None if it lasts until the queue is resumed."""
    max_waiting: int | None = None
    """Beyond this many unfinished, unleased tasks a submit is refused (`QueueFull`)."""
    weight: int = 1
    fair: bool = False

    def check(self) -> None:
        """Raise `InvalidTask` for invalid settings, naming the field."""
        check_name("queue", self.name)
        where = f"queue {self.name!r}: "
        check_type(f"{where}strategy", self.strategy, Strategy, f"use one of {', '.join(map(str, Strategy))}")
        for field in ("horizon", "step"):
            span(getattr(self, field), f"{where}{field}")
        for field, most in (("max_waiting", MAX_WAITING), ("paused_until", LATEST)):
            value: object = getattr(self, field)
            if value is not None and (type(value) is not int or not 0 <= value <= most):
                raise InvalidTask(f"{where}{field}={shorten(value)} is not an integer of 0 or more, or None")
        if type(self.weight) is not int or not 1 <= self.weight <= 1_000:
            raise InvalidTask(f"{where}weight={shorten(self.weight)} is not an integer from 1 to 1000")
        for field in ("paused", "fair"):
            check_type(f"{where}{field}", getattr(self, field), bool, "use True or False")
        for field in ("paused_by", "paused_why"):
            check_type(f"{where}{field}", getattr(self, field), (str, type(None)), "pass text or None")

    def is_paused(self, now: Micros) -> bool:
        """Return True if no task of the queue may start at this time."""
        return self.paused and (self.paused_until is None or now < self.paused_until)

    def at(self, now: Micros) -> Queue:
        """Return the settings at this time: without a pause that has ended."""
        return self if self.paused == self.is_paused(now) else replace(self, **OPEN)

    def orders_like(self, other: Queue) -> bool:
        """Return True if every task has the same place under both settings."""
        return (self.strategy, self.horizon, self.step) == (other.strategy, other.horizon, other.step)


def check_queue(queue: Queue) -> None:
    """Raise `InvalidTask` unless the value is a valid `Queue`."""
    check_type("queue", queue, Queue, "pass a Queue")
    queue.check()


def place(queue: Queue, *, priority: int, deadline: Micros | None, due: Micros) -> Place:
    """Return a task's place in its queue under the queue's strategy."""
    return _STRATEGIES[queue.strategy](queue, priority, deadline, due)


def _by_priority(_: Queue, priority: int, deadline: Micros | None, due: Micros) -> Place:
    return Place(-priority, FOREVER if deadline is None else deadline, due)


def _by_deadline(queue: Queue, priority: int, deadline: Micros | None, due: Micros) -> Place:
    return Place(0, due + micros(queue.horizon) if deadline is None else max(due, deadline), -priority)


def _by_age(queue: Queue, priority: int, deadline: Micros | None, due: Micros) -> Place:
    latest = due + micros(queue.horizon)
    urgent = latest if deadline is None else max(due, min(deadline, latest))
    # A step of years times a priority of a million exceeds 64 bits, so the rank is written as two numbers.
    band, rank = divmod(urgent - priority * micros(queue.step), _BAND)
    return Place(band, rank, due)


def _by_arrival(_queue: Queue, _priority: int, _deadline: Micros | None, due: Micros) -> Place:
    return Place(0, due, 0)


_STRATEGIES: dict[Strategy, Callable[[Queue, int, Micros | None, Micros], Place]] = {
    Strategy.PRIORITY: _by_priority,
    Strategy.DEADLINE: _by_deadline,
    Strategy.AGING: _by_age,
    Strategy.FIFO: _by_arrival,
}
