from __future__ import annotations

import pytest

from tests.support.builders import submit_one
from tests.support.processes import open_store
from tests.support.servers import PostgresServer
from tests.tui.conftest import until
from windlass.tui.app import Top

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


async def test_the_pages_recover_with_the_server(own_postgres_server: PostgresServer) -> None:
    url = own_postgres_server.url(own_postgres_server.create_database())
    store = open_store(url)
    submit_one(store)
    store.close()

    async with Top(lambda: open_store(url), by="ann", every=0.5).run_test(size=(140, 30)) as pilot:
        await until(pilot, "runnable 1")
        own_postgres_server.stop("immediate")
        away = await until(pilot, "✗ The store (is unavailable|has not answered)")
        own_postgres_server.start()
        await until(pilot, "✗ The store (is unavailable|has not)", gone=True)

        assert "runnable 1" in away
