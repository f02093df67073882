"""Commits whose answer is lost, of changes by people: each is made once, audited once, and known to its author."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.checks import opened
from tests.integration.test_lost_controls import LOST, lose_first_answer
from tests.support.builders import submit_one, task_of
from tests.support.proxy import Fault, Proxy
from windlass.core.manifest import HandlerInfo, Manifest
from windlass.core.ordering import Queue
from windlass.core.task import Change, NewTask
from windlass.core.task_update import version_of
from windlass.errors import CommitUnknown, Conflict
from windlass.stores.coordination import Entry
from windlass.stores.postgres import PostgresStore
from windlass.stores.protocol import Filter

DONE = Entry(subject="task/1", action="did", text="did it")
PLAIN, HEAVY = Queue(name="mail"), Queue(name="mail", weight=2)


@pytest.fixture
def proxy(shared_url: str) -> Iterator[Proxy]:
    with Proxy(shared_url) as proxy:
        yield proxy


@pytest.fixture(params=[False, True], ids=["pipelined", "for a pooler"])
def cut_off(request: pytest.FixtureRequest, proxy: Proxy, store: PostgresStore) -> Iterator[PostgresStore]:
    """A store whose commits can go wrong; `store` uses the same data."""
    with opened(proxy.url, pooler=request.param) as cut_off:
        yield cut_off


@LOST
@pytest.mark.parametrize("expecting", [False, True])
def test_a_change_of_a_task_is_made_and_audited_once(
    store: PostgresStore, cut_off: PostgresStore, proxy: Proxy, fault: Fault, expecting: bool
) -> None:
    id = submit_one(store)
    expect = version_of(task_of(store, id)) if expecting else None

    proxy.order(fault)
    changed = cut_off.update(id, Change(priority=5), expect=expect, entries=[DONE])

    assert proxy.struck.acquire(timeout=10)
    assert changed.priority == task_of(store, id).priority == 5
    assert len(store.audit()) == 1


@LOST
@pytest.mark.parametrize("expect", [None, PLAIN], ids=["whatever it is", "as expected"])
def test_a_setting_of_a_queue_is_made_and_audited_once(
    store: PostgresStore, cut_off: PostgresStore, proxy: Proxy, fault: Fault, expect: Queue | None
) -> None:
    proxy.order(fault)
    cut_off.configure(HEAVY, expect=expect, entries=[DONE])

    assert proxy.struck.acquire(timeout=10)
    assert store.queues() == [HEAVY]
    assert len(store.audit()) == 1


@LOST
def test_a_cancel_is_audited_once(store: PostgresStore, cut_off: PostgresStore, proxy: Proxy, fault: Fault) -> None:
    id = submit_one(store)

    proxy.order(fault)
    cut_off.cancel([id], reason="enough", entries=[DONE])

    assert proxy.struck.acquire(timeout=10)
    assert task_of(store, id).reason == "enough"
    assert len(store.audit()) == 1


@LOST
@pytest.mark.parametrize("key", [None, "once"])
def test_a_submit_and_a_publish_are_audited_once(
    store: PostgresStore, cut_off: PostgresStore, proxy: Proxy, fault: Fault, key: str | None
) -> None:
    proxy.order(fault)
    [receipt] = cut_off.submit([NewTask(handler="work", key=key)], entries=[DONE])
    assert proxy.struck.acquire(timeout=10)
    proxy.order(fault)
    cut_off.publish(Manifest(handlers=(HandlerInfo(name="work"),)), entries=[DONE])
    assert proxy.struck.acquire(timeout=10)

    assert [task.id for task in store.find(Filter()).tasks] == [receipt.id]
    assert len(store.audit()) == 2


def test_the_outcome_is_unknown_if_the_task_was_changed_since(
    shared_url: str, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = submit_one(store)
    expect = version_of(task_of(store, id))
    with opened(shared_url) as other:
        lose_first_answer(store, monkeypatch, lambda: other.update(id, Change(priority=7)))

        with pytest.raises(CommitUnknown, match="it has been changed since"):
            store.update(id, Change(priority=5), expect=expect, entries=[DONE])

        assert task_of(other, id).priority == 7
        assert len(other.audit()) == 1


def test_the_outcome_is_unknown_if_the_queue_was_set_since(
    shared_url: str, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(shared_url) as other:
        lose_first_answer(store, monkeypatch, lambda: other.configure(Queue(name="mail", weight=7)))

        with pytest.raises(CommitUnknown, match="it has been changed since"):
            store.configure(HEAVY, expect=PLAIN)

        assert other.queues() == [Queue(name="mail", weight=7)]


def test_a_refusal_is_no_lost_answer(store: PostgresStore) -> None:
    id = submit_one(store)
    expect = version_of(task_of(store, id))
    store.update(id, Change(priority=5))

    with pytest.raises(Conflict):
        store.update(id, Change(priority=5), expect=expect)
