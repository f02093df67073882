"""Check whether a bug is fixed: retry one of its tasks, then ten, then all; stop when the bug is still there.

A task counts as fixed when it has completed. If one fails again, or waits for its next attempt after the same error,
the canary stops, and the tasks that were not retried yet stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from windlass.clock import monotonic, sleep
from windlass.core.fingerprint import fingerprint
from windlass.core.lifecycle import State
from windlass.core.task import Task, TaskId
from windlass.core.times import format_duration
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.dead_letters import group_entry, letters
from windlass.redaction import redact_text
from windlass.stores.dead_letters import DeadGroup

STEPS = (1, 10)
POLL_SECONDS = 0.2


class CanaryVerdict(Struct, frozen=True, kw_only=True):
    """How a canary ended."""

    retried: int
    fixed: bool
    text: str


class Canary:
    """A retry of one group in steps. Call `step` repeatedly, with pauses, until it returns a verdict."""

    def __init__(self, access: Access, group: DeadGroup, patience: float, author: Author) -> None:
        """`patience` is how many seconds a step may take."""
        self.retried = 0
        self.status = ""
        """What the latest step did, as text."""
        self._store, self._group, self._patience = access.store, group, patience
        self._left, self._steps = list(letters(access, group).tasks), list(STEPS)
        self._entries = [group_entry(group, "retried", f"retried {group.id} with a canary", author)]
        self._watched: Sequence[Task] = ()
        self._give_up_at = 0.0

    @property
    def left(self) -> int:
        """Return how many tasks were not retried yet."""
        return len(self._left)

    def step(self) -> CanaryVerdict | None:
        """Check the retried tasks, and retry more when all of them have completed. Return None until it ends."""
        if not self._watched:
            return self._retry_next()
        found = [self._find_problem(task) for task in self._watched]
        problems = [problem for problem in found if problem]
        if not problems and None in found:
            if monotonic() < self._give_up_at:
                return None
            problems = [f"not all of them ended within {format_duration(int(self._patience * 1e6))}"]
        if problems:
            text = f"{problems[0]}; {self.left} were not retried"
            return CanaryVerdict(retried=self.retried, fixed=False, text=text)
        self._watched = ()
        return self._retry_next()

    def _retry_next(self) -> CanaryVerdict | None:
        if not self._left:
            return CanaryVerdict(retried=self.retried, fixed=True, text="fixed: all of them have completed")
        if not self._steps:
            rest = [task.id for task in self._left]
            self._left = []
            self._retry(rest)
            return CanaryVerdict(retried=self.retried, fixed=True, text=f"fixed: retried the other {len(rest)} too")
        size = self._steps.pop(0)
        chosen, self._left = self._left[:size], self._left[size:]
        self._watched, self._give_up_at = chosen, monotonic() + self._patience
        self._retry([task.id for task in self._watched])
        self.status = f"retried {len(chosen)}; {self.left} wait for the result"
        return None

    def _retry(self, tasks: Sequence[TaskId]) -> None:
        """Retry some tasks. Only the first retry that changes something writes the audit entry."""
        number = self._store.retry(tasks, entries=self._entries)
        if number:
            self._entries = []
        self.retried += number

    def _find_problem(self, before: Task) -> str | None:
        """Return what is wrong with a retried task: nothing if it has completed, None while that is unknown."""
        [task] = self._store.get([before.id])
        if task is None:
            return f"{before.id} no longer exists"
        if task.state is State.COMPLETED:
            return ""
        attempts = self._store.attempts(task.id)
        errors = [attempt.error for attempt in attempts if attempt.fence > before.fence and attempt.error]
        same = any(fingerprint(error) == self._group.id for error in errors)
        if same and task.state in (State.FAILED, State.RETRYING):
            return f"the same bug is back: {task.id} ended with {errors[-1].kind} again ({self._group.id})"
        if task.state.final:
            return f"another problem: {task.id} is {task.state.value}: {redact_text(task.reason or '')}"
        return None


def run_canary(
    access: Access, group: DeadGroup, patience: float, author: Author, report: Callable[[str], None]
) -> CanaryVerdict:
    """Run a canary to its end. `report` gets the text of every step."""
    canary, status = Canary(access, group, patience, author), ""
    while (verdict := canary.step()) is None:
        if canary.status != status:
            status = canary.status
            report(status)
        sleep(POLL_SECONDS)
    return verdict
