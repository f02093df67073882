"""A node: the threads that claim tasks, assign them to workers and write their results.

Each duty is an object with a `step()`, which a `Duty` thread calls in a loop. A duty that fails is reported and
restarted. A duty that keeps failing ends the node. So does any failure of the hub: only it knows which worker runs
what, and after a restart some tasks could stay leased forever. No user code runs in this process.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import traceback
from collections.abc import Callable
from functools import partial
from types import FrameType

import msgspec
from msgspec.structs import replace

from windlass.clock import Clock, SystemClock
from windlass.config import NodeSettings, check_orders
from windlass.core.manifest import Manifest
from windlass.core.stop_requests import StopRequest
from windlass.core.task import Lease, SessionId
from windlass.errors import WindlassError
from windlass.events import DutyFailed, Events, NodeDraining, SettingsReloaded
from windlass.stores.protocol import Store
from windlass.worker.app_import import START_PATIENCE, AppBroken, ImportedApp
from windlass.worker.autoscaler import Autoscaler
from windlass.worker.breakers import Breakers
from windlass.worker.claimer import Claimer
from windlass.worker.crons import Crons
from windlass.worker.dispatcher import Dispatcher
from windlass.worker.duty import MAX_FAILURES, WITHIN_SECONDS, Duty, NotRestartable
from windlass.worker.external_signals import ExternalSignals
from windlass.worker.handler_calls import HandlerCalls
from windlass.worker.node_status import NodeHealth, WorkerListing
from windlass.worker.session_keeper import SessionKeeper
from windlass.worker.settler import Settler
from windlass.worker.socket_hub import SocketHub
from windlass.worker.sweeper import Sweeper

HURRY_SECONDS = 5.0
LAST_SECONDS = 2.0
"""How long a closing node waits for its last results to be written, and for its threads to end."""


class NodeFailed(WindlassError, RuntimeError):
    """A duty of the node kept failing, so the node has stopped. The message names the duty and the error."""

    code = "node_failed"


class Node:
    """One supervisor process: `start` it, `resize` and `drain` it as needed, then `close` it.

    >>> node = Node(NodeSettings(app="shop:app"), open_store, "sqlite:///shop.db")
    >>> node.start()
    >>> node.drain()
    >>> node.close()
    """

    def __init__(
        self,
        settings: NodeSettings,
        open_store: Callable[[], Store],
        store_url: str,
        events: Events | None = None,
        clock: Clock | None = None,
        imported: ImportedApp | None = None,
    ) -> None:
        settings.check()
        self.events = events or Events()
        self.failure: str | None = None
        """Which duty failed too often, and with which error; None if none did."""
        self.ended = threading.Event()
        """Set when the node has drained or failed."""
        self._settings = settings
        self._clock = clock = clock or SystemClock()
        self._store = store = open_store()
        self._keepers_store = open_store()  # A renewal must not wait for a connection that a large claim is using.
        self._over = threading.Event()
        self._manifest: Manifest | None = None
        self._imported = threading.Event()
        self._drain_until = float("inf")
        self._stop_reason = "the node shuts down"
        name = settings.name or f"{socket.gethostname()}:{os.getpid()}"
        self._hub = SocketHub(settings, store_url, self, self.events, clock, imported)
        self._settler = Settler(store, self.events, clock)
        self._calls = HandlerCalls(store, self._hub.answer, self.events, clock, self._hub.count_unread)
        self._hub.on_read = self._calls.resume
        self._sweeper = Sweeper(store, self.events, clock)
        self._crons = Crons(store, self.events, clock)
        self._breakers = Breakers(store, self.events, name)
        self._keeper = SessionKeeper(
            self._keepers_store, name, self._about, self.events, clock, ttl=settings.session_ttl
        )
        self._hub.dispatcher = Dispatcher(
            settings.pools, self._hub, self._settler, self._breakers, self._keeper, self._calls, self.events
        )
        self._keeper.on_cancel, self._keeper.on_lost = self._cancel, self._drop_session
        self._keeper.in_use = self._sessions
        self._keeper.workers = WorkerListing(self._hub, clock).encode
        self._keeper.mark, self._keeper.written = self._settler.mark, self._settler.is_written
        self._autoscaler = Autoscaler(
            store, self._hub, self._keeper, self._breakers, self.events, settings.budget, clock
        )
        self._autoscaler.on_requests = self._follow_requests
        self._signals = ExternalSignals(self._hub, self.events, clock)
        tags = frozenset(settings.tags)
        self._claimers = {
            name: Claimer(store, pool, self._hub, self._keeper, self._settler, self._breakers, self.events, tags, clock)
            for name, pool in self._hub.dispatcher.pools.items()
        }
        self._settler.on_written = self._hub.notify_claimers
        self.health = NodeHealth(self._hub, self._keeper, self._autoscaler, lambda: self.failure, clock)
        steps = {
            "hub": self._hub.step,
            "settler": self._settler.step,
            "keeper": self._keeper.step,
            "sweeper": self._sweeper.step,
            "crons": self._crons.step,
            "autoscaler": self._autoscaler.step,
            "signals": self._signals.step,
            **{f"claimer-{name}": claimer.step for name, claimer in self._claimers.items()},
        }
        self._duties = {name: self.health.watch(name, step) for name, step in steps.items()}
        self._threads: list[Duty] = []

    @property
    def unwritten(self) -> int:
        """How many results are not written yet."""
        return self._settler.open

    def start(self) -> None:
        """Import the app in the worker parent and start working. Raise `AppBroken` if it cannot be imported."""
        try:
            check_orders(self._settings.pools, self._store)
        except WindlassError:
            self.close()
            raise
        self._begin("hub")
        give_up_at = self._clock.monotonic() + START_PATIENCE
        while not self._clock.wait(self._imported, 0.01) and not self.ended.is_set():
            if self._hub.broken is not None or self._clock.monotonic() > give_up_at:
                why = self._hub.broken or f"{self._settings.app} was not imported within {START_PATIENCE:.0f} s"
                self.close()
                raise AppBroken(why)
        for name in self._duties:
            if name != "hub" and not self.ended.is_set():
                self._begin(name)

    @property
    def handlers(self) -> frozenset[str]:
        """The names of the app's handlers."""
        return frozenset(self._crons.handlers)

    def resize(self, pool: str, size: int, why: str = "by hand") -> None:
        """Set the size of a pool on this node, whatever its settings; 0 pauses it."""
        with self._hub.lock:
            settings = self._hub.dispatcher.pools[pool].settings
            self._hub.dispatcher.pools[pool].retune(replace(settings, size=size))
            self._hub.dispatcher.resize(pool, size, why)
        self._hub.wake()

    def reload(self, settings: NodeSettings) -> None:
        """Use other settings, all or none of them. Raise `InvalidSettings` if one cannot change while the node runs."""
        settings.check()
        check_orders(settings.pools, self._store)
        changes = self._settings.changes(settings)
        if not changes:
            return
        self._settings = settings
        self._autoscaler.retune({pool.name: pool for pool in settings.pools}, settings.budget)
        self.events.emit(SettingsReloaded(changes=tuple(changes)))

    def grow(self, by: int) -> None:
        """Add this many workers to every pool with a fixed size; a negative number removes workers."""
        with self._hub.lock:
            for pool in self._hub.dispatcher.pools.values():
                if pool.settings.size is not None:
                    self.resize(pool.settings.name, max(0, pool.settings.size + by), "by a signal")

    def drain(self, *, by_hand: bool = False, why: str = "") -> None:
        """Start to stop: claim nothing, finish what runs, release the rest. `ended` is set when that is done.

        With `by_hand`, the reports of this and the next steps say what pressing Ctrl-C again does. `why` says who asked
        for it, for the report.
        """
        limit = self._settings.drain_timeout
        seconds = float("inf") if limit is None else limit.total_seconds()
        over = f"the node shuts down, and its drain timeout of {seconds:g} s is over"
        self._stop_by(self._clock.monotonic() + seconds, over)
        with self._hub.lock:
            again = self._hub.dispatcher.draining
            self._hub.dispatcher.drain(self._clock.monotonic())
        if not again:
            hint = ", press again to stop" if by_hand else ""
            self._report_drain(1, f"draining ({why})" if why else "draining", hint)
        self._hub.wake()

    def shorten_drain(self, *, by_hand: bool = False) -> None:
        """Stop sooner: what still runs in a few seconds is stopped and released."""
        self._stop_by(self._clock.monotonic() + HURRY_SECONDS, "the node shuts down, and was asked a second time")
        self._report_drain(2, f"stopping in {HURRY_SECONDS:g} s", ", press again to kill" if by_hand else "")

    def kill(self, *, by_hand: bool = False) -> None:
        """Stop now: stop everything that runs and release it."""
        self._stop_by(self._clock.monotonic(), "the node stops at once")
        self._report_drain(3, "stopping now", "")

    def close(self) -> None:
        """Stop every thread, end the worker parent and close the sessions, which releases what they hold.

        It does not wait for a store that is unavailable: unwritten results end with their session. Closing twice does
        nothing.
        """
        if self._over.is_set():
            return
        self._over.set()
        self._settler.close()
        self._hub.wake()
        for duty in (self._keeper, self._sweeper, self._crons, self._autoscaler, self._signals):
            duty.wake.set()
        give_up_at = self._clock.monotonic() + LAST_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, give_up_at - self._clock.monotonic()))
        self._hub.close()  # First: closing a session lets others run its tasks, and ours must not run at the same time.
        writer = threading.Thread(target=self._write_last, name="windlass-close", daemon=True)
        writer.start()
        writer.join(max(LAST_SECONDS / 2, give_up_at - self._clock.monotonic()))
        self._store.close()
        self._keepers_store.close()

    # Called by the hub (windlass.worker.socket_hub.HubListener)

    def ready(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._crons.handlers = {handler.name: handler for handler in manifest.handlers}
        self._crons.names = frozenset(cron.name for cron in manifest.crons)
        for pool in self._hub.dispatcher.pools.values():
            pool.use_handlers(manifest.handlers)
        for claimer in self._claimers.values():
            claimer.handlers = frozenset(self._crons.handlers)
        self._calls.publish(manifest)
        self._imported.set()

    def tick(self, now: float) -> None:
        self._keeper.drop_overdue(now)
        self._calls.tick(now)
        dispatcher = self._hub.dispatcher
        if not dispatcher.draining:
            return
        if now >= self._drain_until:
            dispatcher.stop_now(self._stop_reason)
        nothing_left = not dispatcher.workers and not dispatcher.held and not self._settler.open
        if nothing_left or now >= self._drain_until + LAST_SECONDS:
            self.ended.set()

    def _stop_by(self, moment: float, why: str) -> None:
        """Set when to stop what still runs. The earliest moment counts, in whatever order signals arrive."""
        with self._hub.lock:
            if moment < self._drain_until:
                self._drain_until, self._stop_reason = moment, why

    def _report_drain(self, step: int, what: str, hint: str) -> None:
        """Report a step of the drain. Only the first is reported while nothing runs."""
        with self._hub.lock:
            running = self._hub.dispatcher.running
        if running:
            tasks = "1 task" if running == 1 else f"{running:,} tasks"
            hint = hint and f"{hint} {'it' if running == 1 else 'them'}"
            self.events.emit(NodeDraining(step=step, running=running, why=f"{what}: {tasks} still running{hint}"))
        elif step == 1:
            self.events.emit(NodeDraining(step=step, running=0, why=f"{what}: no task is running"))

    def _write_last(self) -> None:
        self._settler.flush()
        self._keeper.close()
        self._calls.close()

    def _begin(self, name: str) -> None:
        thread = Duty(name, self._duties[name], self._over, self._duty_failed, self._clock, restarts=name != "hub")
        self._threads.append(thread)
        thread.start()

    def _duty_failed(self, duty: str, error: Exception, again_in: float | None) -> None:
        text = f"{type(error).__name__}: {error}"
        trace = "".join(traceback.format_exception(error))
        self.events.emit(DutyFailed(duty=duty, error=text, traceback=trace, again_in=again_in))
        session = self._keeper.current
        if again_in is None:
            at_once = duty == "hub" or isinstance(error, NotRestartable)
            often = "failed" if at_once else f"failed {MAX_FAILURES} times within {WITHIN_SECONDS:.0f} s"
            self.failure = f"the duty {duty} {often}; the latest error is {text}"
            self.ended.set()
        elif session is not None and duty.startswith("claimer-"):
            # Some claimed tasks may not be assigned. Closing the session, after the rest has ended, releases them.
            self._keeper.retire(session)

    def _follow_requests(self, requests: list[StopRequest]) -> None:
        """Drain or stop what people asked for. Called again and again while a request is open."""
        now, is_new = self._clock.monotonic(), False
        with self._hub.lock:
            dispatcher = self._hub.dispatcher
            for one in requests:
                if one.worker is not None:
                    is_new |= dispatcher.drain_worker(one.worker, now, one.describe(), one.grace)
        for one in requests:
            if one.worker is None and not dispatcher.draining:
                self.drain(why=one.describe())
                is_new = True
            if one.worker is None and one.grace is not None:
                self._stop_by(now + one.grace, f"the node was {one.describe()}")
        if is_new:
            self._hub.wake()
            self._keeper.wake.set()  # The store gets the new list of workers at once.

    def _cancel(self, leases: list[Lease]) -> None:
        with self._hub.lock:
            self._hub.dispatcher.cancel(leases, self._clock.monotonic())

    def _drop_session(self, session: SessionId, why: str) -> None:
        with self._hub.lock:
            self._hub.dispatcher.drop_session(session, why)

    def _sessions(self) -> set[SessionId]:
        with self._hub.lock:
            claiming = {claimer.claiming for claimer in self._claimers.values() if claimer.claiming is not None}
            return self._hub.dispatcher.sessions() | claiming

    def _about(self) -> str:
        pools = {
            pool.name: {"queues": pool.queues, "threads": pool.threads, "order": pool.order, "memory": pool.memory}
            for pool in self._settings.pools
        }
        handlers = sorted(self._crons.handlers)
        queues = sorted({queue for pool in self._settings.pools for queue in pool.queues})
        about = {
            "app": self._settings.app,
            "queues": queues,
            "pools": pools,
            "tags": self._settings.tags,
            "handlers": handlers,
            "crons": sorted(self._crons.names or ()),
            "retention": self._settings.retention.total_seconds(),
        }
        return msgspec.json.encode(about).decode()


STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopOnSignal:
    """A signal handler: the first signal drains the node, the second shortens that, the third kills its workers."""

    def __init__(self, node: Node) -> None:
        self._steps = (node.drain, node.shorten_drain, node.kill)
        self._signals = 0

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        step = partial(self._steps[min(self._signals, len(self._steps) - 1)], by_hand=number == signal.SIGINT)
        self._signals += 1
        # In a separate thread: the handler may have interrupted a thread that holds the lock that the step needs.
        threading.Thread(target=step).start()
