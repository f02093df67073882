from __future__ import annotations

import pytest

from tests.support.builders import (
    HOUR,
    RAISED,
    a_session,
    a_task,
    all_tasks,
    run,
    submit,
)
from windlass.core.lifecycle import State
from windlass.core.ordering import Queue
from windlass.errors import QueueFull, UnknownPrerequisite
from windlass.stores.protocol import Receipt, Store


def test_a_full_queue_refuses_the_whole_batch(store: Store) -> None:
    store.configure(Queue(name="mail", max_waiting=2))
    submit(store, a_task(queue="mail"))

    with pytest.raises(QueueFull) as refused:
        store.submit([a_task(queue="other"), a_task(queue="mail"), a_task(queue="mail")])

    assert (refused.value.queue, refused.value.max_waiting) == ("mail", 2)
    assert len(all_tasks(store)) == 1


def test_an_invalid_task_is_reported_before_a_full_queue(store: Store) -> None:
    store.configure(Queue(name="mail", max_waiting=0))

    with pytest.raises(UnknownPrerequisite):
        store.submit([a_task(queue="mail", prerequisites=["typo"])])


def test_a_queue_is_full_of_what_is_unfinished_and_in_nobodys_hands(store: Store) -> None:
    store.configure(Queue(name="mail", max_waiting=3))
    submit(store, a_task(queue="mail"), a_task(queue="mail"), a_task(queue="mail", tenant="acme", delay=HOUR))

    leased = store.claim(a_session(store), ["mail"], limit=1)
    submit(store, a_task(queue="mail"))
    with pytest.raises(QueueFull):
        store.submit([a_task(queue="mail")])

    run(store, RAISED, queue="mail")  # retrying: it waits again
    with pytest.raises(QueueFull):
        store.submit([a_task(queue="mail")])
    assert len(leased) == 1


def test_a_full_queue_still_answers_for_a_key_it_knows(store: Store) -> None:
    store.configure(Queue(name="mail", max_waiting=1))
    [id] = submit(store, a_task(queue="mail", key="k"))

    assert store.submit([a_task(queue="mail", key="k")]) == [Receipt(id, False, State.RUNNABLE)]
