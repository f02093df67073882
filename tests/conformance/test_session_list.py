from __future__ import annotations

from datetime import timedelta

import pytest

from tests.support.builders import DAY, MINUTE, SECOND, a_session, sweep_until_quiet
from windlass.clock import ManualClock
from windlass.core.worker_list import MAX_CHARACTERS
from windlass.errors import InvalidTask
from windlass.stores.protocol import Session, Store


def test_sessions_are_listed_with_what_they_serve_the_newest_first(store: Store, clock: ManualClock) -> None:
    first = store.open_session("a", about='{"queues":["mail"]}')
    clock.advance(SECOND)
    second = store.open_session("b", 2 * MINUTE)

    assert store.sessions() == [
        Session(id=second, node="b", about="", age=timedelta(0), lost=False),
        Session(id=first, node="a", about='{"queues":["mail"]}', age=SECOND, lost=False),
    ]


def test_a_session_is_as_old_as_its_last_renewal(store: Store, clock: ManualClock) -> None:
    session = a_session(store)
    clock.advance(5 * SECOND)
    store.renew(session)
    clock.advance(2 * SECOND)

    assert [one.age for one in store.sessions()] == [2 * SECOND]


def test_a_lost_or_closed_session_is_marked_as_lost(store: Store, clock: ManualClock) -> None:
    lost = store.open_session("lost")
    clock.advance(MINUTE)
    sweep_until_quiet(store)
    closed, alive = store.open_session("closed"), store.open_session("alive")
    store.close_session(closed)

    assert {one.id: one.lost for one in store.sessions()} == {lost: True, closed: True, alive: False}


def test_a_lost_session_is_not_listed_for_ever(store: Store, clock: ManualClock) -> None:
    a_session(store)
    clock.advance(MINUTE)
    sweep_until_quiet(store)
    clock.advance(DAY)

    assert store.sessions() == []


def test_a_session_that_nobody_has_swept_yet_is_listed_whatever_its_age(store: Store, clock: ManualClock) -> None:
    a_session(store)
    clock.advance(3 * DAY)

    assert [(one.age, one.lost) for one in store.sessions()] == [(3 * DAY, False)]


def test_any_text_about_a_session_is_taken(store: Store) -> None:
    store.open_session("a", about="\0 \ud800 é")

    assert [one.about for one in store.sessions()] == ["\ufffd ? é"]


def test_a_renewal_replaces_what_a_session_says_of_itself(store: Store) -> None:
    session = store.open_session("a", about="old")

    store.renew(session)
    assert [(one.about, one.workers) for one in store.sessions(workers=True)] == [("old", "")]

    store.renew(session, workers="first")
    assert [(one.about, one.workers) for one in store.sessions(workers=True)] == [("old", "first")]

    store.renew(session, about="new", workers="\0 \ud800")
    store.renew(session)
    assert [(one.about, one.workers) for one in store.sessions(workers=True)] == [("new", "\ufffd ?")]


def test_workers_are_read_only_on_request(store: Store) -> None:
    store.renew(store.open_session("a"), workers="many")

    assert [one.workers for one in store.sessions()] == [""]


def test_a_list_of_workers_that_is_too_long_is_refused_whole(store: Store, clock: ManualClock) -> None:
    session = store.open_session("a")
    clock.advance(SECOND)

    with pytest.raises(InvalidTask, match="workers has 524,289 characters"):
        store.renew(session, workers="x" * (MAX_CHARACTERS + 1))

    assert [(one.age, one.workers) for one in store.sessions(workers=True)] == [(SECOND, "")]
