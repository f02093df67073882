from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.server.conftest import API, Client, Connect, problem
from tests.support.builders import claim_one
from windlass.core.manifest import CronInfo, Manifest
from windlass.operations.caller import Scope
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


def a_cron(**fields: Any) -> dict[str, Any]:
    return {"name": "hourly", "handler": "work", "schedule": "every 1h", "args": {"password": "x"}, **fields}


async def test_a_cron_is_created_changed_and_removed_at_run_time(client: Client, store: Store) -> None:
    created = await client.post(f"{API}/crons", json=a_cron(start="2027-01-15T08:30:00Z", by="ann", why="asked"))
    changed = await client.patch(
        f"{API}/crons/hourly", json={"schedule": "@daily", "timezone": "Asia/Tokyo", "start": None}
    )
    removed = await client.post(f"{API}/crons/hourly/remove", json={})

    assert created.status_code == 201
    assert created.headers["etag"] == f'"{created.json()["version"]}"'
    assert (created.json()["next"], created.json()["at_run_time"]) == ("2027-01-15T08:30:00Z", True)
    assert (changed.json()["next"], changed.json()["start"]) == ("2027-01-16T00:00:00+09:00", None)
    assert "x" not in created.json()["args"].values()
    assert removed.status_code == 200
    assert [cron.info.name for cron in store.crons()] == ["daily"]
    assert [(entry.action, entry.by) for entry in store.audit("cron/hourly")][::-1] == [
        ("created", "ann (local)"),
        ("changed", "local"),
        ("removed", "local"),
    ]


async def test_a_change_with_an_old_version_is_refused(client: Client, store: Store) -> None:
    tag = (await client.post(f"{API}/crons", json=a_cron())).headers["etag"]
    fresh = await client.patch(f"{API}/crons/hourly", json={"priority": 1}, headers={"If-Match": tag})

    for method, path, body in (
        ("PATCH", "/crons/hourly", {"priority": 2}),
        ("POST", "/crons/hourly/pause", {}),
        ("POST", "/crons/hourly/remove", {}),
    ):
        stale = await client.request(method, f"{API}{path}", json=body, headers={"If-Match": tag})
        problem(stale, 412, "version_conflict")

    assert fresh.headers["etag"] != tag
    found = {cron.info.name: cron for cron in store.crons()}["hourly"]
    assert (found.info.priority, found.paused) == (1, False)


@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({"name": "daily"}, 409, "cron_exists"),
        ({"handler": "nobody"}, 422, "unknown_handler"),
        ({"handler": "mail", "args": {"too": "a"}}, 422, "invalid_task"),
        ({"schedule": "every now"}, 422, "invalid_task"),
        ({"timezone": "Mars"}, 422, "invalid_task"),
        ({"misfire": "never"}, 400, "invalid_request"),
        ({"start": "2027-01-15"}, 422, "invalid_task"),
        ({"end": "2020-01-01T00:00:00Z", "start": "2021-01-01T00:00:00Z"}, 422, "invalid_task"),
    ],
)
async def test_a_cron_that_cannot_work_is_refused(
    client: Client, store: Store, fields: dict[str, Any], status: int, code: str
) -> None:
    problem(await client.post(f"{API}/crons", json=a_cron(**fields)), status, code)

    assert [cron.info.name for cron in store.crons()] == ["daily"]


async def test_a_token_sees_and_changes_the_crons_of_its_tenant_and_queue(
    connect: Connect, client: Client, store: Store, token: Callable[..., str]
) -> None:
    await client.post(f"{API}/crons", json=a_cron(name="other", tenant="beta"))
    acme = connect(token(Scope.OPERATE, Scope.SUBMIT, tenant="acme", queue="default"))

    created = await acme.post(f"{API}/crons", json=a_cron())
    refused = [
        await acme.post(f"{API}/crons", json=a_cron(name="x", tenant="beta")),
        await acme.post(f"{API}/crons", json=a_cron(name="x", queue="bulk")),
        await acme.patch(f"{API}/crons/hourly", json={"tenant": "beta"}),
    ]
    hidden = [
        await acme.patch(f"{API}/crons/other", json={"priority": 1}),
        await acme.post(f"{API}/crons/daily/pause", json={}),
        await acme.post(f"{API}/crons?replace=true", json=a_cron(name="other")),
    ]
    listed = (await acme.get(f"{API}/crons")).json()
    ran = await acme.post(f"{API}/crons/hourly/run", json={})

    assert (created.json()["tenant"], created.json()["queue"]) == ("acme", "default")
    for answer in refused:
        problem(answer, 403, "forbidden")
    for answer in hidden:
        problem(answer, 404, "unknown_cron")
    assert [cron["name"] for cron in listed] == ["hourly"]
    assert ran.status_code == 201
    assert claim_one(store).tenant == "acme"
    assert (await acme.post(f"{API}/crons/hourly/remove", json={})).status_code == 200


async def test_a_cron_without_a_node_that_has_its_handler_says_so(client: Client, store: Store) -> None:
    await client.post(f"{API}/crons", json=a_cron())
    store.open_session("box", about='{"handlers": ["mail"], "crons": []}')

    found = (await client.get(f"{API}/crons/hourly")).json()
    store.open_session("box-2", about='{"handlers": ["work"], "crons": []}')
    later = (await client.get(f"{API}/crons/hourly")).json()

    assert (found["problem"], found["next"]) == ("no live node has the handler work", None)
    assert (later["problem"], later["next"]) == (None, "2027-01-15T09:00:00Z")
