"""A node: the threads that lease tasks, hand them to workers and write down how they ended.

Each duty is an object with a `step()`; a `Duty` thread calls it again and again. A duty that fails is reported and
restarted; one that keeps failing ends the node, and so does any failure of the hub, which alone knows who runs what: a
restart could leave tasks leased that nobody has. No user code runs in this process.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import traceback
from collections.abc import Callable
from types import FrameType

import msgspec
from msgspec.structs import replace

from windlass.clock import monotonic
from windlass.config import NodeSettings, check_orders
from windlass.core.manifest import Manifest
from windlass.core.settlement import Outcome
from windlass.core.task import Claim, Lease, SessionId
from windlass.errors import WindlassError
from windlass.events import DutyFailed, Events, SettingsReloaded
from windlass.stores.protocol import Store
from windlass.worker.autoscaler import Autoscaler
from windlass.worker.breakers import Breakers
from windlass.worker.claimer import Claimer
from windlass.worker.crons import Crons
from windlass.worker.duty import MOST_FAILURES, WITHIN_SECONDS, Duty, NotRestartable
from windlass.worker.external_signals import ExternalSignals
from windlass.worker.handler_calls import HandlerCalls
from windlass.worker.node_status import NodeHealth, WorkerListing
from windlass.worker.session_keeper import SessionKeeper
from windlass.worker.settler import Settler
from windlass.worker.socket_hub import SocketHub
from windlass.worker.sweeper import Sweeper
from windlass.worker.wire import Call
from windlass.worker.worker import Worker

START_PATIENCE = 120.0
HURRY_SECONDS = 5.0
LAST_SECONDS = 2.0
"""How long a node that must leave waits for its last words to be written, and for its threads to end."""


class AppBroken(WindlassError, ImportError):
    """The app could not be imported; the message has its traceback."""

    code = "app_broken"


class NodeFailed(WindlassError, RuntimeError):
    """A duty of the node kept failing, so the node has left; the message names the duty and the error."""

    code = "node_failed"


class Node:
    """One supervisor process. `start`, then `resize` and `drain` as wished, then `close`.

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
    ) -> None:
        settings.check()
        self.events = events or Events()
        self.failure: str | None = None
        """Which duty failed for good, how often, and with which error; None as long as none did."""
        self.ended = threading.Event()
        """Set when the node has drained, or failed."""
        self._settings = settings
        self._store = open_store()
        self._keepers_store = open_store()  # A renewal must not wait for a connection that a large claim is using.
        self._over = threading.Event()
        self._manifest: Manifest | None = None
        self._imported = threading.Event()
        self._drain_until = float("inf")
        self._hub = SocketHub(settings, store_url, self, self.events)
        self._settler = Settler(self._store, self.events)
        self._clerk = HandlerCalls(self._store, self._hub.answer, self.events)
        self._sweeper = Sweeper(self._store, self.events)
        self._crons = Crons(self._store, self.events)
        name = settings.name or f"{socket.gethostname()}:{os.getpid()}"
        self._keeper = SessionKeeper(self._keepers_store, name, self._about, self.events, ttl=settings.session_ttl)
        self._keeper.on_cancel, self._keeper.on_lost = self._cancel, self._drop_session
        self._keeper.in_use = self._sessions
        self._keeper.workers = WorkerListing(self._hub).text
        self._keeper.mark, self._keeper.written = self._settler.mark, self._settler.written
        self._breakers = Breakers(self._store, self.events, name)
        self._autoscaler = Autoscaler(
            self._store, self._hub, self._keeper, self._breakers, self.events, settings.budget
        )
        self._signals = ExternalSignals(self._hub, self.events)
        tags = frozenset(settings.tags)
        self._claimers = {
            name: Claimer(self._store, pool, self._hub, self._keeper, self._settler, self._breakers, self.events, tags)
            for name, pool in self._hub.dispatcher.pools.items()
        }
        self.health = NodeHealth(self._hub, self._keeper, self._autoscaler, lambda: self.failure)
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
        self._duties = {name: self.health.watched(name, step) for name, step in steps.items()}
        self._threads: list[Duty] = []

    @property
    def unwritten(self) -> int:
        """How many attempts have ended whose end the store has not taken yet."""
        return self._settler.open

    def start(self) -> None:
        """Import the app in a nursery and begin to work; `AppBroken` when it cannot be imported."""
        try:
            check_orders(self._settings.pools, self._store)
        except WindlassError:
            self.close()
            raise
        self._begin("hub")
        give_up_at = monotonic() + START_PATIENCE
        while not self._imported.wait(0.01) and not self.ended.is_set():
            if self._hub.broken is not None or monotonic() > give_up_at:
                why = self._hub.broken or f"{self._settings.app} was not imported within {START_PATIENCE:.0f} s"
                self.close()
                raise AppBroken(why)
        for name in self._duties:
            if name != "hub" and not self.ended.is_set():
                self._begin(name)

    @property
    def handlers(self) -> frozenset[str]:
        """The names of the handlers that the workers have."""
        return frozenset(self._crons.handlers)

    def resize(self, pool: str, size: int, why: str = "by hand") -> None:
        """Give a pool a size of its own on this node, whatever it was told before; 0 pauses it."""
        with self._hub.lock:
            settings = self._hub.dispatcher.pools[pool].settings
            self._hub.dispatcher.pools[pool].retune(replace(settings, size=size))
            self._hub.dispatcher.resize(pool, size, why)
        self._hub.wake()

    def reload(self, settings: NodeSettings) -> None:
        """Follow other settings, whole or not at all: `InvalidSettings` when they cannot be followed while it runs."""
        settings.check()
        check_orders(settings.pools, self._store)
        changes = self._settings.changes(settings)
        if not changes:
            return
        self._settings = settings
        self._autoscaler.retune({pool.name: pool for pool in settings.pools}, settings.budget)
        self.events.emit(SettingsReloaded(changes=tuple(changes)))

    def grow(self, by: int) -> None:
        """Make every pool of a given size larger, or smaller, by so many workers. Others size themselves."""
        with self._hub.lock:
            for pool in self._hub.dispatcher.pools.values():
                if pool.settings.size is not None:
                    self.resize(pool.settings.name, max(0, pool.settings.size + by), "by a signal")

    def drain(self) -> None:
        """Begin to leave: take nothing new, end what runs, give back the rest. `ended` is set when that is done."""
        limit = self._settings.drain_timeout
        self._stop_by(float("inf") if limit is None else monotonic() + limit.total_seconds())
        with self._hub.lock:
            self._hub.dispatcher.drain(monotonic())
        self._hub.wake()

    def hasten_drain(self) -> None:
        """Leave sooner: what still runs in a few seconds is stopped and given back."""
        self._stop_by(monotonic() + HURRY_SECONDS)

    def kill(self) -> None:
        """Leave now: stop everything and give it back."""
        self._stop_by(monotonic())

    def close(self) -> None:
        """Stop every thread, end the nursery, close the sessions (what they hold is released).

        A store that does not answer is not waited for: what it was not told runs out with the session. Closing twice
        does nothing.
        """
        if self._over.is_set():
            return
        self._over.set()
        self._settler.close()
        self._hub.wake()
        for duty in (self._keeper, self._sweeper, self._crons, self._autoscaler, self._signals):
            duty.turned.set()
        give_up_at = monotonic() + LAST_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, give_up_at - monotonic()))
        self._hub.close()  # First: a session that is closed gives its tasks to others, who must not run beside ours.
        last_words = threading.Thread(target=self._report_exit, name="windlass-close", daemon=True)
        last_words.start()
        last_words.join(max(LAST_SECONDS / 2, give_up_at - monotonic()))
        self._store.close()
        self._keepers_store.close()

    # What the hub hands on (windlass.worker.socket_hub.Office)

    def valid_until(self, session: SessionId) -> float:
        return self._keeper.valid_until(session)

    def settle(self, claim: Claim, outcome: Outcome, *, seconds: float, log: str | None) -> None:
        self._breakers.record_end(claim, outcome)
        self._settler.put(claim, outcome, seconds=seconds, log=log)

    def progress(self, lease: Lease, share: float | None, message: str | None) -> None:
        self._clerk.progress(lease, share, message)

    def call(self, worker: Worker, lease: Lease | None, call: Call) -> None:
        self._clerk.call(worker, lease, call)

    def ready(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._crons.handlers = {handler.name: handler for handler in manifest.handlers}
        for claimer in self._claimers.values():
            claimer.handlers = frozenset(self._crons.handlers)
        self._clerk.publish(manifest)
        self._imported.set()

    def tick(self, now: float) -> None:
        self._keeper.overdue(now)
        self._clerk.tick(now)
        crew = self._hub.dispatcher
        if not crew.draining:
            return
        if now >= self._drain_until:
            crew.stop_now("the node leaves")
        nothing_left = not crew.workers and not crew.held and not self._settler.open
        if nothing_left or now >= self._drain_until + LAST_SECONDS:
            self.ended.set()

    def _stop_by(self, moment: float) -> None:
        """The earliest moment counts, in whatever order signals are heard."""
        with self._hub.lock:
            self._drain_until = min(self._drain_until, moment)

    def _report_exit(self) -> None:
        self._settler.flush()
        self._keeper.close()
        self._clerk.close()

    def _begin(self, name: str) -> None:
        thread = Duty(name, self._duties[name], self._over, self._duty_failed, restarts=name != "hub")
        self._threads.append(thread)
        thread.start()

    def _duty_failed(self, duty: str, error: Exception, again_in: float | None) -> None:
        said = f"{type(error).__name__}: {error}"
        trace = "".join(traceback.format_exception(error))
        self.events.emit(DutyFailed(duty=duty, error=said, traceback=trace, again_in=again_in))
        session = self._keeper.current
        if again_in is None:
            at_once = duty == "hub" or isinstance(error, NotRestartable)
            often = "failed" if at_once else f"failed {MOST_FAILURES} times within {WITHIN_SECONDS:.0f} s"
            self.failure = f"the duty {duty} {often}; the latest error is {said}"
            self.ended.set()
        elif session is not None and duty.startswith("claimer-"):
            # What was claimed may not have been handed out: closed once the rest has ended, the session releases it.
            self._keeper.retire(session)

    def _cancel(self, leases: list[Lease]) -> None:
        with self._hub.lock:
            self._hub.dispatcher.cancel(leases, monotonic())

    def _drop_session(self, session: SessionId, why: str) -> None:
        with self._hub.lock:
            self._hub.dispatcher.drop_session(session, why)

    def _sessions(self) -> set[SessionId]:
        with self._hub.lock:
            claiming = {claimer.claiming for claimer in self._claimers.values() if claimer.claiming is not None}
            return self._hub.dispatcher.sessions() | claiming

    def _about(self) -> str:
        pools = {
            pool.name: {"queues": pool.queues, "threads": pool.threads, "order": pool.order}
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
        }
        return msgspec.json.encode(about).decode()


LEAVE = (signal.SIGTERM, signal.SIGINT)


class StopOnSignal:
    """A signal handler: the first signal drains the node, the second hurries it, the third kills its workers."""

    def __init__(self, node: Node) -> None:
        self._steps = (node.drain, node.hasten_drain, node.kill)
        self._signals = 0

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        step = self._steps[min(self._signals, len(self._steps) - 1)]
        self._signals += 1
        # In a thread of its own: the handler may have interrupted a thread that holds the lock it would wait for.
        threading.Thread(target=step).start()
