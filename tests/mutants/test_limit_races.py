"""Races of claims under limits, of the unmodified stores."""

from __future__ import annotations

from typing import Any

import pytest

from tests.mutants.laboratory import Laboratory, database_of
from tests.mutants.scenarios import watch_conflicts
from tests.support.builders import MINUTE, SECOND, a_session, a_task, claim_all, complete, submit
from windlass.core.limits import LIMIT, Limit, encode_limit
from windlass.core.ordering import Queue
from windlass.core.task import Rate
from windlass.stores.sql import fair_turns
from windlass.stores.sql.lanes import lane_of
from windlass.stores.sql.store import SqlStore

BOTH = pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
POSTGRES = pytest.mark.parametrize("dialect", ["postgres"])


def set_limit(store: SqlStore, **fields: Any) -> None:
    limit = Limit(**fields)
    assert store.put_control(LIMIT, limit.name, encode_limit(limit), expect=0)


@POSTGRES
def test_a_sweep_and_a_claim_under_a_rate_cause_no_deadlock(laboratory: Laboratory) -> None:
    """The sweep deletes the full bucket that the claim uses, and both look at the lanes of limits."""
    states = watch_conflicts(laboratory)
    claimer, sweeper = laboratory.open(), laboratory.open()
    set_limit(claimer, handler="work", rate=Rate(5, SECOND))
    submit(claimer, *(a_task(limit="k", max_running=1) for _ in range(2)))
    session = a_session(claimer, ttl=60 * MINUTE)
    assert len(claimer.claim(session, ["default"], 5)) == 1
    laboratory.clock.advance(MINUTE)
    submit(claimer, a_task())
    gate = laboratory.gate(claimer, "put_buckets")

    claiming = laboratory.in_background(lambda: claimer.claim(session, ["default"], 5))
    gate.await_somebody()
    sweeping = laboratory.in_background(sweeper.sweep)
    laboratory.await_standstill(sweeping)
    gate.open()

    assert len(claiming.result()) == 1
    sweeping.result()
    assert states == []
    assert laboratory.check() == []


@BOTH
def test_scopes_of_ended_leases_do_not_pile_up(laboratory: Laboratory) -> None:
    """There is a limit, so leases count, but no task that it concerns, so no claim looks at limits."""
    store = laboratory.open()
    set_limit(store, queue="other", max_running=5)
    submit(store, *(a_task(tenant=f"tenant-{number}") for number in range(20)))
    complete(store, *claim_all(store))

    store.sweep()

    assert database_of(store).read(lambda tx: tx.query("has_freed").rows()) == []


@POSTGRES
@pytest.mark.parametrize("fair", [False, True])
def test_a_claim_under_a_limit_passes_over_tasks_that_others_have_locked(laboratory: Laboratory, fair: bool) -> None:
    store, other = laboratory.open(), laboratory.connect()
    store.configure(Queue(name="default", fair=fair))
    set_limit(store, handler="work", max_running=3, rate=Rate(3, MINUTE))
    tasks = submit(store, *(a_task(limit=f"k{number // 2}", max_running=1) for number in range(8)))
    other.execute("SELECT id FROM windlass.runnable WHERE id = ANY (%s) FOR SHARE", [tasks[:2]]).fetchall()
    session = a_session(store, ttl=60 * MINUTE)

    claimed = store.claim(session, ["default"], 3)

    assert [claim.id for claim in claimed] == [tasks[2], tasks[4], tasks[6]]
    other.rollback()
    complete(store, *claimed)
    laboratory.clock.advance(MINUTE)
    assert [claim.id for claim in store.claim(session, ["default"], 3)] == [tasks[0], tasks[3], tasks[5]]
    assert laboratory.check() == []


@BOTH
def test_a_tenant_behind_very_many_that_are_held_back_is_found_without_a_wait(laboratory: Laboratory) -> None:
    laboratory.patch(fair_turns, "SOUGHT", 4)
    laboratory.patch(fair_turns, "SOUGHT_WHEN_SHORT", 8)
    store = laboratory.open()
    store.configure(Queue(name="default", fair=True))
    tenants = sorted((f"tenant-{number}" for number in range(40)), key=lane_of)
    for tenant in tenants[:-1]:
        set_limit(store, tenant=tenant, max_running=0)
    submit(store, *(a_task(tenant=tenant) for tenant in tenants))
    session = a_session(store, ttl=60 * MINUTE)
    while store.wait_for_work(["default"], 0.05 * SECOND):
        pass  # The wake-ups of the submit.

    claims = store.claim(session, ["default"], 1)
    while not claims:
        assert store.wait_for_work(["default"], 5 * SECOND)
        claims = store.claim(session, ["default"], 1)

    assert [claim.tenant for claim in claims] == tenants[-1:]
    tries = (store.claim(session, ["default"], 1) or store.wait_for_work(["default"], 0.05 * SECOND) for _ in range(9))
    assert not all(tries)
