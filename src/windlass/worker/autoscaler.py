"""The thread that keeps every pool of a node at its share of one agreed size.

Once a second it says what its pools did, looks at the store, decides the tick if nobody has, and gives each pool its
share. Every node does the same; which of them decides does not matter. Whatever goes wrong here, the pools stay as
they are: a store that is away, a tick that breaks, a report that cannot be read.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from datetime import timedelta
from typing import NamedTuple

import msgspec

from windlass.autoscale import pool_tick, stored_state
from windlass.autoscale.observe import NodeReport, PoolReport, select_members
from windlass.autoscale.shares import HeldShare, SlotRequest, divide_slots, hold_share
from windlass.autoscale.stored_state import POOL, PoolDecision
from windlass.clock import monotonic
from windlass.config import BudgetSettings, PoolSettings
from windlass.errors import InvalidTask, SessionLost, StoreError
from windlass.events import ControllerFailed, Events, PoolDecided, StoreCallFailed
from windlass.stores.coordination import Look
from windlass.stores.protocol import Store
from windlass.worker.breakers import Breakers
from windlass.worker.dispatcher import Dispatcher
from windlass.worker.pool import Pool
from windlass.worker.session_keeper import SessionKeeper
from windlass.worker.socket_hub import SocketHub

logger = logging.getLogger("windlass.autoscaler")
TICK_SECONDS = 1.0
NO_SESSION_SECONDS = 0.05
"""How soon it is looked again whether there is a session: nothing is claimed before the first tick."""
SAID_AGAIN = 10.0
"""Seconds after which a report that has not changed is made again."""
AHEAD = timedelta(seconds=330)
"""How far the schedule is looked at: the five idle minutes of a pool that may go to 0, and a start."""
LONGEST_BACK_OFF = 60.0
WEIGHED = 16
"""Workers whose memory is looked at, to know what one more would hold."""


class Share(NamedTuple):
    """What one node is to have of a pool, and of what it is a part."""

    size: int
    target: int
    why: str


class Autoscaler:
    """Sizes the pools of one node."""

    def __init__(
        self,
        store: Store,
        hub: SocketHub,
        keeper: SessionKeeper,
        breakers: Breakers,
        events: Events,
        budget: BudgetSettings,
    ) -> None:
        self.turned = threading.Event()
        self.degraded: dict[str, str] = {}
        """The pools whose controller is broken, and how."""
        self._store = store
        self._hub = hub
        self._keeper = keeper
        self._breakers = breakers
        self._events = events
        self._budget = budget
        self._said = ""
        self._said_at = 0.0
        self._session = ""
        self._held: dict[str, HeldShare] = {}
        self._failures: dict[str, int] = {}
        self._not_before: dict[str, float] = {}
        self._next_tick = 0.0

    def step(self) -> None:
        """One tick, and the wait for the next."""
        self._next_tick = max(self._next_tick + TICK_SECONDS, monotonic())
        try:
            self._tick()
        except SessionLost:
            self._session = ""  # The keeper learns of it too, and opens another.
        except StoreError as error:
            self._events.emit(StoreCallFailed(doing="size the pools", error=str(error)))
            self._breakers.looked = True  # What cannot be judged must not stop anybody.
        if self._keeper.current is None:
            self._next_tick = monotonic() + NO_SESSION_SECONDS
        self.turned.wait(max(0.01, self._next_tick - monotonic()))

    def retune(self, pools: Mapping[str, PoolSettings], budget: BudgetSettings) -> None:
        """Follow other settings from the next tick on."""
        with self._hub.lock:
            self._budget = budget
            for name, settings in pools.items():
                self._hub.dispatcher.pools[name].retune(settings)

    def _tick(self) -> None:
        session = self._keeper.current
        if session is None:
            return
        self._session = str(session)
        with self._hub.lock:
            report, draining = self._report(self._hub.dispatcher), self._hub.dispatcher.draining
        self._say(report)
        if draining:
            return  # It has said that it can have nobody any more, so that others take over its share at once.
        queues = sorted({queue for pool in report.pools.values() for queue in pool.queues})
        look = self._store.look(queues, ahead=AHEAD)
        self._breakers.step(look, self._session, want=1 if self._hungry() else 0)
        nodes = {**pool_tick.read_reports(look), self._session: report}
        for name in report.pools:
            self._hub.dispatcher.pools[name].situations = pool_tick.describe_situations(
                name, look, select_members(nodes, name)
            )
        found = {name: self._share(name, look, select_members(nodes, name)) for name in report.pools}
        self._apply({name: share for name, share in found.items() if share is not None})

    def _report(self, crew: Dispatcher) -> NodeReport:
        now = monotonic()
        room = self._room(crew)
        pools = {name: pool.report(now, _left(room, pool, crew)) for name, pool in crew.pools.items()}
        troubles = [(name, why) for name, why in sorted(self.degraded.items())]
        troubles += [
            (name, f"{each}: {why}") for name, pool in crew.pools.items() for each, why in pool.undecided.items()
        ]
        degraded = "; ".join(f"{name}: {why}" for name, why in troubles)
        return NodeReport(pools=pools, degraded=degraded)

    def _room(self, crew: Dispatcher) -> int | None:
        """How many workers the node's budget allows in all; None for any number."""
        limits = [] if self._budget.workers is None else [self._budget.workers]
        if self._budget.memory is not None and crew.workers:
            sizes = [self._hub.memory(worker) for worker in list(crew.workers.values())[:WEIGHED]]
            limits.append(int(self._budget.memory // max(1, sum(sizes) / len(sizes))))
        return min(limits) if limits else None

    def _say(self, report: NodeReport) -> None:
        text = msgspec.json.encode(report).decode()
        if text != self._said or monotonic() - self._said_at >= SAID_AGAIN:
            session = self._keeper.current
            if session is not None:
                self._store.report(session, text)
                self._said, self._said_at = text, monotonic()

    def _hungry(self) -> bool:
        with self._hub.lock:
            return any(pool.hungry() for pool in self._hub.dispatcher.pools.values())

    def _share(self, name: str, look: Look, pool: Mapping[str, PoolReport]) -> Share | None:
        """This node's part of what is decided; None leaves the pool alone."""
        decision = self._decided(name, look, pool)
        if decision is None or not decision.tick:
            return None
        size = pool_tick.compute_share(self._session, decision.target, pool)
        return Share(size, decision.target, decision.sentence)

    def _decided(self, name: str, look: Look, pool: Mapping[str, PoolReport]) -> PoolDecision | None:
        latest, _ = pool_tick.read_decision(look, name)
        if monotonic() < self._not_before.get(name, 0.0):
            return latest
        try:
            ruling = pool_tick.decide_tick(name, look, pool, self._keeper.node)
        except Exception as error:  # noqa: BLE001 a broken controller must not take the node down; it is reported
            self._broke(name, look, error)
            return latest
        if self.degraded.pop(name, None) is not None:
            self._failures.pop(name, None)
        if ruling is None:
            return latest
        text = stored_state.encode_document(ruling.decision)
        try:
            if not self._store.put_control(POOL, name, text, expect=ruling.expect, entries=ruling.entries):
                return None  # Another node has decided this tick; its word is read at the next.
        except InvalidTask as error:  # A decision that no store can keep is a mistake of the controller's.
            self._broke(name, look, error)
            return latest
        for entry in ruling.entries:
            self._events.emit(PoolDecided(pool=name, action=entry.action, why=entry.text))
        return ruling.decision

    def _broke(self, name: str, look: Look, error: Exception) -> None:
        """Keep the pool as it is, say what it was that the controller could not bear, and try again later."""
        self._failures[name] = failures = self._failures.get(name, 0) + 1
        wait = min(LONGEST_BACK_OFF, 2.0 ** min(failures, 10))
        self._not_before[name] = monotonic() + wait
        self.degraded[name] = f"{type(error).__name__}: {error}"
        inputs = msgspec.json.encode(look).decode()
        logger.error(
            "the controller of the pool %s broke; its size stays. It was shown: %s", name, inputs, exc_info=error
        )
        self._events.emit(ControllerFailed(pool=name, error=self.degraded[name], again_in=wait))

    def _apply(self, wanted: Mapping[str, Share]) -> None:
        now = monotonic()
        with self._hub.lock:
            crew = self._hub.dispatcher
            if crew.draining:
                return
            sizes = {name: self._kept(name, now, share) for name, share in wanted.items()}
            for name, size in self._afforded(crew, sizes).items():
                crew.resize(name, size, wanted[name].why)
            at_rest = crew.is_idle
        if not at_rest:
            self._hub.resume_ticks()

    def _kept(self, name: str, now: float, share: Share) -> int:
        """This node's part, which does not shrink at once because another node has joined."""
        size, self._held[name] = hold_share(now, self._held.get(name, HeldShare()), share.target, share.size)
        return size

    def _afforded(self, crew: Dispatcher, sizes: Mapping[str, int]) -> Mapping[str, int]:
        """The sizes that this node's budget allows: the higher priority first, the lower is shrunk by draining."""
        room = self._room(crew)
        if room is None:
            return sizes
        room -= sum(pool.target for name, pool in crew.pools.items() if name not in sizes)
        if sum(sizes.values()) <= room:
            return sizes
        pools = {name: crew.pools[name].settings for name in sizes}
        claims = [
            SlotRequest(
                pool=name, floor=min(size, pools[name].floor), must=size, want=size, priority=pools[name].priority
            )
            for name, size in sizes.items()
        ]
        return divide_slots(claims, room)


def _left(room: int | None, pool: Pool, crew: Dispatcher) -> int:
    """How many workers a pool may have: by the budget, of others that do not outrank it, only their floors are spared.

    Were it what nobody uses now, a pool that came first would keep all from those that it should make room for. A node
    that drains has room for nobody.
    """
    if crew.draining:
        return 0
    if room is None:
        return pool.settings.most
    others = [other for other in crew.pools.values() if other is not pool]
    kept = [
        other.target if other.settings.priority > pool.settings.priority else min(other.target, other.settings.floor)
        for other in others
    ]
    return max(0, room - sum(kept))
