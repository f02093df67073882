"""Numbers from outside that bear on the size of pools: queries to Prometheus, and functions of the app.

A function of the app is user code, so a worker asks it, not the node. What cannot be had keeps its last value for five
minutes, because a monitoring system that is away must not move a pool; after that the signal counts no more.
"""

from __future__ import annotations

import threading
from math import floor, isfinite
from typing import Any
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import msgspec

from windlass.clock import monotonic
from windlass.config import SignalSettings
from windlass.custom_decider import PREFIX
from windlass.events import Events, SignalFailed
from windlass.worker.pool import Pool
from windlass.worker.socket_hub import SocketHub

NAP, IDLE_NAP = 0.5, 5.0
PATIENCE = 2.0
"""Seconds that an answer may take."""
STALE = 300.0
LONGEST_ANSWER = 1 << 20
DECIDER_EVERY = 1.0
"""Seconds between two questions to a decider of the app."""
DECIDER_PATIENCE = 30.0
"""Seconds that it may take to answer, and that an answer counts."""


class _Reading(msgspec.Struct):
    value: float = 0.0
    at: float = -STALE
    asked_at: float = -STALE
    error: str = ""


class ExternalSignals:
    """The signals of one node."""

    def __init__(self, hub: SocketHub, events: Events) -> None:
        self.turned = threading.Event()
        self._hub = hub
        self._events = events
        self._readings: dict[tuple[str, str], _Reading] = {}
        hub.dispatcher.measured = self.record

    def step(self) -> None:
        """Ask for what is due, and put what is known to use."""
        busy = [pool for pool in self._hub.dispatcher.pools.values() if pool.settings.signals or pool.situations]
        for pool in busy:
            for signal in pool.settings.signals:
                self._ask(pool, signal)
            self._use(pool)
        for pool in self._hub.dispatcher.pools.values():
            self._ask_deciders(pool)
        self.turned.wait(NAP if busy else IDLE_NAP)

    def record(self, pool: str, name: str, value: float | None, error: str) -> None:
        """The answer to a question, from whichever thread has it."""
        if name.startswith(PREFIX):
            self._heard_decider(pool, name, value, error)
            return
        settings = self._hub.dispatcher.pools[pool].settings
        signal = next((each for each in settings.signals if each.name == name), None)
        reading = self._readings.setdefault((pool, name), _Reading())
        if signal is not None and value is not None:
            now = monotonic()
            reading.value, reading.at, reading.error = smoothed(reading, value, now, signal.half_life), now, ""
        elif signal is not None and error != reading.error:
            reading.error = error
            self._events.emit(SignalFailed(pool=pool, signal=name, error=error))

    def _ask(self, pool: Pool, signal: SignalSettings) -> None:
        name = pool.settings.name
        reading = self._readings.setdefault((name, signal.name), _Reading())
        if monotonic() - reading.asked_at < signal.every:
            return
        reading.asked_at = monotonic()
        if not signal.url:
            with self._hub.lock:
                asked = self._hub.dispatcher.measure(name, signal.name)
            if not asked:
                reading.asked_at += 1.0 - signal.every  # One may be there in a moment.
                self.record(name, signal.name, None, "no worker is there to ask it")
            return
        try:
            value = queried(signal.url, signal.query)
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            self.record(name, signal.name, None, f"{type(error).__name__}: {error}")
        else:
            self.record(name, signal.name, value, "")

    def _ask_deciders(self, pool: Pool) -> None:
        """Ask every decider of the app that the pool has, one question at a time, and put the answers to use."""
        now, situations = monotonic(), pool.situations
        for name, situation in situations.items():
            reading = self._readings.setdefault((pool.settings.name, name), _Reading())
            waiting = reading.asked_at > reading.at
            if now - reading.asked_at < (DECIDER_PATIENCE if waiting else DECIDER_EVERY):
                continue
            if waiting and reading.asked_at > 0:
                self.record(pool.settings.name, name, None, f"it has not answered for {DECIDER_PATIENCE:.0f} s")
            with self._hub.lock:
                asked = self._hub.dispatcher.measure(pool.settings.name, name, situation)
            if asked:
                reading.asked_at = now
        readings = {name: self._readings[pool.settings.name, name] for name in situations}
        fresh = {name: each for name, each in readings.items() if now - each.at < DECIDER_PATIENCE}
        pool.decided = {name: each.value for name, each in fresh.items() if not each.error}
        pool.undecided = {name: each.error for name, each in readings.items() if each.error}

    def _heard_decider(self, pool: str, name: str, value: float | None, error: str) -> None:
        reading = self._readings.setdefault((pool, name), _Reading())
        before, reading.at, reading.error = reading.error, monotonic(), "" if value is not None else error
        if value is not None:
            reading.value = value
        elif error != before:
            self._events.emit(SignalFailed(pool=pool, signal=name, error=error))

    def _use(self, pool: Pool) -> None:
        """Tell the pool what its signals come to, for its next report."""
        wanted: dict[str, list[int]] = {"limit": [], "want": []}
        for signal in pool.settings.signals:
            reading = self._readings.get((pool.settings.name, signal.name), _Reading())
            if monotonic() - reading.at < STALE:
                wanted[signal.means].append(max(0, floor(reading.value / signal.per_worker + 1e-9)))
        pool.limit = min(wanted["limit"], default=None)
        pool.asked = max(wanted["want"], default=None)


def smoothed(reading: _Reading, value: float, now: float, half_life: float) -> float:
    """The value, moved towards the latest: half of the way in one half-life."""
    if half_life <= 0 or reading.at < now - STALE:
        return value
    return value + (reading.value - value) * 0.5 ** ((now - reading.at) / half_life)


class _Series(msgspec.Struct):
    value: tuple[float, str]


class _Data(msgspec.Struct):
    resultType: str  # noqa: N815 as Prometheus says it
    result: Any


class _Answer(msgspec.Struct):
    data: _Data


def queried(url: str, query: str) -> float:
    """What a query comes to now: a scalar, or the sum of a vector; `ValueError` when it has no value."""
    request = Request(f"{url.rstrip('/')}/api/v1/query?{urlencode({'query': query})}")
    with urlopen(request, timeout=PATIENCE) as answer:
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
