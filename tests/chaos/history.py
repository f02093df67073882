"""What the clients of a chaos run planned and did, in the format of the checker."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec import Struct

from tests.chaos.app import add_up
from tests.checker.records import AnyRecord, End, Invoke, Status
from tests.support.http_client import Refused, Unanswered
from windlass.core.task import TaskId
from windlass.errors import NotAllowed, UnknownTask, WindlassError


class Planned(Struct, kw_only=True):
    """A task that a producer submits: what the checker compares the store with."""

    id: TaskId
    key: str
    handler: str = "chaos.step"
    tenant: str = "default"
    number: int
    seconds: float = 0.0
    trouble: str = ""
    queue: str
    priority: int = 0
    above: tuple[int, ...] = ()
    """The positions of its prerequisites in the graph."""


class History:
    """Everything that clients planned and did. All threads write to it."""

    def __init__(self) -> None:
        self.records: list[AnyRecord] = []
        self.planned: dict[TaskId, Planned] = {}
        self.graphs: dict[TaskId, tuple[TaskId, ...]] = {}
        """The prerequisites of every planned task."""
        self._lock = threading.Lock()
        self._calls = 0

    def plan(self, graph: Sequence[Planned]) -> None:
        """Add the tasks of a graph that is about to be submitted."""
        with self._lock:
            for each in graph:
                self.planned[each.id] = each
                self.graphs[each.id] = tuple(graph[above].id for above in each.above)

    def list_latest(self, number: int) -> list[Planned]:
        """Return the tasks that were planned last."""
        with self._lock:
            return list(self.planned.values())[-number:]

    def call(
        self,
        process: str,
        what: str,
        ids: Iterable[TaskId],
        do: Callable[[], Any],
        *,
        tenant: str = "",
        node: str = "",
        sessions: tuple[str, ...] = (),
    ) -> Status:
        """Make a call, and record when it began, how it ended and, if it returns ids, which tasks it named."""
        tasks = tuple(map(str, ids))
        with self._lock:
            self._calls += 1
            name = f"{process}-{self._calls}"
            began = Invoke(call=name, process=process, what=what, at=time.time(), tenant=tenant, tasks=tasks)
            began.node, began.sessions = node, sessions
            self.records.append(began)
        status, error, named = "ok", "", None
        try:
            named = do()
        except (NotAllowed, UnknownTask, Refused) as refused:
            status, error = "fail", str(refused)
        except (WindlassError, Unanswered) as failure:  # The connection may have been lost after the commit.
            status, error = "unknown", str(failure)
        answer = tuple(map(str, named)) if isinstance(named, list | tuple) else ()
        with self._lock:
            self.records.append(End(call=name, status=status, at=time.time(), error=error, tasks=answer))
        return status

    def expected_results(self) -> dict[TaskId, int]:
        """Return what each task must have returned: its number and the results of those above it."""
        results: dict[TaskId, int] = {}
        for id, planned in self.planned.items():  # Prerequisites are planned before their dependents.
            results[id] = add_up(planned.number, [results[above] for above in self.graphs[id]])
        return results
