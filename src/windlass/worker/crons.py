"""Firing crons: every node tries, and the store lets each nominal time through once.

After a pause the misfire policy says what becomes of the times that were missed: `last` fires the latest of them, `all`
fires each (at most a hundred), `skip` none. A time that does not exist on the day the clocks go forward fires when it
would have been reached; one that comes twice in autumn fires once, at its first coming.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from cronsim import CronSim, CronSimError

from windlass.clock import Clock, SystemClock
from windlass.core.manifest import CronInfo, HandlerInfo
from windlass.core.task import NewTask
from windlass.core.times import Micros, micros, to_datetime, to_instant
from windlass.errors import InvalidTask, KeyConflict, QueueFull, StoreError, UnknownCron
from windlass.events import Events, StoreCallFailed
from windlass.stores.protocol import CronState, Store

LATE = timedelta(minutes=1)
"""How late a firing may come before it counts as missed."""

MOST_MISSED = 100

REFUSALS = (QueueFull, InvalidTask, KeyConflict, UnknownCron)
"""What is wrong with one cron, and not with the store."""


class Crons:
    """Fires the crons whose handlers this node knows."""

    def __init__(self, store: Store, events: Events, clock: Clock | None = None) -> None:
        self.handlers: dict[str, HandlerInfo] = {}
        self.turned = threading.Event()
        self._store = store
        self._events = events
        self._clock = clock or SystemClock()

    def step(self) -> None:
        """Fire what is due, and wait for the next whole second."""
        try:
            if self.handlers:
                self.fire(self._clock.now())
        except StoreError as error:
            self._events.emit(StoreCallFailed(doing="fire crons", error=str(error)))
        self.turned.wait(1.0 - self._clock.now() % 1_000_000 / 1e6)

    def fire(self, now: Micros) -> int:
        """Fire every cron that is due; how many tasks were submitted."""
        return sum(self._try(cron, now) for cron in self._store.crons() if cron.info.handler in self.handlers)

    def _try(self, cron: CronState, now: Micros) -> int:
        """Fire one, unless it is refused, as by a full queue, or cannot be read here, as a time zone that this machine
        does not have: the others fire all the same, and it is tried again."""
        try:
            return self._fire(cron, now)
        except (*REFUSALS, CronSimError, ZoneInfoNotFoundError) as refusal:
            self._events.emit(StoreCallFailed(doing=f"fire the cron {cron.info.name}", error=str(refusal)))
            return 0

    def _fire(self, cron: CronState, now: Micros) -> int:
        if cron.paused:
            return 0
        if cron.fired is None:  # New: nothing before this moment was missed.
            self._store.fire(cron.info.name, now, [])
            return 0
        missed = list(deque(nominal_times(cron.info, cron.fired, now), maxlen=10 * MOST_MISSED))
        submitted = 0
        for nominal, runs in decided(cron.info.misfire, missed, now):
            receipts = self._store.fire(cron.info.name, nominal, [self._task(cron.info, nominal)] if runs else [])
            submitted += sum(receipt.created for receipt in receipts or ())
        return submitted

    def _task(self, cron: CronInfo, nominal: Micros) -> NewTask:
        key = f"cron:{cron.name}:{to_datetime(nominal).isoformat()}"
        return self.handlers[cron.handler].new_task(msgspec.json.decode(cron.args), {"key": key})


def nominal_times(cron: CronInfo, after: Micros, until: Micros) -> Iterable[Micros]:
    """The moments at which a cron should fire, later than `after`, not later than `until`."""
    zone = ZoneInfo(cron.timezone)
    end = to_datetime(until)
    for moment in CronSim(cron.schedule, _in_zone(after, zone)):
        if moment > end:
            return
        instant = to_instant(moment)
        if instant > after:
            yield instant


def decided(misfire: str, due: Sequence[Micros], now: Micros) -> list[tuple[Micros, bool]]:
    """Which of the due moments run, and which are only noted as passed."""
    late = [moment for moment in due if now - moment > micros(LATE)]
    punctual = [(moment, True) for moment in due if now - moment <= micros(LATE)]
    match misfire:
        case "all":
            return [(moment, True) for moment in late[-MOST_MISSED:]] + punctual
        case "last" if late and not punctual:
            return [(late[-1], True)]
        case _:
            return punctual or [(moment, False) for moment in late[-1:]]


def _in_zone(instant: Micros, zone: ZoneInfo) -> datetime:
    return to_datetime(instant).astimezone(zone)
