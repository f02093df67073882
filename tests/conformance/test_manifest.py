from __future__ import annotations

import pytest

from tests.support.builders import SECOND, at_once
from windlass.clock import ManualClock
from windlass.core.manifest import CronInfo, CronState, HandlerInfo, HandlerSeen, Manifest
from windlass.errors import InvalidTask, UnknownCron
from windlass.stores.protocol import Store

SEND = HandlerInfo(name="mail.send", is_async=True, queue="mail", parameters='{"to":{}}', returns="{}", doc="Sends.")
DAILY = CronInfo(name="daily", handler="report", schedule="0 6 * * *", timezone="Europe/Berlin", args='{"a":1}')


def test_a_store_knows_nothing_at_first(store: Store) -> None:
    assert store.handlers() == []
    assert store.crons() == []


def test_handlers_are_known_by_name_with_the_time_of_the_latest_publish(store: Store, clock: ManualClock) -> None:
    store.publish(Manifest(handlers=(SEND, HandlerInfo(name="a"), HandlerInfo(name="Z"))))
    first = clock.now()
    clock.advance(SECOND)

    store.publish(Manifest(handlers=(HandlerInfo(name="a", doc="new"),)))

    assert store.handlers() == [
        HandlerSeen(name="Z", seen=first),
        HandlerSeen(name="a", doc="new", seen=clock.now()),
        HandlerSeen(
            name="mail.send",
            is_async=True,
            queue="mail",
            parameters='{"to":{}}',
            returns="{}",
            doc="Sends.",
            seen=first,
        ),
    ]


def test_what_was_read_can_be_published_again(store: Store, clock: ManualClock) -> None:
    store.publish(Manifest(handlers=(SEND,)))
    clock.advance(SECOND)

    store.publish(Manifest(handlers=tuple(store.handlers())))

    assert [one.seen for one in store.handlers()] == [clock.now()]


def test_a_cron_keeps_its_pause_and_what_it_fired_when_its_schedule_changes(store: Store, clock: ManualClock) -> None:
    store.publish(Manifest(crons=(DAILY,)))
    store.fire("daily", 1_000, [])
    store.pause_cron("daily", True, by="ann", why="holidays")
    changed = CronInfo(name="daily", handler="other", schedule="0 7 * * *", timezone="UTC", misfire="skip")

    store.publish(Manifest(crons=(changed, CronInfo(name="b", handler="b", schedule="* * * * *"))))

    now = clock.now()
    assert store.crons() == [
        CronState(info=CronInfo(name="b", handler="b", schedule="* * * * *"), version=now),
        CronState(info=changed, fired=1_000, paused=True, paused_by="ann", paused_why="holidays", version=now + 2),
    ]


def test_a_pause_is_undone_whole(store: Store, clock: ManualClock) -> None:
    store.publish(Manifest(crons=(DAILY,)))
    store.pause_cron("daily", True, by="ann")
    paused = store.crons()

    for _ in range(2):
        store.pause_cron("daily", False, by="bob", why="back")

    now = clock.now()
    assert paused == [CronState(info=DAILY, paused=True, paused_by="ann", paused_why="", version=now + 1)]
    assert store.crons() == [CronState(info=DAILY, version=now + 2)]


def test_a_cron_that_is_unknown_cannot_be_paused(store: Store) -> None:
    with pytest.raises(UnknownCron, match="daily") as refused:
        store.pause_cron("daily", True)

    assert (refused.value.code, refused.value.name) == ("unknown_cron", "daily")


def test_of_two_with_one_name_the_later_counts(store: Store) -> None:
    store.publish(Manifest(handlers=(HandlerInfo(name="a", doc="1"), HandlerInfo(name="a", doc="2"))))

    assert [one.doc for one in store.handlers()] == ["2"]


@pytest.mark.parametrize(
    "manifest",
    [
        Manifest(handlers=(HandlerInfo(name="a"), HandlerInfo(name="no name"))),
        Manifest(handlers=(HandlerInfo(name="a", queue=""),)),
        Manifest(handlers=(HandlerInfo(name="a"),), crons=(CronInfo(name="", handler="a", schedule="* * * * *"),)),
        Manifest(handlers=(HandlerInfo(name="a"),), crons=(CronInfo(name="c", handler="a", schedule=""),)),
    ],
)
def test_what_has_no_proper_name_is_refused_whole(store: Store, manifest: Manifest) -> None:
    with pytest.raises(InvalidTask):
        store.publish(manifest)

    assert store.handlers() == []


def test_text_that_no_database_can_hold_is_replaced(store: Store) -> None:
    store.publish(Manifest(handlers=(HandlerInfo(name="a", doc='\0 \ud800 \\ " é'),)))

    assert [one.doc for one in store.handlers()] == ['\ufffd ? \\ " é']


def test_many_nodes_publish_at_once(store: Store) -> None:
    handlers = tuple(HandlerInfo(name=f"h{n}") for n in range(50))
    crons = tuple(CronInfo(name=f"c{n}", handler="h", schedule="* * * * *") for n in range(50))

    def publish(node: int) -> None:
        for _ in range(3):
            turned = slice(None, None, -1 if node % 2 else 1)
            store.publish(Manifest(handlers=handlers[turned], crons=crons[turned]))

    at_once(4, publish)

    assert len(store.handlers()) == len(store.crons()) == 50
