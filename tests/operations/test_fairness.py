"""What people see and change of tenants and limits through operations."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.support.builders import HOUR, MINUTE, SECOND, a_session, a_task, claim_all, submit, submit_one
from windlass.autoscale.observe import NodeReport, PoolReport
from windlass.clock import ManualClock
from windlass.core.fairness import TENANT, SetBy, Tenant
from windlass.core.lifecycle import State
from windlass.core.limits import LIMIT, Limit
from windlass.core.manifest import HandlerInfo, Manifest
from windlass.core.ordering import Queue
from windlass.core.settlement import COMPLETED
from windlass.core.shares import Share
from windlass.core.task import Rate, TaskId
from windlass.core.times import micros
from windlass.errors import ChangedMeanwhile, InvalidTask, Refused, UnknownLimit, UnknownQueue, UnknownTenant
from windlass.operations import limits, tasks, tenants
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.caller import Caller, Scope
from windlass.operations.conflicts import TRIES
from windlass.operations.handler_catalog import UnknownHandler
from windlass.stores.coordination import Control
from windlass.stores.memory import MemoryStore
from windlass.stores.protocol import Filter, Store
from windlass.stores.sqlite import SQLiteStore

ANN = Author("ann", "noisy")
OPERATOR = frozenset({Scope.OPERATE})


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path) -> Iterator[Store]:
    memory = request.param == "memory"
    store: Store = MemoryStore(clock=clock) if memory else SQLiteStore(tmp_path / "tasks.db", clock=clock)
    store.publish(Manifest(handlers=(HandlerInfo(name="work"),)))
    submit(store, a_task(tenant="acme"), a_task(tenant="beta"))
    yield store
    store.close()


@pytest.fixture
def access(store: Store, clock: ManualClock) -> Access:
    return Access(store, clock=clock)


def limited(store: Store, **to: str) -> Access:
    return Access(store, Caller(name="ci", scopes=OPERATOR, **to))  # type: ignore[arg-type]


def run_for(store: Store, tenant: str, seconds: float) -> None:
    submit_one(store, queue="fair", tenant=tenant)
    [claim] = store.claim(a_session(store), ["fair"], 1)
    store.settle([(claim.lease, replace(COMPLETED, ran=round(seconds * 1e6)))])


# Weights and pauses


def test_a_weight_has_an_author_a_reason_and_an_end(access: Access, store: Store, clock: ManualClock) -> None:
    now = clock.now()

    found = tenants.set_weight(access, "acme", 5, ANN, lasts="1h")

    until = now + micros(HOUR)
    assert found.settings == Tenant(weight=5, weight_set_by=SetBy(by="ann", why="noisy", at=now, until=until))
    [entry] = store.audit("tenant/acme")
    assert (entry.action, entry.by) == ("weighted", "ann")
    assert entry.text == "set the weight of tenant acme to 5 for 1h: noisy"
    clock.advance(HOUR)
    assert tenants.get(access, "acme").settings == Tenant()


def test_a_weight_of_none_restores_the_default(access: Access, store: Store) -> None:
    tenants.set_weight(access, "acme", 5, ANN)

    assert tenants.set_weight(access, "acme", None, ANN).settings == Tenant()
    assert store.controls(TENANT) == []
    assert store.audit("tenant/acme")[0].text == "reset the weight of tenant acme to 1: noisy"


@pytest.mark.parametrize("weight", [0, 1_001, -1, True, 2.5, "3"])
def test_an_invalid_weight_is_refused(access: Access, store: Store, weight: Any) -> None:
    with pytest.raises(InvalidTask, match=r"^weight=.* is not an integer from 1 to 1,000$"):
        tenants.set_weight(access, "acme", weight, ANN)

    assert store.audit() == []


@pytest.mark.parametrize("lasts", ["soon", "-1h", "4000d"])
def test_an_invalid_length_is_refused(access: Access, store: Store, lasts: str) -> None:
    with pytest.raises(InvalidTask, match=r"^for="):
        tenants.pause(access, "acme", ANN, lasts=lasts)
    with pytest.raises(InvalidTask, match=r"^for="):
        limits.put(access, Limit(tenant="acme", max_running=1), ANN, lasts=lasts)

    assert (store.controls(TENANT), store.controls(LIMIT), store.audit()) == ([], [], [])


def test_a_pause_and_a_weight_do_not_affect_each_other(access: Access, store: Store) -> None:
    tenants.set_weight(access, "acme", 5, ANN)
    tenants.pause(access, "acme", ANN)
    assert [claim.tenant for claim in claim_all(store)] == ["beta"]

    resumed = tenants.resume(access, "acme", ANN)

    assert (resumed.settings.weight, resumed.settings.paused) == (5, None)
    assert [claim.tenant for claim in claim_all(store)] == ["acme"]
    assert [entry.action for entry in store.audit("tenant/acme")] == ["resumed", "paused", "weighted"]


def test_a_change_drops_what_has_expired(access: Access, store: Store, clock: ManualClock) -> None:
    tenants.set_weight(access, "acme", 5, ANN, lasts="1m")
    clock.advance(MINUTE)

    assert tenants.pause(access, "acme", ANN).settings.weight == 1
    tenants.resume(access, "acme", ANN)
    assert store.controls(TENANT) == []


def test_what_is_set_already_is_not_logged_again(access: Access, store: Store, clock: ManualClock) -> None:
    for _ in range(2):
        tenants.pause(access, "acme", ANN)
        tenants.set_weight(access, "acme", 3, ANN)
        limits.put(access, Limit(tenant="acme", max_running=1), ANN)
        clock.advance(SECOND)
    tenants.resume(access, "beta", ANN)

    assert len(store.audit()) == 3


@pytest.mark.parametrize("change", [tenants.pause, lambda *args, **more: tenants.set_weight(*args[:2], 2, ANN, **more)])
def test_an_unknown_tenant_is_created_only_on_request(access: Access, store: Store, change: Any) -> None:
    with pytest.raises(UnknownTenant, match=r"'acmee'.*--create"):
        change(access, "acmee", ANN)
    assert store.controls(TENANT) == []

    change(access, "acmee", ANN, create=True)

    assert tenants.get(access, "acmee").tasks == {}
    assert [view.name for view in tenants.get_all(access)] == ["acme", "acmee", "beta"]
    change(access, "acmee", ANN)


def test_a_tenant_that_used_a_fair_queue_is_known(access: Access, store: Store) -> None:
    store.configure(Queue(name="fair", fair=True))
    run_for(store, "gone", 1)
    store.purge([task.id for task in store.find(Filter()).tasks if task.tenant == "gone"])

    assert tenants.get(access, "gone").tasks == {}
    assert tenants.pause(access, "gone", ANN).settings.paused is not None
    with pytest.raises(UnknownTenant):
        tenants.get(access, "never")


def test_an_unknown_tenant_cannot_be_resumed(access: Access) -> None:
    with pytest.raises(UnknownTenant, match=r"no settings\.$"):
        tenants.resume(access, "never", ANN)


# Shares


def test_shares_follow_weights_and_run_time(access: Access, store: Store) -> None:
    store.configure(Queue(name="fair", fair=True))
    tenants.set_weight(access, "acme", 3, ANN)
    run_for(store, "acme", 10)
    run_for(store, "beta", 30)
    submit_one(store, queue="fair", tenant="acme")

    [acme], [beta] = tenants.get_shares(access, "acme"), tenants.get_shares(access, "beta")

    assert (acme.queue, acme.runnable, acme.leased, acme.last_minute) == ("fair", 1, 0, 10.0)
    assert acme.minute == acme.hour == Share(due=0.75, got=0.25)
    assert beta.minute == Share(due=0.25, got=0.75)
    assert beta.minute is not None
    assert beta.minute.borrowed == 0.5


def test_a_paused_tenant_with_tasks_leaves_its_share_to_others(access: Access, store: Store) -> None:
    store.configure(Queue(name="fair", fair=True))
    submit(store, a_task(queue="fair", tenant="acme"), a_task(queue="fair", tenant="beta"))
    assert [one.minute for one in tenants.get_shares(access, "beta")] == [Share(due=0.5)]

    tenants.pause(access, "acme", ANN)

    assert [one.minute for one in tenants.get_shares(access, "beta")] == [Share(due=1.0)]


def test_a_queue_that_is_not_fair_has_no_shares(access: Access, store: Store) -> None:
    store.configure(Queue(name="default", fair=False))

    assert tenants.get_shares(access, "acme") == []


# Limits


def test_a_limit_shows_what_is_used_and_who_set_it(access: Access, store: Store, clock: ManualClock) -> None:
    submit(store, *(a_task(queue="bulk", tenant="acme") for _ in range(5)))

    limits.put(access, Limit(queue="bulk", tenant="acme", max_running=2, rate=Rate(3, MINUTE)), ANN, lasts="1h")
    claim_all(store, queues=["bulk"])

    [view] = limits.get_all(access)
    assert view.limit.set_by == SetBy(by="ann", why="noisy", at=clock.now(), until=clock.now() + micros(HOUR))
    assert (view.running, view.blocks, view.held, view.next_token) == (2, True, 3, None)
    [entry] = store.audit("limit/")
    assert entry.subject == "limit/queue=bulk,tenant=acme"
    assert entry.text == "limited tenant acme in queue bulk to 2 at once, 3/1m for 1h: noisy"


def test_a_rate_shows_when_the_next_task_may_start(access: Access, store: Store, clock: ManualClock) -> None:
    submit(store, a_task(tenant="acme"), a_task(tenant="acme"))
    limits.put(access, Limit(tenant="acme", rate=Rate(1, MINUTE)), ANN)
    claim_all(store)

    [view] = limits.get_all(access)

    assert (view.running, view.blocks, view.held) == (1, True, 2)
    assert view.next_token == clock.now() + micros(MINUTE)


def test_only_tasks_in_the_scope_of_a_full_limit_are_held_back(access: Access, store: Store) -> None:
    submit(store, *(a_task(queue=queue, tenant=tenant) for queue in ("bulk", "mail") for tenant in ("acme", "beta")))
    for scope in ({"queue": "bulk"}, {"queue": "bulk", "tenant": "beta"}, {"tenant": "beta"}):
        limits.put(access, Limit(**scope, max_running=0), ANN)
    limits.put(access, Limit(queue="mail", max_running=1), ANN)

    assert {view.limit.name: view.held for view in limits.get_all(access)} == {
        "queue=bulk": 2,
        "queue=bulk,tenant=beta": 1,
        "queue=mail": 0,
        "tenant=beta": 3,
    }


def test_a_limit_that_is_set_replaces_the_one_before(access: Access) -> None:
    limits.put(access, Limit(queue="default", max_running=2), ANN)

    changed = limits.put(access, Limit(queue="default", rate=Rate(1, MINUTE)), ANN).limit

    assert (changed.max_running, changed.rate) == (None, Rate(1, MINUTE))
    assert len(limits.get_all(access)) == 1


def test_a_limit_is_removed_once(access: Access, store: Store) -> None:
    limits.put(access, Limit(handler="work", max_running=0), ANN)
    assert claim_all(store) == []

    assert limits.remove(access, Limit(handler="work"), ANN).limit.max_running == 0

    assert len(claim_all(store)) == 2
    assert store.audit("limit/handler=work")[0].text == "removed the limit on handler work: noisy"
    with pytest.raises(UnknownLimit, match="none on handler work"):
        limits.remove(access, Limit(handler="work"), ANN)


def test_tasks_held_back_by_a_handler_or_key_are_not_counted(access: Access) -> None:
    limits.put(access, Limit(handler="work", max_running=0), ANN)
    limits.put(access, Limit(key="customer:1", max_running=0), ANN)

    assert [view.held for view in limits.get_all(access)] == [None, None]


@pytest.mark.parametrize(
    ("limit", "error"),
    [
        (Limit(queue="bulkk", max_running=1), UnknownQueue),
        (Limit(tenant="acmee", max_running=1), UnknownTenant),
        (Limit(queue="default", tenant="acmee", max_running=1), UnknownTenant),
        (Limit(handler="worc", max_running=1), UnknownHandler),
    ],
)
def test_a_limit_on_an_unknown_name_is_set_only_on_request(access: Access, limit: Limit, error: type) -> None:
    with pytest.raises(error):
        limits.put(access, limit, ANN)
    assert limits.get_all(access) == []

    assert limits.put(access, limit, ANN, create=True).limit.name == limit.name


@pytest.mark.parametrize(
    "limit", [Limit(max_running=1), Limit(queue="default"), Limit(queue="default", handler="work", max_running=1)]
)
def test_an_invalid_limit_is_refused(access: Access, limit: Limit) -> None:
    with pytest.raises(InvalidTask, match="limit on"):
        limits.put(access, limit, ANN)


# Concurrent changes


class Busy(MemoryStore):
    """A store in which somebody else changes the same control after each of the first reads."""

    left = 0

    def controls(self, kind: str) -> list[Control]:
        found = super().controls(kind)
        if self.left:
            self.left -= 1
            for control in found:
                assert self.put_control(kind, control.name, control.value, expect=control.version)
        return found


@pytest.mark.parametrize("change", ["weight", "limit"])
def test_a_change_survives_concurrent_ones_up_to_a_bound(change: str) -> None:
    store = Busy()
    access = Access(store)
    tenants.set_weight(access, "acme", 2, ANN, create=True)
    limits.put(access, Limit(tenant="acme", max_running=1), ANN)

    def make() -> object:
        if change == "weight":
            return tenants.set_weight(access, "acme", 7, ANN, create=True)
        return limits.put(access, Limit(tenant="acme", max_running=7), ANN, create=True)

    store.left = 1_000
    with pytest.raises(ChangedMeanwhile):
        make()
    assert store.left == 1_000 - TRIES
    store.left = TRIES - 1
    make()

    assert tenants.get(access, "acme").settings.weight == (7 if change == "weight" else 2)
    assert limits.get_all(access)[0].limit.max_running == (1 if change == "weight" else 7)


# Limited callers


def test_a_caller_of_one_tenant_sees_its_own_settings_and_changes_none(access: Access, store: Store) -> None:
    store.configure(Queue(name="fair", fair=True))
    run_for(store, "acme", 10)
    tenants.set_weight(access, "acme", 3, ANN)
    tenants.set_weight(access, "beta", 4, ANN)
    for scope in ({"tenant": "acme"}, {"tenant": "beta"}, {"queue": "default"}):
        limits.put(access, Limit(**scope, max_running=2), ANN)
    own = limited(store, tenant="acme")

    assert [(view.name, view.settings.weight) for view in tenants.get_all(own)] == [("acme", 3)]
    assert [view.limit.name for view in limits.get_all(own)] == ["tenant=acme"]
    [share] = tenants.get_shares(own, "acme")
    assert (share.last_minute, share.minute, share.hour) == (10.0, None, None)
    with pytest.raises(UnknownTenant):
        tenants.get_shares(own, "beta")
    for change in (
        lambda: tenants.set_weight(own, "acme", 9, ANN),
        lambda: tenants.pause(own, "acme", ANN),
        lambda: tenants.resume(own, "acme", ANN),
        lambda: limits.put(own, Limit(tenant="acme", max_running=9), ANN),
        lambda: limits.remove(own, Limit(tenant="acme"), ANN),
    ):
        with pytest.raises(Refused):
            change()


def test_a_caller_of_one_queue_changes_the_limits_of_that_queue(access: Access, store: Store) -> None:
    submit_one(store, queue="own", tenant="acme")
    tenants.set_weight(access, "acme", 3, ANN)
    tenants.set_weight(access, "elsewhere", 3, ANN, create=True)
    limits.put(access, Limit(queue="default", max_running=2), ANN)
    limits.put(access, Limit(tenant="acme", max_running=2), ANN)
    own = limited(store, queue="own")

    limits.put(own, Limit(queue="own", max_running=1), ANN)
    limits.put(own, Limit(queue="own", tenant="acme", max_running=1), ANN)

    assert [view.limit.name for view in limits.get_all(own)] == ["queue=own", "queue=own,tenant=acme"]
    assert [(view.name, view.tasks, view.settings.weight) for view in tenants.get_all(own)] == [
        ("acme", {State.RUNNABLE: 1}, 3)
    ]
    for change in (
        lambda: limits.put(own, Limit(queue="default", max_running=9), ANN),
        lambda: limits.put(own, Limit(tenant="acme", max_running=9), ANN),
        lambda: limits.remove(own, Limit(tenant="acme"), ANN),
        lambda: limits.put(own, Limit(handler="work", max_running=9), ANN),
        lambda: tenants.pause(own, "acme", ANN),
    ):
        with pytest.raises(Refused):
            change()


# Why a task does not run


def explained(access: Access, id: TaskId) -> list[str]:
    """Return the gates that are about tenants, limits and turns."""
    gates = tasks.why(access, id).gates
    return [f"{'+' if gate.open else '-'} {gate.text}" for gate in gates if gate.name in ("tenant", "limit", "turn")]


def test_why_names_the_pause_and_who_set_it(access: Access, store: Store, clock: ManualClock) -> None:
    id = submit_one(store, tenant="acme")
    tenants.pause(access, "acme", ANN, lasts="1h")

    closed = tasks.why(access, id).closed

    assert closed is not None
    assert closed.name == "tenant"
    assert closed.text == 'acme is paused by ann until 2027-01-15 09:00:00 UTC: "noisy"'
    assert closed.fix == "windlass tenants resume acme"
    clock.advance(HOUR)
    assert [gate.name for gate in tasks.why(access, id).gates if gate.name == "tenant"] == []


def test_why_names_each_limit_what_is_used_and_who_set_it(access: Access, store: Store) -> None:
    submit(store, *(a_task(queue="bulk", tenant="acme", limit=f"k{n}", max_running=1) for n in range(3)))
    limits.put(access, Limit(tenant="acme", max_running=3), ANN)
    limits.put(access, Limit(queue="bulk", rate=Rate(2, MINUTE)), Author("bob"), lasts="1h")
    claim_all(store, queues=["bulk"])
    [waiting] = store.find(Filter(states=frozenset({State.RUNNABLE}), queue="bulk")).tasks

    assert explained(access, waiting.id)[:3] == [
        "- queue bulk: 2/1m with the next start at 2027-01-15 08:00:30 UTC; set by bob until 2027-01-15 09:00:00 UTC",
        '+ tenant acme: 2 of 3 run; set by ann: "noisy"',
        f"+ key {waiting.rules.limit}: 0 of 1 run; declared by the task",
    ]


def test_why_says_how_to_change_a_limit(access: Access, store: Store, clock: ManualClock) -> None:
    first, second = submit(store, *(a_task(tenant="acme", limit="it's 7", max_running=1) for _ in range(2)))
    claim_all(store)

    declared = tasks.why(access, second).closed
    limits.put(access, Limit(key="it's 7", max_running=1), ANN)
    limited = tasks.why(access, second).closed

    assert declared is not None
    assert declared.fix == """windlass limits set --limit-key 'it'"'"'s 7' --max-running 2"""
    assert limited is not None
    assert limited.fix == """windlass limits rm --limit-key 'it'"'"'s 7'"""
    assert explained(access, first) == []


def test_why_says_which_tenants_come_first(access: Access, store: Store) -> None:
    store.configure(Queue(name="fair", fair=True))
    run_for(store, "acme", 30)
    run_for(store, "beta", 10)
    submit(store, a_task(queue="fair", tenant="beta"), a_task(queue="fair", tenant="new"))
    id = submit_one(store, queue="fair", tenant="acme")

    assert explained(access, id) == [
        "+ tenants take turns in the fair queue fair: acme comes after 2 of 2 other tenants with tasks, is due "
        "33% and got 75% in the last minute; within a tenant, the strategy of the queue decides"
    ]
    assert [claim.tenant for claim in store.claim(a_session(store), ["fair"], 3)] == ["new", "beta", "acme"]


def test_tenants_that_come_back_and_new_ones_are_compared_at_the_floor(access: Access, store: Store) -> None:
    store.configure(Queue(name="fair", fair=True))
    for tenant, seconds in (("old", 1), ("busy", 10), ("busy", 10)):
        run_for(store, tenant, seconds)
    submit_one(store, queue="fair", tenant="old")
    id = submit_one(store, queue="fair", tenant="zed")

    [turn] = explained(access, id)

    assert "zed comes after 1 of 1 other tenants with tasks" in turn, "the busy one has no tasks"
    assert [claim.tenant for claim in store.claim(a_session(store), ["fair"], 2)] == ["old", "zed"]


def test_a_caller_of_one_tenant_learns_nothing_about_others_from_why(access: Access, store: Store) -> None:
    store.configure(Queue(name="default", fair=True))
    limits.put(access, Limit(queue="default", max_running=1), ANN)
    claim_all(store)
    id = submit_one(store, tenant="acme")

    assert explained(limited(store, tenant="acme"), id) == [
        '- queue default: 1 at once, no more may start; set by ann: "noisy"',
        "+ tenants take turns in the fair queue default; within a tenant, the strategy of the queue decides",
    ]


def test_a_start_is_forecast_only_where_the_place_decides(access: Access, store: Store) -> None:
    for queue in ("plain", "fair", "limited"):
        store.configure(Queue(name=queue, fair=queue == "fair"))
        submit_one(store, queue=queue)
    limits.put(access, Limit(queue="limited", max_running=9), ANN)
    pool = PoolReport(queues=("plain", "fair", "limited"), ready=1, ended=10, busy=10.0)
    about = '{"queues": ["plain", "fair", "limited"]}'
    store.report(a_session(store, about=about), msgspec.json.encode(NodeReport(pools={"p": pool})).decode())

    outlooks = {task.queue: tasks.why(access, task.id).outlook for task in store.find(Filter()).tasks}

    assert {queue: outlooks[queue] is not None for queue in ("plain", "fair", "limited")} == {
        "plain": True,
        "fair": False,
        "limited": False,
    }
