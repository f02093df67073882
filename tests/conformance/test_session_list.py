from __future__ import annotations

from datetime import timedelta

from tests.support.builders import DAY, MINUTE, SECOND, a_session, sweep_until_quiet
from windlass.clock import ManualClock
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


def test_a_session_that_was_lost_or_closed_is_said_to_be(store: Store, clock: ManualClock) -> None:
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
