"""Counting the tasks that a filter matches."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.support.builders import GAVE_UP, a_task, in_state, run, submit
from tests.support.stores import Home
from windlass.clock import ManualClock
from windlass.core.lifecycle import State
from windlass.core.query import parse
from windlass.errors import InvalidTask
from windlass.stores.protocol import Filter, Store
from windlass.stores.totals import Total

EXACT = [
    ("", 9),
    ("state:runnable", 4),
    ("-state:runnable", 5),
    ("state:runnable queue:mail", 1),
    ("queue:m*", 2),
    ("-queue:mail,default", 1),
    ("tenant:acme", 2),
    ("tenant:nobody", 0),
    ("handler:send", 3),
    ("handler:send state:runnable", 2),
    ("handler:send state:runnable,scheduled", 3),
    ("handler:send state:completed", 0),
    ("handler:se*", 3),
    ("-handler:send", 6),
    ("workflow:w", 2),
    ("workflow:w state:waiting", 1),
    ("workflow:w,other handler:work tenant:default", 2),
    ('workflow:""', 7),
    ('workflow:"",w', 9),
    ("state:failed error~oops", 1),
    ("args.n:1", 1),
    ("age<1h", 8),
    ("age>=1h", 1),
    ("-age<1h handler:work", 1),
    ("age<1h handler:send", 3),
    ("key:first tenant:default workflow:w", 1),
]


@pytest.fixture
def filled(store: Store, clock: ManualClock) -> Store:
    submit(store, a_task(queue="media"))
    clock.advance(timedelta(hours=1))
    submit(store, a_task())
    run(store, GAVE_UP)
    in_state(store, State.COMPLETED)
    submit(
        store,
        a_task(args={"n": 1}),
        a_task(handler="send", queue="mail"),
        a_task(handler="send", tenant="acme"),
        a_task(handler="send", tenant="acme", delay=timedelta(hours=1)),
        a_task(workflow="w", key="first", delay=timedelta(hours=2)),
        a_task(workflow="w", key="second", prerequisites=["first"]),
    )
    return store


@pytest.mark.parametrize(("text", "tasks"), EXACT)
def test_a_filter_counts_what_it_finds(filled: Store, text: str, tasks: int) -> None:
    filter = Filter(query=parse(text))

    assert filled.count(filter) == Total(tasks, exact=True)
    assert len(filled.find(filter).tasks) == tasks


@pytest.mark.parametrize(
    "filter",
    [
        Filter(states=frozenset({State.RUNNABLE}), queue="default"),
        Filter(tenant="acme", handler="send"),
        Filter(workflow="w"),
        Filter(states=frozenset({State.FAILED}), handler="work", query=parse("queue:default")),
    ],
)
def test_the_fields_of_a_filter_count(filled: Store, filter: Filter) -> None:
    total = filled.count(filter)

    assert total == Total(len(filled.find(filter).tasks), exact=True)
    assert total.tasks > 0


@pytest.mark.parametrize("text", ["handler:work", "handler:wo*", "handler:work state:runnable", "workflow:w"])
def test_a_count_ends_at_its_limit_and_says_so(store: Store, text: str) -> None:
    submit(store, *[a_task(workflow="w") for _ in range(7)])
    filter = Filter(query=parse(text))

    assert store.count(filter, limit=6) == Total(6, exact=False)
    assert store.count(filter, limit=7) == Total(7, exact=True)


def test_the_limit_does_not_cut_what_the_counts_know(store: Store) -> None:
    submit(store, *[a_task() for _ in range(7)])

    assert store.count(Filter(query=parse("state:runnable")), limit=1) == Total(7, exact=True)
    assert store.count(Filter(queue="default"), limit=1) == Total(7, exact=True)


def test_tasks_beyond_the_first_page_are_counted(
    home: Home, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.stores.sql.find.SCANNED", 3)
    monkeypatch.setattr("windlass.stores.sql.count.SCANNED", 3)
    store = home.open(clock)
    submit(store, *[a_task(handler="early", args={"n": 1}) for _ in range(2)], *[a_task() for _ in range(8)])

    assert store.count(Filter(query=parse("args.n:1"))) == Total(2, exact=True)


@pytest.mark.parametrize("limit", [0, -1, True])
def test_a_limit_below_one_is_refused(store: Store, limit: int) -> None:
    with pytest.raises(InvalidTask, match="limit="):
        store.count(Filter(), limit=limit)
