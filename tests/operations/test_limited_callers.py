"""A caller who is limited to one queue cannot read or stop what is in another."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.builders import HOUR, SECOND, a_task, claim_all, complete, submit, submit_one, task_of
from windlass.clock import ManualClock
from windlass.core.lifecycle import State
from windlass.core.query import parse
from windlass.core.references import reference
from windlass.core.task import Change, NewTask
from windlass.errors import InvalidTask, Refused, UnknownPrerequisite
from windlass.operations import cascade, tasks, workflows
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.bulk import BulkAction, Verb
from windlass.operations.caller import Caller, Scope
from windlass.operations.workflows import UnknownWorkflow
from windlass.stores.memory import MemoryStore
from windlass.stores.protocol import Filter

ANN = Author("ann")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> MemoryStore:
    return MemoryStore(clock=clock)


@pytest.fixture
def limited(store: MemoryStore) -> Access:
    """A caller who may see the queue `own` only."""
    return Access(store, Caller(name="ci", scopes=frozenset({Scope.ADMIN}), queue="own"))


def new(access: Access, **fields: Any) -> NewTask:
    args = fields.pop("args", {})
    return tasks.new_task(access, "work", args, {"queue": "own", **fields}, unchecked=True)


def test_a_prerequisite_of_another_queue_is_unknown_by_id_and_by_key(limited: Access, store: MemoryStore) -> None:
    theirs, _ = submit(store, a_task(queue="other"), a_task(queue="other", workflow="w", key="k"))
    by_id = new(limited, prerequisites=(theirs,), args={"x": reference(theirs)})
    by_key = new(limited, workflow="w", prerequisites=("k",))
    same_key = new(limited, workflow="w", key="k")

    for batch in ([by_id], [by_key], [new(limited), by_id], [same_key, by_key]):
        with pytest.raises(UnknownPrerequisite):
            tasks.submit(limited, batch)

    assert [count.queue for count in store.counts() if count.tasks] == ["other"]
    assert tasks.submit(Access(store), [by_id, by_key])


def test_prerequisites_in_the_own_queue_and_in_the_batch_are_accepted(limited: Access, store: MemoryStore) -> None:
    own = submit_one(store, queue="own")
    first = new(limited, key="first")

    assert tasks.submit(limited, [first, new(limited, prerequisites=(own, "first"))])


def test_a_forward_reference_may_lead_to_another_queue_and_is_refused(limited: Access, store: MemoryStore) -> None:
    store.open_workflow("w", forward=HOUR)

    with pytest.raises(UnknownPrerequisite):
        tasks.submit(limited, [new(limited, workflow="w", prerequisites=("later",))])


def test_an_edit_cannot_refer_to_a_task_of_another_queue(limited: Access, store: MemoryStore) -> None:
    theirs, other = submit(store, a_task(queue="other"), a_task(queue="other"))
    failed = submit_one(store, queue="own", args={"a": reference(theirs)}, prerequisites=[theirs])
    store.cancel([failed], reason="no")

    with pytest.raises(UnknownPrerequisite):
        tasks.edit_and_retry(limited, failed, {"b": reference(other)}, ANN)
    kept = tasks.edit_and_retry(limited, failed, {"b": 1}, ANN)

    assert task_of(store, kept.id).queue == "own"


def test_graph_and_why_leave_out_tasks_of_other_queues(limited: Access, store: MemoryStore) -> None:
    theirs, done = submit(store, a_task(queue="other"), a_task(queue="own"))
    complete(store, *claim_all(store, queues=["own"]))
    mine = submit_one(store, queue="own", prerequisites=[theirs, done])
    submit_one(store, queue="other", prerequisites=[mine])

    around, why = tasks.graph(limited, mine), tasks.why(limited, mine)

    assert ([each.id for each in around.prerequisites], around.dependents) == ([done], [])
    assert why.closed is not None
    assert why.closed.text == "1 open, in queues that this token may not see"
    assert str(theirs) not in repr(tasks.details(limited, mine))
    assert str(theirs) in repr(tasks.details(Access(store), mine))


def test_only_a_caller_for_all_queues_opens_an_unsealed_workflow(limited: Access, store: MemoryStore) -> None:
    for batch in ([], [new(limited, workflow="nightly")]):
        with pytest.raises(Refused):
            workflows.open_unsealed(limited, "nightly", batch, ANN, tenant="default")

    assert task_of(store, submit_one(store, workflow="nightly")).state is State.RUNNABLE


def test_a_list_of_workflows_names_no_other_queue_in_its_cursor(
    limited: Access, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflows, "MAX_PAGES", 2)
    for n in range(12):
        clock.advance(n % 3 * SECOND)  # Some are submitted at the same time.
        submit_one(store, workflow=f"theirs-{n}", queue="other")
        if n in (0, 4, 5):
            submit_one(store, workflow=f"mine-{n}", queue="own")

    found, cursors, after = list[str](), list[Any](), None
    while True:
        page = workflows.find(limited, limit=1, after=after)
        found += [each.name for each in page.workflows]
        after = page.after
        if after is None:
            break
        cursors.append(after)

    assert found == ["mine-5", "mine-4", "mine-0"]
    assert cursors
    assert "theirs" not in repr(cursors)


def test_an_ambiguous_workflow_lists_only_visible_tenants(limited: Access, store: MemoryStore) -> None:
    for tenant in ("alpha", "beta"):
        submit_one(store, workflow="w", tenant=tenant, queue="other")
    with pytest.raises(UnknownWorkflow):
        workflows.find_tenant(limited, "w")

    submit_one(store, workflow="w", tenant="gamma", queue="own")
    only = workflows.find_tenant(limited, "w")
    submit_one(store, workflow="w", tenant="delta", queue="own")
    with pytest.raises(InvalidTask, match=r"Choose one of delta, gamma\.$"):
        workflows.find_tenant(limited, "w")

    assert only == "gamma"


def test_a_cancel_does_not_reach_another_queue(limited: Access, store: MemoryStore) -> None:
    own, alone = submit(store, a_task(queue="own"), a_task(queue="own"))
    between = submit_one(store, queue="own", prerequisites=[own])
    theirs = submit_one(store, queue="other", prerequisites=[between])
    everything = Filter(query=parse("queue:own"))

    for refused in (
        lambda: tasks.cancel(limited, own, ANN),
        lambda: tasks.cancel(limited, between, ANN),
        lambda: tasks.change(limited, own, Change(expires=SECOND), ANN),
        lambda: bulk(limited, [alone, own]),
        lambda: bulk(limited, everything),
    ):
        with pytest.raises(Refused, match="other queues depend on it"):
            refused()
    unfinished = {task_of(store, id).state.final for id in (own, between, theirs, alone)}
    assert unfinished == {False}

    assert tasks.cancel(limited, alone, ANN).tasks == 1
    assert tasks.cancel(Access(store), own, ANN).tasks == 1
    assert task_of(store, theirs).state is State.CANCELLED


def test_a_cancel_may_reach_the_own_queue_and_what_runs_anyway(limited: Access, store: MemoryStore) -> None:
    first = submit_one(store, queue="own")
    below = submit_one(store, queue="own", prerequisites=[first])
    anyway = submit_one(store, queue="other", prerequisites=[first], on_failure="run")

    assert bulk(limited, [first]) == 1

    assert task_of(store, below).state is State.CANCELLED
    assert task_of(store, anyway).state is State.RUNNABLE


def test_a_cancel_that_reaches_very_many_tasks_is_refused(
    limited: Access, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cascade, "MAX_CHECKED", 5)
    first = submit_one(store, queue="own")
    submit(store, *(a_task(queue="own", prerequisites=[first]) for _ in range(6)))

    with pytest.raises(Refused, match="too many to check"):
        tasks.cancel(limited, first, ANN)


def bulk(access: Access, which: Any) -> int:
    action = BulkAction(access, Verb.CANCEL, which, ANN)
    action.count()
    return action.run()
