"""The recorded history of a store as a load: when its tasks could run, and how long each of them took.

A task arrives when it first became runnable, as far as its row still says: at its submit, or when it was due. Its run
time is that of its last attempt if it completed; of the others, the mean of their handler. What was pruned, and
what was submitted before the time that is asked for, is not seen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import timedelta

from windlass.core.lifecycle import State
from windlass.core.task import Task
from windlass.core.times import Micros, micros
from windlass.simulation.load import Arrival, InvalidLoad, Load
from windlass.simulation.traces import make_load
from windlass.stores.protocol import Cursor, Filter, TaskReader

LEAST_COMPLETED = 20
"""Fewer completed tasks than this say nothing about a load."""
MOST_HISTORY = 500_000
PAGE = 1_000


def read_history(
    store: TaskReader, *, now: Micros, since: timedelta = timedelta(hours=1), queue: str | None = None
) -> Load:
    """What arrived in the time before `now`, in one queue or in all."""
    begin = now - micros(since)
    tasks = [task for task in find_tasks(store, begin, queue) if get_runnable_time(task) is not None]
    runs = group_run_times(tasks)
    completed = sum(len(times) for times in runs.values())
    if completed < LEAST_COMPLETED:
        where = "the store" if queue is None else f"queue {queue!r}"
        raise InvalidLoad(
            f"{where} completed {completed} tasks within since={since}; at least {LEAST_COMPLETED} are needed: give a longer "
            "since, or another queue"
        )
    means = {handler: mean(times) for handler, times in runs.items()}
    overall = mean([each for times in runs.values() for each in times])
    arrivals: list[Arrival] = []
    for task in tasks:
        at, own = get_runnable_time(task), get_run_time(task)
        if at is not None and at <= now:
            arrivals.append(((at - begin) / 1e6, means.get(task.handler, overall) if own is None else own))
    return make_load("recorded" if queue is None else f"recorded {queue}", sorted(arrivals), wait=5, delay=0.05)


def find_tasks(store: TaskReader, begin: Micros, queue: str | None) -> Iterator[Task]:
    """The tasks submitted since then, the newest first."""
    after: Cursor | None = None
    for _ in range(MOST_HISTORY // PAGE):
        page = store.find(Filter(queue=queue), limit=PAGE, after=after)
        yield from (task for task in page.tasks if task.submitted >= begin)
        after = page.after
        if after is None or after.submitted < begin:
            return
    raise InvalidLoad(f"since goes back over more than {MOST_HISTORY:,} tasks; give a shorter time")


def get_runnable_time(task: Task) -> Micros | None:
    """When it could first run; None for one that never could, or cannot yet."""
    if task.claimed is None and task.state is not State.RUNNABLE:
        return None
    before = task.attempts + task.crashes + task.losses - (task.finished is not None)
    # After a retry `due` tells of that alone, and the submit is the best that the row still knows.
    return task.submitted if before > 0 else max(task.submitted, task.due)


def group_run_times(tasks: Sequence[Task]) -> dict[str, list[float]]:
    """The run times of what completed, by handler."""
    runs: dict[str, list[float]] = defaultdict(list)
    for task in tasks:
        if (seconds := get_run_time(task)) is not None:
            runs[task.handler].append(seconds)
    return runs


def get_run_time(task: Task) -> float | None:
    """How long its last attempt took, if it completed."""
    if task.state is not State.COMPLETED or task.finished is None or task.claimed is None:
        return None
    return max(0.0, (task.finished - task.claimed) / 1e6)


def mean(times: Sequence[float]) -> float:
    return sum(times) / len(times)
