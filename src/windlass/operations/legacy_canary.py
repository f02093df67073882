"""Is it fixed? Retry one, then ten, then all; stop when the bug is still there.

A task counts as fixed when it has completed. One that failed again, or whose next attempt waits after the same error,
ends the try: what was not retried yet stays where it is. One place for the command line and the API.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from windlass.clock import monotonic, sleep
from windlass.core.fingerprint import fingerprint
from windlass.core.lifecycle import State
from windlass.core.task import Task, TaskId
from windlass.core.times import format_duration
from windlass.redaction import redact_text
from windlass.stores.coordination import Entry
from windlass.stores.dead_letters import DeadGroup
from windlass.stores.protocol import Store

STEPS = (1, 10)
POLL_SECONDS = 0.2


class Verdict(Struct, frozen=True, kw_only=True):
    """What came of it."""

    retried: int
    fixed: bool
    text: str


class Canary:
    """One try. Call `step` again and again, with pauses between, until there is a verdict."""

    def __init__(self, store: Store, group: DeadGroup, letters: Sequence[Task], patience: float, entry: Entry) -> None:
        self.retried = 0
        self.said = ""
        """What was done last, in words."""
        self._store, self._group, self._patience = store, group, patience
        self._left, self._steps, self._entries = list(letters), list(STEPS), [entry]
        self._watched: Sequence[Task] = ()
        self._give_up_at = 0.0

    @property
    def left(self) -> int:
        """How many wait for how it ends."""
        return len(self._left)

    def step(self) -> Verdict | None:
        """Look how it goes, and retry more of them when that can be told; None while it cannot."""
        if not self._watched:
            return self._go_on()
        found = [_trouble(self._store, self._group, task) for task in self._watched]
        bad = [trouble for trouble in found if trouble]
        if not bad and None in found:
            if monotonic() < self._give_up_at:
                return None
            bad = [f"not all of them have ended within {format_duration(int(self._patience * 1e6))}"]
        if bad:
            return Verdict(retried=self.retried, fixed=False, text=f"{bad[0]}; {self.left} were not retried")
        self._watched = ()
        return self._go_on()

    def _go_on(self) -> Verdict | None:
        if not self._left:
            return Verdict(retried=self.retried, fixed=True, text="it is fixed: all of them have completed")
        if not self._steps:
            rest = [task.id for task in self._left]
            self._left = []
            self._retry(rest)
            text = f"it is fixed: the other {len(rest)} were retried too"
            return Verdict(retried=self.retried, fixed=True, text=text)
        size = self._steps.pop(0)
        now, self._left = self._left[:size], self._left[size:]
        self._watched, self._give_up_at = now, monotonic() + self._patience
        self._retry([task.id for task in self._watched])
        self.said = f"retried {len(now)}, {self.left} wait for how that ends"
        return None

    def _retry(self, tasks: Sequence[TaskId]) -> None:
        """The try is in the audit log once, from its first task on."""
        number = self._store.retry(tasks, entries=self._entries)
        if number:
            self._entries = []
        self.retried += number


def canary(
    store: Store,
    group: DeadGroup,
    letters: Sequence[Task],
    patience: float,
    entry: Entry,
    say: Callable[[str], None],
) -> Verdict:
    """Retry a group step by step; `patience` is how many seconds a step may take."""
    trial, said = Canary(store, group, letters, patience, entry), ""
    while (verdict := trial.step()) is None:
        if trial.said != said:
            said = trial.said
            say(said)
        sleep(POLL_SECONDS)
    return verdict


def _trouble(store: Store, group: DeadGroup, before: Task) -> str | None:
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
        return f"another trouble: {task.id} is {task.state.value}: {redact_text(task.reason or '')}"
    return None
