"""Attempts that add steps: with their end and under their lease, or not at all; the task may continue after them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from tests.support.builders import (
    GAVE_UP,
    HOUR,
    SECOND,
    a_session,
    a_task,
    all_tasks,
    claim_all,
    claim_one,
    complete,
    counted,
    decided,
    recounted,
    report,
    state_of,
    states_of,
    submit,
    submit_one,
    sweep_until_quiet,
    task_of,
)
from windlass.clock import ManualClock, entropy
from windlass.core.continuation import MAX_ADDED, MAX_DEPTH
from windlass.core.ids import fresh_id, keyed_id
from windlass.core.lifecycle import State
from windlass.core.ordering import Queue
from windlass.core.references import reference
from windlass.core.retry import Retry
from windlass.core.settlement import Continued, Raised, Returned
from windlass.core.task import Added, Claim, NewTask, OnFailure, Origin, TaskId
from windlass.core.times import micros
from windlass.core.waits import QUEUE, SLEEP, Wait
from windlass.stores.protocol import LeaseLost, Settled, Store

WORKFLOW = "tree"


def new_id() -> TaskId:
    return fresh_id(1_800_000_000_000_000, entropy(1)())


def a_root(store: Store, clock: ManualClock, **fields: Any) -> TaskId:
    """Submit a task of the workflow with a dependent named `last`."""
    root, _ = submit(
        store,
        a_task(workflow=WORKFLOW, key="root", handler="split", **fields),
        a_task(workflow=WORKFLOW, key="last", prerequisites=["root"]),
    )
    clock.advance(SECOND)
    return root


def fan_out(number: int, *, then: bool = True, **options: Any) -> tuple[list[TaskId], Continued]:
    """Return the ids of steps and the outcome that adds them, and continues as `join` with their results."""
    ids = [new_id() for _ in range(number)]
    steps = [NewTask(handler="part", id=id, args={"n": n}) for n, id in enumerate(ids)]
    args = {"parts": [reference(id) for id in ids]}
    continuation = NewTask(handler="join", args=args, prerequisites=ids, **options) if then else None
    return ids, Continued(Added(steps=steps, then=continuation), None if then else '"done"')


def last(store: Store) -> State:
    return state_of(store, keyed_id("default", WORKFLOW, "last"))


def complete_all(store: Store, *ids: UUID) -> None:
    """Run exactly these tasks, which must be runnable."""
    claims = claim_all(store)
    assert {claim.id for claim in claims} == set(ids)
    complete(store, *claims)


def test_a_task_continues_with_the_results_of_its_steps_and_its_dependents_wait_for_that(
    store: Store, clock: ManualClock
) -> None:
    root = a_root(store, clock, priority=5)
    ids, outcome = fan_out(3)

    claim = claim_one(store)
    verdict = report(store, claim, outcome)

    assert verdict == Settled(claim.lease, State.WAITING)
    waiting = task_of(store, root)
    assert (waiting.handler, waiting.waiting, waiting.attempts, waiting.key, waiting.priority) == (
        "join",
        3,
        0,
        "root",
        5,
    )
    clock.advance(SECOND)
    parts = claim_all(store)
    assert [part.id for part in parts] == ids
    assert all(part.workflow == WORKFLOW and part.rules.origin == Origin(root, 1) for part in parts)
    store.settle([(part.lease, decided(part, Returned(str(n)))) for n, part in enumerate(parts)])
    assert last(store) is State.WAITING

    [joined] = claim_all(store)
    assert (joined.id, joined.handler, joined.attempts) == (root, "join", 0)
    assert joined.lease.fence > claim.lease.fence
    complete(store, joined)
    assert last(store) is State.RUNNABLE
    assert [attempt.state for attempt in store.attempts(root)] == [State.WAITING, State.COMPLETED]
    assert counted(store) == recounted(store)


def test_steps_may_be_added_without_waiting_for_them(store: Store, clock: ManualClock) -> None:
    root = a_root(store, clock)
    ids, outcome = fan_out(2, then=False)

    report(store, claim_one(store), outcome)

    assert (state_of(store, root), task_of(store, root).result, last(store)) == (
        State.COMPLETED,
        '"done"',
        State.RUNNABLE,
    )
    clock.advance(SECOND)
    assert {claim.id for claim in claim_all(store)} > set(ids)


def test_an_attempt_without_a_valid_lease_adds_nothing(store: Store, clock: ManualClock) -> None:
    a_root(store, clock)
    session = a_session(store, ttl=SECOND)
    zombie = claim_one(store, session)
    clock.advance(timedelta(seconds=10))
    sweep_until_quiet(store)
    before = len(all_tasks(store))

    for then in (True, False):
        assert isinstance(report(store, zombie, fan_out(2, then=then)[1]), LeaseLost)

    assert len(all_tasks(store)) == before
    claim_one(store)
    assert isinstance(report(store, zombie, fan_out(2)[1]), LeaseLost)
    assert len(all_tasks(store)) == before


def test_a_repeated_report_adds_nothing_twice(store: Store, clock: ManualClock) -> None:
    root = a_root(store, clock)
    claim = claim_one(store)
    ids, outcome = fan_out(2)
    settlement = decided(claim, outcome)

    first = store.settle([(claim.lease, settlement)])
    again = store.settle([(claim.lease, settlement)])

    assert first == again == [Settled(claim.lease, State.WAITING)]
    assert len(all_tasks(store)) == 4
    clock.advance(SECOND)
    complete_all(store, *ids)
    assert state_of(store, root) is State.RUNNABLE


def test_a_cancel_request_wins_and_nothing_is_added(store: Store, clock: ManualClock) -> None:
    root = a_root(store, clock)
    claim = claim_one(store)
    store.cancel([root], reason="stop")

    verdict = report(store, claim, fan_out(2)[1])

    assert verdict == Settled(claim.lease, State.CANCELLED)
    assert len(all_tasks(store)) == 2


def test_a_step_that_fails_takes_the_task_down_and_a_retry_brings_both_back(store: Store, clock: ManualClock) -> None:
    root = a_root(store, clock)
    ids, outcome = fan_out(2)
    report(store, claim_one(store), outcome)
    clock.advance(SECOND)
    good, bad = claim_all(store)
    complete(store, good)
    report(store, bad, GAVE_UP)
    assert (state_of(store, root), task_of(store, root).reason) == (State.CANCELLED, f"Prerequisite {ids[1]} failed.")
    assert last(store) is State.CANCELLED

    assert store.retry([ids[1]], dependents=True) == 3

    complete_all(store, ids[1])
    [joined] = claim_all(store)
    assert (joined.id, joined.handler) == (root, "join")


def test_with_run_a_task_continues_after_steps_that_failed(store: Store, clock: ManualClock) -> None:
    root = a_root(store, clock)
    _, outcome = fan_out(1, on_failure=OnFailure.RUN)
    report(store, claim_one(store), outcome)

    report(store, claim_one(store), GAVE_UP)

    assert claim_one(store).id == root


def test_cancelling_a_task_that_waits_cancels_the_steps_that_it_added(store: Store, clock: ManualClock) -> None:
    root = a_root(store, clock)
    other = submit_one(store, workflow=WORKFLOW, queue="other")
    ids, outcome = fan_out(2)
    assert outcome.added.then is not None
    report(store, claim_one(store), Continued(Added(steps=outcome.added.steps, then=also_after(outcome, other))))
    clock.advance(SECOND)
    inner = claim_all(store)[0]
    deeper, deep = fan_out(2)
    report(store, inner, deep)

    assert store.cancel([root], reason="enough") == 5

    assert (
        states_of(store, [root, *ids, *deeper])
        == [State.CANCELLED, State.CANCELLED, State.LEASED] + [State.CANCELLED] * 2
    )
    assert task_of(store, ids[1]).cancel_requested
    assert state_of(store, other) is State.RUNNABLE


def also_after(outcome: Continued, other: TaskId) -> NewTask:
    then = outcome.added.then
    assert then is not None
    return NewTask(handler=then.handler, args=then.args, prerequisites=[*then.prerequisites, other])


def test_a_task_may_continue_again_and_again_after_a_sleep(store: Store, clock: ManualClock) -> None:
    root = a_root(store, clock)
    for turn in range(3):
        pause = NewTask(handler=SLEEP, queue=QUEUE, wait=Wait(delay=micros(HOUR)), id=new_id())
        again = NewTask(handler="poll", args={"turn": turn}, prerequisites=[pause.id])
        report(store, claim_one(store), Continued(Added(steps=[pause], then=again)))
        assert claim_all(store) == []
        clock.advance(HOUR)
        sweep_until_quiet(store)
        assert task_of(store, pause.id).rules.origin == Origin(root, 1)

    claim = claim_one(store)
    assert (claim.id, claim.handler, claim.args) == (root, "poll", '{"turn":2}')


def test_a_task_continues_in_another_queue_with_other_rules(store: Store, clock: ManualClock) -> None:
    root = a_root(store, clock)
    ids, outcome = fan_out(1, queue="slow", retry=Retry(retries=7), delay=HOUR, slots=2)
    report(store, claim_one(store), outcome)
    complete_all(store, *ids)
    assert state_of(store, root) is State.SCHEDULED

    clock.advance(HOUR)
    sweep_until_quiet(store)

    claim = claim_one(store, queue="slow")
    assert (claim.id, claim.rules.slots, claim.rules.retry.retries) == (root, 2, 7)
    assert counted(store) == recounted(store)


def test_the_retries_of_the_task_start_again_when_it_continues(store: Store, clock: ManualClock) -> None:
    root = a_root(store, clock, retry=Retry(retries=1))
    oops = Raised(GAVE_UP.error)
    report(store, claim_one(store), oops)
    clock.advance(HOUR)
    sweep_until_quiet(store)
    ids, outcome = fan_out(1, retry=Retry(retries=1))
    report(store, claim_one(store), outcome)
    complete_all(store, *ids)

    report(store, claim_one(store), oops)

    assert (state_of(store, root), task_of(store, root).attempts) == (State.RETRYING, 1)


def refused(store: Store, claim: Claim, added: Added) -> str:
    """Report steps that are refused. Return the error of the attempt, which must have failed and added nothing."""
    before = len(all_tasks(store))
    verdict = report(store, claim, Continued(added))
    assert isinstance(verdict, Settled)
    assert verdict.state is State.FAILED
    assert len(all_tasks(store)) == before
    error = store.attempts(claim.id)[-1].error
    assert error is not None
    return f"{error.kind}: {error.message}"


def test_steps_that_are_refused_fail_the_attempt_and_add_nothing(store: Store, clock: ManualClock) -> None:
    store.configure(Queue(name="full", max_waiting=1))
    outside = submit_one(store, workflow="another", queue="elsewhere")
    later = submit_one(store, tenant="default", queue="elsewhere", key="busy", args={"n": 1}, workflow=WORKFLOW)
    assert later
    ids = [new_id(), new_id()]
    many = [NewTask(handler="part") for _ in range(MAX_ADDED + 1)]
    wrong: list[tuple[Added, str]] = [
        (Added(steps=[NewTask(handler="no name")]), "InvalidTask"),
        (Added(steps=[NewTask(handler="part", queue="full") for _ in range(2)]), "QueueFull"),
        (Added(steps=[NewTask(handler="part", key="busy")]), "KeyConflict"),
        (Added(steps=[NewTask(handler="part", prerequisites=[outside])]), "UnknownPrerequisite"),
        (Added(steps=[NewTask(handler="part", args={"a": reference(outside)})]), "InvalidPayload"),
        (Added(steps=many), "InvalidTask"),
        (Added(then=NewTask(handler="join", prerequisites=[outside])), "UnknownPrerequisite"),
        (Added(then=NewTask(handler="join", prerequisites=[ids[0]])), "UnknownPrerequisite"),
        (Added(steps=[NewTask(handler="part", key="root 9", id=None)], then=NewTask(handler="no name")), "InvalidTask"),
    ]
    for number, (added, error) in enumerate(wrong):
        submit_one(store, workflow=WORKFLOW, key=f"root {number}", retry=Retry(retries=0))
        claim = claim_one(store)
        assert refused(store, claim, added).startswith(f"{error}: The added steps were refused: ")
    submit_one(store, workflow=WORKFLOW, key="own", retry=Retry(retries=0))
    claim = claim_one(store)
    assert "wait for itself" in refused(store, claim, Added(then=NewTask(handler="join", prerequisites=[claim.id])))


def test_steps_that_are_refused_are_tried_again_by_the_policy_of_the_task(store: Store, clock: ManualClock) -> None:
    store.configure(Queue(name="full", max_waiting=1))
    submit_one(store, queue="full")
    root = a_root(store, clock, retry=Retry(retries=1))

    report(store, claim_one(store), Continued(Added(steps=[NewTask(handler="part", queue="full")])))

    assert (state_of(store, root), task_of(store, root).attempts) == (State.RETRYING, 1)


def test_a_task_that_would_wait_for_its_own_dependent_is_refused(store: Store, clock: ManualClock) -> None:
    root = a_root(store, clock, retry=Retry(retries=0))
    dependent = keyed_id("default", WORKFLOW, "last")

    error = refused(store, claim_one(store), Added(then=NewTask(handler="join", prerequisites=[dependent])))

    assert error.startswith("CycleFound")
    assert state_of(store, root) is State.FAILED


def test_tasks_cannot_add_each_other_forever(store: Store, clock: ManualClock) -> None:
    submit_one(store, retry=Retry(retries=0), origin=Origin(new_id(), MAX_DEPTH - 1))
    report(store, claim_one(store), Continued(Added(steps=[NewTask(handler="part", retry=Retry(retries=0))])))
    claim = claim_one(store)
    assert claim.rules.origin is not None
    assert claim.rules.origin.depth == MAX_DEPTH

    error = refused(store, claim, Added(steps=[NewTask(handler="part")]))

    assert f"at most {MAX_DEPTH} may" in error


def test_steps_belong_to_the_tenant_and_workflow_of_their_task_whatever_they_say(store: Store) -> None:
    submit_one(store, tenant="acme")
    stray = NewTask(handler="part", tenant="other", workflow="other", origin=Origin(new_id(), 0))

    report(store, claim_one(store), Continued(Added(steps=[stray])))

    [part] = claim_all(store)
    assert (part.tenant, part.workflow, part.rules.origin and part.rules.origin.depth) == ("acme", None, 1)
