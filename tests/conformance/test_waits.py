"""Steps that wait for an event or a time: no worker sees them, and the store ends them."""

from __future__ import annotations

from datetime import timedelta
from threading import Thread

import pytest

from tests.support.builders import (
    HOUR,
    SECOND,
    a_task,
    claim_all,
    claim_one,
    complete,
    state_of,
    submit,
    sweep_until_quiet,
    task_of,
)
from tests.support.stores import Home
from windlass.clock import ManualClock
from windlass.core.ids import keyed_id
from windlass.core.lifecycle import State
from windlass.core.task import Change, NewTask, OnFailure, TaskId, Wait
from windlass.core.times import LATEST, micros
from windlass.core.waits import QUEUE, SLEEP, STORE_SESSION, event_key, new_event
from windlass.errors import EventConflict, InvalidTask, NotAllowed
from windlass.stores.coordination import Entry
from windlass.stores.protocol import Store

WORKFLOW = "order:7"
SET = [Entry(subject="workflow/order:7", action="set", text="set approved", by="ada")]


def a_sleep(length: timedelta, **fields: object) -> NewTask:
    return NewTask(handler=SLEEP, queue=QUEUE, workflow=WORKFLOW, wait=Wait(delay=micros(length)), **fields)  # pyright: ignore[reportArgumentType]


def an_event(timeout: timedelta | None = None, event: str = "approved", **fields: object) -> NewTask:
    wait = Wait(event=event, delay=None if timeout is None else micros(timeout))
    return new_event(WORKFLOW, event, tenant="default", wait=wait, **fields)


def a_step(**fields: object) -> NewTask:
    return a_task(workflow=WORKFLOW, **fields)  # pyright: ignore[reportArgumentType]


EVENT_ID = keyed_id("default", WORKFLOW, event_key("approved"))


def test_a_sleep_begins_when_its_prerequisites_have_ended_and_completes_by_itself(
    store: Store, clock: ManualClock
) -> None:
    [first] = submit(store, a_step(key="first"))
    sleep, last = submit(store, a_sleep(HOUR, prerequisites=["first"], key="sleep"), a_step(prerequisites=["sleep"]))
    clock.advance(HOUR)
    assert state_of(store, sleep) is State.WAITING

    complete(store, claim_one(store))
    began = clock.now()
    assert state_of(store, first) is State.COMPLETED
    assert (task_of(store, sleep).state, task_of(store, sleep).due) == (State.SCHEDULED, began + micros(HOUR))
    assert store.sweep().next_due == began + micros(HOUR)

    clock.advance(HOUR - timedelta(microseconds=1))
    sweep_until_quiet(store)
    assert state_of(store, sleep) is State.SCHEDULED
    assert claim_all(store, queues=["default", QUEUE]) == []

    clock.advance(timedelta(microseconds=1))
    sweep_until_quiet(store)
    done = task_of(store, sleep)
    assert (done.state, done.finished, done.result, done.attempts) == (State.COMPLETED, clock.now(), None, 1)
    assert [(each.session, each.state) for each in store.attempts(sleep)] == [(STORE_SESSION, State.COMPLETED)]
    assert state_of(store, last) is State.RUNNABLE


def test_a_sleep_without_a_workflow_waits_too(store: Store, clock: ManualClock) -> None:
    [sleep] = submit(store, NewTask(handler=SLEEP, queue=QUEUE, wait=Wait(delay=micros(HOUR))))

    assert (state_of(store, sleep), task_of(store, sleep).due) == (State.SCHEDULED, clock.now() + micros(HOUR))
    clock.advance(HOUR)
    store.sweep()
    assert state_of(store, sleep) is State.COMPLETED


def test_a_sleep_until_a_time_in_the_past_is_over_with_the_next_sweep(store: Store, clock: ManualClock) -> None:
    clock.advance(HOUR)
    until = NewTask(handler=SLEEP, queue=QUEUE, at=-HOUR, wait=Wait())
    [id] = submit(store, until)

    sweep_until_quiet(store)

    assert state_of(store, id) is State.COMPLETED


def test_a_sleep_can_be_made_longer_or_ended(store: Store, clock: ManualClock) -> None:
    long, short = submit(store, a_sleep(HOUR), a_sleep(HOUR))

    store.update(long, Change(at=2 * HOUR))
    store.update(short, Change(at=timedelta(0)))
    sweep_until_quiet(store)

    assert (state_of(store, long), state_of(store, short)) == (State.SCHEDULED, State.COMPLETED)
    clock.advance(2 * HOUR)
    sweep_until_quiet(store)
    assert state_of(store, long) is State.COMPLETED


def test_setting_an_event_completes_its_step_and_releases_what_comes_after(store: Store, clock: ManualClock) -> None:
    event, after = submit(store, an_event(), a_step(prerequisites=[event_key("approved")]))
    clock.advance(SECOND)
    assert (event, task_of(store, event).due) == (EVENT_ID, LATEST)

    done = store.set_event(WORKFLOW, "approved", '{"by": "ada"}', entries=SET)

    assert (done.task, done.changed, done.state) == (event, True, State.COMPLETED)
    assert (task_of(store, event).result, state_of(store, after)) == ('{"by": "ada"}', State.RUNNABLE)
    assert [each.text for each in store.audit()] == ["set approved"]


def test_an_event_is_set_once(store: Store) -> None:
    submit(store, an_event())
    store.set_event(WORKFLOW, "approved", '{"a":1,"b":2}', entries=SET)

    again = store.set_event(WORKFLOW, "approved", '{"b":2,"a":1}', entries=SET)
    with pytest.raises(EventConflict, match="approved"):
        store.set_event(WORKFLOW, "approved", "null", entries=SET)

    assert (again.changed, again.state) == (False, State.COMPLETED)
    assert len(store.audit()) == 1


def test_an_event_may_be_set_before_its_step_exists(store: Store, clock: ManualClock) -> None:
    early = store.set_event(WORKFLOW, "approved", "42", entries=SET)
    assert (early.changed, early.state) == (True, State.COMPLETED)
    assert not store.set_event(WORKFLOW, "approved", "42", entries=SET).changed

    first, event, last = submit(
        store,
        a_step(key="first"),
        an_event(HOUR, prerequisites=["first"]),
        a_step(key="last", prerequisites=[event_key("approved")]),
    )

    clock.advance(SECOND)
    assert (event, task_of(store, event).result) == (EVENT_ID, "42")
    assert (state_of(store, first), state_of(store, last)) == (State.RUNNABLE, State.WAITING)
    complete(store, claim_one(store))
    assert state_of(store, last) is State.RUNNABLE
    assert len(store.audit()) == 1


def test_a_later_submit_does_not_wait_for_the_prerequisites_of_an_event_that_was_set_before_its_step(
    store: Store,
) -> None:
    """As `docs/guides/events.md` says: it must name them."""
    store.set_event(WORKFLOW, "approved", "42")
    first, _ = submit(store, a_step(key="first"), an_event(HOUR, prerequisites=["first"]))

    [alone] = submit(store, a_step(key="alone", prerequisites=[event_key("approved")]))
    [both] = submit(store, a_step(key="both", prerequisites=[event_key("approved"), "first"]))

    assert state_of(store, first) is State.RUNNABLE
    assert (state_of(store, alone), state_of(store, both)) == (State.RUNNABLE, State.WAITING)


def test_an_event_that_is_set_while_its_prerequisites_are_open_completes_after_them(store: Store) -> None:
    _, event = submit(store, a_step(key="first"), an_event(HOUR, prerequisites=["first"]))

    early = store.set_event(WORKFLOW, "approved", "1")
    assert (early.changed, early.state, state_of(store, event)) == (True, State.WAITING, State.WAITING)
    assert not store.set_event(WORKFLOW, "approved", "1").changed
    with pytest.raises(EventConflict):
        store.set_event(WORKFLOW, "approved", "2")

    complete(store, claim_one(store))
    sweep_until_quiet(store)
    assert (state_of(store, event), task_of(store, event).result) == (State.COMPLETED, "1")


def test_an_event_that_is_not_set_in_time_expires_and_its_dependents_follow_their_policy(
    store: Store, clock: ManualClock
) -> None:
    _, event, cancelled, runs = submit(
        store,
        a_step(key="first"),
        an_event(HOUR, prerequisites=["first"]),
        a_step(prerequisites=[event_key("approved")]),
        a_step(prerequisites=[event_key("approved")], on_failure=OnFailure.RUN),
    )
    clock.advance(HOUR)
    complete(store, claim_one(store))
    clock.advance(HOUR - SECOND)
    sweep_until_quiet(store)
    assert state_of(store, event) is State.SCHEDULED

    clock.advance(SECOND)
    sweep_until_quiet(store)

    assert (state_of(store, event), task_of(store, event).reason) == (
        State.EXPIRED,
        "Event approved was not set in time.",
    )
    assert (state_of(store, cancelled), state_of(store, runs)) == (State.CANCELLED, State.RUNNABLE)
    with pytest.raises(NotAllowed, match=f"windlass tasks retry {event}"):
        store.set_event(WORKFLOW, "approved", entries=SET)
    assert store.audit() == []


def test_a_wait_that_is_retried_begins_again(store: Store, clock: ManualClock) -> None:
    event, after, sleep = submit(store, an_event(HOUR), a_step(prerequisites=[event_key("approved")]), a_sleep(HOUR))
    store.cancel([sleep], reason="stop")
    clock.advance(HOUR)
    sweep_until_quiet(store)

    assert store.retry([event, sleep], dependents=True) == 3

    assert [state_of(store, id) for id in (event, sleep, after)] == [State.SCHEDULED, State.SCHEDULED, State.WAITING]
    assert task_of(store, event).due == task_of(store, sleep).due == clock.now() + micros(HOUR)
    store.set_event(WORKFLOW, "approved")
    assert (state_of(store, event), state_of(store, after)) == (State.COMPLETED, State.RUNNABLE)


def test_waits_survive_another_store_on_the_same_data(home: Home, store: Store, clock: ManualClock) -> None:
    sleep, event = submit(store, a_sleep(HOUR), an_event(HOUR))

    other = home.open(clock)
    other.set_event(WORKFLOW, "approved", "[1]")
    clock.advance(HOUR)
    sweep_until_quiet(other)

    assert (state_of(other, sleep), task_of(other, event).result) == (State.COMPLETED, "[1]")
    assert task_of(other, sleep).wait == Wait(delay=micros(HOUR))


def test_events_belong_to_their_workflow_and_tenant(store: Store) -> None:
    [event] = submit(store, an_event())

    store.set_event("another", "approved")
    store.set_event(WORKFLOW, "approved", tenant="acme")
    store.set_event(WORKFLOW, "rejected")

    assert state_of(store, event) is State.SCHEDULED


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (NewTask(handler="mail", queue="default", wait=Wait()), "handler"),
        (NewTask(handler=SLEEP, queue="default", wait=Wait()), "queue"),
        (NewTask(handler="windlass.event", queue=QUEUE, wait=Wait(event="a"), key="event:a"), "workflow"),
        (NewTask(handler="windlass.event", queue=QUEUE, wait=Wait(event="a"), key="a", workflow="w"), "key"),
        (
            NewTask(handler="windlass.event", queue=QUEUE, wait=Wait(event="a b"), key="event:a b", workflow="w"),
            "event",
        ),
        (NewTask(handler=SLEEP, queue=QUEUE, wait=Wait(delay=-1)), "delay"),
        (NewTask(handler=SLEEP, queue=QUEUE, wait="1h"), "wait"),  # pyright: ignore[reportArgumentType]
    ],
)
def test_a_wait_that_makes_no_sense_is_refused(wrong: NewTask, field: str, store: Store) -> None:
    with pytest.raises(InvalidTask, match=field):
        store.submit([wrong])


def test_an_event_and_its_step_that_come_at_once_meet(home: Home, kind: str, clock: ManualClock) -> None:
    if kind == "memory":
        pytest.skip("one lock")
    first, second = home.open(clock), home.open(clock)
    for turn in range(10):
        workflow = f"race:{turn}"
        step = new_event(workflow, "approved", tenant="default", wait=Wait(event="approved"))
        after = NewTask(handler="x", workflow=workflow, key="after", prerequisites=[event_key("approved")])
        submits = Thread(target=first.submit, args=([step, after],))
        submits.start()
        second.set_event(workflow, "approved", "1")
        submits.join()
        clock.advance(SECOND)
        sweep_until_quiet(first)
        ids = [keyed_id("default", workflow, key) for key in (event_key("approved"), "after")]
        assert [task and task.state for task in first.get([TaskId(id) for id in ids])] == [
            State.COMPLETED,
            State.RUNNABLE,
        ]
