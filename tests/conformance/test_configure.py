from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.support.builders import HOUR, MINUTE, SECOND, a_session, a_task, submit, task_of
from windlass.clock import ManualClock
from windlass.core.ordering import Queue, Strategy
from windlass.core.times import micros
from windlass.errors import InvalidTask
from windlass.stores.protocol import Store

FULL = Queue(
    name="mail",
    strategy=Strategy.AGING,
    horizon=2 * HOUR,
    step=3 * SECOND,
    paused=True,
    paused_by="ops@example.org",
    paused_why="smtp is down ☔",
    paused_until=4_000_000_000_000_000,
    max_waiting=10,
    weight=7,
    fair=True,
)


def test_a_queue_that_nobody_configured_is_not_listed(store: Store) -> None:
    submit(store, a_task(queue="mail"))

    assert store.queues() == []


def test_settings_come_back_as_they_were_set_by_name(store: Store) -> None:
    plain = Queue(name="a-plain-one")
    store.configure(FULL)
    store.configure(plain)
    store.configure(Queue(name="zero", horizon=timedelta(0), step=timedelta(0), max_waiting=0))

    assert store.queues() == [
        plain,
        FULL,
        Queue(name="zero", horizon=timedelta(0), step=timedelta(0), max_waiting=0),
    ]


@pytest.mark.parametrize("merge", [False, True])
def test_a_pause_ends_at_its_time_without_a_sweep(store: Store, clock: ManualClock, merge: bool) -> None:
    submit(store, a_task(queue="mail"), a_task(queue="mail"))
    store.configure(Queue(name="mail", paused=True, paused_until=clock.now() + micros(MINUTE)))
    session = a_session(store)

    clock.advance(MINUTE - timedelta(microseconds=1))
    during = store.claim(session, ["mail", "other"], 1, merge=merge)
    seen_during = store.look(["mail"], ahead=timedelta(0)).queues[0].paused
    clock.advance(timedelta(microseconds=1))
    after = store.claim(session, ["mail", "other"], 1, merge=merge)
    seen_after = store.look(["mail"], ahead=timedelta(0)).queues[0].paused

    assert (len(during), seen_during) == (0, True)
    assert (len(after), seen_after) == (1, False)


def test_the_latest_settings_count_whole(store: Store) -> None:
    store.configure(FULL)
    store.configure(Queue(name="mail", weight=2))

    assert store.queues() == [Queue(name="mail", weight=2)]


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "no name"},
        {"horizon": -SECOND},
        {"step": timedelta(days=4_000)},
        {"max_waiting": -1},
        {"paused_until": -1},
        {"weight": 0},
        {"weight": 1_001},
    ],
    ids=str,
)
def test_settings_that_cannot_be_followed_are_refused_by_name(store: Store, changes: dict[str, Any]) -> None:
    [field] = changes

    with pytest.raises(InvalidTask, match="queue" if field == "name" else field):
        store.configure(Queue(**{"name": "mail", **changes}))

    assert store.queues() == []


def test_every_allowed_setting_leaves_room_for_every_allowed_priority(store: Store) -> None:
    store.configure(Queue(name="default", strategy=Strategy.AGING, step=timedelta(days=3_650)))

    first, second = submit(store, a_task(priority=-1_000_000), a_task(priority=1_000_000, deadline=MINUTE))

    assert [task_of(store, id).priority for id in (first, second)] == [-1_000_000, 1_000_000]
