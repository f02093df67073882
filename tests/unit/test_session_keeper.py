from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.builders import a_task, submit
from windlass.clock import ManualClock
from windlass.core.lifecycle import State
from windlass.core.task import Lease, SessionId, TaskId
from windlass.errors import StoreUnavailable
from windlass.events import Event, Events, SessionEnded
from windlass.stores.memory import MemoryStore
from windlass.worker.session_keeper import SessionKeeper


class FailingStore(MemoryStore):
    """A store that cannot close the next sessions."""

    failures = tried = 0

    def close_session(self, session: SessionId) -> None:
        self.tried += 1
        if self.failures:
            self.failures -= 1
            raise StoreUnavailable("no connection")
        super().close_session(session)


def a_keeper(events: list[Event]) -> SessionKeeper:
    return SessionKeeper(MemoryStore(), "here", lambda: "{}", Events(events.append), ManualClock())


def test_a_retired_session_is_closed_when_nothing_runs_under_it() -> None:
    events: list[Event] = []
    keeper = a_keeper(events)
    keeper.step()
    session = keeper.current
    assert session is not None

    keeper.retire(session)
    keeper.step()

    assert not keeper.holds(session)
    assert [event.session for event in events if isinstance(event, SessionEnded)] == [session]


def claim_unseen(
    store: FailingStore, events: list[Event], clock: ManualClock
) -> tuple[SessionKeeper, SessionId, TaskId]:
    """Open a session and claim a task. The node never got the answer, so it does not know the task."""
    keeper = SessionKeeper(store, "here", lambda: "{}", Events(events.append), clock)
    keeper.step()
    session = keeper.current
    assert session is not None
    [task] = submit(store, a_task())
    store.claim(session, ["default"], 1)
    return keeper, session, task


def test_a_session_that_could_not_be_closed_is_closed_by_the_next_step() -> None:
    """Until then, the tasks of a claim whose answer was lost would wait for the session to expire, and cost a loss."""
    clock, events = ManualClock(), list[Event]()
    store = FailingStore(clock=clock)
    keeper, session, task = claim_unseen(store, events, clock)

    store.failures = 2
    keeper.retire(session)
    keeper.step()
    [held] = store.get([task])
    keeper.close()
    [still_held] = store.get([task])
    keeper.step()

    [released] = store.get([task])
    assert held is not None
    assert still_held is not None
    assert released is not None
    assert (held.state, still_held.state, released.state) == (State.LEASED, State.LEASED, State.RUNNABLE)
    assert (released.losses, released.attempts) == (0, 0)
    assert [event.session for event in events if isinstance(event, SessionEnded) and event.session == session] == [
        session
    ]


class SlowStore(FailingStore):
    """A store that answers a call to close a session only after something else has happened."""

    meanwhile: Callable[[], None] | None = None

    def close_session(self, session: SessionId) -> None:
        happens, self.meanwhile = self.meanwhile, None
        if happens is not None:
            happens()
        super().close_session(session)


@pytest.mark.parametrize("failures", [0, 1], ids=["both succeed", "the first one fails"])
def test_a_node_that_ends_closes_a_session_that_a_step_is_closing(failures: int) -> None:
    clock, events = ManualClock(), list[Event]()
    store = SlowStore(clock=clock)
    keeper, session, task = claim_unseen(store, events, clock)

    def end_node() -> None:
        keeper.close()
        store.failures = failures

    store.meanwhile = end_node
    keeper.retire(session)
    keeper.step()

    [released] = store.get([task])
    assert store.tried == 2
    assert released is not None
    assert (released.state, released.losses) == (State.RUNNABLE, 0)
    assert [event.session for event in events if isinstance(event, SessionEnded)] == [session]


def test_a_session_that_cannot_be_closed_is_given_up_when_it_has_expired() -> None:
    clock = ManualClock()
    store = FailingStore(clock=clock)
    keeper = SessionKeeper(store, "here", lambda: "{}", Events(), clock)
    keeper.step()
    keeper.wanted = False
    assert keeper.current is not None

    store.failures = 1_000
    keeper.retire(keeper.current)
    for _ in range(100):
        keeper.step()

    assert 2 < store.tried < 50
    assert clock.monotonic() > 0


def test_a_session_is_not_closed_under_tasks_that_were_just_assigned() -> None:
    """A claim of another pool was under way when the session was retired, and ended after the first look."""
    keeper = a_keeper([])
    keeper.step()
    session = keeper.current
    assert session is not None
    looks: list[set[SessionId]] = [set(), {session}]
    keeper.in_use = lambda: looks.pop(0)

    keeper.retire(session)
    keeper.step()

    assert keeper.holds(session)


def test_a_session_is_not_closed_before_the_results_of_a_late_claim_are_written() -> None:
    """A claim under way counts as use, so a task of it that ended quickly has its own mark."""
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
    keeper.step()  # Its task was assigned and has ended, but result 11 is not written.

    assert keeper.holds(session)


class CountedStore(MemoryStore):
    """Records what renewals write."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[tuple[str | None, str | None]] = []

    def renew(self, session: SessionId, *, about: str | None = None, workers: str | None = None) -> list[Lease]:
        self.written.append((about, workers))
        return super().renew(session, about=about, workers=workers)


def test_a_renewal_writes_only_the_texts_that_changed() -> None:
    store, abouts, lists = CountedStore(), ["old"], [""]
    keeper = SessionKeeper(store, "here", lambda: abouts[-1], Events(), ManualClock())
    keeper.workers = lambda: lists[-1]

    keeper.step()  # Opens the session.
    keeper.step()
    lists.append("one")
    keeper.step()
    keeper.step()
    abouts.append("new")
    keeper.step()

    assert store.written == [(None, None), (None, "one"), (None, None), ("new", None)]
    assert [(one.about, one.workers) for one in store.sessions(workers=True)] == [("new", "one")]


def test_a_new_session_gets_all_texts_again() -> None:
    store = CountedStore()
    keeper = SessionKeeper(store, "here", lambda: "about", Events(), ManualClock())
    keeper.workers = lambda: "list"
    keeper.step()
    keeper.step()
    first = keeper.current
    assert first is not None

    keeper.mark_lost(first, "by this test")
    keeper.step()
    keeper.step()

    assert [one.workers for one in store.sessions(workers=True)] == ["list", "list"]
