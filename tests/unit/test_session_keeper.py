from __future__ import annotations

import threading

from windlass.core.task import Lease, SessionId
from windlass.events import Event, Events, SessionEnded
from windlass.stores.memory import MemoryStore
from windlass.worker.session_keeper import SessionKeeper


def a_keeper(heard: list[Event]) -> SessionKeeper:
    """One that never waits."""
    keeper = SessionKeeper(MemoryStore(), "here", lambda: "{}", Events(heard.append))
    keeper.turned = AlwaysTurned()
    return keeper


class AlwaysTurned(threading.Event):
    def wait(self, timeout: float | None = None) -> bool:
        return True


def test_a_retired_session_is_closed_when_nothing_runs_under_it() -> None:
    heard: list[Event] = []
    keeper = a_keeper(heard)
    keeper.step()
    session = keeper.current
    assert session is not None

    keeper.retire(session)
    keeper.step()

    assert not keeper.holds(session)
    assert [event.session for event in heard if isinstance(event, SessionEnded)] == [session]


def test_a_session_is_not_closed_under_tasks_that_were_handed_out_just_now() -> None:
    """Another pool's claim was under way when the session was retired, and came after we had looked."""
    keeper = a_keeper([])
    keeper.step()
    session = keeper.current
    assert session is not None
    looks: list[set[SessionId]] = [set(), {session}]
    keeper.in_use = lambda: looks.pop(0)

    keeper.retire(session)
    keeper.step()

    assert keeper.holds(session)


def test_a_session_is_not_closed_while_an_end_of_a_late_claim_is_unwritten() -> None:
    """A claim under way counts as use, so what it brought and what ended quickly has its own mark."""
    keeper = a_keeper([])
    keeper.step()
    session = keeper.current
    assert session is not None
    marks, written = [10, 11], 10
    claiming = [{session}, set[SessionId](), set[SessionId]()]
    keeper.in_use = lambda: claiming.pop(0)
    keeper.mark = lambda: marks[-1]
    keeper.written = lambda mark: mark <= written

    keeper.retire(session)
    keeper.step()  # The claim is under way.
    keeper.step()  # It was handed out, and its task has ended: end 11 is not written.

    assert keeper.holds(session)


class CountedStore(MemoryStore):
    """Remembers what renewals were given to write."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[tuple[str | None, str | None]] = []

    def renew(self, session: SessionId, *, about: str | None = None, workers: str | None = None) -> list[Lease]:
        self.written.append((about, workers))
        return super().renew(session, about=about, workers=workers)


def test_a_renewal_writes_only_the_texts_that_changed() -> None:
    store, abouts, lists = CountedStore(), ["old"], [""]
    keeper = SessionKeeper(store, "here", lambda: abouts[-1], Events())
    keeper.turned, keeper.workers = AlwaysTurned(), lambda: lists[-1]

    keeper.step()  # Opens the session.
    keeper.step()
    lists.append("one")
    keeper.step()
    keeper.step()
    abouts.append("new")
    keeper.step()

    assert store.written == [(None, None), (None, "one"), (None, None), ("new", None)]
    assert [(one.about, one.workers) for one in store.sessions(workers=True)] == [("new", "one")]


def test_a_new_session_is_told_everything_again() -> None:
    store = CountedStore()
    keeper = SessionKeeper(store, "here", lambda: "about", Events())
    keeper.turned, keeper.workers = AlwaysTurned(), lambda: "list"
    keeper.step()
    keeper.step()
    first = keeper.current
    assert first is not None

    keeper.mark_lost(first, "by this test")
    keeper.step()
    keeper.step()

    assert [one.workers for one in store.sessions(workers=True)] == ["list", "list"]
