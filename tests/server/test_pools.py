from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.server.conftest import API, Client, problem
from tests.support.builders import a_session, a_task, claim_all, complete, submit
from windlass.autoscale.observe import NodeReport, PoolReport
from windlass.autoscale.stored_state import POOL, PoolDecision, encode_document
from windlass.clock import ManualClock
from windlass.operations import pool_simulation
from windlass.stores.protocol import Store

pytestmark = pytest.mark.anyio


def a_pool(store: Store, **decided: Any) -> None:
    """Store a pool named mail with one node and this sizing decision."""
    report = NodeReport(pools={"mail": PoolReport(queues=("mail",), threads=4, max=8, target=3)})
    store.report(a_session(store), msgspec.json.encode(report).decode())
    given: dict[str, Any] = {"tick": 1, "target": 3, "threads": 4, "queues": ("mail",), **decided}
    store.put_control(POOL, "mail", encode_document(PoolDecision(**given)), expect=0)


async def test_the_desired_size_is_published_for_external_scalers(client: Client, store: Store) -> None:
    report = NodeReport(pools={"mail": PoolReport(queues=("mail",), threads=4, max=8)})
    store.report(a_session(store), msgspec.json.encode(report).decode())
    store.put_control(POOL, "mail", encode_document(PoolDecision(tick=1, target=3, threads=4)), expect=0)

    answer = await client.get(f"{API}/pools/mail/desired")

    assert answer.json() == {"pool": "mail", "workers": 3, "slots": 12}


async def test_a_pool_that_does_not_exist_is_unknown(client: Client) -> None:
    problem(await client.get(f"{API}/pools/mail/desired"), 404, "unknown_pool")


async def test_the_desired_sizes_of_all_pools_come_in_one_response(client: Client, store: Store) -> None:
    a_pool(store)

    found = (await client.get(f"{API}/pools:desired")).json()

    value = found
    for part in ["pools", "mail", "desired_slots"]:
        value = value[part]
    assert value == 12
    assert found["pools"]["mail"]["desired_workers"] == 3


async def test_a_pool_shows_its_size_and_the_reason(client: Client, store: Store) -> None:
    a_pool(store, sentence="→ 3", reasons=("2 tasks a second", "each takes 1.5 s"), by="node-1", alerts=("slow",))
    submit(store, a_task(queue="mail"), a_task(queue="mail"))

    listed = {each["name"]: each for each in (await client.get(f"{API}/pools")).json()}
    one = (await client.get(f"{API}/pools/mail")).json()
    why = (await client.get(f"{API}/pools/mail/explain")).json()

    assert listed["mail"] == one
    assert (one["target"], one["runnable"], one["queues"], one["nodes"][0]["node"]) == (3, 2, ["mail"], "node-1")
    assert why["reasons"] == ["2 tasks a second", "each takes 1.5 s"]
    assert (why["sentence"], why["decided_by"], why["decided_at"]) == ("→ 3", "node-1", "1970-01-01T00:00:01Z")
    for path in ("", "/explain", "/history", "/desired"):
        problem(await client.get(f"{API}/pools/unheard-of{path}"), 404, "unknown_pool")


async def test_overrides_of_a_pool_are_audited(client: Client, store: Store) -> None:
    a_pool(store)
    pool = f"{API}/pools/mail"

    pinned = (await client.post(f"{pool}/override", json={"workers": 2, "max": 6, "why": "sale", "by": "ann"})).json()
    ordered = (await client.get(f"{pool}/explain")).json()["ordered"]
    frozen = (await client.post(f"{pool}/freeze", json={"lasts": "30m"})).json()
    paused = (await client.post(f"{pool}/pause", json={"why": "night"})).json()
    resumed = (await client.post(f"{pool}/resume")).json()
    tuned = (await client.put(f"{pool}/settings", json={"settings": {"wait": "2s", "max": 5}})).json()
    first = (await client.get(f"{pool}/history", params={"limit": "2"})).json()
    rest = (await client.get(f"{pool}/history", params={"before": first["before"]})).json()

    assert (pinned["override"]["min"], pinned["override"]["max"], pinned["override"]["by"]) == (2, 6, "ann (local)")
    assert ordered == "set to 2 to 6 by ann (local): sale"
    assert (frozen["override"]["min"], frozen["override"]["why"]) == (3, "frozen")
    assert (paused["paused"]["by"], paused["paused"]["why"]) == ("local", "night")
    assert (resumed["paused"], resumed["override"]) == (None, None)
    assert (tuned["tuned"], tuned["wait_seconds"], tuned["max"]) == ({"wait": 2.0, "max": 5}, 2.0, 5)
    assert [entry["action"] for entry in first["entries"]] == ["tuned", "resumed"]
    assert [entry["action"] for entry in rest["entries"]] == ["paused", "set", "set"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("POST", "override", {"workers": 3, "max": 2}, 422, "invalid_task"),
        ("POST", "override", {"workers": -1}, 400, "invalid_request"),
        ("POST", "override", {"workers": 1, "lasts": "-1h"}, 422, "invalid_task"),
        ("PUT", "settings", {"settings": {"colour": "red"}}, 422, "invalid_task"),
        ("PUT", "settings", {"settings": {"wait": "soon"}}, 422, "invalid_task"),
        ("PUT", "settings", {"settings": {}}, 400, "invalid_request"),
        ("POST", "simulate", {"since": "2h"}, 422, "invalid_load"),
        ("POST", "simulate", {"policies": ["magic"]}, 422, "invalid_load"),
        ("POST", "simulate", {}, 422, "invalid_load"),
    ],
)
async def test_an_invalid_override_is_refused(
    client: Client, store: Store, method: str, path: str, body: Any, status: int, code: str
) -> None:
    a_pool(store)

    problem(await client.request(method, f"{API}/pools/mail/{path}", json=body), status, code)

    assert store.controls("order") == []


def worked(store: Store, clock: ManualClock, number: int) -> None:
    for _ in range(number):
        submit(store, a_task(queue="mail"))
        claims = claim_all(store, queues=["mail"])
        clock.advance(timedelta(seconds=1))
        complete(store, *claims)


async def test_the_last_hour_is_simulated_with_other_bounds(client: Client, store: Store, clock: ManualClock) -> None:
    a_pool(store)
    worked(store, clock, 30)

    answer = await client.post(f"{API}/pools/mail/simulate", json={"max": 4, "policies": ["slo", "hindsight"]})

    found = answer.json()
    assert (found["pool"], found["tasks"]) == ("mail", 30)
    assert {result["policy"] for result in found["results"]} == {"slo", "hindsight"}
    assert [result["score"] for result in found["results"]] == sorted(result["score"] for result in found["results"])


async def test_a_history_too_large_to_simulate_in_time_is_refused(
    client: Client, store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_pool(store)
    worked(store, clock, 30)
    monkeypatch.setattr(pool_simulation, "MAX_PAGES", 0)

    problem(await client.post(f"{API}/pools/mail/simulate", json={}), 422, "invalid_load")


async def test_breakers_are_held_open_and_closed_manually(client: Client, store: Store, clock: ManualClock) -> None:
    breaker = f"{API}/breakers/bank"

    body = {"why": "maintenance", "lasts": "1h", "by": "ann", "create": True}
    opened = (await client.post(f"{breaker}/open", json=body)).json()
    [listed] = (await client.get(f"{API}/breakers")).json()
    held = (await client.post(f"{breaker}/close", json={"hold": True})).json()
    closed = (await client.post(f"{breaker}/close")).json()

    assert (opened["state"], opened["held_by"]) == ("open", "ann (local)")
    assert listed == opened
    assert (held["state"], held["held_by"]) == ("closed", "local")
    assert (closed["state"], closed["held_by"]) == ("closed", "")
    assert [entry.action for entry in store.audit("breaker/bank")] == ["closed", "held", "held"]
    problem(await client.post(f"{breaker}/open", json={"lasts": "soon"}), 422, "invalid_task")
