"""Crons that are created, changed and removed at run time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.support.builders import a_task, all_tasks, at_once
from windlass.clock import ManualClock
from windlass.core.manifest import CronInfo, CronState, Manifest
from windlass.core.times import micros
from windlass.errors import Conflict, CronExists, InvalidTask, NotAllowed, UnknownCron
from windlass.stores.coordination import Entry
from windlass.stores.protocol import Store

HOUR = micros(timedelta(hours=1))
HOURLY = CronInfo(name="hourly", handler="work", schedule="every 1h", args='{"n":1}', queue="q", tenant="t", priority=3)


def create(store: Store, **changes: Any) -> CronState:
    return store.put_cron(replace(HOURLY, **changes), expect=0, entries=[an_entry("created")])


def an_entry(action: str) -> Entry:
    return Entry(subject="cron/hourly", action=action, text=action, by="ann")


def actions(store: Store) -> list[str]:
    return [entry.action for entry in store.audit("cron/hourly")][::-1]


def test_a_cron_of_run_time_is_stored_whole_and_fires_for_later_times(store: Store, clock: ManualClock) -> None:
    now = clock.now()
    created = create(store, start=now - 1, end=now + 5 * HOUR)
    paused = store.put_cron(replace(HOURLY, name="p"), expect=0, pause=("ann", "later"))

    first = now - 1 + HOUR
    info = replace(HOURLY, start=now - 1, end=now + 5 * HOUR)
    assert created == CronState(info=info, at_run_time=True, version=now, fired=now, due=first)
    assert store.crons() == [created, paused]
    assert store.crons("hourly") == [created]
    assert store.crons("none") == []
    assert (paused.paused, paused.paused_by, paused.paused_why) == (True, "ann", "later")
    assert actions(store) == ["created"]


def test_a_name_is_taken_once_and_a_change_needs_the_current_version(store: Store, clock: ManualClock) -> None:
    created = create(store)
    clock.advance(timedelta(seconds=1))
    other = replace(HOURLY, args='{"n":2}')

    changed = store.put_cron(other, expect=created.version, entries=[an_entry("changed")])

    assert changed == replace(created, info=other, version=clock.now())
    assert store.put_cron(other, expect=changed.version, entries=[an_entry("again")]) == changed
    for expect, error in ((0, CronExists), (created.version, Conflict)):
        with pytest.raises(error):
            store.put_cron(HOURLY, expect=expect, entries=[an_entry("refused")])
    with pytest.raises(UnknownCron):
        store.put_cron(replace(HOURLY, name="none"), expect=1)
    assert store.crons() == [changed]
    assert actions(store) == ["created", "changed"]


def test_a_pause_and_a_removal_may_name_the_version(store: Store) -> None:
    created = create(store)
    store.pause_cron("hourly", True, expect=created.version)

    with pytest.raises(Conflict):
        store.pause_cron("hourly", False, expect=created.version)
    with pytest.raises(Conflict):
        store.remove_cron("hourly", expect=created.version)

    [paused] = store.crons()
    assert (paused.paused, paused.version > created.version) == (True, True)
    store.remove_cron("hourly", expect=paused.version)
    assert store.crons() == []


def test_times_before_a_change_of_the_schedule_do_not_fire(store: Store, clock: ManualClock) -> None:
    created = create(store)
    clock.advance(timedelta(minutes=90))
    now = clock.now()

    other = store.put_cron(replace(HOURLY, priority=4), expect=created.version)
    moved = store.put_cron(replace(HOURLY, schedule="every 1s"), expect=other.version)

    assert (other.fired, other.due) == (created.fired, created.due)
    assert (moved.fired, moved.due) == (now, now - now % 1_000_000 + 1_000_000)


def test_a_cron_in_code_and_one_of_run_time_do_not_replace_each_other(store: Store) -> None:
    created = create(store)
    in_code = CronInfo(name="hourly", handler="other", schedule="0 * * * *")

    store.publish(Manifest(crons=(in_code, replace(in_code, name="code"))))

    found = {cron.info.name: cron for cron in store.crons()}
    assert found["hourly"] == created
    with pytest.raises(CronExists):
        store.put_cron(replace(HOURLY, name="code"), expect=0)
    with pytest.raises(NotAllowed, match="in the code"):
        store.put_cron(replace(HOURLY, name="code"), expect=found["code"].version)


def test_nodes_read_crons_in_code_and_those_of_run_time_that_are_due(store: Store, clock: ManualClock) -> None:
    create(store)
    store.put_cron(replace(HOURLY, name="paused"), expect=0, pause=("ann", ""))
    store.put_cron(replace(HOURLY, name="later", schedule="every 2d"), expect=0)
    store.put_cron(replace(HOURLY, name="other", handler="other"), expect=0)
    code = CronInfo(name="code", handler="work", schedule="0 * * * *")
    store.publish(Manifest(crons=(code, replace(code, name="foreign", handler="foreign"))))

    before = store.crons_to_fire(["work"])
    clock.advance(timedelta(hours=1))
    after = store.crons_to_fire(["work"])

    assert [cron.info.name for cron in before.crons] == ["code"]
    assert [cron.info.name for cron in after.crons] == ["code", "hourly"]
    assert (before.now, after.now) == (clock.now() - HOUR, clock.now())
    assert store.crons_to_fire([]).crons == []


def test_firing_moves_the_due_time_and_needs_the_version_that_the_node_read(store: Store, clock: ManualClock) -> None:
    created = create(store)
    at = created.due or 0
    clock.advance(timedelta(seconds=1))
    changed = store.put_cron(replace(HOURLY, args='{"n":2}'), expect=created.version)

    stale = store.fire("hourly", at, [a_task()], version=created.version, due=at + HOUR)
    fired = store.fire("hourly", at, [a_task()], version=changed.version, due=at + HOUR)

    assert (stale, len(fired or [])) == (None, 1)
    assert store.crons() == [replace(changed, fired=at, due=at + HOUR)]
    assert len(all_tasks(store)) == 1


def test_a_cron_that_is_created_again_has_no_version_of_the_removed_one(store: Store, clock: ManualClock) -> None:
    first = create(store)
    clock.advance(timedelta(microseconds=1))
    store.remove_cron("hourly")
    second = create(store)

    assert second.version > first.version
    assert store.fire("hourly", first.due or 0, [a_task()], version=first.version) is None
    assert all_tasks(store) == []


def test_of_many_who_create_one_cron_exactly_one_succeeds(store: Store) -> None:
    def attempt(n: int) -> bool:
        try:
            create(store, args=f'{{"n":{n}}}')
        except CronExists:
            return False
        return True

    assert sorted(at_once(6, attempt)) == [False] * 5 + [True]
    assert actions(store) == ["created"]


def test_a_cron_that_is_removed_while_nodes_fire_does_not_fire_afterwards(store: Store) -> None:
    created = create(store)
    times = [(created.due or 0) + n * HOUR for n in range(30)]

    def act(n: int) -> int:
        if n == 0:
            store.remove_cron("hourly")
            return len(all_tasks(store))
        try:
            for at in times:
                store.fire("hourly", at, [a_task()], version=created.version, due=at + HOUR)
        except UnknownCron:
            return 0
        return 0

    at_removal = at_once(4, act)[0]

    assert len(all_tasks(store)) == at_removal


@pytest.mark.parametrize(
    "changes",
    [
        {"schedule": "every 0s"},
        {"schedule": "every 1.5s"},
        {"schedule": "every day"},
        {"schedule": "@often"},
        {"schedule": "* * *"},
        {"timezone": "Atlantis/Capital"},
        {"misfire": "maybe"},
        {"args": "[1]"},
        {"queue": "a queue"},
        {"tenant": ""},
        {"priority": 10**9},
        {"start": 2, "end": 1},
        {"start": -1},
        {"schedule": "0 0 1 1 *", "start": 10 * HOUR, "end": 11 * HOUR},
        {"name": ""},
        {"handler": "a handler"},
    ],
)
def test_a_cron_that_cannot_fire_is_refused(store: Store, changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidTask):
        create(store, **changes)

    assert store.crons() == []
