"""Failed tasks by error: the groups, and the tasks of a group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.builders import (
    HOUR,
    RAISED,
    SECOND,
    a_session,
    claim_one,
    report,
    submit_one,
    sweep_until_quiet,
    task_of,
)
from tests.support.stores import Home
from windlass.clock import ManualClock
from windlass.core.fingerprint import fingerprint
from windlass.core.retry import Error
from windlass.core.settlement import Crashed, Raised
from windlass.core.task import TaskId
from windlass.errors import InvalidTask
from windlass.stores.dead_letters import NEWEST, DeadCursor, DeadGroup, DeadIds
from windlass.stores.protocol import Store

DIVISION = Error(kind="ZeroDivisionError", message="division of 7 by zero", traceback='File "a.py", line 4, in pay')
SAME = Error(kind="ZeroDivisionError", message="division of 9 by zero", traceback='File "a.py", line 8, in pay')
MISSING = Error(kind="KeyError", message="'total'")


def fail(store: Store, error: Error = DIVISION, **changes: Any) -> TaskId:
    """Submit a task and let it fail with this error."""
    id = submit_one(store, **changes)
    claim = claim_one(store, queue=changes.get("queue", "default"))
    assert claim.id == id
    report(store, claim, Raised(error, give_up=True))
    return id


def group_ids(store: Store, **where: Any) -> list[tuple[str, int]]:
    return [(group.id, group.count) for group in store.dead_groups(**where).groups]


def test_a_store_without_failed_tasks_has_no_groups(store: Store) -> None:
    submit_one(store)
    report(store, claim_one(store), RAISED)

    found = store.dead_groups()

    assert (found.groups, found.complete) == ([], True)
    assert store.dead_letters("00000000").tasks == []


def test_failed_tasks_are_grouped_by_their_error(store: Store, clock: ManualClock) -> None:
    first = fail(store, tenant="beta", handler="send")
    began = clock.now()
    clock.advance(HOUR)
    other = fail(store, MISSING)
    last = fail(store, SAME, tenant="acme", handler="mail")

    found = store.dead_groups()

    assert found.complete
    assert found.groups == [
        DeadGroup(
            id=fingerprint(DIVISION),
            count=2,
            error=SAME,
            first=began,
            last=clock.now(),
            handlers=["mail", "send"],
            tenants=["acme", "beta"],
            newest=[last, first],
        ),
        DeadGroup(
            id=fingerprint(MISSING),
            count=1,
            error=MISSING,
            first=clock.now(),
            last=clock.now(),
            handlers=["work"],
            tenants=["default"],
            newest=[other],
        ),
    ]


def test_groups_of_one_size_are_ordered_by_id(store: Store) -> None:
    errors = [Error(kind=f"Kind{name}") for name in "abcde"]
    for error in errors:
        fail(store, error)

    assert group_ids(store) == sorted((fingerprint(error), 1) for error in errors)


def test_groups_can_be_read_for_one_queue_and_tenant(store: Store) -> None:
    fail(store, DIVISION, queue="mail", tenant="acme")
    fail(store, DIVISION, queue="mail", tenant="beta")
    fail(store, MISSING, tenant="acme")
    division, missing = fingerprint(DIVISION), fingerprint(MISSING)

    assert group_ids(store, queue="mail") == [(division, 2)]
    assert sorted(group_ids(store, tenant="acme")) == sorted([(division, 1), (missing, 1)])
    assert group_ids(store, queue="mail", tenant="beta") == [(division, 1)]
    assert group_ids(store, tenant="nobody") == []


def test_a_group_names_its_newest_tasks_only(store: Store, clock: ManualClock) -> None:
    ids: list[TaskId] = []
    for _ in range(NEWEST + 2):
        ids.append(fail(store))
        clock.advance(SECOND)

    [group] = store.dead_groups().groups

    assert group.count == NEWEST + 2
    assert group.newest == ids[:1:-1]


def test_only_the_newest_failed_tasks_are_looked_at(store: Store, clock: ManualClock) -> None:
    for error in (MISSING, DIVISION, SAME):
        fail(store, error)
        clock.advance(SECOND)

    found = store.dead_groups(limit=2)

    assert ([(group.id, group.count) for group in found.groups], found.complete) == (
        [(fingerprint(DIVISION), 2)],
        False,
    )
    assert store.dead_groups(limit=3).complete
    assert not store.dead_groups(limit=2, tenant="nobody").complete


def test_the_number_of_groups_is_bounded(home: Home, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("memory.dead_letters", "sql.dead_letters"):
        monkeypatch.setattr(f"windlass.stores.{module}.MOST_GROUPS", 2)
    store = home.open(clock)
    for error in (MISSING, DIVISION, SAME, Error(kind="Third")):
        fail(store, error)

    found = store.dead_groups()

    assert (len(found.groups), found.groups[0].id, found.complete) == (2, fingerprint(DIVISION), False)


def test_the_last_error_decides_after_several_attempts(store: Store, clock: ManualClock) -> None:
    id = submit_one(store)
    report(store, claim_one(store), Raised(MISSING))
    clock.advance(HOUR)
    sweep_until_quiet(store)
    report(store, claim_one(store), Raised(DIVISION, give_up=True))

    [group] = store.dead_groups().groups

    assert (group.id, group.error, group.newest) == (fingerprint(DIVISION), DIVISION, [id])


def test_a_task_that_is_retried_leaves_its_group_and_may_join_another(store: Store) -> None:
    id = fail(store, MISSING)
    fail(store, DIVISION)

    store.retry([id])
    assert group_ids(store) == [(fingerprint(DIVISION), 1)]
    report(store, claim_one(store), Raised(SAME, give_up=True))

    assert group_ids(store) == [(fingerprint(DIVISION), 2)]


def test_a_task_that_is_purged_leaves_its_group(store: Store) -> None:
    id = fail(store)

    store.purge([id])

    assert group_ids(store) == []


def lose(store: Store, clock: ManualClock) -> None:
    """Let the session of an at-most-once task end without a report."""
    store.claim(a_session(store, ttl=SECOND), ["default"], limit=1)
    clock.advance(HOUR)
    sweep_until_quiet(store)


def close(store: Store, _clock: ManualClock) -> None:
    session = a_session(store)
    store.claim(session, ["default"], limit=1)
    store.close_session(session)


def crash(store: Store, _clock: ManualClock) -> None:
    report(store, claim_one(store), Crashed(Error(kind="SIGKILL", message="killed")))


@pytest.mark.parametrize(
    ("end", "kind"), [(lose, "NodeLost"), (close, "SessionClosed"), (crash, "SIGKILL")], ids=["lost", "closed", "crash"]
)
def test_a_task_that_fails_without_its_handler_has_a_group(
    store: Store, clock: ManualClock, end: Callable[[Store, ManualClock], None], kind: str
) -> None:
    id = submit_one(store, at_most_once=True)

    end(store, clock)

    [group] = store.dead_groups().groups
    assert (group.error.kind, group.newest) == (kind, [id])
    assert group.id == fingerprint(group.error)


def test_a_page_of_a_group_has_its_tasks_newest_first(store: Store, clock: ManualClock) -> None:
    ids: list[TaskId] = []
    for _ in range(3):
        ids.append(fail(store))
        fail(store, MISSING)
        clock.advance(SECOND)
    group = fingerprint(DIVISION)

    first = store.dead_letters(group, limit=2)
    second = store.dead_letters(group, limit=2, after=first.after)

    assert first.tasks == [task_of(store, id) for id in (ids[2], ids[1])]
    assert [task.id for task in second.tasks] == [ids[0]]
    assert second.after is None
    assert store.dead_letters(group, limit=3).after is None
    assert store.dead_ids(group, limit=2) == DeadIds([ids[2], ids[1]], first.after)
    assert store.dead_ids(group, limit=2, after=first.after) == DeadIds([ids[0]], None)


def test_a_page_of_a_group_can_be_for_one_queue_and_tenant(store: Store) -> None:
    mine = fail(store, queue="mail", tenant="acme")
    fail(store, queue="mail")
    fail(store, tenant="acme")

    page = store.dead_letters(fingerprint(DIVISION), queue="mail", tenant="acme")

    assert [task.id for task in page.tasks] == [mine]


def test_tasks_that_failed_at_one_moment_are_on_one_page_each(store: Store) -> None:
    ids = {fail(store) for _ in range(5)}
    found: list[TaskId] = []
    after: DeadCursor | None = None
    while True:
        page = store.dead_letters(fingerprint(DIVISION), limit=2, after=after)
        found += [task.id for task in page.tasks]
        after = page.after
        if after is None:
            break

    assert (len(found), set(found)) == (5, ids)


def test_a_group_far_behind_the_newest_tasks_is_found_over_several_pages(
    home: Home, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.stores.sql.dead_letters.SCANNED", 3)
    store = home.open(clock)
    old = fail(store, MISSING)
    for _ in range(7):
        clock.advance(SECOND)
        fail(store)

    found: list[TaskId] = []
    after: DeadCursor | None = None
    for _ in range(4):
        page = store.dead_letters(fingerprint(MISSING), after=after)
        found += [task.id for task in page.tasks]
        after = page.after
        if after is None:
            break

    assert (found, after) == ([old], None)


@pytest.mark.parametrize("limit", [0, -1, True])
def test_a_limit_below_one_is_refused(store: Store, limit: int) -> None:
    with pytest.raises(InvalidTask, match="limit="):
        store.dead_groups(limit=limit)
    with pytest.raises(InvalidTask, match="limit="):
        store.dead_letters("00000000", limit=limit)
