"""The lines that the demo prints: one for each notable event, and a status line.

`Narration` listens to the node's events, in the threads where they happen, and only records them; `DemoRun` prints.
"""

from __future__ import annotations

from collections import Counter, deque
from queue import SimpleQueue

from windlass.core.lifecycle import State
from windlass.core.task import Task, TaskId
from windlass.core.times import Micros
from windlass.events import (
    AttemptEnded,
    BreakerChanged,
    Event,
    PoolDecided,
    SessionEnded,
    StoreCallFailed,
    WorkerStateChanged,
)
from windlass.stores.protocol import Store

NARRATED_ORDERS = (1, 2, 3, 10, 30, 100, 300)
"""The finished orders that get a line."""
SPARKS = "▁▂▃▄▅▆▇█"


class Narration:
    """Turns events of the node into lines for the terminal."""

    def __init__(self, store: Store) -> None:
        self.lines: SimpleQueue[str] = SimpleQueue()
        self.ended = 0
        self._store = store
        self._failed: Counter[str] = Counter()
        self._retried = self._orders = 0
        self._shipped: SimpleQueue[TaskId] = SimpleQueue()
        self._rates: deque[int] = deque(maxlen=12)
        self._ended_before = 0

    def record(self, event: Event) -> None:
        """Record an event, in the thread where it happened."""
        match event:
            case PoolDecided(action="grew" | "shrank", why=why):
                self.lines.put(why.replace("▲ ", "▲ pool ").replace("▼ ", "▼ pool "))
            case PoolDecided(action="alert", why=why):
                self.lines.put(f"⚠ {why}")
            case AttemptEnded():
                self._ended(event)
            case WorkerStateChanged(after="failed", worker=number, why=why):
                self.lines.put(f"✗ worker {number} {why}: its task runs again and a new worker is starting")
            case BreakerChanged(why=why):
                self.lines.put(f"⚡ {why}")
            case StoreCallFailed(doing=doing, error=error):
                self.lines.put(f"⚠ the store failed to {doing}: {error}")
            case SessionEnded(why=why) if why != "closed":
                self.lines.put(f"⚠ the node's session ended: {why}")
            case _:
                pass

    def _ended(self, event: AttemptEnded) -> None:
        self.ended += 1
        name = event.handler.rpartition(".")[2]
        if event.state is State.FAILED:
            self._failed[name] += 1
            count = self._failed[name]
            if count in (1, 3, 10, 30):
                self.lines.put(f"✗ {name} ×{count}  → dead letters (windlass dead ls)")
        elif event.state is State.RETRYING:
            self._retried += 1
            if self._retried in (1, 5, 20):
                self.lines.put(f"↻ {name}  failed and is retried; {self._retried} retries so far")
        elif name == "ship":
            self._orders += 1
            if self._orders in NARRATED_ORDERS:
                self._shipped.put(event.lease.task)
        elif name == "count_stock":
            self.lines.put("◷ count_stock  the cron fired, once for all nodes")

    def look_up(self) -> None:
        """Read the finished orders from the store. Called by the main thread, which may block."""
        while not self._shipped.empty():
            path = self._path(self._shipped.get())
            if path:
                steps = " → ".join(f"{short_name(task)} {_run_seconds(task):.1f}" for task in path)
                took = (finished_at(path[-1]) - path[0].submitted) / 1e6
                self.lines.put(f"✓ {path[-1].workflow} in {took:.1f} s   critical path {steps}")

    def _path(self, last: TaskId) -> list[Task]:
        """Return the critical path of an order: back from the last step, to the prerequisite that ended last."""
        path: list[Task] = []
        [step] = self._store.get([last])
        while step is not None:
            path.insert(0, step)
            before = self._store.neighbourhood(step.id).prerequisites
            tasks = self._store.get([each.id for each in before])
            step = max((task for task in tasks if task is not None), key=finished_at, default=None)
        return path

    def status(self) -> str:
        """Return the current counts and rate as one line."""
        counts: Counter[State] = Counter()
        for count in self._store.counts():
            counts[count.state] += count.tasks
        self._rates.append(self.ended - self._ended_before)
        self._ended_before = self.ended
        top = max(1, *self._rates)
        curve = "".join(SPARKS[round(rate / top * (len(SPARKS) - 1))] for rate in self._rates)
        states = (State.COMPLETED, State.RUNNABLE, State.LEASED, State.RETRYING, State.FAILED)
        shown = "  ".join(f"{state.value} {counts[state]:,}" for state in states)
        return f"{shown}   {self._rates[-1]}/s {curve}"


def _run_seconds(task: Task) -> float:
    return (finished_at(task) - (task.claimed or 0)) / 1e6


def finished_at(task: Task) -> Micros:
    """Return the finish time of a task, or 0."""
    return task.finished or 0


def short_name(task: Task) -> str:
    """Return a task's handler name without its module."""
    return task.handler.rpartition(".")[2]
