"""Queues and crons are removed, with their audit entries, and only if nothing needs them."""

from __future__ import annotations

import pytest

from tests.support.builders import a_session, claim_one, complete, submit_one
from windlass.core.manifest import CronInfo, HandlerInfo, Manifest
from windlass.core.ordering import Queue, Strategy
from windlass.errors import NotAllowed, UnknownCron
from windlass.stores.coordination import Entry
from windlass.stores.protocol import Store

REMOVED = Entry(subject="queue/mail", action="removed", text="removed it", by="ann")


def test_the_settings_of_a_queue_are_removed_once(store: Store) -> None:
    store.configure(Queue(name="mail", strategy=Strategy.FIFO))
    store.configure(Queue(name="bulk"))

    removed = [store.remove_queue("mail", entries=[REMOVED]) for _ in range(2)]

    assert removed == [True, False]
    assert [queue.name for queue in store.queues()] == ["bulk"]
    assert [entry.action for entry in store.audit()] == ["removed"]


def test_a_queue_with_unfinished_tasks_is_not_removed(store: Store) -> None:
    store.configure(Queue(name="mail", weight=3))
    submit_one(store, queue="mail")

    with pytest.raises(NotAllowed, match="1 unfinished task"):
        store.remove_queue("mail", entries=[REMOVED])

    assert (len(store.queues()), store.audit()) == (1, [])
    a_session(store)
    complete(store, claim_one(store, queue="mail"))
    assert store.remove_queue("mail")


def test_a_cron_is_removed_and_may_be_published_again(store: Store) -> None:
    manifest = Manifest(
        handlers=(HandlerInfo(name="work"),), crons=(CronInfo(name="daily", handler="work", schedule="0 6 * * *"),)
    )
    store.publish(manifest)

    store.remove_cron("daily", entries=[REMOVED])

    assert (store.crons(), [entry.action for entry in store.audit()]) == ([], ["removed"])
    with pytest.raises(UnknownCron):
        store.remove_cron("daily")
    store.publish(manifest)
    assert [cron.info.name for cron in store.crons()] == ["daily"]
