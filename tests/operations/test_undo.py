"""An audit entry can be undone as long as nobody has changed since what it changed. Others say why they cannot."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from msgspec.structs import replace

from tests.operations.test_audited_actions import ACTIONS, KINDS, with_things
from tests.support.builders import a_session, a_task, after, complete, in_state, states_of, submit, submit_one, task_of
from windlass.core.breaker import BreakerState, decode, record
from windlass.core.lifecycle import State
from windlass.core.limits import Limit
from windlass.core.ordering import Strategy
from windlass.core.task import Change, TaskId
from windlass.errors import NotAllowed, StoreUnavailable, UnknownEntry
from windlass.operations import breakers, crons, limits, pools, queues, tasks, tenants, undo
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.bulk import MOST_RESTORED, BulkAction, Verb
from windlass.operations.caller import Caller, Scope
from windlass.stores.coordination import MAX_DATA, EntrySeen
from windlass.stores.memory import MemoryStore
from windlass.stores.protocol import Filter, Page, Store
from windlass.stores.sqlite import SQLiteStore

ANN, BOB = Author("ann", "because"), Author("bob")

NOT_UNDOABLE = {
    "tasks.retry",
    "tasks.edit_and_retry",
    "bulk retry",
    "bulk purge",
    "events.set_event",
    "crons.run",
    "crons.remove",
    "dead_letters.retry",
    "dead_letters.drop",
    "dead_letters.edit",
    "canary.run_canary",
    "nodes.drain",
    "nodes.stop",
    "tokens.create",
    "tokens.revoke",
    "workflows.open_unsealed",
    "workflows.seal",
    "workflows.retry",
    "manifest.publish",
}
"""The actions that cannot be undone. All others are undone below."""


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    store: Store = MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "tasks.db")
    with_things(store)
    yield store
    store.close()


@pytest.fixture
def access(store: Store) -> Access:
    return Access(store)


def newest(store: Store) -> EntrySeen:
    return store.audit(limit=1)[0]


def settings(store: Store) -> list[object]:
    """Return what actions change, without the versions, which always grow."""
    crons = [(cron.info, cron.paused, cron.paused_by, cron.paused_why) for cron in store.crons()]
    controls = {(kind, each.name): json.loads(each.value) for kind in KINDS for each in store.controls(kind)}
    queues = [queue for queue in store.queues() if queue != type(queue)(name=queue.name)]
    found = [(task.id, task.state, task.priority, task.due, task.deadline) for task in store.find(Filter()).tasks]
    return [queues, crons, {name: value for name, value in controls.items() if value}, found]


@pytest.mark.parametrize("name", ACTIONS)
def test_every_action_is_undone_or_says_why_not(store: Store, access: Access, name: str) -> None:
    prepare, run, _ = ACTIONS[name]
    prepared = prepare(store)
    before = settings(store)
    run(access, prepared)
    entry, after = newest(store), settings(store)

    if name in NOT_UNDOABLE:
        with pytest.raises(NotAllowed, match=f"Entry {entry.number} .* cannot be undone"):
            undo.undo(access, entry.number, BOB)
        assert settings(store) == after
        return
    undone = undo.undo(access, entry.number, BOB)

    assert undone.number == entry.number
    assert settings(store) == before != after
    assert (newest(store).subject, newest(store).action, newest(store).by) == (entry.subject, "undone", "bob")
    assert newest(store).text.startswith(f"undid #{entry.number} (")


@pytest.mark.parametrize("name", sorted(ACTIONS.keys() - NOT_UNDOABLE))
def test_an_entry_is_undone_once_and_the_undo_can_be_undone(store: Store, access: Access, name: str) -> None:
    prepare, run, _ = ACTIONS[name]
    run(access, prepare(store))
    entry, after = newest(store), settings(store)
    undo.undo(access, entry.number, BOB)
    done, restored = newest(store), settings(store)

    with pytest.raises(NotAllowed, match=rf"Entry {entry.number} was already undone by bob \(#{done.number}\)"):
        undo.undo(access, entry.number, ANN)
    assert settings(store) == restored

    if name in ("crons.create", "tasks.cancel", "bulk cancel"):  # A removed cron has lost its arguments.
        with pytest.raises(NotAllowed, match="cannot be undone"):
            undo.undo(access, done.number, ANN)
        return
    undo.undo(access, done.number, ANN)
    assert settings(store) == after
    with pytest.raises(NotAllowed, match="already undone by bob"):
        undo.undo(access, entry.number, ANN)


def test_who_has_changed_it_since_is_named(store: Store, access: Access) -> None:
    queues.pause(access, "mail", ANN, create=True)
    entry = newest(store)
    queues.resume(access, "mail", BOB)
    after = settings(store)

    with pytest.raises(NotAllowed) as refused:
        undo.undo(access, entry.number, ANN)

    number = newest(store).number
    assert str(refused.value) == (
        f"Entry {entry.number} cannot be undone: bob has changed queue/mail since (#{number}: resumed queue mail). "
        f"Undo #{number} first."
    )
    assert settings(store) == after


def test_other_settings_may_have_changed_since(store: Store, access: Access) -> None:
    queues.change(access, "mail", {"weight": 3, "strategy": Strategy.FIFO}, ANN, create=True)
    entry = newest(store)
    queues.change(access, "mail", {"horizon": timedelta(hours=2)}, BOB)

    undo.undo(access, entry.number, ANN)

    [queue] = store.queues()
    assert (queue.weight, queue.strategy, queue.horizon) == (1, Strategy.PRIORITY, timedelta(hours=2))


def test_a_second_change_to_the_same_value_does_not_allow_a_second_undo(store: Store, access: Access) -> None:
    queues.pause(access, "mail", ANN, create=True)
    entry = newest(store)
    undo.undo(access, entry.number, ANN)
    queues.pause(access, "mail", ANN)

    with pytest.raises(NotAllowed, match="already undone"):
        undo.undo(access, entry.number, ANN)


def test_the_old_reason_author_and_end_come_back(store: Store, access: Access) -> None:
    tenants.pause(access, "acme", Author("ops", "nightly import"), lasts="2h", create=True)
    before = tenants.get(access, "acme").settings
    tenants.resume(access, "acme", BOB)

    undo.undo(access, newest(store).number, ANN)

    assert tenants.get(access, "acme").settings == before


def test_an_override_of_a_pool_that_replaced_another_gives_way_to_it(store: Store, access: Access) -> None:
    pools.set_size(access, "mail", 3, author=Author("ops", "sale"), lasts="2h")
    first = pools.get(access, "mail").override
    pools.set_size(access, "mail", 9, author=BOB)

    undo.undo(access, newest(store).number, ANN)

    assert pools.get(access, "mail").override == first


def test_a_breaker_that_has_opened_by_itself_since_stays_open(store: Store, access: Access) -> None:
    breakers.hold(access, "bank", BreakerState.OPEN, author=ANN, create=True)
    breakers.close(access, "bank", author=ANN)
    entry = newest(store)
    [control] = store.controls("breaker")
    opened = record(decode(control.value), access.now, attempts=50, errors=50)
    store.put_control("breaker", "bank", breakers.rules.encode(opened), expect=control.version)

    with pytest.raises(NotAllowed, match="breaker/bank has changed since"):
        undo.undo(access, entry.number, ANN)


def test_a_due_time_goes_back_to_what_it_was(store: Store, access: Access) -> None:
    id = submit_one(store, at=timedelta(hours=3), deadline=timedelta(hours=4))
    before = task_of(store, id)
    tasks.change(access, id, Change(at=None, deadline=None), ANN)
    assert task_of(store, id).state is State.RUNNABLE

    undo.undo(access, newest(store).number, ANN)

    after = task_of(store, id)
    assert (after.state, after.due, after.deadline) == (State.SCHEDULED, before.due, before.deadline)


def test_a_change_of_a_task_that_has_ended_stays(store: Store, access: Access) -> None:
    id = submit_one(store)
    tasks.change(access, id, Change(priority=4), ANN)
    entry = newest(store)
    store.cancel([id], reason="no")

    with pytest.raises(NotAllowed, match="only an unfinished task can be changed"):
        undo.undo(access, entry.number, ANN)


def test_a_change_of_the_arguments_of_a_cron_is_not_kept(store: Store, access: Access) -> None:
    crons.create(access, crons.NewCron(name="new", handler="work", schedule="every 1h"), ANN)
    crons.change(access, "new", {"args": {"n": 2}}, ANN)

    with pytest.raises(NotAllowed, match="does not keep arguments"):
        undo.undo(access, newest(store).number, ANN)


def test_the_creation_of_a_cron_is_not_undone_once_its_arguments_were_changed(store: Store, access: Access) -> None:
    """The new arguments are stored nowhere else."""
    crons.create(access, crons.NewCron(name="new", handler="work", schedule="every 1h", args={"n": 7_301}), ANN)
    entry = newest(store)
    assert "7301" not in entry.data
    crons.change(access, "new", {"args": {"n": 2}}, BOB)

    with pytest.raises(NotAllowed, match="cron/new has changed since"):
        undo.undo(access, entry.number, ANN)
    assert [json.loads(cron.info.args) for cron in store.crons("new")] == [{"n": 2}]

    crons.change(access, "new", {"args": {"n": 7_301}}, BOB)
    undo.undo(Access(store), entry.number, ANN)
    assert store.crons("new") == []


@pytest.mark.parametrize("name", ["daily", "new"])
def test_a_pause_by_another_person_for_another_reason_is_undone(store: Store, access: Access, name: str) -> None:
    crons.create(access, crons.NewCron(name="new", handler="work", schedule="every 1h"), ANN)
    crons.pause(access, name, Author("ops", "an import"))
    before = settings(store)
    crons.pause(access, name, BOB)
    assert settings(store) != before

    undo.undo(access, newest(store).number, ANN)

    assert settings(store) == before


def test_cancelled_tasks_go_back_to_where_they_were_with_their_dependents(store: Store, access: Access) -> None:
    first, later, then = submit(
        store, a_task(key="first"), a_task(key="later", at=timedelta(hours=2)), after("then", "first")
    )
    before = [task_of(store, id) for id in (first, later, then)]
    action = BulkAction(access, Verb.CANCEL, [first, later], ANN)
    assert action.count() == 2
    action.run()
    assert states_of(store, [first, later, then]) == [State.CANCELLED] * 3

    undo.undo(access, newest(store).number, BOB)

    assert [task_of(store, id) for id in (first, later, then)] == [replace(task, generation=1) for task in before]


def test_only_tasks_that_are_still_cancelled_for_its_reason_come_back(store: Store, access: Access) -> None:
    one, other, third = (submit_one(store) for _ in range(3))
    action = BulkAction(access, Verb.CANCEL, Filter(handler="work"), ANN)
    assert action.count() == 3
    action.run()
    entry = newest(store)
    store.retry([other])
    store.retry([third])
    store.cancel([third], reason="another")

    undo.undo(access, entry.number, BOB)

    assert states_of(store, [one, other, third]) == [State.RUNNABLE, State.RUNNABLE, State.CANCELLED]
    assert task_of(store, other).generation == 1, "it was retried, and stays as it is"


def test_two_cancels_do_not_stand_in_the_way_of_each_other(store: Store, access: Access) -> None:
    ids = [submit_one(store, queue=queue) for queue in ("mail", "mail", "bulk", "bulk")]
    numbers = list[int]()
    for queue in ("mail", "bulk"):
        action = BulkAction(access, Verb.CANCEL, Filter(queue=queue), ANN)
        assert action.count() == 2
        action.run()
        numbers.append(newest(store).number)

    assert undo.find_undoable(store.audit(limit=2)) == set(numbers)
    undo.undo(access, numbers[0], BOB)
    assert states_of(store, ids) == [State.RUNNABLE] * 2 + [State.CANCELLED] * 2


def test_a_cancel_of_a_running_task_is_not_undone(store: Store, access: Access) -> None:
    id = in_state(store, State.LEASED)
    tasks.cancel(access, id, ANN)

    with pytest.raises(NotAllowed, match="Its tasks had started"):
        undo.undo(access, newest(store).number, ANN)


def test_a_task_that_was_claimed_just_before_its_cancel_is_not_restored(
    store: Store, access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would run a second time from its beginning, even if it may be attempted only once."""
    cancel, numbers = store.cancel, list[int]()

    def claim_first(*args: Any, **given: Any) -> int:
        [claim, *_] = store.claim(a_session(store), ["mail"], limit=1)
        done = cancel(*args, **given)
        complete(store, claim)
        return done

    monkeypatch.setattr(store, "cancel", claim_first)
    one = submit_one(store, queue="mail", at_most_once=True)
    tasks.cancel(access, one, ANN)
    numbers.append(newest(store).number)
    two, three = (submit_one(store, queue="mail", at_most_once=True) for _ in range(2))
    action = BulkAction(access, Verb.CANCEL, [two, three], ANN)
    assert action.count() == 2
    action.run()
    numbers.append(newest(store).number)
    assert states_of(store, [one, two, three]) == [State.CANCELLED] * 3

    with pytest.raises(NotAllowed, match="had started when they were cancelled"):
        undo.undo(access, numbers[0], BOB)
    undo.undo(access, numbers[1], BOB)

    assert states_of(store, [one, two, three]) == [State.CANCELLED, State.CANCELLED, State.RUNNABLE]


def test_a_part_that_a_limited_caller_undoes_leaves_the_rest_to_others(store: Store, access: Access) -> None:
    acme, beta = (submit_one(store, tenant=tenant) for tenant in ("acme", "beta"))
    action = BulkAction(access, Verb.CANCEL, [acme, beta], ANN)
    assert action.count() == 2
    action.run()
    number = newest(store).number

    part = undo.undo(of_tenant(store, "acme"), number, Author("acme-token"))

    assert states_of(store, [acme, beta]) == [State.RUNNABLE, State.CANCELLED]
    assert (part.number, part.text, part.by, part.data) == (number, "restored 1 task", "", "")
    assert newest(store).text.startswith(f"undid a part of #{number} (")
    with pytest.raises(UnknownEntry):
        undo.undo(of_tenant(store, "acme"), number, Author("acme-token"))
    undo.undo(access, number, BOB)
    assert states_of(store, [acme, beta]) == [State.RUNNABLE, State.RUNNABLE]
    with pytest.raises(NotAllowed, match="already undone by bob"):
        undo.undo(access, number, BOB)


def test_a_limited_caller_who_undoes_every_task_of_an_entry_undoes_the_entry(store: Store, access: Access) -> None:
    for limited in (of_tenant(store, "acme"), of_queue(store, "mail")):
        cancel_two(access, "mail", "acme")
        number = newest(store).number
        undo.undo(limited, number, Author("team"))

        with pytest.raises(NotAllowed, match="already undone by team"):
            undo.undo(access, number, BOB)


def test_an_undo_without_the_dependents_leaves_the_entry_open(store: Store, access: Access) -> None:
    first, _, own = submit(
        store, a_task(key="first", queue="mail"), after("then", "first", queue="bulk"), a_task(queue="bulk")
    )
    action = BulkAction(access, Verb.CANCEL, [first, own], ANN)
    assert action.count() == 2
    action.run()
    number = newest(store).number
    undo.undo(of_queue(store, "mail"), number, Author("team"))

    undo.undo(access, number, BOB)

    assert states_of(store, [first, own]) == [State.RUNNABLE, State.RUNNABLE]


def test_a_bulk_cancel_reads_each_task_once_and_few_at_a_time(
    store: Store, access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(250):
        submit_one(store)
    action = BulkAction(access, Verb.CANCEL, Filter(handler="work"), ANN)
    total = action.count()
    find, read = store.find, list[int]()

    def count_and_find(*args: Any, **given: Any) -> Page:
        page = find(*args, **given)
        read.append(len(page.tasks))
        return page

    monkeypatch.setattr(store, "find", count_and_find)
    monkeypatch.setattr(store, "get", None)

    action.run()

    assert (max(read), sum(read)) == (100, total)


def test_a_cancel_of_very_many_tasks_is_not_undone(
    store: Store, access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.operations.bulk.MOST_RESTORED", 2)
    for _ in range(3):
        submit_one(store)
    action = BulkAction(access, Verb.CANCEL, Filter(handler="work"), ANN)
    assert action.count() == 3
    assert action.run() == 3

    with pytest.raises(NotAllowed, match="Retry them instead"):
        undo.undo(access, newest(store).number, ANN)


def test_the_ids_of_as_many_tasks_as_can_be_undone_fit_into_an_entry() -> None:
    entry = ANN.entry("tasks", "cancelled", "", undo=tasks.note_cancel("x" * 500, [TaskId(uuid4())] * MOST_RESTORED))

    assert len(entry.data) < MAX_DATA


def test_a_caller_limited_to_a_queue_brings_back_tasks_of_that_queue(store: Store, access: Access) -> None:
    first, then = submit(store, a_task(key="first", queue="mail"), after("then", "first", queue="bulk"))
    tasks.cancel(access, first, ANN)
    number = newest(store).number

    with pytest.raises(UnknownEntry):
        undo.undo(of_queue(store, "bulk"), number, BOB)
    undo.undo(of_queue(store, "mail"), number, BOB)

    assert states_of(store, [first, then]) == [State.RUNNABLE, State.CANCELLED]


def test_an_unknown_entry(access: Access) -> None:
    with pytest.raises(UnknownEntry, match="Unknown audit entry: 999"):
        undo.undo(access, 999, ANN)


def cancel_two(access: Access, queue: str, tenant: str) -> None:
    ids = [submit_one(access.store, queue=queue, tenant=tenant) for _ in range(2)]
    action = BulkAction(access, Verb.CANCEL, ids, ANN)
    assert action.count() == 2
    action.run()


def of_queue(store: Store, queue: str) -> Access:
    return Access(store, Caller(name="team", scopes=frozenset({Scope.OPERATE}), queue=queue))


def of_tenant(store: Store, tenant: str) -> Access:
    return Access(store, Caller(name="team", scopes=frozenset({Scope.OPERATE}), tenant=tenant))


def test_a_caller_undoes_only_what_it_could_have_done(store: Store, access: Access) -> None:
    def entry_of(_: object) -> int:
        return newest(store).number

    other = submit_one(store, queue="bulk", tenant="beta")
    own = submit_one(store, queue="mail", tenant="acme")
    hidden = {
        "queue": entry_of(queues.pause(access, "bulk", ANN)),
        "tenant": entry_of(tenants.pause(access, "beta", ANN)),
        "limit": entry_of(limits.put(access, Limit(queue="bulk", max_running=1), ANN)),
        "cron": entry_of(crons.pause(access, "daily", ANN)),
        "pool": entry_of(pools.pause(access, "mail", author=ANN)),
        "breaker": entry_of(breakers.hold(access, "bank", BreakerState.OPEN, author=ANN, create=True)),
        "task": entry_of(tasks.change(access, other, Change(priority=4), ANN)),
        "tasks": entry_of(cancel_two(access, "bulk", "beta")),
    }
    assert hidden.keys() == undo.KINDS.keys()
    before = settings(store)

    for number in hidden.values():
        for caller in (of_queue(store, "mail"), of_tenant(store, "acme")):
            with pytest.raises(UnknownEntry):
                undo.undo(caller, number, BOB)
    assert settings(store) == before

    limits.put(access, Limit(queue="mail", max_running=1), ANN)
    limited = newest(store).number
    tasks.change(access, own, Change(priority=4), ANN)
    changed = newest(store).number
    queues.pause(access, "mail", ANN)
    for number in (limited, changed, newest(store).number):
        undo.undo(of_queue(store, "mail"), number, BOB)


def test_a_cron_does_not_leave_the_queue_of_a_limited_caller(store: Store, access: Access) -> None:
    new = crons.NewCron(name="new", handler="work", schedule="every 1h", queue="bulk")
    crons.create(access, new, ANN)
    crons.change(access, "new", {"queue": "mail"}, ANN)
    entry = newest(store)
    team = Caller(name="team", scopes=frozenset({Scope.OPERATE, Scope.SUBMIT}), queue="mail")

    with pytest.raises(UnknownEntry):
        undo.undo(Access(store, team), entry.number, BOB)


def test_of_an_action_only_what_can_be_undone_now_is_offered(store: Store, access: Access) -> None:
    queues.pause(access, "mail", BOB, create=True)
    first, second = Author("ann"), Author("ann")
    queues.resume(access, "mail", first)
    resumed = newest(store).number
    crons.run(access, "daily", first)
    queues.change(access, "mail", {"weight": 2}, second)
    weighted = newest(store).number

    assert undo.find_new(access, first.action_id) == [resumed]
    assert undo.find_new(access, second.action_id) == [weighted], (
        "the other action of the same person is not offered with it"
    )
    undo.undo(access, resumed, ANN)
    assert undo.find_new(access, first.action_id) == []


def test_an_action_that_was_made_stays_made_if_its_hint_cannot_be_read(
    access: Access, store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    author = Author("ann")
    queues.pause(access, "mail", author, create=True)

    def fail(*_: Any, **__: Any) -> None:
        raise StoreUnavailable("gone")

    monkeypatch.setattr(store, "audit", fail)
    logger = logging.getLogger(undo.__name__)
    with caplog.at_level(logging.DEBUG, logger.name):
        logger.addHandler(caplog.handler)  # A command in the same process may have ended the propagation.
        assert undo.find_new(access, author.action_id) == []

        logger.removeHandler(caplog.handler)
    assert "cannot read what can be undone: gone" in caplog.text


def test_a_change_is_undone_in_one_transaction_with_its_entry(
    access: Access, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues.pause(access, "mail", ANN, create=True)
    entry = newest(store)

    def refuse(_: Any) -> None:
        raise AssertionError("the entry of an undo was written in a transaction of its own")

    monkeypatch.setattr(store, "note", refuse)
    undo.undo(access, entry.number, BOB)

    assert newest(store).action == "undone"
