"""Scenarios of fair queues and limits. Every scenario passes on the unmodified stores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from msgspec.structs import replace

from tests.mutants.laboratory import Laboratory, promise
from tests.support.builders import HOUR, MINUTE, SECOND, a_session, a_task, claim_all, submit
from windlass.core.limits import LIMIT, Limit, encode_limit
from windlass.core.ordering import Queue
from windlass.core.settlement import COMPLETED
from windlass.stores.sql.store import SqlStore


def tenants_share_run_time_and_not_the_number_of_tasks(lab: Laboratory) -> None:
    store = _open_fair(lab, {"long": 60, "short": 60})

    tasks = _run(store, {"long": 4, "short": 1}, claims=50)

    promise(abs(tasks["short"] - 4 * tasks["long"]) <= 4, "tenants have the same run time")


def a_tenant_that_was_away_has_saved_nothing_up(lab: Laboratory) -> None:
    store = _open_fair(lab, {"a": 100})
    _run(store, {"a": 1}, claims=40)
    submit(store, *(a_task(tenant="b") for _ in range(60)))

    tasks = _run(store, {"a": 1, "b": 1}, claims=40)

    promise(abs(tasks["a"] - 20) <= 2, "a newcomer gets its share and no more")


def the_places_of_a_dead_node_come_back(lab: Laboratory) -> None:
    store = lab.open()
    _limit(store, Limit(queue="default", max_running=1))
    submit(store, a_task(), a_task())
    first = claim_all(store, a_session(store, ttl=SECOND))
    promise(len(first) == 1, "the limit holds")

    lab.clock.advance(MINUTE)
    store.sweep()

    promise(len(claim_all(store)) == 1, "what a dead node ran no longer counts")


def a_limit_holds_for_claims_at_the_same_time(lab: Laboratory) -> None:
    """The second claim comes when the first has counted what runs, and has not leased yet."""
    slow, store = lab.open(), lab.open()
    submit(store, *(a_task(queue=queue, limit="k", max_running=1) for queue in ("x", "y")))
    gate = lab.gate(slow, "claim_chosen")

    claiming = lab.in_background(lambda: claim_all(slow, queues=["x"]))
    gate.await_somebody()
    other = lab.in_background(lambda: claim_all(store, queues=["y"]))
    lab.await_standstill(other)
    gate.open()

    promise(len(claiming.result()) + len(other.result()) == 1, "no more run than the limit allows")


def a_limit_holds_at_once_in_every_process(lab: Laboratory) -> None:
    store, other = lab.open(), lab.open()
    submit(store, *(a_task() for _ in range(4)))
    promise(len(store.claim(a_session(store), ["default"], 1)) == 1, "it may run without a limit")

    _limit(other, Limit(queue="default", max_running=2))

    promise(len(store.claim(a_session(store), ["default"], 3)) == 1, "a process that knew no limit respects it")


def _open_fair(lab: Laboratory, tenants: Mapping[str, int]) -> SqlStore:
    store = lab.open()
    store.configure(Queue(name="default", fair=True))
    submit(store, *(a_task(tenant=tenant) for tenant, tasks in tenants.items() for _ in range(tasks)))
    return store


def _run(store: SqlStore, seconds: Mapping[str, int], claims: int) -> Counter[str]:
    """Claim and complete again and again. Return the number of tasks by tenant."""
    session, tasks = a_session(store, ttl=HOUR), Counter[str]()
    for _ in range(claims):
        claimed = store.claim(session, ["default"], 1)
        tasks.update(claim.tenant for claim in claimed)
        store.settle([(one.lease, replace(COMPLETED, ran=seconds[one.tenant] * 1_000_000)) for one in claimed])
    return tasks


def _limit(store: SqlStore, limit: Limit) -> None:
    assert store.put_control(LIMIT, limit.name, encode_limit(limit), expect=0)
