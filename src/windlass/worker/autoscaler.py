"""The thread that sizes the pools of a node.

Once a second it reports what its pools did, reads the reports of all nodes, decides the tick if no other node has, and
gives each pool its share of the agreed size. Every node does the same; it does not matter which one decides. If
anything fails (the store, the controller, an unreadable report), the pools keep their size. The same read of the store
has what people ask of this node and its workers, which it passes on.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import NamedTuple

import msgspec

from windlass.autoscale import pool_tick, stored_state
from windlass.autoscale.observe import NodeReport, PoolReport, select_members
from windlass.autoscale.shares import HeldShare, SlotRequest, divide_slots, hold_share
from windlass.autoscale.stored_state import POOL, PoolDecision
from windlass.clock import Clock
from windlass.config import BudgetSettings, PoolSettings
from windlass.core.stop_requests import KIND, StopRequest, decode_requests
from windlass.errors import InvalidTask, SessionLost, StoreError
from windlass.events import ControllerFailed, Events, PoolDecided, StoreCallFailed
from windlass.stores.coordination import Look
from windlass.stores.protocol import Store
from windlass.worker.breakers import Breakers
from windlass.worker.dispatcher import Dispatcher
from windlass.worker.held_tasks import HeldTasks
from windlass.worker.pool import Pool
from windlass.worker.session_keeper import SessionKeeper
from windlass.worker.socket_hub import SocketHub

logger = logging.getLogger("windlass.autoscaler")
TICK_SECONDS = 1.0
NO_SESSION_SECONDS = 0.05
"""How soon to look again for a session. Nothing is claimed before the first tick."""
REPEAT_SECONDS = 10.0
"""Seconds after which an unchanged report is repeated."""
LOOK_AHEAD = timedelta(seconds=330)
"""How far to look at the schedule: the five idle minutes of a pool that may shrink to 0, and a worker start."""
LONGEST_BACK_OFF = 60.0
MEMORY_SAMPLE = 16
"""How many workers to measure for the memory of one more."""


class Share(NamedTuple):
    """The workers of one pool on this node, and the total that they are a part of."""

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
        clock: Clock,
    ) -> None:
        self.wake = threading.Event()
        """Ends the wait of `step`."""
        self.degraded: dict[str, str] = {}
        """The pools whose controller fails, with the error."""
        self.on_requests: Callable[[list[StopRequest]], None] = lambda _: None
        """Called at every tick with what people ask of this node and its workers, if they ask something."""
        self._store = store
        self._hub = hub
        self._keeper = keeper
        self._breakers = breakers
        self._events = events
        self._budget = budget
        self._clock = clock
        self._tasks = HeldTasks(store, clock)
        self._reported = ""
        self._reported_at = 0.0
        self._session = ""
        self._held: dict[str, HeldShare] = {}
        self._failures: dict[str, int] = {}
        self._not_before: dict[str, float] = {}
        self._next_tick = 0.0

    def step(self) -> None:
        """Tick, then wait for the next tick."""
        self._next_tick = max(self._next_tick + TICK_SECONDS, self._clock.monotonic())
        try:
            self._tick()
        except SessionLost:
            self._session = ""  # The session keeper notices it too, and opens another.
        except StoreError as error:
            self._events.emit(StoreCallFailed(doing="size the pools", error=str(error)))
            self._breakers.is_known = True  # If the breakers cannot be read, claim anyway.
        if self._keeper.current is None:
            self._next_tick = self._clock.monotonic() + NO_SESSION_SECONDS
        self._clock.wait(self.wake, max(0.01, self._next_tick - self._clock.monotonic()))

    def retune(self, pools: Mapping[str, PoolSettings], budget: BudgetSettings) -> None:
        """Use other settings from the next tick on."""
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
        self._write_report(report)
        queues = sorted({queue for pool in report.pools.values() for queue in pool.queues})
        look = self._store.look([] if draining else queues, ahead=LOOK_AHEAD)
        self._follow_requests(look)
        if draining:
            return  # The report offers no room, so that other nodes take over its share at once.
        look = self._tasks.leave_out(look)
        self._breakers.step(look, self._session, want=1 if self._needs_work() else 0)
        nodes = {**pool_tick.read_reports(look), self._session: report}
        for name in report.pools:
            self._hub.dispatcher.pools[name].situations = pool_tick.describe_situations(
                name, look, select_members(nodes, name)
            )
        found = {name: self._share(name, look, select_members(nodes, name)) for name in report.pools}
        self._apply({name: share for name, share in found.items() if share is not None})

    def _follow_requests(self, look: Look) -> None:
        found = [decode_requests(control.value) for control in look.controls if control.kind == KIND]
        if mine := [one for requests in found for one in requests if one.session == self._session]:
            self.on_requests(mine)

    def _report(self, dispatcher: Dispatcher) -> NodeReport:
        now = self._clock.monotonic()
        room = self._room(dispatcher)
        pools = {name: pool.report(now, _find_room(room, pool, dispatcher)) for name, pool in dispatcher.pools.items()}
        troubles = [(name, why) for name, why in sorted(self.degraded.items())]
        troubles += [
            (name, f"{each}: {why}") for name, pool in dispatcher.pools.items() for each, why in pool.undecided.items()
        ]
        degraded = "; ".join(f"{name}: {why}" for name, why in troubles)
        return NodeReport(pools=pools, degraded=degraded)

    def _room(self, dispatcher: Dispatcher) -> int | None:
        """Return how many workers the budget of the node allows in total; None for no limit."""
        limits = [] if self._budget.workers is None else [self._budget.workers]
        if self._budget.memory is not None and dispatcher.workers:
            sizes = [self._hub.memory(worker) for worker in list(dispatcher.workers.values())[:MEMORY_SAMPLE]]
            limits.append(int(self._budget.memory // max(1, sum(sizes) / len(sizes))))
        return min(limits) if limits else None

    def _write_report(self, report: NodeReport) -> None:
        text = msgspec.json.encode(report).decode()
        if text != self._reported or self._clock.monotonic() - self._reported_at >= REPEAT_SECONDS:
            session = self._keeper.current
            if session is not None:
                self._store.report(session, text)
                self._reported, self._reported_at = text, self._clock.monotonic()

    def _needs_work(self) -> bool:
        with self._hub.lock:
            return any(pool.needs_work() for pool in self._hub.dispatcher.pools.values())

    def _share(self, name: str, look: Look, pool: Mapping[str, PoolReport]) -> Share | None:
        """Return this node's part of the decided size; None to leave the pool alone."""
        decision = self._decide(name, look, pool)
        if decision is None or not decision.tick:
            return None
        size = pool_tick.compute_share(self._session, decision.target, pool)
        return Share(size, decision.target, decision.sentence)

    def _decide(self, name: str, look: Look, pool: Mapping[str, PoolReport]) -> PoolDecision | None:
        latest, _ = pool_tick.read_decision(look, name)
        if self._clock.monotonic() < self._not_before.get(name, 0.0):
            return latest
        try:
            ruling = pool_tick.decide_tick(name, look, pool, self._keeper.node)
        except Exception as error:  # noqa: BLE001 a controller that fails must not stop the node; it is reported
            self._back_off(name, look, error)
            return latest
        if self.degraded.pop(name, None) is not None:
            self._failures.pop(name, None)
        if ruling is None:
            return latest
        text = stored_state.encode_document(ruling.decision)
        try:
            if not self._store.put_control(POOL, name, text, expect=ruling.expect, entries=ruling.entries):
                return None  # Another node has decided this tick. The next tick reads it.
        except InvalidTask as error:  # A decision that cannot be stored is a bug of the controller.
            self._back_off(name, look, error)
            return latest
        for entry in ruling.entries:
            self._events.emit(PoolDecided(pool=name, action=entry.action, why=entry.text))
        return ruling.decision

    def _back_off(self, name: str, look: Look, error: Exception) -> None:
        """Record that the controller of a pool failed, log its input, and try again later."""
        self._failures[name] = failures = self._failures.get(name, 0) + 1
        wait = min(LONGEST_BACK_OFF, 2.0 ** min(failures, 10))
        self._not_before[name] = self._clock.monotonic() + wait
        self.degraded[name] = f"{type(error).__name__}: {error}"
        inputs = msgspec.json.encode(look).decode()
        logger.error("the controller of pool %s failed, its size is kept; input: %s", name, inputs, exc_info=error)
        self._events.emit(ControllerFailed(pool=name, error=self.degraded[name], again_in=wait))

    def _apply(self, wanted: Mapping[str, Share]) -> None:
        now = self._clock.monotonic()
        with self._hub.lock:
            dispatcher = self._hub.dispatcher
            if dispatcher.draining:
                return
            sizes = {name: self._hold_size(name, now, share) for name, share in wanted.items()}
            for name, size in self._apply_budget(dispatcher, sizes).items():
                dispatcher.resize(name, size, wanted[name].why)
            idle = dispatcher.is_idle
        if not idle:
            self._hub.resume_ticks()

    def _hold_size(self, name: str, now: float, share: Share) -> int:
        """Return this node's part. It does not shrink at once when another node has joined."""
        size, self._held[name] = hold_share(now, self._held.get(name, HeldShare()), share.target, share.size)
        return size

    def _apply_budget(self, dispatcher: Dispatcher, sizes: Mapping[str, int]) -> Mapping[str, int]:
        """Return the sizes that the budget allows. Pools with a higher priority come first; lower ones shrink."""
        room = self._room(dispatcher)
        if room is None:
            return sizes
        room -= sum(pool.target for name, pool in dispatcher.pools.items() if name not in sizes)
        if sum(sizes.values()) <= room:
            return sizes
        pools = {name: dispatcher.pools[name].settings for name in sizes}
        claims = [
            SlotRequest(
                pool=name, min=min(size, pools[name].min_workers), must=size, want=size, priority=pools[name].priority
            )
            for name, size in sizes.items()
        ]
        return divide_slots(claims, room)


def _find_room(room: int | None, pool: Pool, dispatcher: Dispatcher) -> int:
    """Return how many workers a pool may have within the budget.

    Of pools that do not have a higher priority, only the minimums are reserved. If their current workers were, a pool
    that grew first would keep the others from growing. A draining node has no room.
    """
    if dispatcher.draining:
        return 0
    if room is None:
        return pool.settings.override_max
    others = [other for other in dispatcher.pools.values() if other is not pool]
    kept = [
        other.target
        if other.settings.priority > pool.settings.priority
        else min(other.target, other.settings.min_workers)
        for other in others
    ]
    return max(0, room - sum(kept))
