"""Limits hold over all sessions: how many tasks run at once, and how many start in a period."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from tests.support.builders import MINUTE, SECOND, a_session, a_task, at_once, claim_all, complete, submit, submit_one
from windlass.clock import ManualClock
from windlass.core.fairness import TENANT, SetBy, Tenant, encode_tenant
from windlass.core.limits import LIMIT, Limit, Running, encode_limit
from windlass.core.ordering import Queue
from windlass.core.serving import Serves
from windlass.core.settlement import RELEASED
from windlass.core.task import Claim, Rate
from windlass.core.times import micros
from windlass.stores.protocol import Store

SCOPES: list[dict[str, str]] = [
    {"queue": "default"},
    {"tenant": "a"},
    {"queue": "default", "tenant": "a"},
    {"handler": "work"},
    {"key": "k"},
]


def set_limit(store: Store, **fields: Any) -> None:
    limit = Limit(**fields)
    version = next((one.version for one in store.controls(LIMIT) if one.name == limit.name), 0)
    assert store.put_control(LIMIT, limit.name, encode_limit(limit), expect=version)


def pause(store: Store, tenant: str, set_by: SetBy | None) -> None:
    version = next((one.version for one in store.controls(TENANT) if one.name == tenant), 0)
    assert store.put_control(TENANT, tenant, encode_tenant(Tenant(paused=set_by)), expect=version)


def fill(store: Store, tasks: int, **fields: Any) -> None:
    submit(store, *(a_task(**{"tenant": "a", "limit": "k", "max_running": 1_000, **fields}) for _ in range(tasks)))


@pytest.mark.parametrize("fair", [False, True])
@pytest.mark.parametrize("scope", SCOPES)
def test_no_more_run_at_once_than_a_limit_allows(store: Store, scope: dict[str, str], fair: bool) -> None:
    store.configure(Queue(name="default", fair=fair))
    set_limit(store, **scope, max_running=2)
    fill(store, 5)
    first = claim_all(store)
    assert len(first) == 2
    assert claim_all(store) == []

    complete(store, first[0])

    assert len(claim_all(store)) == 1
    assert claim_all(store) == []


@pytest.mark.parametrize("fair", [False, True])
@pytest.mark.parametrize("scope", SCOPES[1:])
def test_what_a_limit_holds_back_does_not_hold_up_others(store: Store, scope: dict[str, str], fair: bool) -> None:
    store.configure(Queue(name="default", fair=fair))
    set_limit(store, **scope, max_running=1)
    fill(store, 30)
    others = submit(store, *(a_task(tenant="b", handler="other") for _ in range(3)))

    claimed = claim_all(store)

    assert len(claimed) == 4
    assert {*others} < {claim.id for claim in claimed}


def test_a_key_holds_over_queues_tenants_and_handlers(store: Store) -> None:
    for number, queue in enumerate(("x", "y")):
        submit_one(store, queue=queue, tenant=f"t{number}", handler=f"h{number}", limit="k", max_running=1)

    assert len(claim_all(store, queues=["x", "y"])) == 1


def test_keys_are_counted_apart(store: Store) -> None:
    submit(store, *(a_task(limit=f"customer:{n % 10}", max_running=1) for n in range(50)))

    runs: list[Counter[str | None]] = []
    while claims := claim_all(store):
        runs.append(Counter(claim.rules.limit for claim in claims))
        complete(store, *claims)

    assert runs == [{f"customer:{n}": 1 for n in range(10)}] * 5


def test_the_next_task_of_a_key_keeps_its_place(store: Store) -> None:
    first, second = submit(store, *(a_task(limit="k", max_running=1, priority=5) for _ in range(2)))
    [claim] = claim_all(store)
    other = submit_one(store, priority=1)
    assert claim.id == first

    complete(store, claim)

    assert [claim.id for claim in claim_all(store)] == [second, other]


def test_tasks_of_one_key_run_in_order(store: Store) -> None:
    ids = submit(store, *(a_task(limit="k", max_running=1) for _ in range(5)))

    ran = []
    while claims := claim_all(store):
        complete(store, *claims)
        ran += [claim.id for claim in claims]

    assert ran == ids


def test_an_operator_may_change_the_limit_of_a_key(store: Store) -> None:
    submit(store, *(a_task(limit="k", max_running=1) for _ in range(5)))
    assert len(claim_all(store)) == 1

    set_limit(store, key="k", max_running=4)

    assert len(claim_all(store)) == 3


def test_a_held_back_task_can_be_cancelled_changed_and_retried(store: Store) -> None:
    ids = submit(store, *(a_task(limit="k", max_running=1) for _ in range(3)))
    [claim] = claim_all(store)
    assert claim.id == ids[0]

    assert store.cancel([ids[1]], reason="not needed") == 1
    assert store.retry([ids[1]]) == 1
    complete(store, claim)

    [claim] = claim_all(store)
    assert claim.id == ids[1]
    assert store.ahead(ids[2]) == 0


def test_the_places_of_a_lost_session_come_back(store: Store, clock: ManualClock) -> None:
    set_limit(store, queue="default", max_running=1)
    fill(store, 2)
    assert len(claim_all(store, a_session(store, ttl=SECOND))) == 1
    assert claim_all(store) == []

    clock.advance(2 * SECOND)
    store.sweep()

    assert len(claim_all(store)) == 1


@pytest.mark.parametrize("end", ["close", "release", "cancel"])
def test_every_end_of_a_lease_gives_its_place_back(store: Store, clock: ManualClock, end: str) -> None:
    fill(store, 3, max_running=1)
    session = a_session(store)
    [claim] = claim_all(store, session)

    if end == "close":
        store.close_session(session)
    elif end == "release":
        store.settle([(claim.lease, RELEASED)])
    else:
        store.cancel([claim.id], reason="stop", grace=SECOND)
        clock.advance(2 * SECOND)
        store.sweep()

    assert len(claim_all(store)) == 1


def test_a_limit_ends_when_it_expires_or_is_removed(store: Store, clock: ManualClock) -> None:
    fill(store, 6)
    set_limit(store, tenant="a", max_running=1, set_by=SetBy(by="ops", until=clock.now() + micros(MINUTE)))
    set_limit(store, handler="work", max_running=3)
    assert len(claim_all(store)) == 1

    clock.advance(MINUTE)
    assert len(claim_all(store)) == 2

    [limit] = [one for one in store.controls(LIMIT) if one.name == "handler=work"]
    assert store.put_control(LIMIT, limit.name, None, expect=limit.version)
    assert len(claim_all(store)) == 3


def test_a_claim_is_not_cut_short_by_a_limit_that_has_expired(store: Store, clock: ManualClock) -> None:
    set_limit(store, queue="default", max_running=1, set_by=SetBy(by="ops", until=clock.now() + micros(MINUTE)))
    fill(store, 4, limit=None, max_running=None)

    clock.advance(MINUTE)

    assert len(store.claim(a_session(store), ["default"], limit=3)) == 3


@pytest.mark.parametrize("fair", [False, True])
@pytest.mark.parametrize("scope", SCOPES)
def test_tasks_start_after_their_only_limit_was_removed(store: Store, scope: dict[str, str], fair: bool) -> None:
    store.configure(Queue(name="default", fair=fair))
    set_limit(store, **scope, max_running=1)
    submit(store, *(a_task(tenant="a", limit="k", max_running=1_000) for _ in range(3)))
    assert len(claim_all(store)) == 1

    [limit] = store.controls(LIMIT)
    assert store.put_control(LIMIT, limit.name, None, expect=limit.version)

    assert len(claim_all(store)) == 2


def test_a_lower_limit_stops_nothing_that_runs(store: Store) -> None:
    fill(store, 6)
    set_limit(store, queue="default", max_running=4)
    first = claim_all(store)
    set_limit(store, queue="default", max_running=2)

    complete(store, *first[:2])
    assert claim_all(store) == []
    complete(store, first[2])
    assert len(claim_all(store)) == 1


@pytest.mark.parametrize("fair", [False, True])
def test_tasks_of_a_paused_tenant_do_not_start(store: Store, clock: ManualClock, fair: bool) -> None:
    store.configure(Queue(name="default", fair=fair))
    fill(store, 2)
    other = submit_one(store, tenant="b")
    pause(store, "a", SetBy(by="ops", why="noisy", until=clock.now() + micros(MINUTE)))
    assert [claim.id for claim in claim_all(store)] == [other]

    clock.advance(MINUTE)

    assert len(claim_all(store)) == 2


@pytest.mark.parametrize("scope", SCOPES)
def test_a_rate_allows_so_many_starts_per_period(store: Store, clock: ManualClock, scope: dict[str, str]) -> None:
    set_limit(store, **scope, rate=Rate(10, MINUTE))
    fill(store, 100)

    assert len(claim_all(store)) == 10
    assert claim_all(store) == []
    clock.advance(6 * SECOND)
    assert len(claim_all(store)) == 1
    clock.advance(10 * MINUTE)
    assert len(claim_all(store)) == 10


def test_a_task_may_declare_the_rate_of_its_key(store: Store, clock: ManualClock) -> None:
    rate = Rate(1, SECOND)
    submit(store, *(a_task(limit=key, rate=rate) for _ in range(3) for key in ("x", "y")))

    assert len(claim_all(store)) == 2
    assert claim_all(store) == []
    clock.advance(SECOND)
    assert len(claim_all(store)) == 2


def test_a_rate_wakes_a_waiting_claimer(store: Store, clock: ManualClock) -> None:
    set_limit(store, queue="default", rate=Rate(100, 10 * SECOND))
    fill(store, 101)
    assert len(claim_all(store)) == 100

    assert store.wait_for_work(["default"], timedelta(minutes=1))


def test_the_buckets_of_rates_can_be_read(store: Store, clock: ManualClock) -> None:
    set_limit(store, queue="default", rate=Rate(2, 10 * SECOND))
    fill(store, 3, rate=Rate(10, MINUTE))
    now = clock.now()
    assert not {at for at in store.buckets(["queue=default", "key=k"]).values() if at > now}

    assert len(claim_all(store)) == 2

    found = {name: at - now for name, at in store.buckets(["queue=default", "key=k", "queue=other"]).items()}
    assert found == {"queue=default": micros(10 * SECOND), "key=k": micros(12 * SECOND)}
    assert store.buckets(["key=k"]).keys() == {"key=k"}
    assert store.buckets([]) == {}


def test_leases_are_counted_by_what_limits_depend_on(store: Store) -> None:
    submit(store, *(a_task(tenant="a") for _ in range(2)), a_task(tenant="b", limit="k", max_running=5))
    claims: list[Claim] = claim_all(store)

    assert store.running() == [
        Running("default", "a", "work", None, 2),
        Running("default", "b", "work", "k", 1),
    ]
    complete(store, *claims)
    assert store.running() == []


def test_claims_at_the_same_time_stay_within_a_limit(store: Store) -> None:
    set_limit(store, tenant="a", max_running=5)
    fill(store, 60, max_running=7)

    claims = at_once(4, lambda _: store.claim(a_session(store), ["default"], 3))

    assert sum(map(len, claims)) == 5


@pytest.mark.parametrize("fair", [False, True])
def test_what_a_claimer_cannot_run_is_not_forgotten(store: Store, fair: bool) -> None:
    store.configure(Queue(name="default", fair=fair))
    submit(store, *(a_task(tenant="a", handler=name, limit="k", max_running=1) for name in ("one", "two", "two")))
    session = a_session(store, ttl=60 * MINUTE)
    [first] = store.claim(session, ["default"], 10)
    assert store.claim(session, ["default"], 10) == []
    complete(store, first)

    assert store.claim(session, ["default"], 10, serves=Serves(handlers=frozenset({"one"}))) == []

    for _ in range(2):
        [claim] = store.claim(session, ["default"], 10)
        complete(store, claim)


def test_a_rate_wakes_only_claimers_of_its_queue(store: Store) -> None:
    set_limit(store, queue="default", rate=Rate(1, timedelta(milliseconds=1)))
    set_limit(store, queue="other", max_running=5)
    submit(store, a_task(), a_task(), a_task(queue="other"))
    session = a_session(store)
    assert len(store.claim(session, ["default", "other"], 10)) == 2
    assert store.claim(session, ["default", "other"], 10) == []
    assert store.claim(session, ["other"], 10) == []

    # The first calls may see the wake-ups of the submits.
    assert not all(store.wait_for_work(["other"], timedelta(milliseconds=20)) for _ in range(20))


def test_a_limit_that_was_raised_lets_tasks_of_several_queues_start_at_once(store: Store) -> None:
    set_limit(store, key="k", max_running=0)
    for queue in ("default", "other"):
        fill(store, 2, queue=queue)
    session = a_session(store)
    assert store.claim(session, ["default", "other"], 10) == []

    set_limit(store, key="k", max_running=4)

    assert len(store.claim(session, ["default", "other"], 10)) == 4
