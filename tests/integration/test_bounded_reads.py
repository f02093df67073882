"""Operations on many tasks and the upkeep of large workflows read each task a few times, however many there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.builders import DAY, MINUTE, a_session, a_task, complete, counted, submit
from tests.support.stores import postgres_home, sqlite_home
from windlass.clock import ManualClock
from windlass.core.ids import keyed_id
from windlass.core.lifecycle import State
from windlass.stores.protocol import RETENTION, Filter, Store
from windlass.stores.sql import bulk, busy_workflows, find, read, sweep
from windlass.stores.sql.busy_workflows import BusyWorkflows
from windlass.stores.workflow_reads import StepCursor

TASKS, WINDOW, CHUNK = 300, 60, 20


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count how often a search looks for few candidates, and how often for the end of a window."""
    found: Counter[str] = Counter()

    def count(name: str) -> None:
        work: Any = getattr(find, name)

        def counting(*arguments: Any) -> Any:
            found[name] += 1
            return work(*arguments)

        monkeypatch.setattr(find, name, counting)

    count("_known")
    count("_end")
    monkeypatch.setattr(find, "SCANNED", WINDOW)
    monkeypatch.setattr(find, "CHUNK", CHUNK)
    monkeypatch.setattr(bulk, "CHUNK", CHUNK)
    return found


def test_an_operation_on_a_large_workflow_looks_for_its_tasks_once(any_store: Store, reads: Counter[str]) -> None:
    submit(any_store, *(a_task(key=str(n), workflow="w") for n in range(TASKS)))
    submit(any_store, *(a_task() for _ in range(WINDOW)))

    cancelled = any_store.cancel(Filter(workflow="w"), reason="enough")

    assert cancelled == TASKS
    assert {state: tasks for (_, _, state), tasks in counted(any_store).items()} == {
        State.CANCELLED: TASKS,
        State.RUNNABLE: WINDOW,
    }
    assert reads == {"_known": 1, "_end": (TASKS + WINDOW) // WINDOW}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["sqlite", "postgres"])
def timed_store(request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path) -> Iterator[Store]:
    """A store whose time the test decides."""
    if request.param == "postgres":
        home = postgres_home(request.getfixturevalue("migrated_url"))
    else:
        home = sqlite_home(tmp_path / "windlass.db")
    yield home.open(clock)
    home.close()


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[StepCursor]:
    """Record where each look at a large workflow starts."""
    starts: list[StepCursor] = []
    look: Any = getattr(BusyWorkflows, "_look")  # noqa: B009 - the window is what this is about

    def recording(self: BusyWorkflows, tenant: str, workflow: str, start: StepCursor) -> Any:
        starts.append(start)
        return look(self, tenant, workflow, start)

    monkeypatch.setattr(BusyWorkflows, "_look", recording)
    monkeypatch.setattr(busy_workflows, "SCANNED", WINDOW)
    monkeypatch.setattr(sweep, "CHUNK", TASKS // 3)
    return starts


def test_a_sweep_looks_at_one_window_of_a_large_workflow_and_continues_there(
    timed_store: Store, clock: ManualClock, looks: list[StepCursor]
) -> None:
    submit(timed_store, *(a_task(key=str(n), workflow="w") for n in range(TASKS)))
    submit(timed_store, a_task(key="last", workflow="w", delay=RETENTION + DAY))
    clock.advance(MINUTE)
    session = a_session(timed_store)
    complete(timed_store, *timed_store.claim(session, ["default"], TASKS))
    clock.advance(RETENTION + MINUTE)

    kept = [timed_store.sweep().pruned for _ in range(3 * TASKS // WINDOW)]
    windows = [(start.submitted, start.id) for start in looks]

    assert sum(kept) == 0, "a task of the workflow is unfinished"
    assert windows == sorted(windows), "each look continues where the last one ended"
    assert len(set(windows)) == TASKS // WINDOW + 1
    assert windows.count(windows[-1]) > 1, "and stays before the unfinished step"

    clock.advance(2 * DAY)
    timed_store.sweep()
    complete(timed_store, *timed_store.claim(a_session(timed_store), ["default"], 1))
    looks.clear()
    pruned = sum(timed_store.sweep().pruned for _ in range(6))

    assert pruned == TASKS
    assert len(looks) == 1, "a large workflow that has ended is not looked at again for every part of it"


def test_a_get_of_many_ids_is_several_reads_which_have_a_time_limit_each(
    any_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = submit(any_store, *(a_task(key=str(n)) for n in range(TASKS)))
    unknown = keyed_id("default", None, "unknown")
    wanted = [ids[-1], unknown, *ids]
    database: Any = getattr(any_store, "_db")  # noqa: B009 - the reads are what this is about
    sizes: list[int] = []
    read_once = database.read

    def reading(work: Any) -> Any:
        rows = read_once(work)
        sizes.append(len(rows))
        return rows

    monkeypatch.setattr(database, "read", reading)
    monkeypatch.setattr(read, "CHUNK", CHUNK)

    found = any_store.get(wanted)

    assert [task and task.id for task in found] == [ids[-1], None, *ids]
    assert max(sizes) == CHUNK
    assert sum(sizes) == TASKS
