"""The thread that fires crons. Every node tries; the store accepts each nominal time once.

A node fires the crons of its own app, and of those created at run time every one whose handler it has. After a pause
the misfire policy decides about missed times: `last` fires the latest of them, `all` fires each (at most a hundred),
`skip` none. `core.schedule` says when the times are.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import timedelta
from zoneinfo import ZoneInfoNotFoundError

import msgspec

from windlass.clock import Clock
from windlass.core.manifest import CronInfo, DueCrons, HandlerInfo, cron_key
from windlass.core.schedule import find_missed, next_time
from windlass.core.task import NewTask
from windlass.core.times import Micros, micros
from windlass.errors import InvalidTask, KeyBusy, KeyConflict, QueueFull, StoreError, UnknownCron
from windlass.events import Events, StoreCallFailed
from windlass.stores.protocol import CronState, Store

LATE = timedelta(minutes=1)
"""How late a firing may come before it counts as missed."""

MAX_MISSED = 100

REFUSALS = (QueueFull, InvalidTask, KeyConflict, KeyBusy)
"""Errors of a single cron, not of the store."""


class Crons:
    """Fires crons. One in the code of another app is left to the nodes of that app."""

    def __init__(self, store: Store, events: Events, clock: Clock) -> None:
        self.handlers: dict[str, HandlerInfo] = {}
        self.names: frozenset[str] | None = None
        """The crons in the app's code; None to fire every cron whose handler is known."""
        self.wake = threading.Event()
        """Ends the wait of `step`."""
        self._store = store
        self._events = events
        self._clock = clock

    def step(self) -> None:
        """Fire what is due, then wait for the next full second of the store's clock."""
        began, now = self._clock.monotonic(), self._clock.now()
        try:
            if self.handlers:
                due = self._store.crons_to_fire(self.handlers)
                now = due.now
                self.fire(due)
        except StoreError as error:
            self._events.emit(StoreCallFailed(doing="fire crons", error=str(error)))
        now += round((self._clock.monotonic() - began) * 1e6)
        self._clock.wait(self.wake, 1.0 - now % 1_000_000 / 1e6)

    def fire(self, due: DueCrons) -> int:
        """Fire every cron that is due. Return how many tasks were submitted."""
        return sum(self._try(cron, due.now) for cron in due.crons if self._is_ours(cron))

    def _is_ours(self, cron: CronState) -> bool:
        return cron.at_run_time or self.names is None or cron.info.name in self.names

    def _try(self, cron: CronState, now: Micros) -> int:
        """Fire one cron. If it is refused (a full queue) or unreadable here (an unknown time zone), the others still
        fire, and it is tried again."""
        try:
            return self._fire(cron, now)
        except UnknownCron:  # It was removed since it was read.
            return 0
        except (*REFUSALS, ZoneInfoNotFoundError) as refusal:
            self._events.emit(StoreCallFailed(doing=f"fire the cron {cron.info.name}", error=str(refusal)))
            return 0

    def _fire(self, cron: CronState, now: Micros) -> int:
        if cron.paused:
            return 0
        if cron.fired is None:  # It is new, so nothing was missed.
            self._move(cron, now, runs=False)
            return 0
        missed = find_missed(cron.info, cron.fired, now, 10 * MAX_MISSED)
        if cron.at_run_time and not missed:  # Its time was computed with another database of time zones.
            self._move(cron, now, runs=False)
        return sum(
            self._move(cron, nominal, runs=runs) for nominal, runs in apply_misfire(cron.info.misfire, missed, now)
        )

    def _move(self, cron: CronState, nominal: Micros, *, runs: bool) -> int:
        """Record a nominal time, with a task if it runs. Return how many tasks were submitted.

        The store refuses if the cron has changed since it was read: the next step reads it again.
        """
        tasks = [self._task(cron.info, nominal)] if runs else []
        due = next_time(cron.info, nominal) if cron.at_run_time else None
        receipts = self._store.fire(cron.info.name, nominal, tasks, version=cron.version, due=due)
        return sum(receipt.created for receipt in receipts or ())

    def _task(self, cron: CronInfo, nominal: Micros) -> NewTask:
        fields = {**cron.task_fields(), "key": cron_key(cron.name, nominal)}
        return self.handlers[cron.handler].new_task(msgspec.json.decode(cron.args), fields)


def apply_misfire(misfire: str, due: Sequence[Micros], now: Micros) -> list[tuple[Micros, bool]]:
    """Return the due times to record, each with True if it submits a task."""
    late = [moment for moment in due if now - moment > micros(LATE)]
    punctual = [(moment, True) for moment in due if now - moment <= micros(LATE)]
    match misfire:
        case "all":
            return [(moment, True) for moment in late[-MAX_MISSED:]] + punctual
        case "last" if late and not punctual:
            return [(late[-1], True)]
        case _:
            return punctual or [(moment, False) for moment in late[-1:]]
