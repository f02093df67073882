"""Check whether a bug is fixed: retry one of its tasks, then ten, then all; stop when the bug is still there.

A task counts as fixed when it has completed. If one fails again, or waits for its next attempt after the same error,
the canary stops, and the tasks that were not retried yet stay as they are.

After every step, the store has a control that says how far the canary is, so that every interface can show it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct

from windlass.clock import monotonic, sleep
from windlass.core.fingerprint import LENGTH, fingerprint
from windlass.core.lifecycle import State
from windlass.core.task import Task, TaskId
from windlass.core.times import Micros, format_duration
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.caller import Caller
from windlass.operations.conflicts import find_control, retry_on_conflict, write_control
from windlass.operations.dead_letters import GroupRetried, get_ids, group_entry
from windlass.operations.redact import redact_task
from windlass.redaction import redact_text
from windlass.stores.dead_letters import DeadGroup
from windlass.stores.protocol import Store

STEPS = (1, 10)
POLL_SECONDS = 0.2
KIND = "canary"
"""The kind of the controls that say how far canaries are."""
KEPT: Micros = 24 * 3_600 * 1_000_000
"""How long the end of a canary can be read. The next canary removes what is older."""
MOST_TASKS = 100
"""How many of the retried tasks a control names."""


class CanaryRun(Struct, frozen=True, kw_only=True):
    """How far a canary is: who started it, and its latest step."""

    by: str
    started: Micros
    at: Micros
    """When the latest step was made."""
    patience: float
    """How many seconds a step may take."""
    progress: GroupRetried
    error: str = ""
    """The kind of the error, for when the group has no failed task any more."""
    handlers: list[str] = []
    tasks: list[TaskId] = []
    """The first tasks that it retried, up to `MOST_TASKS`."""
    chosen: int = 0
    """How many tasks of the group it retried."""

    @property
    def ended(self) -> bool:
        """True if nothing will be retried any more."""
        return self.progress.fixed is not None

    def is_running(self, now: Micros) -> bool:
        """Return True unless it has ended, or the process that ran it is gone."""
        return not self.ended and now < self.at + int((self.patience + 10) * 1e6)


def find_run(access: Access, group: DeadGroup) -> CanaryRun | None:
    """Return the latest canary of a group that a caller with the same limits started, if it is not too old."""
    control = find_control(access.store, KIND, _name(group, access.caller))
    return None if control is None else msgspec.json.decode(control.value, type=CanaryRun)


def find_runs(access: Access) -> dict[str, CanaryRun]:
    """Return the same for all groups, by the id of the group. It may have no failed task any more."""
    limits = _limits(access.caller)
    return {
        control.name[:LENGTH]: msgspec.json.decode(control.value, type=CanaryRun)
        for control in access.store.controls(KIND)
        if control.name[LENGTH:] == limits
    }


def find_retried(access: Access, run: CanaryRun) -> list[Task]:
    """Return the first tasks that a canary retried, as they are now."""
    found = access.store.get(run.tasks) if run.tasks else []
    return [redact_task(task, access.catalog) for task in found if task is not None and access.caller.can_see(task)]


class Canary:
    """A retry of one group in steps. Call `step` until `ended`; pause for `POLL_SECONDS` when it returns None."""

    def __init__(self, access: Access, group: DeadGroup, patience: float, author: Author) -> None:
        """`patience` is how many seconds a step may take."""
        self.ended = False
        self._access, self._started = access, access.now
        self._store, self._group, self._patience, self._author = access.store, group, patience, author
        self._left, self._steps, self._retried = get_ids(access, group), list(STEPS), 0
        self._watched: Sequence[Task] = ()
        self._chosen: list[TaskId] = []
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
        self._chosen += tasks

    def _progress(self, text: str, *, fixed: bool | None) -> GroupRetried:
        self.ended = fixed is not None
        progress = GroupRetried(
            group=self._group.id, retried=self._retried, left=len(self._left), fixed=fixed, text=text
        )
        self._save(progress)
        return progress

    def _save(self, progress: GroupRetried) -> None:
        """Let everybody see how far it is. What older canaries left is removed at its end."""
        now, name = self._access.now, _name(self._group, self._access.caller)
        run = CanaryRun(
            by=self._author.by,
            started=self._started,
            at=now,
            patience=self._patience,
            progress=progress,
            error=self._group.error.kind,
            handlers=self._group.handlers,
            tasks=self._chosen[:MOST_TASKS],
            chosen=len(self._chosen),
        )
        _write(self._store, name, msgspec.json.encode(run).decode())
        for control in self._store.controls(KIND) if self.ended else ():
            if control.name != name and msgspec.json.decode(control.value, type=CanaryRun).at < now - KEPT:
                _write(self._store, control.name, None)

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


def _name(group: DeadGroup, caller: Caller) -> str:
    """Return the name of a canary's control. Callers with different limits retry different tasks of a group."""
    return group.id + _limits(caller)


def _limits(caller: Caller) -> str:
    limits = [f" {field}={value}" for field, value in (("tenant", caller.tenant), ("queue", caller.queue)) if value]
    return "".join(limits)


def _write(store: Store, name: str, value: str | None) -> None:
    def attempt() -> None:
        found = find_control(store, KIND, name)
        if found is not None or value is not None:
            write_control(store, KIND, name, value, version=0 if found is None else found.version, entries=[])

    retry_on_conflict(f"canary {name}", attempt)


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
