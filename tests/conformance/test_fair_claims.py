"""In a fair queue, tenants take turns by the run time that they have used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from tests.support.builders import MINUTE, SECOND, a_session, a_task, complete, submit, submit_one
from windlass.clock import ManualClock
from windlass.core.fairness import FIRST_RUN_TIME, SCALE, TENANT, SetBy, Tenant, encode_tenant
from windlass.core.limits import LIMIT, Limit, encode_limit
from windlass.core.ordering import Queue, Strategy
from windlass.core.serving import Serves
from windlass.core.settlement import COMPLETED, RELEASED
from windlass.core.task import Claim, SessionId
from windlass.core.times import Micros, micros
from windlass.stores.protocol import Store


@pytest.fixture(autouse=True)
def fair(store: Store) -> None:
    store.configure(Queue(name="default", fair=True))


@pytest.fixture
def session(store: Store) -> SessionId:
    return a_session(store, ttl=60 * MINUTE)


def fill(store: Store, tenants: Mapping[str, int]) -> None:
    submit(store, *(a_task(tenant=tenant) for tenant, tasks in tenants.items() for _ in range(tasks)))


def weigh(store: Store, tenant: str, weight: int, until: Micros | None = None) -> None:
    value = encode_tenant(Tenant(weight=weight, weight_set_by=SetBy(by="ops", until=until)))
    version = next((one.version for one in store.controls(TENANT) if one.name == tenant), 0)
    assert store.put_control(TENANT, tenant, value, expect=version)


def tenants_of(claims: list[Claim]) -> list[str]:
    return [claim.tenant for claim in claims]


def run(store: Store, session: SessionId, seconds: Mapping[str, float], claims: int, batch: int = 1) -> Counter[str]:
    """Claim and complete again and again. Return the number of tasks by tenant; `seconds` says how long each runs."""
    tasks: Counter[str] = Counter()
    for _ in range(claims):
        claimed = store.claim(session, ["default"], batch)
        tasks.update(tenants_of(claimed))
        store.settle([(one.lease, replace(COMPLETED, ran=round(seconds[one.tenant] * 1e6))) for one in claimed])
    return tasks


def test_tenants_take_turns_whatever_came_first(store: Store, session: SessionId) -> None:
    fill(store, {"a": 5, "b": 2, "c": 1})

    claimed = tenants_of(store.claim(session, ["default"], 8))

    assert claimed == ["a", "b", "c", "a", "b", "a", "a", "a"]


def test_the_strategy_orders_the_tasks_of_a_tenant(store: Store, session: SessionId) -> None:
    store.configure(Queue(name="default", fair=True, strategy=Strategy.PRIORITY))
    low = submit_one(store, tenant="a", priority=1)
    high = submit_one(store, tenant="a", priority=9)
    other = submit_one(store, tenant="b", priority=5)

    assert [claim.id for claim in store.claim(session, ["default"], 3)] == [high, other, low]


def test_run_time_counts_and_not_the_number_of_tasks(store: Store, session: SessionId) -> None:
    fill(store, {"long": 200, "short": 200})

    tasks = run(store, session, {"long": 4, "short": 1}, claims=100)

    assert abs(tasks["short"] - 4 * tasks["long"]) <= 4


def test_weights_divide_the_run_time(store: Store, session: SessionId) -> None:
    weigh(store, "b", 3)
    fill(store, {"a": 100, "b": 100})

    tasks = run(store, session, {"a": 1, "b": 1}, claims=80)

    assert abs(tasks["b"] - 60) <= 1


def test_a_weight_holds_until_it_expires(store: Store, session: SessionId, clock: ManualClock) -> None:
    weigh(store, "b", 3, until=clock.now() + micros(MINUTE))
    fill(store, {"a": 100, "b": 100})
    run(store, session, {"a": 1, "b": 1}, claims=8)

    clock.advance(MINUTE)

    assert abs(run(store, session, {"a": 1, "b": 1}, claims=40)["b"] - 20) <= 1


def test_a_batch_is_divided_like_single_tasks(store: Store, session: SessionId) -> None:
    fill(store, {"a": 100, "b": 100})
    run(store, session, {"a": 3, "b": 1}, claims=20)

    tasks = Counter(tenants_of(store.claim(session, ["default"], 40)))

    assert 28 <= tasks["b"] <= 32


def test_a_newcomer_gets_no_credit_for_the_past(store: Store, session: SessionId) -> None:
    fill(store, {"a": 200})
    run(store, session, {"a": 1}, claims=50)
    fill(store, {"b": 200})

    tasks = run(store, session, {"a": 1, "b": 1}, claims=40)

    assert abs(tasks["a"] - 20) <= 1


def test_a_tenant_that_comes_back_has_not_saved_up(store: Store, session: SessionId) -> None:
    fill(store, {"a": 100, "b": 1})
    run(store, session, {"a": 1, "b": 1}, claims=40)
    fill(store, {"b": 100})

    tasks = run(store, session, {"a": 1, "b": 1}, claims=40)

    assert abs(tasks["b"] - 20) <= 1


def test_time_that_nobody_else_wanted_is_not_paid_back(store: Store, session: SessionId) -> None:
    fill(store, {"a": 30})
    assert run(store, session, {"a": 10}, claims=40) == {"a": 30}
    fill(store, {"a": 100, "b": 100})

    tasks = run(store, session, {"a": 10, "b": 10}, claims=40)

    assert abs(tasks["a"] - 20) <= 1


def test_one_long_task_is_not_paid_back(store: Store, session: SessionId) -> None:
    fill(store, {"a": 1})
    assert run(store, session, {"a": 3_600}, claims=2) == {"a": 1}
    fill(store, {"a": 100, "b": 100})

    tasks = run(store, session, {"a": 10, "b": 10}, claims=40)

    assert abs(tasks["a"] - 20) <= 2


def test_all_of_an_idle_share_is_lent(store: Store, session: SessionId) -> None:
    weigh(store, "idle", 1_000)
    fill(store, {"a": 10})

    assert len(store.claim(session, ["default"], 10)) == 10


def test_the_measured_time_replaces_the_expected_one(store: Store, session: SessionId) -> None:
    fill(store, {"a": 1})
    [claim] = store.claim(session, ["default"], 1)
    assert claim.charge == FIRST_RUN_TIME * SCALE

    store.settle([(claim.lease, replace(COMPLETED, ran=2_000_000))])

    [queue, account] = store.accounts("default")
    assert (queue.tenant, account.tenant) == ("", "a")
    assert account.charged == 2_000_000 * SCALE
    assert account.mean == queue.mean == 2.0
    assert account.last_minute == account.last_hour == queue.last_minute == 2.0


def test_without_a_measured_time_the_time_since_the_claim_counts(
    store: Store, session: SessionId, clock: ManualClock
) -> None:
    fill(store, {"a": 1})
    claims = store.claim(session, ["default"], 1)
    clock.advance(3 * SECOND)
    complete(store, *claims)

    assert store.accounts("default")[1].mean == 3.0


def test_a_task_that_was_given_back_is_not_charged(store: Store, session: SessionId) -> None:
    fill(store, {"a": 1})
    [claim] = store.claim(session, ["default"], 1)

    store.settle([(claim.lease, RELEASED)])

    account = store.accounts("default")[1]
    assert (account.charged, account.mean) == (0, 0)


def test_a_tenant_whose_tasks_were_given_back_goes_before_a_newcomer(store: Store, session: SessionId) -> None:
    fill(store, {"z": 5})
    claims = [store.claim(session, ["default"], 1)[0] for _ in range(3)]
    store.settle([(claim.lease, RELEASED) for claim in claims])
    fill(store, {"a": 5})

    again = [tenants_of(store.claim(session, ["default"], 1))[0] for _ in range(4)]

    assert again == ["z", "z", "a", "z"]


def test_usage_fades(store: Store, session: SessionId, clock: ManualClock) -> None:
    fill(store, {"a": 1})
    run(store, session, {"a": 100}, claims=1)

    clock.advance(5 * MINUTE)

    account = store.accounts("default")[1]
    assert account.last_minute < 1
    assert account.last_hour > 90


def test_what_a_claimer_cannot_run_does_not_hold_up_others(store: Store, session: SessionId) -> None:
    submit(store, *(a_task(tenant="a", requires=("gpu",)) for _ in range(5)))
    fill(store, {"b": 2})

    claimed = store.claim(session, ["default"], 10, serves=Serves(labels=frozenset()))

    assert tenants_of(claimed) == ["b", "b"]


def test_a_fair_queue_can_become_a_plain_one_and_back(store: Store, session: SessionId) -> None:
    fill(store, {"a": 3, "b": 3})
    store.configure(Queue(name="default"))
    assert tenants_of(store.claim(session, ["default"], 2)) == ["a", "a"]

    store.configure(Queue(name="default", fair=True))

    assert Counter(tenants_of(store.claim(session, ["default"], 4))) == {"a": 1, "b": 3}


def test_what_has_ended_is_charged_although_the_queue_became_a_plain_one(store: Store, session: SessionId) -> None:
    fill(store, {"a": 3})
    [claim] = store.claim(session, ["default"], 1)
    store.configure(Queue(name="default"))
    store.settle([(claim.lease, replace(COMPLETED, ran=micros(MINUTE)))])

    store.claim(session, ["default"], 1)
    seen = store.accounts("default")
    store.configure(Queue(name="default", fair=True))
    store.claim(session, ["default"], 1)

    for accounts in (seen, store.accounts("default")):
        assert [(one.tenant, one.mean) for one in accounts] == [("", 60), ("a", 60)]


def test_many_tenants_each_get_a_turn(store: Store, session: SessionId) -> None:
    names = [f"t{number:03}" for number in range(200)]
    fill(store, dict.fromkeys(names, 2))

    claimed: list[str] = []
    while some := store.claim(session, ["default"], 50):
        claimed += tenants_of(some)
        complete(store, *some)

    assert Counter(claimed) == dict.fromkeys(names, 2)


@pytest.mark.parametrize(
    ("first", "second", "expected"), [(3, 1, {"first": 3, "second": 1}), (0, 4, {"second": 4}), (9, 9, {"first": 4})]
)
def test_a_claim_takes_so_many_of_each_queue_first(
    store: Store, session: SessionId, first: int, second: int, expected: dict[str, int]
) -> None:
    for queue in ("first", "second"):
        submit(store, *(a_task(queue=queue) for _ in range(10)))

    claimed = store.claim(session, ["first", "second"], 4, each={"first": first, "second": second})

    assert Counter(claim.queue for claim in claimed) == expected


def test_what_a_queue_does_not_use_goes_to_the_others(store: Store, session: SessionId) -> None:
    submit(store, *(a_task(queue="second") for _ in range(10)))

    claimed = store.claim(session, ["first", "second"], 6, each={"first": 5, "second": 1})

    assert Counter(claim.queue for claim in claimed) == {"second": 6}


def test_a_queue_with_many_tasks_does_not_hide_that_another_is_fair(store: Store, session: SessionId) -> None:
    submit(store, *(a_task(queue=queue) for queue in ("default", "other") for _ in range(20)))

    claimed = store.claim(session, ["other", "default"], 10, each={"other": 5, "default": 5})

    assert Counter(claim.queue for claim in claimed) == {"other": 5, "default": 5}


@pytest.mark.parametrize("scope", [{"queue": "default"}, {"handler": "work"}, {"key": "k"}])
def test_tenants_take_turns_under_a_limit_that_they_share(
    store: Store, session: SessionId, scope: Mapping[str, str]
) -> None:
    limit = Limit(**scope, max_running=1)
    assert store.put_control(LIMIT, limit.name, encode_limit(limit), expect=0)
    submit(store, *(a_task(tenant=tenant, limit="k", max_running=9) for tenant in "abc" for _ in range(6)))

    tasks = run(store, session, {"a": 1, "b": 1, "c": 1}, claims=9, batch=10)

    assert tasks == {"a": 3, "b": 3, "c": 3}


def test_a_full_queue_with_many_tenants_is_seen_at_once(store: Store, session: SessionId) -> None:
    limit = Limit(queue="default", max_running=1)
    assert store.put_control(LIMIT, limit.name, encode_limit(limit), expect=0)
    fill(store, {f"tenant-{number:03}": 2 for number in range(150)})
    assert store.claim(session, ["default"], 1)

    assert store.claim(session, ["default"], 1) == []

    # The first calls may see the wake-ups of the submits.
    assert not all(store.wait_for_work(["default"], 0.02 * SECOND) for _ in range(20))


def test_many_paused_tenants_keep_no_claimer_busy(store: Store, session: SessionId) -> None:
    tenants = [f"tenant-{number:03}" for number in range(130)]
    fill(store, dict.fromkeys(tenants, 1))
    paused = encode_tenant(Tenant(paused=SetBy(by="ops")))
    for tenant in tenants[:-1]:
        assert store.put_control(TENANT, tenant, paused, expect=0)

    assert tenants_of(store.claim(session, ["default"], 1)) == tenants[-1:]
    assert store.claim(session, ["default"], 1) == []

    # The first calls may see the wake-ups of the submits.
    assert not all(store.wait_for_work(["default"], 0.02 * SECOND) for _ in range(20))
