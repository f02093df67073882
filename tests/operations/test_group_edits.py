"""Edit all tasks of a group, follow a canary, and search the audit log."""

from __future__ import annotations

import json

import pytest

from tests.support.builders import GAVE_UP, SECOND, claim_one, complete, report, run, state_of, submit_one
from windlass.clock import ManualClock
from windlass.core.lifecycle import State
from windlass.core.manifest import HandlerInfo, Manifest
from windlass.core.task import TaskId
from windlass.errors import InvalidTask
from windlass.operations import audit, dead_letters
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.caller import Caller, Scope
from windlass.operations.canary import KEPT, KIND, Canary, find_retried, find_run, find_runs
from windlass.stores.dead_letters import DeadGroup
from windlass.stores.memory import MemoryStore
from windlass.stores.protocol import Filter

ANN = Author("ann", "fixed it")
PARAMETERS = {"type": "object", "properties": {"n": {"type": "integer"}, "to": {"type": "string"}}}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> MemoryStore:
    store = MemoryStore(clock=clock)
    store.publish(Manifest(handlers=(HandlerInfo(name="work", parameters=json.dumps(PARAMETERS)),)))
    return store


@pytest.fixture
def access(store: MemoryStore, clock: ManualClock) -> Access:
    return Access(store, clock=clock)


def fail(store: MemoryStore, number: int) -> list[TaskId]:
    """Submit tasks that fail with one error."""
    ids = [submit_one(store, args={"n": each, "to": "ann"}) for each in range(number)]
    for _ in ids:
        run(store, GAVE_UP)
    return ids


def the_group(access: Access) -> DeadGroup:
    [group] = dead_letters.get_all(access)
    return group


def test_an_edit_submits_every_task_of_the_group_again_and_keeps_the_old_ones(
    access: Access, store: MemoryStore
) -> None:
    ids = fail(store, 5)
    group = the_group(access)

    preview = dead_letters.preview_edit(access, group, {"n": 7})
    number = dead_letters.edit(access, group, {"n": 7}, ANN)
    again = dead_letters.edit(access, group, {"n": 7}, ANN)

    assert (preview.total, len(preview.examples)) == (5, 3)
    assert json.loads(preview.examples[0].after) == {"n": 7, "to": "ann"}
    assert json.loads(preview.examples[0].before)["n"] in range(5)
    assert (number, again) == (5, 0)
    assert {state_of(store, id) for id in ids} == {State.FAILED}
    new = store.find(Filter(states=frozenset([State.RUNNABLE]))).tasks
    assert [json.loads(task.args) for task in new] == [{"n": 7, "to": "ann"}] * 5


@pytest.mark.parametrize("changes", [{"n": "seven"}, {}])
def test_an_edit_that_does_not_fit_submits_nothing(
    access: Access, store: MemoryStore, changes: dict[str, object]
) -> None:
    fail(store, 2)

    with pytest.raises(InvalidTask):
        dead_letters.edit(access, the_group(access), changes, ANN)

    assert store.find(Filter(states=frozenset([State.RUNNABLE]))).tasks == []
    assert [entry for entry in store.audit() if entry.action == "edited"] == []


def test_everybody_can_follow_a_canary(access: Access, store: MemoryStore, clock: ManualClock) -> None:
    fail(store, 3)
    group = the_group(access)
    limited = Access(store, Caller(name="acme", scopes=frozenset({Scope.READ}), tenant="acme"), clock=clock)
    assert find_run(access, group) is None

    canary = Canary(access, group, 60.0, ANN)
    canary.step()
    first = find_run(access, group)
    complete(store, claim_one(store))
    canary.step()
    second = find_run(access, group)
    report(store, claim_one(store), GAVE_UP)
    canary.step()
    last = find_run(access, group)

    assert first is not None
    assert second is not None
    assert last is not None
    assert [(run.progress.retried, run.progress.fixed) for run in (first, second, last)] == [
        (1, None),
        (3, None),
        (3, False),
    ]
    assert first.is_running(clock.now())
    assert not last.is_running(clock.now())
    assert "the same bug is back" in last.progress.text
    assert last.by == "ann"
    assert not first.is_running(clock.now() + 71_000_000), "its process is gone"
    assert find_run(limited, group) is None
    assert find_runs(access) == {group.id: last}
    assert find_runs(limited) == {}


def test_a_limited_canary_is_not_that_of_others(access: Access, store: MemoryStore, clock: ManualClock) -> None:
    fail(store, 2)
    group = the_group(access)
    limited = Access(store, Caller(name="d", scopes=frozenset({Scope.OPERATE}), tenant="default"), clock=clock)
    Canary(limited, group, 60.0, ANN).step()

    [run] = find_runs(limited).values()

    assert run.chosen == 1
    assert [(task.id, task.state) for task in find_retried(limited, run)] == [(run.tasks[0], State.RUNNABLE)]
    assert find_runs(access) == {}


def test_the_next_canary_removes_what_old_ones_left(access: Access, store: MemoryStore, clock: ManualClock) -> None:
    store.put_control(KIND, "old", '{"by":"x","started":0,"at":0,"patience":1.0,"progress":' + PROGRESS, expect=0)
    fail(store, 1)
    clock.advance(KEPT // 1_000_000 * SECOND)

    canary = Canary(access, the_group(access), 60.0, ANN)
    canary.step()
    complete(store, claim_one(store))
    canary.step()

    assert [control.name for control in store.controls(KIND)] == [the_group_id(store)]


PROGRESS = '{"group":"old","retried":1,"left":0,"fixed":true,"text":"fixed"}}'


def the_group_id(store: MemoryStore) -> str:
    return next(entry.subject.removeprefix("dead/") for entry in store.audit() if entry.subject.startswith("dead/"))


def test_the_audit_log_is_searched_by_author_and_text(access: Access, store: MemoryStore) -> None:
    for number in range(6):
        by = Author("Ann Other" if number % 2 else "bob")
        store.note([by.entry(f"queue/q{number}", "paused", f"paused queue q{number}")])

    def find(**options: object) -> list[str]:
        return [entry.subject for entry in audit.search(access, **options).entries]  # type: ignore[arg-type]

    assert find(by="ann") == ["queue/q5", "queue/q3", "queue/q1"]
    assert find(text="Q3") == ["queue/q3"]
    assert find(text="paused", by="bob", subject="queue/q4") == ["queue/q4"]
    first = audit.search(access, by="ann", limit=2)
    second = audit.search(access, by="ann", limit=2, before=first.after)
    assert [entry.subject for entry in (*first.entries, *second.entries)] == ["queue/q5", "queue/q3", "queue/q1"]
    assert second.after is None
