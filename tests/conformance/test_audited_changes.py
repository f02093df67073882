"""Changes by people write their audit entries in the same transaction, and only if something changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from uuid import uuid4

import pytest
from msgspec import Struct
from msgspec.structs import replace

from tests.support.builders import GAVE_UP, a_task, all_tasks, at_once, in_state, run, submit, submit_one, task_of
from tests.support.stores import Home
from windlass.clock import ManualClock
from windlass.core.ids import fresh_id
from windlass.core.lifecycle import State
from windlass.core.manifest import CronInfo, HandlerInfo, Manifest
from windlass.core.ordering import Queue, Strategy
from windlass.core.task import Change, TaskId
from windlass.errors import InvalidTask, NotAllowed, UnknownCron, UnknownPrerequisite, UnknownTask, WindlassError
from windlass.stores.coordination import Entry
from windlass.stores.protocol import Filter, Store
from windlass.stores.sql.audited_change import AuditedChange

DONE = Entry(subject="task/1", action="did", text="did it: because", by="ann", data='{"n":1}')
ENTRIES = [DONE, Entry(subject="queue/mail", action="also", text="and this")]
BROKEN = [DONE, Entry(subject="", action="did", text="")]
DAILY = CronInfo(name="daily", handler="report", schedule="0 6 * * *")
SEND = HandlerInfo(name="send", doc="Sends.")
OWN_ID = fresh_id(0, 1)
MANY = 1_200
"""More than one pass takes."""


class Verb(Struct, frozen=True, kw_only=True):
    """One verb: what must be there, how it is called, and a call that is refused."""

    name: str
    prepare: Callable[[Store], object]
    act: Callable[[Store, Sequence[Entry]], object]
    refused: tuple[type[WindlassError], Callable[[Store, Sequence[Entry]], object]] | None = None


def the_task(store: Store) -> TaskId:
    return all_tasks(store)[0].id


VERBS = [
    Verb(
        name="cancel",
        prepare=submit_one,
        act=lambda store, entries: store.cancel(Filter(), reason="enough", entries=entries),
        refused=(InvalidTask, lambda store, entries: store.cancel(Filter(), reason="", entries=entries)),
    ),
    Verb(
        name="cancel what runs",
        prepare=lambda store: in_state(store, State.LEASED),
        act=lambda store, entries: store.cancel([the_task(store)], reason="enough", entries=entries),
    ),
    Verb(
        name="update",
        prepare=submit_one,
        act=lambda store, entries: store.update(the_task(store), Change(priority=3), entries=entries),
        refused=(
            InvalidTask,
            lambda store, entries: store.update(the_task(store), Change(priority=10**9), entries=entries),
        ),
    ),
    Verb(
        name="update what has ended",
        prepare=submit_one,
        act=lambda store, entries: store.update(the_task(store), Change(deadline=None, priority=1), entries=entries),
        refused=(
            NotAllowed,
            lambda store, entries: (
                store.cancel(Filter(), reason="enough"),
                store.update(the_task(store), Change(priority=1), entries=entries),
            ),
        ),
    ),
    Verb(
        name="retry",
        prepare=lambda store: in_state(store, State.FAILED),
        act=lambda store, entries: store.retry(Filter(), entries=entries),
    ),
    Verb(
        name="purge",
        prepare=lambda store: in_state(store, State.FAILED),
        act=lambda store, entries: store.purge([the_task(store)] if all_tasks(store) else [], entries=entries),
    ),
    Verb(
        name="configure",
        prepare=lambda store: None,
        act=lambda store, entries: store.configure(Queue(name="mail", weight=2), entries=entries),
        refused=(
            InvalidTask,
            lambda store, entries: store.configure(Queue(name="mail", weight=0), entries=entries),
        ),
    ),
    Verb(
        name="open a workflow",
        prepare=lambda store: None,
        act=lambda store, entries: store.open_workflow("w", sealed=False, entries=entries),
        refused=(InvalidTask, lambda store, entries: store.open_workflow("", entries=entries)),
    ),
    Verb(
        name="seal a workflow",
        prepare=lambda store: store.open_workflow("w", sealed=False),
        act=lambda store, entries: store.seal_workflow("w", entries=entries),
        refused=(UnknownTask, lambda store, entries: store.seal_workflow("nobody", entries=entries)),
    ),
    Verb(
        name="submit",
        prepare=lambda store: None,
        act=lambda store, entries: store.submit([a_task(key="once")], entries=entries),
        refused=(
            UnknownPrerequisite,
            lambda store, entries: store.submit([a_task(), a_task(prerequisites=[uuid4()])], entries=entries),
        ),
    ),
    Verb(
        name="submit with a caller's id",
        prepare=lambda store: None,
        act=lambda store, entries: store.submit([a_task(id=OWN_ID)], entries=entries),
    ),
    Verb(
        name="publish a handler",
        prepare=lambda store: None,
        act=lambda store, entries: store.publish(Manifest(handlers=(SEND,)), entries=entries),
    ),
    Verb(
        name="publish a handler that differs",
        prepare=lambda store: store.publish(Manifest(handlers=(replace(SEND, doc="Older."),))),
        act=lambda store, entries: store.publish(Manifest(handlers=(SEND,)), entries=entries),
    ),
    Verb(
        name="publish a cron that differs",
        prepare=lambda store: store.publish(Manifest(crons=(replace(DAILY, args='{"a":1}'),))),
        act=lambda store, entries: store.publish(Manifest(handlers=(), crons=(DAILY,)), entries=entries),
    ),
    Verb(
        name="pause a cron",
        prepare=lambda store: store.publish(Manifest(crons=(DAILY,))),
        act=lambda store, entries: store.pause_cron("daily", True, by="ann", why="\0", entries=entries),
        refused=(UnknownCron, lambda store, entries: store.pause_cron("nobody", True, entries=entries)),
    ),
]
REFUSED = [verb for verb in VERBS if verb.refused is not None]


def entries_of(store: Store) -> list[Entry]:
    """The audit log, oldest first."""
    return [
        Entry(subject=entry.subject, action=entry.action, text=entry.text, by=entry.by, data=entry.data)
        for entry in reversed(store.audit())
    ]


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_a_change_is_audited_with_its_time_and_its_entries(store: Store, clock: ManualClock, verb: Verb) -> None:
    verb.prepare(store)

    verb.act(store, ENTRIES)

    assert entries_of(store) == ENTRIES
    assert {entry.at for entry in store.audit()} == {clock.now()}


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_a_call_that_changes_nothing_is_not_audited(store: Store, verb: Verb) -> None:
    verb.prepare(store)
    verb.act(store, ())

    verb.act(store, ENTRIES)

    assert store.audit() == []


@pytest.mark.parametrize("verb", REFUSED, ids=lambda verb: verb.name)
def test_an_act_that_is_refused_leaves_no_entry(store: Store, verb: Verb) -> None:
    assert verb.refused is not None
    error, act = verb.refused
    verb.prepare(store)

    with pytest.raises(error):
        act(store, ENTRIES)

    assert store.audit() == []


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_an_act_whose_entry_cannot_be_written_does_not_happen(store: Store, verb: Verb) -> None:
    verb.prepare(store)

    with pytest.raises(InvalidTask, match="subject="):
        verb.act(store, BROKEN)

    assert store.audit() == []
    verb.act(store, ENTRIES)
    assert entries_of(store) == ENTRIES


def test_a_submit_that_creates_only_some_of_its_tasks_writes_its_entries(store: Store) -> None:
    submit(store, a_task(key="known"))

    receipts = store.submit([a_task(key="known"), a_task(key="new")], entries=ENTRIES)

    assert [receipt.created for receipt in receipts] == [False, True]
    assert entries_of(store) == ENTRIES


def test_publishing_the_same_again_writes_no_entry_but_the_time(store: Store, clock: ManualClock) -> None:
    store.publish(Manifest(handlers=(SEND,), crons=(DAILY,)))
    clock.advance(timedelta(seconds=1))

    store.publish(Manifest(handlers=(SEND,), crons=(DAILY,)), entries=ENTRIES)

    assert store.audit() == []
    assert [handler.seen for handler in store.handlers()] == [clock.now()]


def test_a_change_in_several_transactions_is_audited_once(store: Store) -> None:
    submit(store, *[a_task() for _ in range(MANY)])

    assert store.cancel(Filter(), reason="enough", entries=[DONE]) == MANY
    assert entries_of(store) == [DONE]
    assert store.retry(Filter(), entries=[DONE]) == MANY
    assert entries_of(store) == [DONE] * 2
    store.cancel(Filter(), reason="enough")
    assert store.purge(Filter(), entries=[DONE]) == MANY
    assert entries_of(store) == [DONE] * 3


def test_a_change_whose_first_transaction_does_nothing_is_audited_with_a_later_one(store: Store) -> None:
    ids = submit(store, *[a_task() for _ in range(MANY)])
    store.cancel(ids[:-1], reason="before")

    assert store.cancel(ids, reason="enough", entries=[DONE]) == 1

    assert entries_of(store) == [DONE]


def test_every_raise_of_the_epoch_is_audited(store: Store) -> None:
    first = store.raise_epoch(entries=ENTRIES)
    with pytest.raises(InvalidTask, match="subject="):
        store.raise_epoch(entries=BROKEN)
    second = store.raise_epoch(entries=[DONE])

    assert second == first + 1
    assert entries_of(store) == [*ENTRIES, DONE]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"], indirect=True)
def test_the_epoch_is_raised_and_audited_in_one_transaction(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_given: object) -> None:
        raise RuntimeError("the log is full")

    before = store.raise_epoch()
    with monkeypatch.context() as patch:
        patch.setattr(AuditedChange, "note", fail)
        with pytest.raises(RuntimeError, match="the log is full"):
            store.raise_epoch(entries=[DONE])

    assert store.raise_epoch() == before + 1


def test_a_pause_is_audited_again_when_its_reason_changes(store: Store) -> None:
    store.publish(Manifest(crons=(DAILY,)))

    for why in ("first", "second", "second"):
        store.pause_cron("daily", True, by="ann", why=why, entries=[DONE])
    store.pause_cron("daily", False, entries=[DONE])
    store.pause_cron("daily", False, entries=[DONE])

    assert entries_of(store) == [DONE] * 3


def test_ending_open_references_is_audited_when_the_workflow_was_sealed_before(store: Store) -> None:
    store.open_workflow("w", forward=timedelta(hours=1))
    submit(store, a_task(workflow="w", key="a", prerequisites=["ahead"]))

    with pytest.raises(NotAllowed):
        store.seal_workflow("w", entries=ENTRIES)
    assert store.audit() == []
    store.seal_workflow("w", missing=True, entries=[DONE])

    assert entries_of(store) == [DONE]


def test_a_due_time_that_changes_only_the_place_is_audited(store: Store, clock: ManualClock) -> None:
    id = submit_one(store)
    clock.advance(timedelta(seconds=5))
    store.cancel([id], reason="enough")
    store.retry([id])  # Due from now on, in its old place.

    store.update(id, Change(at=timedelta(0)), entries=[DONE])

    assert entries_of(store) == [DONE]


def test_of_concurrent_identical_changes_one_is_audited(home: Home, clock: ManualClock) -> None:
    stores = [home.open(clock) for _ in range(4)]
    submit_one(stores[0])
    run(stores[0], GAVE_UP)

    assert sorted(at_once(4, lambda n: stores[n].retry(Filter(), entries=[DONE]))) == [0, 0, 0, 1]
    at_once(4, lambda n: stores[n].configure(Queue(name="mail", weight=5), entries=[DONE]))
    at_once(4, lambda n: stores[n].submit([a_task(key="once")], entries=[DONE]))
    at_once(4, lambda n: stores[n].publish(Manifest(handlers=(SEND,), crons=(DAILY,)), entries=[DONE]))

    assert entries_of(stores[0]) == [DONE] * 4


def test_a_pause_leaves_every_task_in_its_place_and_another_strategy_does_not(store: Store) -> None:
    low, high = submit(store, a_task(priority=1), a_task(priority=2))
    store.configure(Queue(name="default", paused=True), entries=[DONE])
    assert [store.ahead(id) for id in (low, high)] == [1, 0]

    store.configure(Queue(name="default", strategy=Strategy.FIFO), entries=[DONE])

    assert [store.ahead(id) for id in (low, high)] == [0, 1]
    assert task_of(store, low).priority == 1
    assert entries_of(store) == [DONE] * 2
