"""Promises that must hold in any store after every step.

The numbers are those of the promises: at most one lease (2), fences grow (3), one end per generation (4), no task
starts before its prerequisites (6), edges resolved exactly once (7), no task is forgotten (8, 10), the cancelled
never start (11), nor the expired (12), attempts are bounded (14).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from windlass.core.lifecycle import State
from windlass.core.serving import EVERYTHING, Serves
from windlass.core.settlement import MAX_LOSSES
from windlass.core.task import Claim, Task
from windlass.core.task_update import Version, version_of
from windlass.stores.coordination import Look
from windlass.stores.protocol import Neighbourhood

Snapshot = Mapping[UUID, Task]


class Watch:
    """Checks the promises of one store after every step."""

    def __init__(self) -> None:
        self._last: dict[UUID, Task] = {}
        self._fences: dict[UUID, int] = {}
        self._versions: dict[str, int] = {}
        """The latest version of every control that was seen."""

    def claimed(self, claims: Iterable[Claim], now: int, serves: Serves = EVERYTHING) -> None:
        """Check the result of a claim, before the next `look`."""
        seen: set[UUID] = set()
        for claim in claims:
            id, fence = claim.id, claim.lease.fence
            before = self._last[id]
            assert id not in seen, f"P2: {id} twice in one claim"
            assert before.state is State.RUNNABLE, f"P2, P6, P11: {id} was {before.state} when it was claimed"
            assert fence > self._fences.get(id, 0), f"P3: the fence of {id} did not grow: {fence}"
            assert before.waiting == 0, f"P6: {id} started with {before.waiting} open prerequisites"
            assert claim.expires is None or now < claim.expires, f"P12: {id} started past its hard limit"
            assert serves.can_run(claim.handler, claim.rules), f"{id} was claimed by one that serves {serves}"
            seen.add(id)
            self._fences[id] = fence

    def look(self, tasks: Snapshot) -> None:
        """Check every task, and compare it with its previous version."""
        for task in tasks.values():
            _check_alone(task)
            before = self._last.get(task.id)
            if before is not None and before.submitted == task.submitted:
                _check_together(before, task)
        for gone in self._last.keys() - tasks.keys():
            assert self._last[gone].state.final, f"P1: {gone} is gone, and it had not ended"
            self._fences.pop(gone, None)  # the key may come again, as another task
        self._last = dict(tasks)

    def look_from_above(self, tasks: Snapshot, look: Look) -> None:
        """Compare the numbers that size pools with the tasks."""
        for queue in look.queues:
            dues = [task.due for task in tasks.values() if task.queue == queue.queue and task.state is State.RUNNABLE]
            assert queue.runnable == len(dues), f"{queue.queue} has {len(dues)} runnable tasks: {queue}"
            assert queue.oldest == min(dues, default=None), f"the oldest of {queue.queue} is {min(dues, default=None)}"

    def put(self, before: Mapping[str, int], after: Mapping[str, int], name: str, written: bool) -> None:
        """Check the versions of controls after one was written."""
        assert written or before == after, f"a control changed although its version was not the expected one: {after}"
        latest = self._versions.get(name, 0)
        if written and name in after:
            assert after[name] > latest, f"version {after[name]} of {name} was given before"
        self._versions[name] = max(latest, after.get(name, 0), before.get(name, 0))

    def updated(self, before: Task | None, expect: Version | None, answer: object) -> None:
        """Compare an update with the task before it."""
        if expect is not None and isinstance(answer, Task):
            assert before is not None, f"{answer.id} was changed, and nobody had seen it"
            assert version_of(before) == expect, f"{answer.id} was changed although it was not as expected: {before}"

    def look_around(self, task: Task, around: Neighbourhood, *, sealed: bool) -> None:
        """Compare a task's counter with its edges."""
        open_edges = [edge for edge in around.prerequisites if not edge.resolved]
        for edge in open_edges:
            assert edge.state is None or not edge.state.final, f"P7, P8: {edge.id} has ended, {task.id} still waits"
        seal = task.waiting - len(open_edges)
        assert seal == 0 or (seal == 1 and not sealed), f"P7: {task.id} waits for {task.waiting}, {open_edges}"
        if task.state is State.WAITING:
            assert task.waiting > 0, f"P8: {task.id} waits for nothing"


def _check_alone(task: Task) -> None:
    if task.state in (State.SCHEDULED, State.RUNNABLE, State.LEASED, State.RETRYING):
        assert task.waiting == 0, f"P6: {task.id} is {task.state} with {task.waiting} open prerequisites"
    assert (task.finished is not None) == task.state.final, f"{task.id} is {task.state}, finished {task.finished}"
    assert task.state is not State.LEASED or task.session is not None, f"P2: {task.id} is leased to nobody"
    assert not (task.state is State.COMPLETED and task.cancel_requested), f"P11: {id} completed, though cancelled"
    assert task.attempts <= task.rules.retry.retries + 1, f"P14: {task.attempts} attempts of {task.id}"
    assert task.crashes <= task.rules.max_crashes + 1, f"P14: {task.crashes} crashes of {task.id}"
    if task.rules.at_most_once:
        begun = task.attempts + task.crashes + task.losses
        assert begun <= (1 if task.state.final else 0), f"P14: {task.id} is {task.state} after {begun} attempts"
    assert task.losses <= MAX_LOSSES, f"P14: {task.losses} losses of {task.id}"


def _check_together(before: Task, after: Task) -> None:
    assert after.fence >= before.fence, f"P3: the fence of {after.id} went back"
    assert after.generation >= before.generation, f"P4: the generation of {after.id} went back"
    if before.state.final and after.generation == before.generation:
        ends = [(task.state, task.finished, task.result, task.reason) for task in (before, after)]
        assert ends[0] == ends[1], f"P4: {after.id} ended twice: {ends}"
    if before.state.final and after.generation > before.generation:
        assert before.state is not State.COMPLETED, f"P4: {after.id} was completed and came back"
