from __future__ import annotations

import pytest

from tests.server.conftest import API, Client, problem
from tests.support.builders import claim_one
from windlass.core.manifest import CronInfo, Manifest
from windlass.stores.protocol import Store

pytestmark = pytest.mark.anyio


async def test_a_cron_is_run_manually_without_changing_its_schedule(client: Client, store: Store) -> None:
    answer = await client.post(f"{API}/crons/daily/run", json={"why": "after the outage"})

    claim = claim_one(store)
    assert answer.status_code == 201
    assert answer.json()["id"] == str(claim.id)
    assert (claim.handler, claim.args) == ("work", '{"password":"hunter2"}')
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
