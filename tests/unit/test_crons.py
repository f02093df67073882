from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from windlass.clock import ManualClock
from windlass.core.manifest import CronInfo, HandlerInfo, Manifest
from windlass.core.ordering import Queue
from windlass.core.schedule import find_missed
from windlass.core.task import NewTask
from windlass.core.times import micros, to_datetime, to_instant
from windlass.events import Event, Events, StoreCallFailed
from windlass.stores.memory import MemoryStore
from windlass.stores.protocol import Filter
from windlass.worker.crons import MAX_MISSED, Crons, apply_misfire

NOON = to_instant(datetime(2026, 11, 16, 12, 0, tzinfo=UTC))
MINUTE = micros(timedelta(minutes=1))
HOUR = 60 * MINUTE


def a_cron(schedule: str = "* * * * *", **changes: object) -> CronInfo:
    return CronInfo(**{"name": "tick", "handler": "work", "schedule": schedule, **changes})  # type: ignore[arg-type]


def times(cron: CronInfo, after: datetime, until: datetime) -> list[str]:
    found = find_missed(cron, to_instant(after), to_instant(until), 1_000)
    return [f"{to_datetime(moment).astimezone(UTC):%m-%d %H:%M}" for moment in found]


def test_times_are_later_than_the_last_and_not_later_than_now() -> None:
    found = find_missed(a_cron(), NOON, NOON + 3 * MINUTE, 10)

    assert found == [NOON + MINUTE, NOON + 2 * MINUTE, NOON + 3 * MINUTE]


def test_a_time_that_does_not_exist_in_spring_still_fires_once() -> None:
    cron = a_cron("30 2 * * *", timezone="Europe/Berlin")

    found = times(cron, datetime(2026, 3, 28, 12, tzinfo=UTC), datetime(2026, 3, 30, 12, tzinfo=UTC))

    assert found == ["03-29 01:00", "03-30 00:30"]


def test_a_time_that_occurs_twice_in_autumn_fires_once() -> None:
    cron = a_cron("30 2 * * *", timezone="Europe/Berlin")

    found = times(cron, datetime(2026, 10, 24, 12, tzinfo=UTC), datetime(2026, 10, 26, 12, tzinfo=UTC))

    assert found == ["10-25 00:30", "10-26 01:30"]


@pytest.mark.parametrize(("misfire", "runs"), [("last", [True]), ("all", [True, True, True]), ("skip", [False])])
def test_the_misfire_policy_decides_about_missed_times(misfire: str, runs: list[bool]) -> None:
    due = [NOON - 3 * HOUR, NOON - 2 * HOUR, NOON - HOUR]

    found = apply_misfire(misfire, due, NOON)

    assert [run for _, run in found] == runs
    assert found[-1][0] == NOON - HOUR, "the latest time is recorded in any case"


def test_a_punctual_time_runs_under_every_policy_and_replaces_the_last_missed_one() -> None:
    due = [NOON - HOUR, NOON]

    assert [apply_misfire(misfire, due, NOON) for misfire in ("last", "skip")] == [[(NOON, True)], [(NOON, True)]]


def fire(crons: Crons) -> int:
    """Fire what is due by the clock of the store."""
    return crons.fire(crons._store.crons_to_fire(crons.handlers))


@pytest.mark.parametrize("off", [timedelta(hours=1), timedelta(hours=-1)], ids=["ahead", "behind"])
def test_a_node_whose_clock_is_wrong_fires_at_the_time_of_the_store(off: timedelta) -> None:
    clock = ManualClock(NOON)
    store = MemoryStore(clock=clock)
    handler = HandlerInfo(name="work")
    store.publish(Manifest(handlers=(handler,), crons=(a_cron(),)))
    crons = Crons(store, Events(), ManualClock(NOON + micros(off)))
    crons.handlers = {"work": handler}
    crons.wake.set()
    crons.step()

    clock.advance(timedelta(minutes=1))
    crons.wake.set()
    crons.step()

    [task] = store.find(Filter()).tasks
    assert task.key == f"cron:tick:{to_datetime(NOON + MINUTE).isoformat()}"


@pytest.mark.parametrize(("misfire", "fired"), [("last", 1), ("skip", 1), ("all", MAX_MISSED + 2)])
def test_the_policy_applies_after_a_long_pause(misfire: str, fired: int) -> None:
    clock = ManualClock(NOON)
    store = MemoryStore(clock=clock)
    handler = HandlerInfo(name="work")
    store.publish(Manifest(handlers=(handler,), crons=(a_cron(misfire=misfire),)))
    crons = Crons(store, Events(), clock)
    crons.handlers = {"work": handler}
    fire(crons)
    clock.advance(timedelta(days=7, seconds=30))

    submitted = fire(crons) + fire(crons)

    assert submitted <= fired
    assert submitted >= 1
    keys = {task.key for task in store.find(Filter(), limit=1_000).tasks}
    assert f"cron:tick:{to_datetime(NOON + 7 * 24 * HOUR).isoformat()}" in keys


def test_a_cron_whose_queue_is_full_does_not_block_others_and_is_tried_again() -> None:
    clock = ManualClock(NOON)
    store = MemoryStore(clock=clock)
    full, free = HandlerInfo(name="full", queue="full"), HandlerInfo(name="free")
    crons = (a_cron(name="a", handler="full"), a_cron(name="b", handler="free"))
    store.publish(Manifest(handlers=(full, free), crons=crons))
    store.configure(Queue(name="full", max_waiting=1))
    store.submit([NewTask(handler="full", queue="full")])
    events: list[Event] = []
    firing = Crons(store, Events(events.append), clock)
    firing.handlers = {"full": full, "free": free}
    fire(firing)
    clock.advance(timedelta(minutes=1))

    fired = fire(firing)
    store.configure(Queue(name="full", max_waiting=2))
    later = fire(firing)

    assert (fired, later) == (1, 1)
    assert [type(event) for event in events] == [StoreCallFailed]


def test_a_paused_cron_fires_nothing_until_it_is_resumed() -> None:
    clock = ManualClock(NOON)
    store = MemoryStore(clock=clock)
    handler = HandlerInfo(name="work")
    store.publish(Manifest(handlers=(handler,), crons=(a_cron(),)))
    crons = Crons(store, Events(), clock)
    crons.handlers = {"work": handler}
    fire(crons)

    store.pause_cron("tick", True, by="ops", why="maintenance")
    clock.advance(timedelta(minutes=1))
    paused = fire(crons)
    store.pause_cron("tick", False)
    clock.advance(timedelta(minutes=1))
    resumed = fire(crons)

    assert paused == 0
    assert resumed > 0


def test_a_cron_with_an_unknown_time_zone_does_not_block_others() -> None:
    clock = ManualClock(NOON)
    store = MemoryStore(clock=clock)
    handler = HandlerInfo(name="work")
    strange = a_cron(name="strange", timezone="Atlantis/Capital")
    store.publish(Manifest(handlers=(handler,), crons=(strange, a_cron())))
    events: list[Event] = []
    crons = Crons(store, Events(events.append), clock)
    crons.handlers = {"work": handler}
    fire(crons)
    clock.advance(timedelta(minutes=1))

    fired = fire(crons)

    assert fired == 1
    assert [type(event) for event in events] == [StoreCallFailed]
