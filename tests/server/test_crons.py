from __future__ import annotations

from typing import Any

import pytest

from tests.server.conftest import API, Client, Connect, problem
from tests.support.builders import a_task, claim_one, submit
from windlass.core.manifest import CronInfo, Manifest
from windlass.operations.caller import Scope
from windlass.stores.protocol import Store

pytestmark = pytest.mark.anyio


async def test_a_cron_is_run_manually_without_changing_its_schedule(client: Client, store: Store) -> None:
    answer = await client.post(f"{API}/crons/daily/run", json={"why": "after the outage"})

    claim = claim_one(store)
    assert answer.status_code == 201
    assert answer.json()["id"] == str(claim.task.id)
    assert (claim.task.handler, claim.task.args) == ("work", '{"password":"hunter2"}')
    [entry] = store.audit("cron/daily")
    assert (entry.action, entry.text) == ("ran", "ran cron daily by hand: after the outage")
    assert store.crons()[0].fired is None
    problem(await client.post(f"{API}/crons/unheard-of/run"), 404, "unknown_cron")


async def test_a_cron_shows_its_next_times_in_its_own_time_zone(client: Client, store: Store) -> None:
    berlin = CronInfo(name="berlin", handler="work", schedule="0 6 * * *", timezone="Europe/Berlin")
    store.publish(Manifest(crons=(berlin,)))
    store.pause_cron("berlin", True)

    found = (await client.get(f"{API}/crons/berlin/next", params={"n": "2"})).json()

    # The clock of these tests stands at 15 January 2027, 08:00 UTC.
    assert found["times"] == ["2027-01-16T06:00:00+01:00", "2027-01-17T06:00:00+01:00"]
    assert found["paused"] is True
    assert len((await client.get(f"{API}/crons/daily/next")).json()["times"]) == 5
    problem(await client.get(f"{API}/crons/unheard-of/next"), 404, "unknown_cron")
    problem(await client.get(f"{API}/crons/daily/next", params={"n": "0"}), 400, "invalid_request")


async def test_tenants_are_listed_with_their_tasks(client: Client, connect: Connect, store: Store, token: Any) -> None:
    submit(store, a_task(tenant="acme", queue="a"), a_task(tenant="acme", queue="b"), a_task(tenant="beta"))

    found = (await client.get(f"{API}/tenants")).json()
    own = (await connect(token(Scope.READ, tenant="acme")).get(f"{API}/tenants")).json()

    assert found == [
        {"name": "acme", "tasks": {"runnable": 2}, "queues": ["a", "b"]},
        {"name": "beta", "tasks": {"runnable": 1}, "queues": ["default"]},
    ]
    assert own == found[:1]
