from __future__ import annotations

import doctest
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import total_ordering
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from windlass.core import scheduler as module
from windlass.core.lifecycle import State
from windlass.core.scheduler import Effects, Scheduler
from windlass.core.task import NewTask, OnFailure
from windlass.errors import (
    CycleFound,
    DuplicateTask,
    InvalidTask,
    NotAllowed,
    UnknownPrerequisite,
    UnknownTask,
)

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "scheduler.md"
NOTHING = Effects([], [])
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def task(id: Any, deadline: Any = None, after: Any = (), **rest: Any) -> NewTask:
    return NewTask(id=id, deadline=deadline, prerequisites=after, **rest)


def scheduler_with(*tasks: NewTask) -> Scheduler:
    scheduler = Scheduler()
    scheduler.add_tasks(tasks)
    return scheduler


def drain(scheduler: Scheduler) -> list[Any]:
    """Complete everything that can run; the ids in the order in which they came."""
    order: list[Any] = []
    while (consumed := scheduler.consume_task()) is not None:
        order.append(consumed.id)
        scheduler.complete_task(consumed.id)
    return order


def snapshot(scheduler: Scheduler, ids: str) -> tuple[object, ...]:
    """All that a caller can see without moving anything."""
    return len(scheduler), scheduler.counts(), [id in scheduler for id in ids]


# Order


def test_the_earliest_deadline_comes_first() -> None:
    scheduler = scheduler_with(task("a", 3), task("b", 1), task("c", 2))

    assert drain(scheduler) == ["b", "c", "a"]


def test_a_task_without_a_deadline_comes_after_all_others() -> None:
    scheduler = scheduler_with(task("a"), task("b", 10**9), task("c"), task("d", -1))

    assert drain(scheduler) == ["d", "b", "a", "c"]


def test_equal_deadlines_go_by_higher_priority_and_then_by_id() -> None:
    scheduler = scheduler_with(task("c", 1), task("b", 1, priority=-1), task("a", 1), task("d", 1, priority=5))

    assert drain(scheduler) == ["d", "a", "c", "b"]


def test_an_earlier_deadline_beats_any_priority() -> None:
    assert drain(scheduler_with(task("a", 2, priority=1000), task("b", 1))) == ["b", "a"]


def test_the_order_does_not_depend_on_how_tasks_were_added() -> None:
    tasks = [task(id, deadline) for id, deadline in enumerate([5, 1, None, 3, 3, None, 0])]
    one_by_one = Scheduler()
    for each in reversed(tasks):
        one_by_one.add_tasks(each)

    assert drain(one_by_one) == drain(scheduler_with(*tasks)) == [6, 1, 3, 4, 0, 2, 5]


def test_a_batch_may_come_from_a_generator() -> None:
    scheduler = Scheduler()
    scheduler.add_tasks(task(id) for id in range(3))

    assert drain(scheduler) == [0, 1, 2]


def test_an_empty_batch_changes_nothing() -> None:
    scheduler = Scheduler()

    assert scheduler.add_tasks([]) == NOTHING
    assert len(scheduler) == 0


def test_nothing_to_consume_is_none() -> None:
    scheduler = Scheduler()
    assert scheduler.consume_task() is None

    scheduler.add_tasks(task("a"))
    scheduler.consume_task()
    assert scheduler.consume_task() is None


def test_what_is_consumed_is_the_task_as_it_was_given() -> None:
    given = task("a", NOON, handler="mail.send", args={"to": "a@b.c"})

    assert scheduler_with(given).consume_task() is given


@pytest.mark.parametrize(
    ("early", "late"),
    [
        (1, 1.5),
        (Decimal(1), 2),
        ("2026-01-01", "2026-01-02"),
        (NOON, NOON + timedelta(microseconds=1)),
        (timedelta(seconds=1), timedelta(days=1)),
        ((1, "b"), (2, "a")),
        (float("-inf"), float("inf")),
    ],
)
def test_any_values_that_can_be_ordered_are_deadlines(early: Any, late: Any) -> None:
    assert drain(scheduler_with(task("none"), task("late", late), task("early", early))) == ["early", "late", "none"]


@pytest.mark.parametrize("ids", [(1, 2), ("a", "b"), (UUID(int=1), UUID(int=2)), (("a", 1), ("a", 2)), (0.5, 1)])
def test_any_hashable_values_that_can_be_ordered_are_ids(ids: tuple[Any, Any]) -> None:
    first, second = ids
    scheduler = scheduler_with(task(second), task(first))

    assert drain(scheduler) == [first, second]


# Prerequisites


def test_a_task_waits_for_all_of_its_prerequisites() -> None:
    scheduler = scheduler_with(task("a", 9), task("b", 8), task("c", 1, after=["a", "b"]))
    assert scheduler.state("c") is State.WAITING

    assert scheduler.consume_task() == task("b", 8)
    assert scheduler.complete_task("b") == NOTHING
    scheduler.consume_task()
    assert scheduler.complete_task("a") == Effects(["c"], [])

    assert scheduler.state("c") is State.RUNNABLE
    assert drain(scheduler) == ["c"]


def test_a_prerequisite_named_twice_counts_once() -> None:
    assert drain(scheduler_with(task("a"), task("b", after=["a", "a"]))) == ["a", "b"]


def test_a_batch_may_name_a_prerequisite_before_the_task_itself() -> None:
    assert drain(scheduler_with(task("a", after=["b"]), task("b"))) == ["b", "a"]


def test_a_completed_prerequisite_is_no_longer_waited_for() -> None:
    scheduler = scheduler_with(task("a"))
    drain(scheduler)

    assert scheduler.add_tasks(task("b", after=["a"])) == Effects(["b"], [])

    assert scheduler.state("b") is State.RUNNABLE


def test_a_new_task_may_wait_for_one_that_is_under_way() -> None:
    scheduler = scheduler_with(task("a"))
    scheduler.consume_task()

    scheduler.add_tasks(task("b", after=["a"]))

    assert scheduler.state("b") is State.WAITING
    assert scheduler.complete_task("a").unblocked == ["b"]


def test_the_caller_may_reuse_its_list_of_prerequisites() -> None:
    above = ["a"]
    scheduler = scheduler_with(task("a"), task("b", after=above))

    above.clear()
    scheduler.cancel_task("b")

    assert scheduler.cancel_task("a") == NOTHING


# Bad ends


def test_a_failure_cancels_the_whole_subtree() -> None:
    scheduler = scheduler_with(task("a"), task("b", after=["a"]), task("c", after=["b"]), task("d"))
    scheduler.consume_task()

    assert scheduler.fail_task("a") == Effects([], ["b", "c"])

    assert [scheduler.state(id) for id in "abcd"] == [
        State.FAILED,
        State.CANCELLED,
        State.CANCELLED,
        State.RUNNABLE,
    ]


def test_a_failure_cancels_at_once_even_if_other_prerequisites_are_open() -> None:
    scheduler = scheduler_with(task("a", 1), task("b", 2), task("c", after=["a", "b"]))
    scheduler.consume_task()

    assert scheduler.fail_task("a").cancelled == ["c"]

    scheduler.consume_task()
    assert scheduler.complete_task("b") == NOTHING
    assert scheduler.state("c") is State.CANCELLED


@pytest.mark.parametrize("policy", [OnFailure.RUN, "run"])
def test_a_task_that_runs_on_failure_counts_a_bad_end_like_a_good_one(policy: Any) -> None:
    scheduler = scheduler_with(task("a", 1), task("b", 2), task("c", after=["a", "b"], on_failure=policy))
    scheduler.consume_task()
    scheduler.consume_task()

    assert scheduler.fail_task("a") == NOTHING
    assert scheduler.cancel_task("b") == Effects(["c"], [])

    assert drain(scheduler) == ["c"]


@pytest.mark.parametrize("policy", [OnFailure.CANCEL, "cancel"])
def test_the_policy_may_be_given_as_text(policy: Any) -> None:
    scheduler = scheduler_with(task("a"), task("b", after=["a"], on_failure=policy))

    assert scheduler.cancel_task("a") == Effects([], ["b"])


def test_a_cascade_stops_where_a_task_runs_on_failure() -> None:
    scheduler = scheduler_with(
        task("a"), task("b", after=["a"]), task("c", after=["b"], on_failure=OnFailure.RUN), task("d", after=["c"])
    )

    assert scheduler.cancel_task("a") == Effects(["c"], ["b"])

    assert drain(scheduler) == ["c", "d"]


def test_a_task_whose_prerequisite_has_failed_is_cancelled_at_submit_with_its_subtree() -> None:
    scheduler = scheduler_with(task("a"))
    scheduler.consume_task()
    scheduler.fail_task("a")

    added = scheduler.add_tasks(
        [
            task("d", after=["c"], on_failure=OnFailure.RUN),
            task("c", after=["b"]),
            task("b", after=["a"]),
        ]
    )

    assert added == Effects(["d"], ["b", "c"])
    assert drain(scheduler) == ["d"]


@pytest.mark.parametrize("consumed", [0, 1])
def test_a_runnable_or_leased_task_can_be_cancelled(consumed: int) -> None:
    scheduler = scheduler_with(task("a"), task("b", after=["a"]))
    for _ in range(consumed):
        scheduler.consume_task()

    assert scheduler.cancel_task("a") == Effects([], ["b"])

    assert scheduler.consume_task() is None
    assert len(scheduler) == 0


def test_a_waiting_task_can_be_cancelled_and_its_prerequisite_does_not_bring_it_back() -> None:
    scheduler = scheduler_with(task("a"), task("b", after=["a"]), task("c", after=["b"]))

    assert scheduler.cancel_task("b") == Effects([], ["c"])

    scheduler.consume_task()
    assert scheduler.complete_task("a") == NOTHING
    assert scheduler.state("b") is State.CANCELLED


def test_a_diamond_is_cancelled_once() -> None:
    scheduler = scheduler_with(task("a"), task("b", after=["a"]), task("c", after=["a"]), task("d", after=["b", "c"]))

    assert scheduler.cancel_task("a") == Effects([], ["b", "c", "d"])


@pytest.mark.parametrize("bad", [False, True])
def test_a_chain_of_a_hundred_thousand_does_not_recurse(bad: bool) -> None:
    size = 100_000
    scheduler = scheduler_with(task(0), *(task(id, after=[id - 1]) for id in range(1, size)))

    if bad:
        assert scheduler.cancel_task(0).cancelled == list(range(1, size))
    else:
        assert drain(scheduler) == list(range(size))

    assert len(scheduler) == 0


def test_a_cycle_of_a_hundred_thousand_is_refused_by_name() -> None:
    size = 100_000
    scheduler = Scheduler()

    with pytest.raises(CycleFound) as refused:
        scheduler.add_tasks(task(id, after=[(id - 1) % size]) for id in range(size))

    assert len(refused.value.cycle) == size
    assert len(scheduler) == 0


# Refusals


@pytest.mark.parametrize(
    ("batch", "error", "named"),
    [
        ([task("x"), task("x", 5)], DuplicateTask, ["x"]),
        ([task("x"), task("a")], DuplicateTask, ["a"]),
        ([task("x"), task("done")], DuplicateTask, ["done"]),
        ([task("x"), task("y", after=["nobody", "a", "none"])], UnknownPrerequisite, ["nobody", "none"]),
        ([task("x"), task("y", after=["y"])], CycleFound, ["y"]),
        ([task("x", after=["a", "y"]), task("y", after=["x"])], CycleFound, ["x", "y"]),
    ],
)
def test_a_refused_batch_is_refused_whole_and_named(batch: list[NewTask], error: type[Exception], named: Any) -> None:
    scheduler = scheduler_with(task("done", 0), task("a", 1))
    done = scheduler.consume_task()
    assert done is not None
    scheduler.complete_task(done.id)
    before = snapshot(scheduler, "axy")

    with pytest.raises(error) as refused:
        scheduler.add_tasks(batch)

    assert sorted(getattr(refused.value, "cycle", None) or refused.value.ids) == sorted(named)  # type: ignore[attr-defined]
    assert snapshot(scheduler, "axy") == before
    assert drain(scheduler) == ["a"]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (task(None), "id=None is not a valid id"),
        (task(["x"]), r"id=\['x'\] is not a valid id"),
        (task(7), "id=7 .* cannot be compared with 'a'"),
        (task("x", "soon"), "deadline='soon' of task 'x' cannot be compared with 1"),
        (task("x", float("nan")), "deadline=nan of task 'x' cannot be compared"),
        (task("x", Decimal("nan")), "deadline=Decimal\\('NaN'\\) of task 'x' cannot be compared"),
        (task("x", NOON), "deadline=datetime.* cannot be compared with 1"),
        (task("x", 1j), "deadline=1j .* cannot be compared"),
        (task("x", priority="high"), "priority='high' of task 'x' is not an integer"),
        (task("x", priority=0.5), "priority=0.5 of task 'x'"),
        (task("x", on_failure="explode"), "on_failure='explode' of task 'x'"),
        (task("x", after="ab"), "prerequisites='ab' of task 'x' is a string"),
        (task("x", after=[["a"]]), r"prerequisites=\[\['a'\]\] of task 'x' are not ids"),
        (task("x", after=range(100_001)), "prerequisites of 'x': 100,001 given"),
    ],
)
def test_a_value_that_cannot_be_kept_or_ordered_is_refused_by_field_and_value(bad: NewTask, message: str) -> None:
    scheduler = scheduler_with(task("a", 1))
    before = snapshot(scheduler, "abx")

    with pytest.raises(InvalidTask, match=message):
        scheduler.add_tasks([task("b", 2), bad])

    assert snapshot(scheduler, "abx") == before
    assert drain(scheduler) == ["a"]


@pytest.mark.parametrize("alone", [float("nan"), Decimal("nan"), 1j, object(), {}, (1, float("nan"))])
def test_a_deadline_that_has_no_order_is_refused_even_alone(alone: object) -> None:
    with pytest.raises(InvalidTask, match="deadline="):
        Scheduler().add_tasks(task("a", alone))


def test_deadlines_of_two_kinds_in_one_batch_are_refused() -> None:
    naive = NOON.replace(tzinfo=None)
    scheduler = Scheduler()

    with pytest.raises(InvalidTask, match="deadline="):
        scheduler.add_tasks([task("a", NOON), task("b", naive)])

    assert len(scheduler) == 0


def test_the_first_kind_that_is_accepted_is_the_one_that_counts() -> None:
    scheduler = Scheduler()
    with pytest.raises(UnknownPrerequisite):
        scheduler.add_tasks([task("a", NOON), task("b", NOON, after=["nobody"])])

    scheduler.add_tasks(task(1, 5))

    with pytest.raises(InvalidTask, match="cannot be compared with 5"):
        scheduler.add_tasks(task(2, NOON))


def test_tuples_are_held_against_each_other_part_by_part() -> None:
    scheduler = scheduler_with(task(("a", 1)))

    with pytest.raises(InvalidTask, match="cannot be compared"):
        scheduler.add_tasks(task(("b", "x")))


@total_ordering
class Moody:
    """Equal to itself, and comparable with the calm only: what no single comparison can find out beforehand."""

    def __init__(self, rank: int, calm: bool = False) -> None:
        self.rank, self.calm = rank, calm

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Moody) and self.rank == other.rank

    def __hash__(self) -> int:
        return self.rank

    def __lt__(self, other: Moody) -> bool:
        if not (self.calm or other.calm):
            raise TypeError("two moody ones")
        return self.rank < other.rank


def test_values_that_quarrel_only_when_they_meet_are_refused_whole_too() -> None:
    scheduler = scheduler_with(task("a", Moody(9, calm=True)), task("b", Moody(5)))

    with pytest.raises(InvalidTask, match="two moody ones"):
        scheduler.add_tasks([task("c", Moody(7, calm=True)), task("d", Moody(3))])

    assert len(scheduler) == len(scheduler._heap) == 2
    assert drain(scheduler) == ["b", "a"]


# Leases


@pytest.mark.parametrize("move", ["complete_task", "fail_task"])
def test_only_a_leased_task_can_be_completed_or_failed(move: str) -> None:
    scheduler = scheduler_with(task("a"), task("b", after=["a"]))

    for id, state in [("a", "runnable"), ("b", "waiting")]:
        with pytest.raises(NotAllowed, match=f"task '{id}': it is {state}, not leased"):
            getattr(scheduler, move)(id)


@pytest.mark.parametrize("move", ["complete_task", "fail_task", "cancel_task", "update_task"])
@pytest.mark.parametrize("end", ["complete_task", "fail_task", "cancel_task"])
def test_a_finished_task_stays_as_it_is(end: str, move: str) -> None:
    scheduler = scheduler_with(task("a"))
    scheduler.consume_task()
    getattr(scheduler, end)("a")
    state = scheduler.state("a")

    with pytest.raises(NotAllowed, match=f"it is {state}"):
        getattr(scheduler, move)("a")

    assert scheduler.state("a") is state


@pytest.mark.parametrize("ask", ["complete_task", "fail_task", "cancel_task", "update_task", "state", "forget"])
def test_an_unknown_id_is_reported_as_unknown(ask: str) -> None:
    with pytest.raises(UnknownTask, match="nobody"):
        getattr(scheduler_with(task("a")), ask)("nobody")


# Updates


def test_an_update_moves_a_runnable_task() -> None:
    scheduler = scheduler_with(task("a", 1), task("b", 2), task("c", 3))

    assert scheduler.update_task("c", deadline=0) == task("c", 0)
    scheduler.update_task("a", deadline=9)

    assert drain(scheduler) == ["c", "b", "a"]


def test_an_update_leaves_out_what_is_not_given() -> None:
    scheduler = scheduler_with(task("a", 1, priority=3))

    scheduler.update_task("a", priority=4)
    scheduler.update_task("a", deadline=2)

    assert scheduler.consume_task() == task("a", 2, priority=4)


def test_an_update_can_take_a_deadline_away_and_give_one() -> None:
    scheduler = scheduler_with(task("a", 1), task("b"), task("c", 2))

    assert scheduler.update_task("a", deadline=None).deadline is None
    scheduler.update_task("b", deadline=5)

    assert drain(scheduler) == ["c", "b", "a"]


def test_an_update_of_a_waiting_or_leased_task_is_kept() -> None:
    scheduler = scheduler_with(task("a", 1), task("b", after=["a"]), task("c", 5))
    scheduler.consume_task()

    scheduler.update_task("b", deadline=4)
    scheduler.update_task("a", deadline=7)
    assert scheduler.update_task("a", priority=2) == task("a", 7, priority=2)

    scheduler.complete_task("a")
    assert drain(scheduler) == ["b", "c"]


def test_a_task_updated_there_and_back_is_consumed_once() -> None:
    scheduler = scheduler_with(task("a", 1), task("b", 2))
    for deadline in (3, 1, 3, 1):
        scheduler.update_task("a", deadline=deadline)

    assert drain(scheduler) == ["a", "b"]


@pytest.mark.parametrize("change", [{"deadline": "soon"}, {"deadline": float("nan")}, {"priority": "high"}])
def test_a_refused_update_changes_nothing(change: dict[str, Any]) -> None:
    scheduler = scheduler_with(task("a", 1))

    with pytest.raises(InvalidTask):
        scheduler.update_task("a", **change)

    assert scheduler.consume_task() == task("a", 1)


def test_stale_entries_never_outnumber_the_live_ones() -> None:
    scheduler = scheduler_with(*(task(id, id) for id in range(100)))
    heap_sizes: list[tuple[int, int]] = []

    def look() -> None:
        heap_sizes.append((len(scheduler._heap), scheduler.counts()[State.RUNNABLE]))

    for round_ in range(1, 20):
        for id in range(100):
            scheduler.update_task(id, deadline=id + 1000 * round_)
            look()
    for id in range(90):
        scheduler.cancel_task(id)
        look()
    while scheduler.consume_task():
        look()

    assert all(entries <= 2 * live for entries, live in heap_sizes)
    assert scheduler._heap == []


# What is remembered


def test_it_contains_its_unfinished_tasks() -> None:
    scheduler = scheduler_with(task("a"), task("b", after=["a"]), task("c", after=["b"]))
    assert len(scheduler) == 3

    scheduler.consume_task()
    assert "a" in scheduler

    scheduler.complete_task("a")
    assert "a" not in scheduler
    assert "nobody" not in scheduler
    assert len(scheduler) == 2

    scheduler.cancel_task("b")
    assert not scheduler


def test_counts_cover_every_state() -> None:
    scheduler = scheduler_with(*(task(id, id) for id in range(5)), task(9, after=[4]))
    for move in (scheduler.complete_task, scheduler.fail_task, scheduler.cancel_task):
        consumed = scheduler.consume_task()
        assert consumed is not None
        move(consumed.id)
    scheduler.consume_task()

    assert scheduler.counts() == {
        State.WAITING: 1,
        State.RUNNABLE: 1,
        State.LEASED: 1,
        State.COMPLETED: 1,
        State.FAILED: 1,
        State.CANCELLED: 1,
    }


def test_a_forgotten_task_is_unknown_and_its_id_is_free() -> None:
    scheduler = scheduler_with(task("a"), task("b"))
    drain(scheduler)

    scheduler.forget("a")

    with pytest.raises(UnknownTask):
        scheduler.state("a")
    with pytest.raises(UnknownPrerequisite):
        scheduler.add_tasks(task("c", after=["a"]))
    scheduler.add_tasks(task("a", after=["b"]))
    assert drain(scheduler) == ["a"]


def test_an_unfinished_task_cannot_be_forgotten() -> None:
    scheduler = scheduler_with(task("a"))

    with pytest.raises(NotAllowed, match="cannot forget task 'a': it is runnable"):
        scheduler.forget("a")


def test_an_id_that_comes_back_does_not_inherit_what_its_namesake_waited_for() -> None:
    scheduler = scheduler_with(task("a", 1), task("b", 2), task("c", 0, after=["a"]))
    scheduler.cancel_task("c")
    scheduler.forget("c")
    scheduler.add_tasks(task("c", 0, after=["b"]))

    scheduler.consume_task()
    assert scheduler.complete_task("a") == NOTHING

    assert scheduler.state("c") is State.WAITING


def test_an_id_that_comes_back_does_not_inherit_its_namesakes_place() -> None:
    scheduler = scheduler_with(task("a", 1), task("b", 2), task("c", 3))
    scheduler.cancel_task("a")
    scheduler.forget("a")

    scheduler.add_tasks(task("a", 1, after=["b"]))

    assert drain(scheduler) == ["b", "a", "c"]


def test_pruning_drops_every_finished_task_and_nothing_else() -> None:
    scheduler = scheduler_with(task("a", 1), task("b", 2), task("c", 3, after=["b"]))
    scheduler.consume_task()
    scheduler.complete_task("a")

    assert scheduler.prune() == 1

    assert scheduler.prune() == 0
    assert drain(scheduler) == ["b", "c"]


def test_a_long_run_with_pruning_keeps_nothing() -> None:
    scheduler = Scheduler()
    for id in range(0, 3000, 3):
        scheduler.add_tasks([task(id), task(id + 1, after=[id]), task(id + 2, after=[id, id + 1])])
        scheduler.update_task(id, priority=1)
        scheduler.cancel_task(id + 1)
        scheduler.cancel_task(id)
        scheduler.prune()

    kept = [scheduler._waiting, scheduler._runnable, scheduler._leased, scheduler._dependents, scheduler._heap]
    assert not any(kept)
    assert sum(scheduler.counts().values()) == 0


# Examples


def test_the_examples_in_the_docstrings_run_as_printed() -> None:
    assert doctest.testmod(module).failed == 0


def test_the_examples_in_the_guide_run_as_printed() -> None:
    result = doctest.testfile(str(GUIDE), module_relative=False)

    assert result.attempted > 0
    assert result.failed == 0
