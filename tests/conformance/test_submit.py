from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from tests.support.builders import (
    HOUR,
    MINUTE,
    NO_RETRY,
    RAISED,
    SECOND,
    a_task,
    all_tasks,
    at_once,
    run,
    state_of,
    submit,
    submit_one,
    task_of,
)
from tests.support.stores import Home
from windlass.clock import ManualClock
from windlass.core.graph import MAX_PREREQUISITES
from windlass.core.ids import keyed_id
from windlass.core.lifecycle import State
from windlass.core.retry import ErrorRule, Retry
from windlass.core.settlement import Returned
from windlass.core.task import OnFailure, Rules
from windlass.core.times import micros
from windlass.errors import DuplicateTask, InvalidTask, KeyConflict, NotAllowed, UnknownPrerequisite
from windlass.stores.protocol import Receipt, Store


def test_a_submitted_task_is_stored_with_every_field(store: Store, clock: ManualClock) -> None:
    retry = Retry(retries=7, base=MINUTE, cap=HOUR, rules=(ErrorRule(error="Key*", retries=0),))

    id = submit_one(
        store,
        handler="mail.send",
        args={"to": "a@b.c", "n": [1, 2.5, None, True], "text": "grüße ✓"},
        key="welcome:42",
        workflow="onboarding of ☂",
        tenant="acme",
        queue="mail",
        priority=5,
        deadline=MINUTE,
        expires=HOUR,
        on_failure=OnFailure.RUN,
        retry=retry,
        timeout=SECOND,
        soft_timeout=SECOND,
        heartbeat_timeout=MINUTE,
        slots=2,
        requires=("gpu",),
        downstream="smtp",
        trace="00-abc",
    )

    task = task_of(store, id)
    assert (task.handler, task.queue, task.tenant) == ("mail.send", "mail", "acme")
    assert (task.workflow, task.key) == ("onboarding of ☂", "welcome:42")
    assert json.loads(task.args) == {"to": "a@b.c", "n": [1, 2.5, None, True], "text": "grüße ✓"}
    assert (task.state, task.priority, task.on_failure) == (State.RUNNABLE, 5, OnFailure.RUN)
    assert (task.submitted, task.due) == (clock.now(), clock.now())
    assert (task.deadline, task.expires) == (clock.now() + micros(MINUTE), clock.now() + micros(HOUR))
    assert (task.claimed, task.finished, task.session, task.reason, task.result) == (None,) * 5
    assert (task.waiting, task.fence, task.attempts, task.crashes, task.losses, task.generation) == (0,) * 6
    assert task.rules == Rules(
        retry=retry,
        timeout=SECOND,
        soft_timeout=SECOND,
        heartbeat_timeout=MINUTE,
        slots=2,
        requires=("gpu",),
        downstream="smtp",
        trace="00-abc",
    )


def test_an_empty_batch_is_answered_with_nothing(store: Store) -> None:
    assert store.submit([]) == []


def test_receipts_come_in_the_order_of_the_batch(store: Store) -> None:
    [known] = submit(store, a_task(key="b"))

    receipts = store.submit([a_task(key="a"), a_task(key="b"), a_task(key="c", delay=MINUTE)])

    assert receipts == [
        Receipt(keyed_id("default", None, "a"), True, State.RUNNABLE),
        Receipt(known, False, State.RUNNABLE),
        Receipt(keyed_id("default", None, "c"), True, State.SCHEDULED),
    ]


def test_a_key_submitted_again_with_the_same_body_names_the_same_task(store: Store, clock: ManualClock) -> None:
    [first] = store.submit([a_task(key="k", args={"a": 1, "b": 2})])

    clock.advance(MINUTE)
    [second] = store.submit([a_task(key="k", args={"b": 2, "a": 1}, priority=9, deadline=HOUR, trace="other")])

    assert (second.id, second.created) == (first.id, False)
    [task] = all_tasks(store)
    assert (task.priority, task.deadline, task.submitted) == (0, None, clock.now() - micros(MINUTE))


@pytest.mark.parametrize("end", [State.COMPLETED, State.FAILED, State.CANCELLED])
def test_a_key_still_names_its_task_after_the_end(store: Store, end: State) -> None:
    [id] = submit(store, a_task(key="k", retry=NO_RETRY))
    if end is State.CANCELLED:
        store.cancel([id], reason="no longer wanted")
    else:
        run(store, Returned() if end is State.COMPLETED else RAISED)

    assert store.submit([a_task(key="k", retry=NO_RETRY)]) == [Receipt(id, False, end)]


@pytest.mark.parametrize(
    "other",
    [{"handler": "play"}, {"args": {"n": 2}}, {"queue": "mail"}, {"prerequisites": ["parent"]}],
    ids=lambda other: next(iter(other)),
)
def test_a_key_with_another_body_is_refused_and_leaves_nothing(store: Store, other: dict[str, Any]) -> None:
    submit(store, a_task(key="parent"), a_task(key="k", args={"n": 1}))
    before = all_tasks(store)

    with pytest.raises(KeyConflict) as refused:
        store.submit([a_task(key="new"), a_task(**{"key": "k", "args": {"n": 1}, **other})])

    assert refused.value.keys == ("k",)
    assert all_tasks(store) == before


def test_the_order_of_prerequisites_is_no_part_of_the_body(store: Store) -> None:
    submit(store, a_task(key="a"), a_task(key="b"), a_task(key="c", prerequisites=["a", "b"]))

    [receipt] = store.submit([a_task(key="c", prerequisites=["b", "a", "b"])])

    assert not receipt.created


def test_one_key_submitted_by_many_callers_at_once_is_one_task(store: Store) -> None:
    batch = [a_task(key=f"k{n}") for n in range(20)]

    answers = at_once(4, lambda thread: store.submit(batch if thread % 2 else batch[::-1]))

    assert len({receipt.id for receipts in answers for receipt in receipts}) == 20
    assert sum(receipt.created for receipts in answers for receipt in receipts) == 20
    assert len(all_tasks(store)) == 20


def test_one_key_is_another_task_in_another_tenant_or_workflow(store: Store) -> None:
    receipts = [
        *store.submit([a_task(key="k", handler="one")]),
        *store.submit([a_task(key="k", handler="two", tenant="acme")]),
        *store.submit([a_task(key="k", handler="three", workflow="w")]),
    ]

    assert len({receipt.id for receipt in receipts}) == 3
    assert all(receipt.created for receipt in receipts)


def test_tasks_without_a_key_are_never_the_same(store: Store) -> None:
    ids = submit(store, a_task(), a_task()) + submit(store, a_task())

    assert len(set(ids)) == 3


def test_one_key_twice_in_a_batch_is_refused_whole(store: Store) -> None:
    with pytest.raises(DuplicateTask) as refused:
        store.submit([a_task(key="other"), a_task(key="k"), a_task(key="k")])

    assert refused.value.ids == ("k",)
    assert all_tasks(store) == []


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"handler": ""}, "handler"),
        ({"handler": "rm -rf"}, "handler"),
        ({"handler": None}, "handler"),
        ({"queue": "a/b"}, "queue"),
        ({"queue": "q" * 129}, "queue"),
        ({"tenant": "ünal"}, "tenant"),
        ({"tenant": "t\n"}, "tenant"),
        ({"key": ""}, "key"),
        ({"key": "k" * 513}, "key"),
        ({"key": "line\nbreak"}, "key"),
        ({"key": "nul\0"}, "key"),
        ({"key": "\ud800"}, "key"),
        ({"key": 7}, "key"),
        ({"workflow": ""}, "workflow"),
        ({"priority": 1_000_001}, "priority"),
        ({"priority": 0.5}, "priority"),
        ({"slots": 0}, "slots"),
        ({"id": "mine"}, "id"),
        ({"prerequisites": [""]}, "prerequisites"),
        ({"prerequisites": [7]}, "prerequisites"),
        ({"timeout": timedelta(0)}, "timeout"),
        ({"timeout": 30}, "timeout"),
        ({"heartbeat_timeout": -SECOND}, "heartbeat_timeout"),
        ({"retry": Retry(retries=-1)}, "retries"),
        ({"retry": Retry(cap=-SECOND)}, "cap"),
        ({"trace": "\ud800"}, "trace"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_bad_field_is_refused_by_name_and_leaves_nothing(store: Store, changes: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidTask, match=named):
        store.submit([a_task(), a_task(**changes)])

    assert all_tasks(store) == []


def test_an_unknown_prerequisite_is_refused_and_leaves_nothing(store: Store) -> None:
    with pytest.raises(UnknownPrerequisite) as refused:
        store.submit([a_task(key="a"), a_task(key="b", prerequisites=["a", "typo"])])

    assert refused.value.ids == ("typo",)
    assert all_tasks(store) == []


def test_more_prerequisites_than_a_store_carries_are_refused(store: Store) -> None:
    with pytest.raises(InvalidTask, match="intermediate tasks"):
        store.submit([a_task(prerequisites=[str(n) for n in range(MAX_PREREQUISITES + 1)])])

    assert all_tasks(store) == []


def test_a_connection_that_the_store_cannot_join_is_refused(store: Store) -> None:
    with pytest.raises(NotAllowed, match="conn"):
        store.submit([a_task()], conn=object())

    assert all_tasks(store) == []


def test_a_store_opened_later_sees_what_was_submitted(store: Store, home: Home, clock: ManualClock) -> None:
    [id] = submit(store, a_task(key="k"))

    assert state_of(home.open(clock), id) is State.RUNNABLE
