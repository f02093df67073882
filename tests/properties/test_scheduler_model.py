"""Scheduler against a simple model: a few rows, searched for every answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from windlass.core.lifecycle import State
from windlass.core.scheduler import Scheduler
from windlass.core.task import NewTask, OnFailure
from windlass.errors import CycleFound, DuplicateTask, InvalidTask, NotAllowed, UnknownPrerequisite, UnknownTask

IDS = list(range(8))
ids = st.sampled_from(IDS)
deadlines = st.none() | st.integers(0, 3)
priorities = st.integers(-1, 1)
new_tasks = st.builds(
    NewTask,
    id=ids,
    deadline=deadlines,
    priority=priorities,
    prerequisites=st.lists(ids, max_size=3),
    on_failure=st.sampled_from(OnFailure),
)


@dataclass(eq=False)
class Row:
    """A task of the model. It points at the rows it waits for, not at their ids: an id may be forgotten and reused."""

    task: NewTask
    above: list[Row] = field(default_factory=list)
    state: State = State.WAITING


@dataclass
class Model:
    rows: dict[int, Row] = field(default_factory=dict)

    def refusal(self, batch: list[NewTask]) -> type[InvalidTask] | None:
        """Why the batch must be refused, if so."""
        names = [task.id for task in batch]
        if len(set(names)) < len(names) or any(name in self.rows for name in names):
            return DuplicateTask
        if any(above not in self.rows and above not in names for task in batch for above in task.prerequisites):
            return UnknownPrerequisite
        left = list(batch)
        while ready := [t for t in left if not {other.id for other in left} & set(t.prerequisites)]:
            left = [task for task in left if task not in ready]
        return CycleFound if left else None

    def add(self, batch: list[NewTask]) -> None:
        self.rows |= {task.id: Row(task) for task in batch}
        for task in batch:
            self.rows[task.id].above = [self.rows[above] for above in task.prerequisites]
        self.spread()

    def spread(self) -> None:
        """Move waiting rows until nothing moves any more."""
        while any(self.moved(row) for row in self.rows.values() if row.state is State.WAITING):
            pass

    def moved(self, row: Row) -> bool:
        if row.task.on_failure is OnFailure.CANCEL and any(above.state.ended_badly for above in row.above):
            row.state = State.CANCELLED
        elif all(above.state.final for above in row.above):
            row.state = State.RUNNABLE
        return row.state is not State.WAITING

    def in_state(self, state: State) -> list[int]:
        return [id for id, row in self.rows.items() if row.state is state]

    def first(self) -> Row | None:
        runnable = [row for row in self.rows.values() if row.state is State.RUNNABLE]
        return min(runnable, key=lambda row: place(row.task), default=None)


def place(task: NewTask) -> tuple[Any, ...]:
    return (99 if task.deadline is None else task.deadline), -task.priority, task.id


class SchedulerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.scheduler, self.model = Scheduler(), Model()

    @rule(batch=st.lists(new_tasks, min_size=1, max_size=5))
    def add_anything(self, batch: list[NewTask]) -> None:
        """Most such batches are refused; the invariants then find everything as it was."""
        if refusal := self.model.refusal(batch):
            with pytest.raises(refusal):
                self.scheduler.add_tasks(batch)
        else:
            self.add(batch)

    @rule(batch=st.lists(new_tasks, max_size=5, unique_by=lambda task: task.id), order=st.permutations(IDS))
    def add_what_fits(self, batch: list[NewTask], order: list[int]) -> None:
        """Cut the batch down to what is acceptable: new ids, and prerequisites that are known or earlier in `order`."""
        batch = [task for task in batch if task.id not in self.model.rows]
        known = {*self.model.rows}
        names = {task.id for task in batch}
        self.add(
            [
                NewTask(
                    id=task.id,
                    deadline=task.deadline,
                    priority=task.priority,
                    on_failure=task.on_failure,
                    prerequisites=[
                        above
                        for above in task.prerequisites
                        if above in known or (above in names and order.index(above) < order.index(task.id))
                    ],
                )
                for task in batch
            ]
        )

    def add(self, batch: list[NewTask]) -> None:
        effects = self.scheduler.add_tasks(batch if len(batch) != 1 else batch[0])
        self.model.add(batch)
        added = {task.id: self.model.rows[task.id] for task in batch}
        assert sorted(effects.cancelled) == sorted(id for id, row in added.items() if row.state is State.CANCELLED)
        assert sorted(effects.unblocked) == sorted(
            id for id, row in added.items() if row.above and row.state is State.RUNNABLE
        )

    @rule()
    def consume(self) -> None:
        first = self.model.first()
        assert self.scheduler.consume_task() == (first and first.task)
        if first:
            first.state = State.LEASED

    @precondition(lambda self: self.model.in_state(State.LEASED))
    @rule(data=st.data(), end=st.sampled_from([State.COMPLETED, State.FAILED]))
    def end_a_lease(self, data: st.DataObject, end: State) -> None:
        self.end(data.draw(st.sampled_from(self.model.in_state(State.LEASED))), end)

    @rule(id=ids, end=st.sampled_from([State.COMPLETED, State.FAILED, State.CANCELLED]))
    def end_anything(self, id: int, end: State) -> None:
        row = self.model.rows.get(id)
        if row is None:
            with pytest.raises(UnknownTask):
                self.move(id, end)
        elif row.state.final or (end is not State.CANCELLED and row.state is not State.LEASED):
            with pytest.raises(NotAllowed):
                self.move(id, end)
        else:
            self.end(id, end)

    def end(self, id: int, end: State) -> None:
        before = {id: row.state for id, row in self.model.rows.items()}
        effects = self.move(id, end)
        self.model.rows[id].state = end
        self.model.spread()
        moved = {other: row.state for other, row in self.model.rows.items() if before[other] is not row.state}
        assert moved.pop(id) is end
        reported = dict.fromkeys(effects.unblocked, State.RUNNABLE) | dict.fromkeys(effects.cancelled, State.CANCELLED)
        assert reported == moved
        assert len(effects.unblocked) + len(effects.cancelled) == len(moved)

    def move(self, id: int, end: State) -> Any:
        match end:
            case State.COMPLETED:
                return self.scheduler.complete_task(id)
            case State.FAILED:
                return self.scheduler.fail_task(id)
            case _:
                return self.scheduler.cancel_task(id)

    @rule(id=ids, changes=st.fixed_dictionaries({}, optional={"deadline": deadlines, "priority": priorities}))
    def update(self, id: int, changes: dict[str, Any]) -> None:
        row = self.model.rows.get(id)
        if row is None or row.state.final:
            with pytest.raises(NotAllowed if row else UnknownTask):
                self.scheduler.update_task(id, **changes)
        else:
            old = {name: getattr(row.task, name) for name in NewTask.__struct_fields__}
            row.task = NewTask(**old | changes)
            assert self.scheduler.update_task(id, **changes) == row.task

    @rule(id=ids)
    def forget(self, id: int) -> None:
        row = self.model.rows.get(id)
        if row is None or not row.state.final:
            with pytest.raises(NotAllowed if row else UnknownTask):
                self.scheduler.forget(id)
        else:
            self.scheduler.forget(id)
            del self.model.rows[id]

    @rule()
    def prune(self) -> None:
        finished = [id for id, row in self.model.rows.items() if row.state.final]
        assert self.scheduler.prune() == len(finished)
        for id in finished:
            del self.model.rows[id]

    @rule()
    def drain(self) -> None:
        """Play everything that can run to its end; what is left waits for what is leased."""
        while (first := self.model.first()) is not None:
            assert self.scheduler.consume_task() == first.task
            first.state = State.LEASED
            self.end(first.task.id, State.COMPLETED)
        assert self.scheduler.consume_task() is None

    @invariant()
    def every_task_stands_where_the_model_says(self) -> None:
        for id in IDS:
            if id in self.model.rows:
                assert self.scheduler.state(id) is self.model.rows[id].state
            else:
                with pytest.raises(UnknownTask):
                    self.scheduler.state(id)

    @invariant()
    def it_counts_as_the_model_counts(self) -> None:
        unfinished = {id for id, row in self.model.rows.items() if not row.state.final}
        assert len(self.scheduler) == len(unfinished)
        assert {id for id in IDS if id in self.scheduler} == unfinished
        assert all(many == len(self.model.in_state(state)) for state, many in self.scheduler.counts().items())

    @invariant()
    def garbage_is_bounded(self) -> None:
        runnable = len(self.model.in_state(State.RUNNABLE))
        assert runnable <= len(self.scheduler._heap) <= 2 * runnable
        edges = {(above, id) for above, below in self.scheduler._dependents.items() for id in below}
        waiting = [row for row in self.model.rows.values() if row.state is State.WAITING]
        assert edges == {
            (above.task.id, row.task.id) for row in waiting for above in row.above if not above.state.final
        }
        assert all(self.scheduler._dependents.values())


TestSchedulerModel = SchedulerMachine.TestCase
TestSchedulerModel.settings = settings(max_examples=200, stateful_step_count=40)
