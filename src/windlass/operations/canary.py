"""Check whether a bug is fixed: retry one of its tasks, then ten, then all; stop when the bug is still there.

A task counts as fixed when it has completed. If one fails again, or waits for its next attempt after the same error,
the canary stops, and the tasks that were not retried yet stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from windlass.clock import monotonic, sleep
from windlass.core.fingerprint import fingerprint
from windlass.core.lifecycle import State
from windlass.core.task import Task, TaskId
from windlass.core.times import format_duration
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.dead_letters import GroupRetried, get_ids, group_entry
from windlass.redaction import redact_text
from windlass.stores.dead_letters import DeadGroup

STEPS = (1, 10)
POLL_SECONDS = 0.2


class Canary:
    """A retry of one group in steps. Call `step` until `ended`; pause for `POLL_SECONDS` when it returns None."""

    def __init__(self, access: Access, group: DeadGroup, patience: float, author: Author) -> None:
        """`patience` is how many seconds a step may take."""
        self.ended = False
        self._store, self._group, self._patience, self._author = access.store, group, patience, author
        self._left, self._steps, self._retried = get_ids(access, group), list(STEPS), 0
        self._watched: Sequence[Task] = ()
        self._give_up_at = 0.0

    def step(self) -> GroupRetried | None:
        """Check the retried tasks, and retry more when all of them have completed. Return None if nothing is new."""
        if not self._watched:
            return self._retry_next()
        found = [self._find_problem(task) for task in self._watched]
        problems = [problem for problem in found if problem]
        if not problems and None in found:
            if monotonic() < self._give_up_at:
                return None
            problems = [f"not all of them ended within {format_duration(int(self._patience * 1e6))}"]
        if problems:
            return self._progress(f"{problems[0]}; {len(self._left)} were not retried", fixed=False)
        self._watched = ()
        return self._retry_next()

    def _retry_next(self) -> GroupRetried:
        if not self._left and not self._retried:
            return self._progress("nothing was retried: none of them is failed any more", fixed=False)
        if not self._left:
            return self._progress("fixed: all of them have completed", fixed=True)
        if not self._steps:
            rest, self._left = self._left, []
            self._retry(rest)
            return self._progress(f"fixed: retried the other {len(rest)} too", fixed=True)
        self._watched, self._give_up_at = self._take(self._steps.pop(0)), monotonic() + self._patience
        self._retry([task.id for task in self._watched])
        return self._progress(f"retried {len(self._watched)}; {len(self._left)} wait for the result", fixed=None)

    def _take(self, size: int) -> list[Task]:
        """Take the next tasks. Skip those that have been retried or purged elsewhere."""
        chosen: list[Task] = []
        while self._left and (missing := size - len(chosen)):
            found = self._store.get(self._left[:missing])
            chosen += [task for task in found if task is not None and task.state is State.FAILED]
            del self._left[:missing]
        return chosen

    def _retry(self, tasks: Sequence[TaskId]) -> None:
        text = f"retried {self._group.id} with a canary"
        entry = group_entry(self._group, "retried", text, len(tasks), self._author)
        self._retried += self._store.retry(tasks, dependents=True, entries=[entry])

    def _progress(self, text: str, *, fixed: bool | None) -> GroupRetried:
        self.ended = fixed is not None
        return GroupRetried(group=self._group.id, retried=self._retried, left=len(self._left), fixed=fixed, text=text)

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
) -> GroupRetried:
    """Run a canary to its end. `report` gets the text of every step except the last."""
    canary = Canary(access, group, patience, author)
    while True:
        progress = canary.step()
        if progress is None:
            sleep(POLL_SECONDS)
        elif canary.ended:
            return progress
        else:
            report(progress.text)
