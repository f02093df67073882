"""`app.schedules`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import windlass
from windlass.clock import ManualClock
from windlass.core.times import to_instant
from windlass.errors import Conflict, CronExists, InvalidTask, UnknownCron
from windlass.events import Events
from windlass.stores.memory import MemoryStore
from windlass.stores.protocol import Filter
from windlass.worker.crons import Crons

NOON = datetime(2026, 11, 16, 12, 0, 0, 500_000, tzinfo=UTC)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(to_instant(NOON))


@pytest.fixture
def store(clock: ManualClock) -> MemoryStore:
    return MemoryStore(clock=clock)


@pytest.fixture
def app(store: MemoryStore) -> windlass.App:
    app = windlass.App(store=store)

    @app.task(name="report", queue="reports", priority=2)
    def report(day: datetime, copies: int = 1) -> None: ...

    return app


def a_node(app: windlass.App, clock: ManualClock, store: MemoryStore) -> Crons:
    node = Crons(store, Events(), clock)
    node.handlers = {handler.name: handler for handler in app.manifest().handlers}
    node.names = frozenset()
    return node


def fire(node: Crons) -> int:
    return node.fire(node._store.crons_to_fire(node.handlers))


def test_a_schedule_is_created_changed_paused_and_deleted(app: windlass.App, store: MemoryStore) -> None:
    report = app.handlers["report"]

    created = app.schedules.create("r", "every 1h", report, args={"day": NOON}, start=NOON, by="ann", why="asked")
    changed = app.schedules.update("r", schedule="@daily", tz="Europe/Berlin", start=None, version=created.version)
    paused = app.schedules.pause("r", why="down")

    assert (created.args, created.start) == ({"day": "2026-11-16T12:00:00.500000Z"}, NOON)
    assert created.next is not None
    assert (changed.schedule, changed.start, changed.queue) == ("@daily", None, None)
    assert (paused.paused, paused.next) == (True, None)
    assert app.schedules.resume("r") == app.schedules.get("r")
    assert [each.name for each in app.schedules.list()] == ["r"]
    assert app.schedules.delete("r").name == "r"
    assert app.schedules.list() == []
    assert {entry.by for entry in store.audit("cron/r")} >= {"ann"}
    assert store.audit("cron/r")[-1].text.endswith("runs report: asked")


def test_a_schedule_is_fired_by_a_node_that_has_the_handler(
    app: windlass.App, store: MemoryStore, clock: ManualClock
) -> None:
    app.schedules.create("r", "every 1h", "report", args={"day": "2026-11-16T00:00:00Z"}, tenant="acme", priority=9)
    other = Crons(store, Events(), clock)
    other.handlers = {"other": app.manifest().handlers[0]}
    clock.advance(timedelta(hours=1))

    fired = [fire(other), *(fire(a_node(app, clock, store)) for _ in range(2))]

    [task] = store.find(Filter()).tasks
    assert fired == [0, 1, 0]
    assert (task.tenant, task.queue, task.priority) == ("acme", "reports", 9)
    assert task.key == "cron:r:2026-11-16T13:00:00+00:00"


def test_a_schedule_that_changed_since_a_node_read_it_is_not_fired_with_old_arguments(
    app: windlass.App, store: MemoryStore, clock: ManualClock
) -> None:
    app.schedules.create("r", "every 1h", "report", args={"day": "2026-01-01T00:00:00Z"})
    clock.advance(timedelta(hours=1))
    read, node = store.crons_to_fire(["report"]), a_node(app, clock, store)
    app.schedules.update("r", args={"day": "2027-01-01T00:00:00Z"})

    before = node.fire(read)
    after = fire(node)

    [task] = store.find(Filter()).tasks
    assert (before, after) == (0, 1)
    assert "2027" in task.args


def test_missed_times_are_made_up_for_by_the_policy_and_an_end_is_the_last(
    app: windlass.App, store: MemoryStore, clock: ManualClock
) -> None:
    day = {"day": "2026-01-01T00:00:00Z"}
    end = NOON + timedelta(hours=3)
    for misfire in ("all", "last", "skip"):
        app.schedules.create(misfire, "every 1h", "report", args=day, misfire=misfire, end=end)
    clock.advance(timedelta(hours=5))
    node = a_node(app, clock, store)

    fired = [fire(node), fire(node)]

    assert fired == [4, 0]
    assert {each.problem for each in app.schedules.list()} == {"its last time has passed"}
    assert store.crons_to_fire(["report"]).crons == []


def test_what_is_wrong_is_refused_and_nothing_is_stored(app: windlass.App, store: MemoryStore) -> None:
    app.schedules.create("r", "@daily", "report", args={"day": "2026-01-01T00:00:00Z"})
    before = store.crons()

    with pytest.raises(CronExists, match="'r'"):
        app.schedules.create("r", "@daily", "report", args={"day": "2026-01-01T00:00:00Z"})
    with pytest.raises(InvalidTask, match="Missing: day"):
        app.schedules.create("x", "@daily", "report")
    with pytest.raises(InvalidTask, match="'nobody' is unknown"):
        app.schedules.create("x", "@daily", "nobody")
    with pytest.raises(InvalidTask, match="nothing to change"):
        app.schedules.update("r")
    with pytest.raises(Conflict):
        app.schedules.update("r", priority=1, version=1)
    with pytest.raises(UnknownCron):
        app.schedules.delete("x")

    assert store.crons() == before
    replaced = app.schedules.create("r", "@weekly", "report", args={"day": "2026-01-01T00:00:00Z"}, replace=True)
    assert replaced.schedule == "@weekly"


@pytest.mark.anyio
async def test_every_method_has_an_async_version(app: windlass.App) -> None:
    await app.schedules.acreate("r", "@daily", "report", args={"day": "2026-01-01T00:00:00Z"})
    await app.schedules.aupdate("r", priority=3)
    await app.schedules.apause("r")
    resumed = await app.schedules.aresume("r")

    assert await app.schedules.aget("r") == resumed
    assert [each.priority for each in await app.schedules.alist()] == [3]
    assert (await app.schedules.adelete("r")).name == "r"
