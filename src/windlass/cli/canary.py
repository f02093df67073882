"""Is it fixed? Retry one, then ten, then all; stop when the bug is still there.

A task counts as fixed when it has completed. One that failed again, or whose next attempt waits after the same error,
ends the try: what was not retried yet stays where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from windlass.clock import monotonic, sleep
from windlass.core.fingerprint import fingerprint
from windlass.core.lifecycle import State
from windlass.core.task import Task
from windlass.core.times import spelled
from windlass.dead import Group
from windlass.stores.protocol import Store

STEPS = (1, 10)
POLL_SECONDS = 0.2


class Verdict(Struct, frozen=True, kw_only=True):
    """What came of it."""

    retried: int
    fixed: bool
    text: str


def canary(store: Store, group: Group, patience: float, say: Callable[[str], None]) -> Verdict:
    """Retry a group step by step; `patience` is how many seconds a step may take."""
    left, retried = list(group.letters), 0
    for step in STEPS:
        now, left = left[:step], left[step:]
        if not now:
            break
        tasks = [letter.task for letter in now]
        retried += store.retry([task.id for task in tasks])
        say(f"retried {len(tasks)}, {len(left)} wait for how that ends")
        trouble = _watched(store, group, tasks, patience)
        if trouble:
            return Verdict(retried=retried, fixed=False, text=f"{trouble}; {len(left)} were not retried")
    if left:
        retried += store.retry([letter.task.id for letter in left])
        return Verdict(retried=retried, fixed=True, text=f"it is fixed: the other {len(left)} were retried too")
    return Verdict(retried=retried, fixed=True, text="it is fixed: all of them have completed")


def _watched(store: Store, group: Group, tasks: Sequence[Task], patience: float) -> str:
    """Wait for the end of these; what speaks against going on, empty if nothing does."""
    give_up_at = monotonic() + patience
    while True:
        found = [_trouble(store, group, task) for task in tasks]
        bad = [trouble for trouble in found if trouble]
        if bad:
            return bad[0]
        if all(trouble == "" for trouble in found):
            return ""
        if monotonic() >= give_up_at:
            return f"not all of them have ended within {spelled(int(patience * 1e6))}"
        sleep(POLL_SECONDS)


def _trouble(store: Store, group: Group, before: Task) -> str | None:
    """What is wrong with a task that was retried; empty if it has completed, None while nobody knows."""
    [task] = store.get([before.id])
    if task is None:
        return f"{before.id} is gone"
    if task.state is State.COMPLETED:
        return ""
    fresh = [attempt.error for attempt in store.attempts(task.id) if attempt.fence > before.fence and attempt.error]
    same = any(fingerprint(error) == group.id for error in fresh)
    if same and task.state in (State.FAILED, State.RETRYING):
        return f"the same bug is back: {task.id} ended with {fresh[-1].kind} again ({group.id})"
    if task.state.final:
        return f"another trouble: {task.id} is {task.state.value}: {task.reason}"
    return None
