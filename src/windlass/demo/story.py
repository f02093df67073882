"""What the demo tells: a line for every event worth telling, and how things stand.

It listens to the node's events, in whatever thread they happen, and only remembers; the stage prints.
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

TOLD_ORDERS = (1, 2, 3, 10, 30, 100, 300)
"""Which of the finished orders are told of."""
SPARKS = "▁▂▃▄▅▆▇█"


class Story:
    """Collects lines."""

    def __init__(self, store: Store) -> None:
        self.lines: SimpleQueue[str] = SimpleQueue()
        self.ended = 0
        self._store = store
        self._failed: Counter[str] = Counter()
        self._retried = self._orders = 0
        self._shipped: SimpleQueue[TaskId] = SimpleQueue()
        self._rates: deque[int] = deque(maxlen=12)
        self._ended_before = 0

    def heard(self, event: Event) -> None:
        """Something has happened on the node."""
        match event:
            case PoolDecided(action="grew" | "shrank", why=why):
                self.lines.put(why.replace("▲ ", "▲ pool ").replace("▼ ", "▼ pool "))
            case PoolDecided(action="alert", why=why):
                self.lines.put(f"⚠ {why}")
            case AttemptEnded():
                self._ended(event)
            case WorkerStateChanged(after="failed", worker=number, why=why):
                self.lines.put(f"✗ worker {number} {why}: its task runs again, a new worker is on its way")
            case BreakerChanged(why=why):
                self.lines.put(f"⚡ {why}")
            case StoreCallFailed(doing=doing, error=error):
                self.lines.put(f"⚠ the store could not {doing}: {error}")
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
                self.lines.put(f"↻ {name}  failed and is tried again; {self._retried} retries so far")
        elif name == "ship":
            self._orders += 1
            if self._orders in TOLD_ORDERS:
                self._shipped.put(event.lease.task)
        elif name == "count_stock":
            self.lines.put("◷ count_stock  the cron has fired, once, whatever the number of nodes")

    def look(self) -> None:
        """Ask the store about what was only heard of. Called by the stage, which may wait."""
        while not self._shipped.empty():
            path = self._path(self._shipped.get())
            if path:
                steps = " → ".join(f"{name_of(task)} {(ended(task) - (task.claimed or 0)) / 1e6:.1f}" for task in path)
                took = (ended(path[-1]) - path[0].submitted) / 1e6
                self.lines.put(f"✓ {path[-1].workflow} in {took:.1f} s   critical path {steps}")

    def _path(self, last: TaskId) -> list[Task]:
        """The steps that an order waited for: back from the last one, each time to the latest of what it waited for."""
        path: list[Task] = []
        [step] = self._store.get([last])
        while step is not None:
            path.insert(0, step)
            before = self._store.neighbourhood(step.id).prerequisites
            tasks = self._store.get([each.id for each in before])
            step = max((task for task in tasks if task is not None), key=ended, default=None)
        return path

    def status(self) -> str:
        """How things stand, in one line."""
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


def ended(task: Task) -> Micros:
    """When it ended; 0 if it has not."""
    return task.finished or 0


def name_of(task: Task) -> str:
    """A handler without its module."""
    return task.handler.rpartition(".")[2]
