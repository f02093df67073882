from __future__ import annotations

import msgspec
import pytest

from tests.server.conftest import API, Client, problem
from tests.support.builders import a_session
from windlass.autoscale.documents import POOL, PoolDecision, written
from windlass.autoscale.reports import NodeReport, PoolReport
from windlass.stores.protocol import Store

pytestmark = pytest.mark.anyio


async def test_whoever_starts_machines_learns_how_many_are_wanted(client: Client, store: Store) -> None:
    report = NodeReport(pools={"mail": PoolReport(queues=("mail",), threads=4, ceiling=8)})
    store.report(a_session(store), msgspec.json.encode(report).decode())
    store.put_control(POOL, "mail", written(PoolDecision(tick=1, target=3, threads=4)), expect=0)

    answer = await client.get(f"{API}/pools/mail/desired")

    assert answer.json() == {"pool": "mail", "workers": 3, "slots": 12}


async def test_a_pool_that_nobody_has_is_unknown(client: Client) -> None:
    problem(await client.get(f"{API}/pools/mail/desired"), 404, "unknown_pool")
