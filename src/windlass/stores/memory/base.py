"""The base class of the parts of the memory store."""

from __future__ import annotations

from datetime import timedelta
from threading import Condition, Event, RLock

from windlass.clock import Clock, SystemClock
from windlass.core.times import micros
from windlass.stores.memory.tables import Tables
from windlass.stores.protocol import RETENTION, Signal
from windlass.stores.series import SERIES_KEPT


class MemoryBase:
    """The state that all parts of the memory store share. Each part implements a group of the protocol's methods.

    One lock makes every call a transaction. A call checks everything before it changes anything, so that a refused
    call changes nothing.
    """

    def __init__(
        self, *, clock: Clock | None = None, retention: timedelta = RETENTION, series_kept: timedelta = SERIES_KEPT
    ) -> None:
        self._clock = clock or SystemClock()
        self._retention = micros(retention)
        self._series_kept = micros(series_kept)
        self._tables = Tables()
        self._lock = RLock()
        self._work = Condition(self._lock)
        self.unresolved: Signal = Event()
