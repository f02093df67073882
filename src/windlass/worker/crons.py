"""The thread that fires crons. Every node tries; the store accepts each nominal time once.

After a pause the misfire policy decides about missed times: `last` fires the latest of them, `all` fires each (at most
a hundred), `skip` none. A time that does not exist on the day the clocks go forward fires when it would have been
reached. A time that occurs twice in autumn fires once, the first time.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from cronsim import CronSim, CronSimError

from windlass.clock import Clock
from windlass.core.manifest import CronInfo, HandlerInfo, cron_key
from windlass.core.task import NewTask
from windlass.core.times import Micros, micros, to_datetime, to_instant
from windlass.errors import InvalidTask, KeyConflict, QueueFull, StoreError, UnknownCron
from windlass.events import Events, StoreCallFailed
from windlass.stores.protocol import CronState, Store

LATE = timedelta(minutes=1)
"""How late a firing may come before it counts as missed."""

MAX_MISSED = 100

REFUSALS = (QueueFull, InvalidTask, KeyConflict, UnknownCron)
"""Errors of a single cron, not of the store."""


class Crons:
    """Fires the crons of this node's app. A stored cron that its app no longer has is left to others."""

    def __init__(self, store: Store, events: Events, clock: Clock) -> None:
        self.handlers: dict[str, HandlerInfo] = {}
        self.names: frozenset[str] | None = None
        """The crons of the app; None to fire every cron whose handler is known."""
        self.wake = threading.Event()
        """Ends the wait of `step`."""
        self._store = store
        self._events = events
        self._clock = clock

    def step(self) -> None:
        """Fire what is due, then wait for the next full second."""
        try:
            if self.handlers:
                self.fire(self._clock.now())
        except StoreError as error:
            self._events.emit(StoreCallFailed(doing="fire crons", error=str(error)))
        self._clock.wait(self.wake, 1.0 - self._clock.now() % 1_000_000 / 1e6)

    def fire(self, now: Micros) -> int:
        """Fire every cron that is due. Return how many tasks were submitted."""
        return sum(self._try(cron, now) for cron in self._store.crons() if self._is_ours(cron.info))

    def _is_ours(self, cron: CronInfo) -> bool:
        return cron.handler in self.handlers and (self.names is None or cron.name in self.names)

    def _try(self, cron: CronState, now: Micros) -> int:
        """Fire one cron. If it is refused (a full queue) or unreadable here (an unknown time zone), the others still
        fire, and it is tried again."""
        try:
            return self._fire(cron, now)
        except (*REFUSALS, CronSimError, ZoneInfoNotFoundError) as refusal:
            self._events.emit(StoreCallFailed(doing=f"fire the cron {cron.info.name}", error=str(refusal)))
            return 0

    def _fire(self, cron: CronState, now: Micros) -> int:
        if cron.paused:
            return 0
        if cron.fired is None:  # It is new, so nothing was missed.
            self._store.fire(cron.info.name, now, [])
            return 0
        missed = list(deque(find_nominal_times(cron.info, cron.fired, now), maxlen=10 * MAX_MISSED))
        submitted = 0
        for nominal, runs in apply_misfire(cron.info.misfire, missed, now):
            receipts = self._store.fire(cron.info.name, nominal, [self._task(cron.info, nominal)] if runs else [])
            submitted += sum(receipt.created for receipt in receipts or ())
        return submitted

    def _task(self, cron: CronInfo, nominal: Micros) -> NewTask:
        key = cron_key(cron.name, nominal)
        return self.handlers[cron.handler].new_task(msgspec.json.decode(cron.args), {"key": key})


def find_nominal_times(cron: CronInfo, after: Micros, until: Micros) -> Iterable[Micros]:
    """Yield the times at which a cron should fire, later than `after` and not later than `until`."""
    zone = ZoneInfo(cron.timezone)
    end = to_datetime(until)
    for moment in CronSim(cron.schedule, _in_zone(after, zone)):
        if moment > end:
            return
        instant = to_instant(moment)
        if instant > after:
            yield instant


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


def _in_zone(instant: Micros, zone: ZoneInfo) -> datetime:
    return to_datetime(instant).astimezone(zone)
