from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from tests.server.conftest import API, Client, Connect, problem
from tests.support.builders import HOUR, a_session, a_task, submit, submit_one
from windlass.clock import ManualClock
from windlass.core.ordering import Strategy
from windlass.core.worker_list import RunningTask, WorkerList, WorkerProcess, encode_workers
from windlass.operations.caller import Scope
from windlass.stores.protocol import Store

pytestmark = pytest.mark.anyio


async def test_queues_show_settings_and_counts(client: Client, store: Store) -> None:
    submit(store, a_task(queue="mail"), a_task(queue="mail", tenant="acme"), a_task(queue="bulk"))

    await client.put(
        f"{API}/queues/idle", json={"strategy": "aging", "step_seconds": 30, "max_waiting": 5, "create": True}
    )
    found = {queue["name"]: queue for queue in (await client.get(f"{API}/queues")).json()}

    assert sorted(found) == ["bulk", "idle", "mail"]
    assert found["mail"]["tasks"] == {"runnable": 2}
    assert (found["idle"]["strategy"], found["idle"]["step_seconds"], found["idle"]["max_waiting"]) == ("aging", 30, 5)


async def test_a_pause_and_its_reason_survive_new_settings(client: Client, store: Store) -> None:
    submit_one(store, queue="mail")

    paused = (await client.post(f"{API}/queues/mail/pause", json={"why": "nightly import", "by": "ops"})).json()
    await client.put(f"{API}/queues/mail", json={"strategy": "fifo"})
    claimed = store.claim(a_session(store), ["mail"], 1)
    [queue] = store.queues()
    resumed = (await client.post(f"{API}/queues/mail/resume")).json()

    assert (paused["paused"], paused["paused_by"], paused["paused_why"]) == (True, "ops (local)", "nightly import")
    assert claimed == []
    assert (queue.paused, queue.strategy) == (True, Strategy.FIFO)
    assert (resumed["paused"], resumed["strategy"]) == (False, "fifo")
    assert [entry.action for entry in store.audit("queue/mail")] == ["resumed", "configured", "paused"]


async def test_a_pause_ends_by_itself(client: Client, store: Store, clock: ManualClock) -> None:
    submit_one(store, queue="mail")

    paused = (await client.post(f"{API}/queues/mail/pause", json={"lasts": "1h"})).json()
    clock.advance(HOUR)
    later = (await client.get(f"{API}/queues/mail")).json()

    assert (paused["paused"], paused["paused_until"]) == (True, "2027-01-15T09:00:00Z")
    assert (later["paused"], later["paused_by"], later["paused_until"]) == (False, None, None)


async def test_invalid_queue_settings_are_refused(client: Client, store: Store) -> None:
    problem(await client.put(f"{API}/queues/a%20b", json={}), 404, "not_found")
    found = problem(await client.put(f"{API}/queues/q", json={"weight": 0}), 400, "invalid_request")

    assert found["errors"][0]["field"] == "weight"
    assert store.queues() == []


async def test_handlers_are_listed_with_their_schemas(client: Client) -> None:
    [mail, work] = (await client.get(f"{API}/handlers")).json()

    assert (mail["name"], mail["queue"], mail["parameters"]["required"]) == ("mail", "post", ["to"])
    assert work["parameters"] == {}


async def test_crons_are_paused_and_resumed_and_hide_secrets(client: Client, store: Store) -> None:
    paused = (await client.post(f"{API}/crons/daily/pause", json={"why": "holiday"})).json()
    [listed] = (await client.get(f"{API}/crons")).json()
    resumed = (await client.post(f"{API}/crons/daily/resume")).json()

    assert (paused["paused"], paused["paused_by"], paused["paused_why"]) == (True, "local", "holiday")
    assert listed == paused
    assert listed["args"] == {"password": "[redacted]"}
    assert resumed["paused"] is False
    problem(await client.post(f"{API}/crons/unheard-of/pause"), 404, "unknown_cron")


async def test_nodes_show_what_they_serve(client: Client, store: Store) -> None:
    store.open_session("node-1", about='{"queues":["mail"]}')
    store.open_session("node-2", about="no JSON")

    found = {node["node"]: node for node in (await client.get(f"{API}/nodes")).json()}

    assert found["node-1"]["about"] == {"queues": ["mail"]}
    assert (found["node-2"]["about"], found["node-2"]["lost"]) == ({}, False)


async def test_one_node_shows_its_worker_processes(client: Client, store: Store) -> None:
    task = RunningTask(id=str(UUID(int=7)), handler="shop.pay", since=1_700_000_000_000_000)
    worker = WorkerProcess(
        number=3, pool="mail", state="busy", since=0, pid=41, memory=1 << 20, running=1, tasks=(task,)
    )
    session = store.open_session("node-1")
    store.renew(session, workers=encode_workers(WorkerList(workers=(worker,), more=2)))

    [listed] = (await client.get(f"{API}/nodes")).json()
    found = (await client.get(f"{API}/nodes/{session}")).json()

    assert listed == found
    assert found["workers_not_listed"] == 2
    assert found["workers"][0]["tasks"] == [
        {"id": task.id, "handler": "shop.pay", "since": "2023-11-14T22:13:20Z"},
    ]
    problem(await client.get(f"{API}/nodes/{UUID(int=1)}"), 404, "unknown_node")


async def test_workers_and_nodes_are_drained_and_stopped(client: Client, store: Store) -> None:
    session = store.open_session("node-1", about='{"pools": {"mail": {"queues": ["mail"]}}}')
    worker = WorkerProcess(number=3, pool="mail", state="busy", since=0)
    store.renew(session, workers=encode_workers(WorkerList(workers=(worker,))))
    url = f"{API}/nodes/{session}"

    drained = (await client.post(f"{url}/workers/3/drain", json={"why": "it leaks"})).json()
    stopped = (await client.post(f"{url}/workers/3/stop")).json()
    node = (await client.post(f"{url}/stop", json={"grace": "30s", "by": "ada"})).json()

    assert [drained["workers"][0]["request"][field] for field in ("verb", "grace_seconds", "why")] == [
        "drain",
        None,
        "it leaks",
    ]
    assert stopped["workers"][0]["request"]["grace_seconds"] == 5.0
    assert (drained["request"], node["request"]["grace_seconds"], node["request"]["by"]) == (None, 30.0, "ada (local)")
    assert (await client.post(f"{url}/drain")).json()["request"] == node["request"], "a drain does not undo a stop"
    problem(await client.post(f"{url}/workers/9/drain"), 404, "unknown_worker")
    problem(await client.post(f"{API}/nodes/{UUID(int=1)}/drain"), 404, "unknown_node")
    problem(await client.post(f"{url}/stop", json={"grace": "3d"}), 422, "invalid_task")


async def test_audit_entries_are_read_by_subject_in_pages(client: Client) -> None:
    for name in ("a", "b", "c"):
        await client.post(f"{API}/queues/{name}/pause", json={"create": True})
    await client.post(f"{API}/crons/daily/pause")

    first = (await client.get(f"{API}/audit", params={"subject": "queue/", "limit": "2"})).json()
    rest = (await client.get(f"{API}/audit", params={"subject": "queue/", "before": first["before"]})).json()

    assert [entry["subject"] for entry in first["entries"]] == ["queue/c", "queue/b"]
    assert [entry["subject"] for entry in rest["entries"]] == ["queue/a"]
    assert rest["before"] is None
    assert first["entries"][0]["by"] == "local"


async def test_one_queue_is_read_by_its_name(client: Client, store: Store) -> None:
    submit_one(store, queue="mail")
    await client.post(f"{API}/queues/mail/pause", json={"why": "import"})

    found = await client.get(f"{API}/queues/mail")

    [listed] = (await client.get(f"{API}/queues")).json()
    assert found.json() == listed
    assert (listed["tasks"], listed["paused_why"]) == ({"runnable": 1}, "import")
    assert listed["oldest"] == "2027-01-15T08:00:00Z", "by the clock of these tests"
    problem(await client.get(f"{API}/queues/none"), 404, "unknown_queue")


async def test_a_tenant_does_not_see_how_long_others_have_waited(connect: Connect, store: Store, token: Any) -> None:
    submit_one(store, queue="mail", tenant="beta")
    submit_one(store, queue="mail", tenant="acme")

    client = connect(token(Scope.READ, tenant="acme"))
    found = (await client.get(f"{API}/queues/mail")).json()

    assert (found["tasks"], found["oldest"]) == ({"runnable": 1}, None)


async def test_one_cron_is_read_by_its_name(client: Client) -> None:
    found = (await client.get(f"{API}/crons/daily")).json()

    assert [found] == (await client.get(f"{API}/crons")).json()
    assert (found["name"], found["next"]) == ("daily", "2027-01-16T06:00:00Z")
    paused = (await client.post(f"{API}/crons/daily/pause")).json()
    assert paused["next"] is None
    problem(await client.get(f"{API}/crons/none"), 404, "unknown_cron")


async def test_one_breaker_is_read_by_its_name(client: Client) -> None:
    held = (await client.post(f"{API}/breakers/bank/open", json={"why": "maintenance", "create": True})).json()

    assert (await client.get(f"{API}/breakers/bank")).json() == held
    assert held["held_by"] == "local"
    problem(await client.get(f"{API}/breakers/none"), 404, "unknown_breaker")


async def test_a_node_shows_what_it_reported_about_its_pools(client: Client, store: Store) -> None:
    session = store.open_session("node-1")
    store.report(session, '{"degraded": "no data", "pools": {"mail": {"queues": ["mail"], "ready": 2}}}')

    found = (await client.get(f"{API}/nodes/{session}")).json()

    assert found["degraded"] == "no data"
    assert (found["pools"]["mail"]["ready"], found["pools"]["mail"]["queues"]) == (2, ["mail"])


async def test_a_name_that_nothing_uses_is_refused_without_create(client: Client, store: Store) -> None:
    for method, path in (("POST", "queues/mial/pause"), ("PUT", "queues/mial")):
        problem(await client.request(method, f"{API}/{path}", json={}), 404, "unknown_queue")
    problem(await client.post(f"{API}/breakers/bnak/open", json={}), 404, "unknown_breaker")

    assert (store.queues(), store.controls("breaker"), store.audit()) == ([], [], [])


async def test_queues_crons_and_breakers_are_removed(client: Client, store: Store) -> None:
    await client.post(f"{API}/queues/mail/pause", json={"create": True})
    await client.post(f"{API}/breakers/bank/open", json={"create": True})

    queue = await client.post(f"{API}/queues/mail/remove", json={"why": "gone"})
    breaker = await client.post(f"{API}/breakers/bank/remove", json={"why": "gone"})

    assert (queue.json()["paused"], breaker.json()["state"]) == (True, "open")
    assert (store.queues(), store.controls("breaker")) == ([], [])
    problem(await client.post(f"{API}/queues/mail/remove", json={}), 404, "unknown_queue")
    problem(await client.post(f"{API}/crons/none/remove", json={}), 404, "unknown_cron")
