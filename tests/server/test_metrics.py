from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.metrics.values import read
from tests.server.conftest import Client, Connect, problem
from tests.support.builders import submit_one
from windlass.server.scopes import Scope
from windlass.stores.protocol import Store

pytestmark = pytest.mark.anyio


async def test_prometheus_reads_how_things_stand(client: Client, store: Store) -> None:
    submit_one(store, queue="mail")

    answer = await client.get("/metrics")

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert read(answer.content)["windlass_queue_tasks{queue=mail,state=runnable}"] == 1


async def test_with_tokens_prometheus_needs_one_that_reads_everything(
    connect: Connect, token: Callable[..., str]
) -> None:
    reader, limited = token(Scope.READ), token(Scope.READ, name="one", tenant="acme")

    assert (await connect(reader).get("/metrics")).status_code == 200
    problem(await connect(limited).get("/metrics"), 403, "forbidden")
    problem(await connect().get("/metrics"), 401, "unauthorized")
