"""What a page costs the store does not grow with the number of tasks that it has.

SQLite counts the steps of its virtual machine, which are the same on any machine. `pytest -m soak
tests/browser/test_ten_million.py` measures time, with ten million tasks and on PostgreSQL too.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import apsw
import pytest
from msgspec import Struct

from tests.dashboard.conftest import Browser
from tests.support.many_tasks import fill_sqlite
from windlass.clock import SystemClock
from windlass.core.lifecycle import State
from windlass.dashboard.app import dashboard_routes
from windlass.dashboard.pages.table import MODULES
from windlass.server.app import create_app
from windlass.server.settings import ServerSettings
from windlass.stores.protocol import Filter, Store
from windlass.wiring import open_store

pytestmark = pytest.mark.anyio

FEW, MANY = 5_000, 100_000
FAILED, BACKLOG = 20, 100
"""As many in both stores: what is listed or looked through on a page is bounded, and not what these tests are about."""
MOST_STATEMENTS = 300
"""Of one page. The page Queues has most: each of the eight queues is read by itself."""


class Cost(Struct):
    """What SQLite did."""

    statements: int = 0
    steps: int = 0


@pytest.fixture
def cost() -> Iterator[Cost]:
    """What connections to SQLite do that are opened from now on."""
    cost = Cost()

    def add(ended: dict[str, Any]) -> None:
        cost.statements += 1
        cost.steps += ended["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

    def watch(connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, add)

    apsw.connection_hooks.append(watch)
    yield cost
    apsw.connection_hooks.remove(watch)


def addresses(store: Store, tasks: int) -> dict[str, str]:
    """Return an address of each page by the path of the page."""

    def one(state: State) -> str:
        return f"/tasks/{store.find(Filter(states=frozenset([state])), limit=1).tasks[0].id}"

    number = tasks // 200
    return {
        **{page.path: page.path for module in MODULES for page in module.pages if "{" not in page.path},
        "/tasks?q=state": "/tasks?q=state%3Afailed",
        "/tasks/bulk": "/tasks/bulk?verb=retry&all=1&q=state%3Afailed",
        "/tasks/{id} failed": one(State.FAILED),
        "/tasks/{id} runnable": one(State.RUNNABLE),
        "/queues/{name}": "/queues/queue-1",
        "/tenants/{name}": "/tenants/tenant-1",
        "/dead/{group}": "/dead/aaaaaaa0",
        "/workflows/view": "/workflows/view?"
        + urlencode({"name": f"order-{number}", "tenant": f"tenant-{number % 50}"}),
    }


async def open_every_page(folder: Path, tasks: int, cost: Cost) -> dict[str, Cost]:
    """Return what each page of a store with this number of tasks costs, the second time that it is opened."""
    url = fill_sqlite(folder / f"{tasks}.db", tasks, apart=2 * tasks // FAILED, backlog=BACKLOG)
    store = open_store(url)
    browser = Browser(create_app(store, ServerSettings(), SystemClock(), dashboard_routes))
    found: dict[str, Cost] = {}
    for path, address in addresses(store, tasks).items():
        await browser.open(address)
        cost.statements = cost.steps = 0
        await browser.open(address)
        found[path] = Cost(cost.statements, cost.steps)
    browser.app.end_streams()
    await browser.client.aclose()
    store.close()
    return found


async def test_no_page_costs_more_with_twenty_times_as_many_tasks(tmp_path: Path, cost: Cost) -> None:
    few = await open_every_page(tmp_path, FEW, cost)
    many = await open_every_page(tmp_path, MANY, cost)

    grown = {path: (few[path], many[path]) for path in few if many[path].steps > 3 * few[path].steps + 1_000}
    assert grown == {}
    assert {path: each for path, each in many.items() if each.statements > MOST_STATEMENTS} == {}
    assert min(each.statements for each in many.values()) > 0
