"""The thread that reads external signals for the size of pools: Prometheus queries, and functions of the app.

A function of the app is user code, so a worker calls it, not the node. A signal that cannot be read keeps its last
value for five minutes, because an outage of the monitoring system must not resize a pool. After that it is ignored.
"""

from __future__ import annotations

import threading
from http.client import HTTPException
from math import floor, isfinite
from typing import Any
from urllib.parse import urlencode
from urllib.request import HTTPRedirectHandler, build_opener

import msgspec

from windlass.clock import Clock
from windlass.config import SignalSettings
from windlass.custom_decider import MOST_WORKERS, PREFIX
from windlass.events import Events, SignalFailed
from windlass.worker.pool import Pool
from windlass.worker.socket_hub import SocketHub

POLL_SECONDS, IDLE_POLL_SECONDS = 0.5, 5.0
QUERY_TIMEOUT = 2.0
STALE_AFTER = 300.0
LONGEST_ANSWER = 1 << 20
UNREADABLE = (OSError, HTTPException, ValueError, msgspec.MsgspecError, RecursionError)
"""What a query raises if the answer is missing or cannot be used, whatever its bytes are."""
DECIDER_EVERY = 1.0
"""Seconds between two calls of a decider of the app."""
DECIDER_TIMEOUT = 30.0
"""Seconds that a decider may take to answer, and that its answer is used."""


class _Reading(msgspec.Struct):
    value: float = 0.0
    at: float = -STALE_AFTER
    asked_at: float = -STALE_AFTER
    error: str = ""


class ExternalSignals:
    """Reads the signals of one node."""

    def __init__(self, hub: SocketHub, events: Events, clock: Clock) -> None:
        self.wake = threading.Event()
        """Ends the wait of `step`."""
        self._hub = hub
        self._events = events
        self._clock = clock
        self._readings: dict[tuple[str, str], _Reading] = {}
        hub.dispatcher.on_measured = self.record

    def step(self) -> None:
        """Read the signals that are due, and set the limits of the pools from what is known."""
        busy = [pool for pool in self._hub.dispatcher.pools.values() if pool.settings.signals or pool.situations]
        for pool in busy:
            for signal in pool.settings.signals:
                self._ask(pool, signal)
            self._apply(pool)
        for pool in self._hub.dispatcher.pools.values():
            self._ask_deciders(pool)
        self._clock.wait(self.wake, POLL_SECONDS if busy else IDLE_POLL_SECONDS)

    def record(self, pool: str, name: str, value: float | None, error: str) -> None:
        """Record the value of a signal, or the answer of a decider. Called from any thread."""
        if name.startswith(PREFIX):
            self._record_decider(pool, name, value, error)
            return
        settings = self._hub.dispatcher.pools[pool].settings
        signal = next((each for each in settings.signals if each.name == name), None)
        reading = self._readings.setdefault((pool, name), _Reading())
        if signal is not None and value is not None:
            now = self._clock.monotonic()
            reading.value, reading.at, reading.error = smooth(reading, value, now, signal.half_life), now, ""
        elif signal is not None and error != reading.error:
            reading.error = error
            self._events.emit(SignalFailed(pool=pool, signal=name, error=error))

    def _ask(self, pool: Pool, signal: SignalSettings) -> None:
        name = pool.settings.name
        reading = self._readings.setdefault((name, signal.name), _Reading())
        if self._clock.monotonic() - reading.asked_at < signal.every:
            return
        reading.asked_at = self._clock.monotonic()
        if not signal.url:
            with self._hub.lock:
                asked = self._hub.dispatcher.measure(name, signal.name)
            if not asked:
                reading.asked_at += 1.0 - signal.every  # There may be a worker in a moment.
                self.record(name, signal.name, None, "the pool has no worker to measure it")
            return
        try:
            value = query_prometheus(signal.url, signal.query)
        except UNREADABLE as error:
            self.record(name, signal.name, None, f"{type(error).__name__}: {error}")
        else:
            self.record(name, signal.name, value, "")

    def _ask_deciders(self, pool: Pool) -> None:
        """Call every decider of the pool, one call at a time each, and use the answers."""
        now, situations = self._clock.monotonic(), pool.situations
        for name, situation in situations.items():
            reading = self._readings.setdefault((pool.settings.name, name), _Reading())
            waiting = reading.asked_at > reading.at
            if now - reading.asked_at < (DECIDER_TIMEOUT if waiting else DECIDER_EVERY):
                continue
            if waiting and reading.asked_at > 0:
                self.record(pool.settings.name, name, None, f"it has not answered for {DECIDER_TIMEOUT:.0f} s")
            with self._hub.lock:
                asked = self._hub.dispatcher.measure(pool.settings.name, name, situation)
            if asked:
                reading.asked_at = now
        readings = {name: self._readings[pool.settings.name, name] for name in situations}
        fresh = {name: each for name, each in readings.items() if now - each.at < DECIDER_TIMEOUT}
        pool.decided = {name: each.value for name, each in fresh.items() if not each.error}
        pool.undecided = {name: each.error for name, each in readings.items() if each.error}

    def _record_decider(self, pool: str, name: str, value: float | None, error: str) -> None:
        reading = self._readings.setdefault((pool, name), _Reading())
        if value is not None and not 0 <= value <= MOST_WORKERS:  # The worker checks it, and a handler can write too.
            value, error = None, f"it answered {value}; 0 to {MOST_WORKERS:,} are allowed"
        before, reading.at, reading.error = reading.error, self._clock.monotonic(), "" if value is not None else error
        if value is not None:
            reading.value = value
        elif error != before:
            self._events.emit(SignalFailed(pool=pool, signal=name, error=error))

    def _apply(self, pool: Pool) -> None:
        """Set what the signals of a pool allow and ask for, for its next report."""
        wanted: dict[str, list[int]] = {"limit": [], "want": []}
        for signal in pool.settings.signals:
            reading = self._readings.get((pool.settings.name, signal.name), _Reading())
            if self._clock.monotonic() - reading.at < STALE_AFTER:
                wanted[signal.means].append(max(0, floor(reading.value / signal.per_worker + 1e-9)))
        pool.limit = min(wanted["limit"], default=None)
        pool.asked = max(wanted["want"], default=None)


def smooth(reading: _Reading, value: float, now: float, half_life: float) -> float:
    """Return the average, moved toward the latest value: halfway in one half-life."""
    if half_life <= 0 or reading.at < now - STALE_AFTER:
        return value
    return value + (reading.value - value) * 0.5 ** ((now - reading.at) / half_life)


class _NoRedirects(HTTPRedirectHandler):
    """Refuses redirects: only the address in the settings is asked, whatever it answers."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> None:
        return None


_OPENER = build_opener(_NoRedirects)


class _Series(msgspec.Struct):
    value: tuple[float, str]


class _Data(msgspec.Struct):
    resultType: str  # noqa: N815 the name that Prometheus uses
    result: Any


class _Answer(msgspec.Struct):
    data: _Data


def query_prometheus(url: str, query: str) -> float:
    """Return the value of a query: a scalar, or the sum of a vector. Raise `ValueError` if it has none."""
    address = f"{url.rstrip('/')}/api/v1/query?{urlencode({'query': query})}"
    with _OPENER.open(address, timeout=QUERY_TIMEOUT) as answer:
        found = msgspec.json.decode(answer.read(LONGEST_ANSWER), type=_Answer).data
    if found.resultType == "scalar":
        value = float(msgspec.convert(found.result, tuple[float, str])[1])
    else:
        series = msgspec.convert(found.result, list[_Series])
        if not series:
            raise ValueError(f"the query {query!r} has no series")
        value = sum(float(each.value[1]) for each in series)
    if not isfinite(value):
        raise ValueError(f"the query {query!r} is {value}")
    return value
