from __future__ import annotations

import threading

from windlass.core.task import SessionId
from windlass.events import Event, Events, SessionEnded
from windlass.stores.memory import MemoryStore
from windlass.worker.keeper import Keeper


def a_keeper(heard: list[Event]) -> Keeper:
    """One that never waits."""
    keeper = Keeper(MemoryStore(), "here", lambda: "{}", Events(heard.append))
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
