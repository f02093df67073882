"""Filters in the filter language: every store finds exactly the tasks that `Query.matches` says."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.properties.queries import QUERIES
from tests.support.builders import (
    DAY,
    GAVE_UP,
    MINUTE,
    RAISED,
    SECOND,
    a_session,
    a_task,
    all_tasks,
    complete,
    report,
    state_of,
    submit,
    submit_one,
    sweep_until_quiet,
    task_of,
)
from windlass.clock import ManualClock
from windlass.core.lifecycle import State
from windlass.core.query import Query, parse
from windlass.core.task import NewTask, Task, TaskId
from windlass.stores.protocol import SCANNED, Cursor, Filter, Store

NAMES = ["a", "b", "ab", "Ab", "a:b", "42", "-a"]
TEXTS = [None, "a", "ab", "a b", '"', "\\", "*", "x,y", ">", "ä"]
ARGS = [{}, {"a": "ab"}, {"a": [1, -2.5]}, {"a": {"0": 3}}, {"a": None}, {"a": ["a b", "Ab"]}, {"b": {"a": True}}]


def asked(text: str) -> Filter:
    return Filter(query=parse(text))


def found(store: Store, filter: Filter, limit: int = 100) -> list[Task]:
    """All that match, page by page."""
    tasks: list[Task] = []
    after: Cursor | None = None
    for _ in range(1_000):
        page = store.find(filter, limit=limit, after=after)
        assert len(page.tasks) <= limit
        tasks += page.tasks
        after = page.after
        if after is None:
            return tasks
    raise AssertionError("it never came to the last page")


@pytest.fixture(params=["all at once", "a few at a time"])
def scanned(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """How far a call looks: as far as ever, or so far that every filter needs several calls."""
    if request.param == "all at once":
        return SCANNED
    monkeypatch.setattr("windlass.stores.sql.find.SCANNED", 9)
    monkeypatch.setattr("windlass.stores.sql.find.CHUNK", 4)
    return 9


@pytest.fixture
def world(store: Store, clock: ManualClock) -> list[Task]:
    """Tasks of many kinds in every state, newest first."""
    rng = Random(7)
    keys = cycle(range(1_000))
    for _ in range(12):
        submit(store, *(_some_task(rng, next(keys)) for _ in range(5)))
        clock.advance(MINUTE * rng.random() * 100)
    submit(store, *(a_task(queue=rng.choice(NAMES), priority=rng.randint(-9, 9)) for _ in range(4)))
    _run_some(store, rng)
    sweep_until_quiet(store)
    tasks = all_tasks(store)
    assert {task.state for task in tasks} == set(State)
    return tasks


def _some_task(rng: Random, number: int) -> NewTask:
    text = rng.choice(TEXTS)
    return a_task(
        handler=rng.choice(NAMES),
        queue=rng.choice(NAMES),
        tenant=rng.choice(NAMES),
        workflow=rng.choice(TEXTS),
        key=None if text is None else f"{text}{number if rng.random() < 0.5 else ''}{rng.random()}",
        priority=rng.randint(-9, 9),
        args=rng.choice(ARGS),
        delay=DAY * 30 if rng.random() < 0.1 else None,
        expires=SECOND if rng.random() < 0.1 else None,
    )


def _run_some(store: Store, rng: Random) -> None:
    blocker = submit_one(store, queue="blockers")
    submit(store, a_task(prerequisites=[blocker], queue="a"), a_task(prerequisites=[blocker], queue="b"))
    claims = store.claim(a_session(store), NAMES, 30)
    for claim, end in zip(claims, cycle(["good", "bad", "again", "held"]), strict=False):
        if end == "good":
            complete(store, claim)
        elif end != "held":
            report(store, claim, GAVE_UP if end == "bad" else RAISED)
    runnable = store.find(Filter(states=frozenset({State.RUNNABLE}))).tasks
    store.cancel([task.id for task in rng.sample(runnable, 3)], reason="Ab a:b")


@given(query=QUERIES, limit=st.integers(1, 30))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30)
def test_a_store_finds_what_matches_and_nothing_else(
    store: Store, clock: ManualClock, world: Sequence[Task], scanned: int, query: Query, limit: int
) -> None:
    assert found(store, Filter(query=query), limit) == [task for task in world if query.matches(task, clock.now())]


@pytest.mark.parametrize(
    "text",
    [
        "state:failed",
        "state:failed,retrying queue:a,b",
        "state:scheduled",
        "state:runnable -queue:a",
        "state:waiting",
        "-state:completed,runnable",
        "state:failed -state:failed",
        "workflow:a,ab",
        'workflow:""',
        'workflow:a,""',
        "workflow:a state:failed,runnable",
        "workflow:nowhere",
        "handler:a* -tenant:b",
        'key:"" tenant:a,b,ab workflow:a,ab,""',
        "age>1d",
        "age>=0s",
        "age<5h age>1h",
        "age<0s",
        "args.a.0>0",
        "error~oops",
    ],
)
def test_the_narrow_ways_find_the_same(
    store: Store, clock: ManualClock, world: Sequence[Task], scanned: int, text: str
) -> None:
    query = parse(text)

    assert found(store, asked(text), 5) == [task for task in world if query.matches(task, clock.now())]


def test_the_plain_conditions_of_a_filter_must_hold_too(store: Store, world: Sequence[Task], scanned: int) -> None:
    filter = Filter(tenant="a", states=frozenset({State.COMPLETED, State.RUNNABLE}), query=parse("-queue:ab"))

    states = {State.COMPLETED, State.RUNNABLE}
    expected = [task for task in world if task.tenant == "a" and task.state in states and task.queue != "ab"]
    assert found(store, filter, 2) == expected


def test_tasks_are_found_by_id_and_by_key_without_looking_at_others(
    store: Store, world: Sequence[Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.stores.sql.find.SCANNED", 2)
    oldest, keyed = world[-1], next(task for task in reversed(world) if task.key and task.workflow)
    key, workflow = (text and text.replace("\\", "\\\\").replace('"', '\\"') for text in (keyed.key, keyed.workflow))

    page = store.find(asked(f"id:{oldest.id},{keyed.id} -queue:nowhere"), limit=10)
    assert {task.id for task in page.tasks} == {oldest.id, keyed.id}
    assert page.after is None
    one = store.find(asked(f"id:{oldest.id},{keyed.id}"), limit=1)
    assert found(store, asked(f"id:{oldest.id},{keyed.id}"), 1) == page.tasks
    assert (len(one.tasks), one.after is None) == (1, False)
    assert store.find(asked(f'key:"{key}" workflow:"{workflow}" tenant:{keyed.tenant}')).tasks == [keyed]
    assert store.find(asked(f'key:"{key}" workflow:"{workflow}" tenant:nobody')).tasks == []


def test_few_tasks_among_many_are_found_in_one_call(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.stores.sql.find.SCANNED", 10)
    first = submit(store, a_task(workflow="w"), a_task(delay=DAY))
    submit(store, *(a_task(delay=MINUTE) for _ in range(5)), *(a_task(queue="other") for _ in range(50)))

    assert [task.id for task in store.find(asked("workflow:w")).tasks] == first[:1]
    assert store.find(asked("state:scheduled age>=0s priority<1"), limit=3).tasks != []
    page = store.find(asked("state:scheduled,retrying"), limit=10)
    assert (len(page.tasks), page.after) == (6, None)


@pytest.mark.parametrize("filter", [asked("args.n:1"), asked("handler:rare"), Filter(handler="rare")])
def test_a_page_may_be_short_or_empty_while_there_is_more(
    store: Store, clock: ManualClock, kind: str, monkeypatch: pytest.MonkeyPatch, filter: Filter
) -> None:
    if kind == "memory":
        pytest.skip("it looks at everything at once")
    monkeypatch.setattr("windlass.stores.sql.find.SCANNED", 10)
    [rare] = submit(store, a_task(handler="rare", args={"n": 1}))
    clock.advance(SECOND)
    submit(store, *(a_task() for _ in range(20)))

    pages = [store.find(filter)]
    while pages[-1].after is not None:
        pages.append(store.find(filter, after=pages[-1].after))

    assert [[task.id for task in page.tasks] for page in pages] == [[], [], [rare]]


def test_there_is_no_page_behind_the_last_task(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.stores.sql.find.SCANNED", 10)
    submit(store, *(a_task() for _ in range(10)))

    assert store.find(asked("priority>0")).after is None
    assert store.find(asked("priority:0")).after is None


def test_an_age_is_exact_to_the_microsecond(store: Store, clock: ManualClock) -> None:
    id = submit_one(store)
    clock.advance(MINUTE)

    answers = {op: [task.id for task in store.find(asked(f"age{op}1m")).tasks] for op in (">", ">=", "<", "<=")}

    assert answers == {">": [], ">=": [id], "<": [], "<=": [id]}


def test_tasks_submitted_between_two_pages_do_not_make_a_task_appear_twice(
    store: Store, clock: ManualClock, scanned: int
) -> None:
    old = submit(store, *(a_task(args={"n": number % 3}) for number in range(40)))
    clock.advance(SECOND)
    page = store.find(asked("args.n:1"), limit=5)
    submit(store, *(a_task(args={"n": 1}) for _ in range(20)))
    clock.advance(SECOND)

    ids = [task.id for task in page.tasks]
    while page.after is not None:
        page = store.find(asked("args.n:1"), limit=5, after=page.after)
        ids += [task.id for task in page.tasks]

    assert sorted(ids) == sorted(old[1::3])


def test_verbs_take_every_task_that_the_filter_matches_and_no_other(
    store: Store, clock: ManualClock, world: Sequence[Task], scanned: int
) -> None:
    def matching(text: str) -> set[TaskId]:
        return {task.id for task in all_tasks(store) if parse(text).matches(task, clock.now())}

    dead = matching("state:failed,expired priority<=2")
    assert len(dead) > 1
    assert store.retry(asked("state:failed,expired priority<=2")) == len(dead)
    assert not any(task_of(store, id).state.ended_badly for id in dead)

    stopped = matching("state:runnable,scheduled -handler:a* -queue:blockers")
    before = len(matching("state:cancelled"))
    assert store.cancel(asked("state:ready,scheduled -task:a* -queue:blockers"), reason="enough") == len(stopped) > 1
    assert {state_of(store, id) for id in stopped} == {State.CANCELLED}
    assert len(matching("state:cancelled")) == before + len(stopped)

    gone = matching("state:cancelled error:enough priority>0")
    assert store.purge(asked("state:cancelled error:enough priority>0")) == len(gone) > 1
    assert store.get(sorted(gone)) == [None] * len(gone)
    assert len(all_tasks(store)) == len(world) - len(gone)


def test_a_verb_by_age_goes_by_the_stores_clock(store: Store, clock: ManualClock) -> None:
    [old] = submit(store, a_task())
    clock.advance(MINUTE)
    [new] = submit(store, a_task())

    assert store.cancel(asked("age>30s"), reason="old") == 1
    assert (state_of(store, old), state_of(store, new)) == (State.CANCELLED, State.RUNNABLE)
