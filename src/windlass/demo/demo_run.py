"""One run of the demo: a store, a node, customers, a killed worker, and a drain that loses nothing."""

from __future__ import annotations

import os
import platform
import signal
import sys
import threading
from collections.abc import Callable
from importlib.metadata import version

from windlass.autoscale.settings import Settings
from windlass.clock import monotonic
from windlass.config import NodeSettings, PoolSettings
from windlass.demo import shop
from windlass.demo.narration import Narration
from windlass.demo.served_dashboard import ServedDashboard
from windlass.demo.traffic import Traffic
from windlass.distribution import DISTRIBUTION
from windlass.events import Event, Events, WorkerStateChanged
from windlass.store_choice import short_name
from windlass.stores.protocol import Store
from windlass.worker.node import Node

KILLED_AT = 20.0
"""Seconds until a worker is killed to show that nothing is lost; at half of the run if that is sooner."""
FEWEST, MOST, GOAL = 2, 8, 4.0
QUEUES = ("orders", "mail", "media", "reports", "default")
NEXT = """
  Next, in another terminal{store}:
    windlass pool history shop    why the pool has this size
    windlass dead ls              the bug: one group, to fix and retry together
    windlass tasks ls             all tasks, newest first
    windlass why ID               why a task is not running
"""


class DemoRun:
    """One run of the demo."""

    def __init__(self, url: str, open_store: Callable[[], Store], seconds: float | None) -> None:
        self._url = url
        self._open_store = open_store
        self._seconds = seconds
        self._began = monotonic()
        self._over = threading.Event()
        self._ready = threading.Event()
        self._busy: dict[int, int] = {}
        self._killed = False
        self._terminal = sys.stdout.isatty()
        self._line = ""

    def run(self) -> int:
        """Run the demo and return 0 if no submitted task was lost."""
        print(f"  windlass {version(DISTRIBUTION)}  demo · Python {platform.python_version()} · {os.cpu_count()} cores")
        store = self._open_store()
        before = count_tasks(store)
        self._step("store", self._shown_url())
        shop.app.use_store(store)
        narration, traffic, node = Narration(store), Traffic(), self._node()
        dashboard = ServedDashboard(self._open_store, short_name(self._url))
        node.events.listen(narration.record)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda _number, _frame: self._over.set())
        try:
            node.start()
            self._ready.wait(30)
            self._step("workers", f"{FEWEST} started, may grow to {MOST}; goal: no task waits longer than {GOAL:g} s")
            self._step("dashboard", dashboard.start())
            print("  A small shop is running: 3 tenants, 4 queues, orders of 5 steps, a cron, and one bug on purpose.")
            print(NEXT.format(store="" if "demo" not in self._url else f" (export WINDLASS_URL={self._url})"))
            traffic.start()
            self._narrate(narration, node)
            return self._end(store, narration, traffic, node, before)
        finally:
            traffic.over.set()
            dashboard.stop()
            node.close()
            shop.app.close()

    def _node(self) -> Node:
        pool = PoolSettings(name="shop", queues=QUEUES, min=FEWEST, max=MOST, scale=Settings(wait=GOAL))
        settings = NodeSettings(app="windlass.demo.shop:app", name="demo", pools=(pool,))
        return Node(settings, self._open_store, self._url, Events(self._record))

    def _record(self, event: Event) -> None:
        if isinstance(event, WorkerStateChanged):
            if event.after == "idle" and event.before == "starting":
                self._ready.set()
            if event.after == "busy":
                self._busy[event.worker] = event.pid
            else:
                self._busy.pop(event.worker, None)

    def _narrate(self, narration: Narration, node: Node) -> None:
        """Print what happens until the time is up, a signal arrives, or the node stops."""
        begin = monotonic()
        status_at = begin
        while not self._over.wait(0.1) and not node.ended.is_set():
            passed = monotonic() - begin
            if self._seconds is not None and passed >= self._seconds:
                return
            if passed >= min(KILLED_AT, (self._seconds or KILLED_AT * 2) / 2) and not self._killed:
                self._kill_one()
            narration.look_up()
            while not narration.lines.empty():
                self._print(narration.lines.get())
            if monotonic() >= status_at:
                status_at += 1.0 if self._terminal else 5.0
                self._show(narration.status())

    def _kill_one(self) -> None:
        """Kill a busy worker, as a crash would."""
        for number, pid in list(self._busy.items()):
            self._killed = True
            self._print(f"⚡ kill -9 of worker {number} while it runs a task, on purpose")
            os.kill(pid, signal.SIGKILL)
            return

    def _end(self, store: Store, narration: Narration, traffic: Traffic, node: Node, before: int) -> int:
        traffic.over.set()
        traffic.join()
        began = monotonic()
        running = len(self._busy)
        node.drain()
        node.ended.wait(60)
        node.close()
        while not narration.lines.empty():
            self._print(narration.lines.get())
        self._show("")
        # The cron submits tasks too, so there may be more than the customers submitted, but never fewer.
        lost = max(0, before + traffic.submitted - count_tasks(store))
        print(f"  drained {running} running in {monotonic() - began:.1f} s.", end=" ")
        print(f"{narration.ended:,} attempts ended, {traffic.submitted:,} tasks submitted, {lost} lost.", end=" ")
        print("`windlass demo --resume` continues.")
        for failure in (traffic.failure, node.failure):
            if failure is not None:
                print(f"  error: {failure}", file=sys.stderr)
        return 1 if lost or traffic.failure or node.failure else 0

    def _shown_url(self) -> str:
        """Return the store's URL without the password."""
        return f"{self._url.partition('://')[0]}://…{self._url.rpartition('@')[2]}" if "@" in self._url else self._url

    def _step(self, what: str, text: str) -> None:
        print(f"  ✓ {what:<10} {text:<60} {monotonic() - self._began:5.2f} s", flush=True)

    def _print(self, text: str) -> None:
        passed = int(monotonic() - self._began)
        clear = "\r\033[K" if self._terminal else ""
        print(f"{clear}  {passed // 60}:{passed % 60:02}  {text}", flush=True)
        if self._terminal:
            self._show(self._line)

    def _show(self, line: str) -> None:
        """Print the status: in the last line of a terminal, or as a line of its own."""
        self._line = line
        if self._terminal:
            print(f"\r\033[K  {line}", end="", flush=True)
        elif line:
            print(f"        {line}", flush=True)


def count_tasks(store: Store) -> int:
    """Return the number of tasks in the store."""
    return sum(count.tasks for count in store.counts())
