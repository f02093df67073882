"""Bulk actions: count first, then act on what matches and may be changed."""

from __future__ import annotations

import pytest

from tests.support.builders import in_state, state_of, submit_one
from windlass.core.lifecycle import State
from windlass.errors import InvalidFilter
from windlass.operations import bulk
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.bulk import BulkAction, Verb
from windlass.operations.caller import Caller, Scope
from windlass.stores.memory import MemoryStore
from windlass.stores.protocol import Filter
from windlass.stores.totals import Total

ANN = Author("ann", "too old")
WORK = Filter(handler="work")


def test_an_inexact_count_of_none_still_acts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that looks at a part of the tasks may count none although others match."""
    store = MemoryStore()
    id = submit_one(store)
    monkeypatch.setattr(store, "count", lambda _: Total(0, exact=False))

    action = BulkAction(Access(store), Verb.CANCEL, WORK, ANN)

    assert (action.count(), action.exact) == (0, False)
    assert action.run() == 1
    assert state_of(store, id) is State.CANCELLED
    [entry] = store.audit("tasks")
    assert entry.text == "cancelled at least 0 tasks that matched 'handler:work': too old"


def test_ids_of_another_tenant_are_left_alone() -> None:
    store = MemoryStore()
    mine, theirs = submit_one(store, tenant="acme"), submit_one(store, tenant="beta")
    acme = Caller(name="acme", scopes=frozenset({Scope.OPERATE}), tenant="acme")

    action = BulkAction(Access(store, acme), Verb.CANCEL, [mine, theirs], ANN)

    assert (action.count(), action.run()) == (1, 1)
    assert state_of(store, theirs) is State.RUNNABLE


@pytest.mark.parametrize("verb", Verb)
def test_a_verb_changes_only_tasks_in_its_states(verb: Verb) -> None:
    store = MemoryStore()
    ids = [in_state(store, state) for state in (State.RUNNABLE, State.COMPLETED, State.FAILED)]

    action = BulkAction(Access(store), verb, ids, ANN)

    expected = {Verb.CANCEL: 1, Verb.RETRY: 1, Verb.PURGE: 2}
    assert action.count() == action.run() == expected[verb]


def test_nothing_happens_before_the_count() -> None:
    store = MemoryStore()
    id = submit_one(store)

    assert BulkAction(Access(store), Verb.CANCEL, WORK, ANN).run() == 0
    assert state_of(store, id) is State.RUNNABLE


def test_a_filter_that_matches_everything_is_refused() -> None:
    with pytest.raises(InvalidFilter, match="every task"):
        BulkAction(Access(MemoryStore()), Verb.PURGE, Filter(), ANN)


def test_each_batch_of_a_purge_is_one_audit_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "BATCH", 2)
    store = MemoryStore()
    for _ in range(3):
        in_state(store, State.COMPLETED)
    action = BulkAction(Access(store), Verb.PURGE, WORK, ANN)
    action.count()
    steps = action.run_steps()

    next(steps)
    stopped = [entry.text for entry in store.audit("tasks")]

    assert stopped == ["purged 2 tasks that matched 'handler:work': too old"]
    assert list(steps) == [3]
    assert store.audit("tasks")[0].text == "purged 1 task that matched 'handler:work': too old"
