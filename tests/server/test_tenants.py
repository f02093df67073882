"""Tenants and limits over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.server.conftest import API, Client, Connect, problem
from tests.support.builders import HOUR, a_session, a_task, claim_all, submit, submit_one
from windlass.clock import ManualClock
from windlass.core.ordering import Queue
from windlass.core.settlement import COMPLETED
from windlass.operations.caller import Scope
from windlass.stores.protocol import Store

pytestmark = pytest.mark.anyio


def run_for(store: Store, tenant: str, seconds: int) -> None:
    submit_one(store, queue="fair", tenant=tenant)
    [claim] = store.claim(a_session(store), ["fair"], 1)
    store.settle([(claim.lease, replace(COMPLETED, ran=seconds * 1_000_000))])


async def test_tenants_are_listed_with_their_tasks(client: Client, connect: Connect, store: Store, token: Any) -> None:
    submit(store, a_task(tenant="acme", queue="a"), a_task(tenant="acme", queue="b"), a_task(tenant="beta"))

    found = (await client.get(f"{API}/tenants")).json()
    own = (await connect(token(Scope.READ, tenant="acme")).get(f"{API}/tenants")).json()

    assert [(each["name"], each["tasks"], each["queues"], each["weight"]) for each in found] == [
        ("acme", {"runnable": 2}, ["a", "b"], 1),
        ("beta", {"runnable": 1}, ["default"], 1),
    ]
    assert own == found[:1]


async def test_one_tenant_is_read_by_its_name(client: Client, connect: Connect, store: Store, token: Any) -> None:
    submit_one(store, tenant="acme")
    submit_one(store, tenant="beta")

    found = (await client.get(f"{API}/tenants/acme")).json()
    own = connect(token(Scope.READ, tenant="acme"))

    assert found == {
        "name": "acme",
        "tasks": {"runnable": 1},
        "queues": ["default"],
        "weight": 1,
        "weight_by": None,
        "weight_why": None,
        "weight_until": None,
        "paused": False,
        "paused_by": None,
        "paused_why": None,
        "paused_until": None,
        "shares": [],
    }
    assert (await own.get(f"{API}/tenants/acme")).json() == found
    problem(await own.get(f"{API}/tenants/beta"), 404, "unknown_tenant")
    problem(await own.get(f"{API}/tenants/none"), 404, "unknown_tenant")


async def test_a_tenant_shows_its_shares_of_fair_queues(
    client: Client, connect: Connect, store: Store, token: Any
) -> None:
    store.configure(Queue(name="fair", fair=True))
    run_for(store, "acme", 30)
    run_for(store, "beta", 10)
    await client.put(f"{API}/tenants/beta/weight", json={"weight": 3})
    submit_one(store, queue="fair", tenant="acme")

    [share] = (await client.get(f"{API}/tenants/acme")).json()["shares"]
    own = connect(token(Scope.READ, tenant="acme"))
    [hidden] = (await own.get(f"{API}/tenants/acme")).json()["shares"]

    period = {"run_seconds": 30.0, "due": 0.25, "got": 0.75, "borrowed": 0.5}
    assert share == {"queue": "fair", "runnable": 1, "leased": 0, "last_minute": period, "last_hour": period}
    assert hidden["last_minute"] == {"run_seconds": 30.0, "due": None, "got": None, "borrowed": None}


async def test_a_weight_has_an_author_a_reason_and_an_end(client: Client, store: Store, clock: ManualClock) -> None:
    submit_one(store, tenant="acme")

    body = {"weight": 5, "lasts": "1h", "why": "launch", "by": "ann"}
    found = (await client.put(f"{API}/tenants/acme/weight", json=body)).json()
    [listed] = (await client.get(f"{API}/tenants")).json()
    clock.advance(HOUR)
    later = (await client.get(f"{API}/tenants/acme")).json()

    assert listed == found
    assert (found["weight"], found["weight_by"], found["weight_why"]) == (5, "ann (local)", "launch")
    assert found["weight_until"] == "2027-01-15T09:00:00Z"
    assert (later["weight"], later["weight_by"]) == (1, None)


async def test_a_tenant_is_paused_and_resumed(client: Client, store: Store) -> None:
    submit_one(store, tenant="acme")

    paused = (await client.post(f"{API}/tenants/acme/pause", json={"why": "noisy", "lasts": "1h"})).json()
    assert claim_all(store) == []
    resumed = (await client.post(f"{API}/tenants/acme/resume")).json()

    assert (paused["paused"], paused["paused_by"], paused["paused_why"]) == (True, "local", "noisy")
    assert paused["paused_until"] == "2027-01-15T09:00:00Z"
    assert (resumed["paused"], resumed["paused_until"]) == (False, None)
    assert len(claim_all(store)) == 1
    assert [entry.action for entry in store.audit("tenant/acme")] == ["resumed", "paused"]


async def test_an_unknown_tenant_is_created_on_request(client: Client, store: Store) -> None:
    for method, path, body in (("PUT", "weight", {"weight": 2}), ("POST", "pause", {})):
        found = problem(await client.request(method, f"{API}/tenants/acmee/{path}", json=body), 404, "unknown_tenant")
        assert "pass create" in found["detail"]

    created = await client.put(f"{API}/tenants/acmee/weight", json={"weight": 2, "create": True})

    assert created.json()["weight"] == 2
    assert (await client.get(f"{API}/tenants/acmee")).json()["weight"] == 2
    cleared = await client.put(f"{API}/tenants/acmee/weight", json={"weight": None})
    assert cleared.json()["weight"] == 1
    problem(await client.get(f"{API}/tenants/acmee"), 404, "unknown_tenant")


@pytest.mark.parametrize("body", [{}, {"weight": 0}, {"weight": 1_001}, {"weight": "2"}, {"wait": 2}])
async def test_an_invalid_weight_is_refused(client: Client, store: Store, body: dict[str, Any]) -> None:
    submit_one(store, tenant="acme")

    problem(await client.put(f"{API}/tenants/acme/weight", json=body), 400, "invalid_request")
    assert store.audit() == []


async def test_limits_are_listed_with_what_is_used(client: Client, store: Store) -> None:
    submit(store, *(a_task(queue="bulk", tenant="acme") for _ in range(3)))

    body = {"queue": "bulk", "tenant": "acme", "max_running": 1, "rate": "10/1m", "why": "noisy", "lasts": "1h"}
    await client.put(f"{API}/limits", json=body)
    claim_all(store, queues=["bulk"])

    assert (await client.get(f"{API}/limits")).json() == [
        {
            "name": "queue=bulk,tenant=acme",
            "queue": "bulk",
            "tenant": "acme",
            "handler": None,
            "key": None,
            "max_running": 1,
            "rate": "10/1m",
            "running": 1,
            "next_start": None,
            "blocks": True,
            "held": 2,
            "by": "local",
            "why": "noisy",
            "since": "2027-01-15T08:00:00Z",
            "until": "2027-01-15T09:00:00Z",
        }
    ]


async def test_a_limit_is_replaced_and_removed(client: Client, store: Store) -> None:
    await client.put(f"{API}/limits", json={"handler": "mail", "rate": "5/s"})

    changed = (await client.put(f"{API}/limits", json={"handler": "mail", "max_running": 2})).json()
    removed = await client.post(f"{API}/limits:remove", json={"handler": "mail", "why": "done"})

    assert (changed["max_running"], changed["rate"]) == (2, None)
    assert (removed.status_code, removed.json()) == (200, changed)
    assert (await client.get(f"{API}/limits")).json() == []
    assert [entry.action for entry in store.audit("limit/handler=mail")] == ["removed", "limited", "limited"]
    problem(await client.post(f"{API}/limits:remove", json={"handler": "mail"}), 404, "unknown_limit")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"max_running": 1}, 422, "invalid_task"),
        ({"queue": "bulk", "create": True}, 422, "invalid_task"),
        ({"queue": "bulk", "handler": "mail", "max_running": 1, "create": True}, 422, "invalid_task"),
        ({"key": "k", "rate": "often"}, 422, "invalid_task"),
        ({"key": "k", "rate": "0/s"}, 422, "invalid_task"),
        ({"key": "k", "max_running": -1}, 400, "invalid_request"),
        ({"key": "k", "max_running": 1, "lasts": "soon"}, 422, "invalid_task"),
        ({"queue": "bulkk", "max_running": 1}, 404, "unknown_queue"),
        ({"tenant": "acmee", "max_running": 1}, 404, "unknown_tenant"),
        ({"handler": "male", "max_running": 1}, 422, "unknown_handler"),
    ],
    ids=str,
)
async def test_an_invalid_limit_is_refused(
    client: Client, store: Store, body: dict[str, Any], status: int, code: str
) -> None:
    problem(await client.put(f"{API}/limits", json=body), status, code)

    assert (await client.get(f"{API}/limits")).json() == []


@pytest.mark.parametrize("body", [{}, {"queue": "a", "key": "b"}, {"key": "a\nb"}])
async def test_an_invalid_scope_cannot_be_removed(client: Client, body: dict[str, Any]) -> None:
    problem(await client.post(f"{API}/limits:remove", json=body), 422, "invalid_task")


async def test_a_limited_token_sees_and_changes_only_its_own(
    client: Client, connect: Connect, store: Store, token: Any
) -> None:
    submit_one(store, queue="bulk", tenant="acme")
    for body in ({"tenant": "acme"}, {"queue": "bulk"}, {"key": "k"}):
        await client.put(f"{API}/limits", json={**body, "max_running": 1})
    tenant = connect(token(Scope.OPERATE, name="t", tenant="acme"))
    queue = connect(token(Scope.OPERATE, name="q", queue="bulk"))

    assert [each["name"] for each in (await tenant.get(f"{API}/limits")).json()] == ["tenant=acme"]
    assert [each["name"] for each in (await queue.get(f"{API}/limits")).json()] == ["queue=bulk"]
    changed = await queue.put(f"{API}/limits", json={"queue": "bulk", "max_running": 7})
    assert changed.json()["max_running"] == 7
    for denied in (
        tenant.put(f"{API}/limits", json={"tenant": "acme", "max_running": 9}),
        tenant.post(f"{API}/limits:remove", json={"tenant": "acme"}),
        tenant.post(f"{API}/tenants/acme/resume"),
        tenant.put(f"{API}/tenants/acme/weight", json={"weight": 9}),
        queue.put(f"{API}/limits", json={"tenant": "acme", "max_running": 9}),
        queue.post(f"{API}/limits:remove", json={"key": "k"}),
        queue.post(f"{API}/tenants/acme/pause"),
    ):
        problem(await denied, 403, "forbidden")
