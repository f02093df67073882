from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from tests.metrics.values import read
from tests.server.conftest import API, Client, Connect, problem
from tests.server.running import running
from tests.support.builders import submit_one
from windlass.operations.caller import Scope
from windlass.stores.protocol import Store

pytestmark = pytest.mark.anyio


async def test_metrics_show_the_state_of_the_store(client: Client, store: Store) -> None:
    submit_one(store, queue="mail")

    answer = await client.get("/metrics")

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert read(answer.content)["windlass_queue_tasks{queue=mail,state=runnable}"] == 1


def test_a_server_counts_its_store_calls_and_duplicate_submits(store: Store) -> None:
    with running(store) as address:
        for _ in range(2):
            httpx.post(f"{address}{API}/tasks", json={"handler": "work", "key": "once"}).raise_for_status()
        found = read(httpx.get(f"{address}/metrics").content)

    assert found["windlass_submitted_total"] == 1
    assert found["windlass_duplicates_suppressed_total"] == 1
    assert found["windlass_store_call_seconds_count{method=submit}"] == 2


async def test_metrics_need_an_unrestricted_token(connect: Connect, token: Callable[..., str]) -> None:
    reader, limited = token(Scope.READ), token(Scope.READ, name="one", tenant="acme")

    assert (await connect(reader).get("/metrics")).status_code == 200
    problem(await connect(limited).get("/metrics"), 403, "forbidden")
    problem(await connect().get("/metrics"), 401, "unauthorized")
