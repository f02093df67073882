"""Every page over ten million tasks, next to the same page over ten thousand: what the server and the browser take.

Run it on an idle machine: `pytest -m soak -s tests/browser/test_ten_million.py`. It prints a table for
`docs/benchmarks.md`. `WINDLASS_SOAK_PAGE_TASKS` makes the larger store smaller.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from urllib.parse import urlencode

import httpx
import psutil
import pytest
from msgspec import Struct
from playwright.sync_api import Browser

from tests.browser.test_load import serving
from tests.browser.visitor import Visitor
from tests.support.many_tasks import fill_postgres, fill_sqlite
from tests.support.servers import PostgresServer
from windlass.core.lifecycle import State
from windlass.stores.protocol import Filter
from windlass.wiring import open_store

FEW, MANY = 10_000, int(os.environ.get("WINDLASS_SOAK_PAGE_TASKS", "10_000_000"))
REQUESTS, VISITS = 5, 3
USABLE = 1_000.0
"""Milliseconds until a page can be used."""
SEARCH = 'Tasks, "no such text"'
"""The one page that may take longer: it compares the text with every task that it looks at."""
MOST_MORE = 200.0
"""Milliseconds of CPU that a page may cost more: ten thousand tasks have far fewer failed ones than are looked at."""
NAVIGATION = "() => performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"
"""Milliseconds from the click until the page is drawn and its scripts, which are deferred, have run."""


class Measured(Struct, frozen=True):
    """One page, in milliseconds: CPU time of the server and of PostgreSQL for one request, and the browser's median."""

    cpu: float
    usable: float


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_ten_million_tasks_cost_no_page_more_than_ten_thousand(
    kind: str, browser: Browser, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    found: list[dict[str, Measured]] = []
    for tasks in (FEW, MANY):
        with filled(kind, tasks, postgres_server, tmp_path) as url, serving(url) as (process, address):
            database = None if kind == "sqlite" else psutil.Process(postgres_server.pid)
            found.append(measure(browser, address, addresses(url, tasks), process, database))
    few, many = found

    sys.stdout.write("\n" + "\n".join(report(kind, few, many)) + "\n")
    grown = {name: (few[name], many[name]) for name in few if many[name].cpu > 3 * few[name].cpu + MOST_MORE}
    assert grown == {}
    assert {name: each.usable for name, each in many.items() if each.usable > USABLE and name != SEARCH} == {}, (
        "on an idle machine"
    )


@contextmanager
def filled(kind: str, tasks: int, server: PostgresServer, folder: Path) -> Iterator[str]:
    """Make a store with this number of tasks, and remove it afterwards."""
    with ExitStack() as after:
        if kind == "sqlite":
            path = folder / f"{tasks}.db"
            after.callback(path.unlink)
            yield fill_sqlite(path, tasks)
        else:
            name = server.create_database()
            after.callback(server.drop_database, name)
            yield fill_postgres(server.url(name), tasks)


def addresses(url: str, tasks: int) -> dict[str, str]:
    """Return an address of every page that shows tasks, and of some filters, by what the table calls them."""
    store = open_store(url)
    one = {
        state: store.find(Filter(states=frozenset([state])), limit=1).tasks[0].id
        for state in (State.FAILED, State.RUNNABLE)
    }
    store.close()
    number = tasks // 200
    workflow = urlencode({"name": f"order-{number}", "tenant": f"tenant-{number % 50}"})
    filters = ("state:failed", "queue:queue-1 tenant:tenant-1", "handler:shop.handler_3", '"no such text"')
    return {
        "Now": "",
        "Tasks": "tasks",
        **{f"Tasks, {q}": f"tasks?{urlencode({'q': q})}" for q in filters},
        **{f"Task, {state.value}": f"tasks/{id}" for state, id in one.items()},
        "Retry all failed, asked": f"tasks/bulk?{urlencode({'verb': 'retry', 'all': 1, 'q': 'state:failed'})}",
        "Workflows": "workflows",
        "Workflow": f"workflows/view?{workflow}",
        "Queues": "queues",
        "Queue": "queues/queue-1",
        "Tenant": "tenants/tenant-1",
        "Pool": "pool",
        "Cron": "cron",
        "Dead letters": "dead",
        "Bug": "dead/aaaaaaa0",
        "Audit": "audit",
        "Settings": "settings",
    }


def measure(
    browser: Browser, address: str, pages: dict[str, str], server: psutil.Process, database: psutil.Process | None
) -> dict[str, Measured]:
    """Open every page some times: without a browser for the CPU time, in one for the time until it is usable."""
    found: dict[str, Measured] = {}
    visitor = Visitor(browser, address)
    with httpx.Client(timeout=120) as client:
        for name, path in pages.items():
            client.get(f"{address}/{path}").raise_for_status()
            before = cpu_seconds(server, database)
            for _ in range(REQUESTS):
                client.get(f"{address}/{path}")
            cpu = (cpu_seconds(server, database) - before) / REQUESTS * 1_000
            usable: list[float] = []
            for _ in range(VISITS):
                visitor.open(path)
                usable.append(visitor.page.evaluate(NAVIGATION))
            visitor.page.goto("about:blank")  # Its live updates would be counted for the next page.
            found[name] = Measured(cpu, median(usable))
    visitor.close()
    return found


def cpu_seconds(server: psutil.Process, database: psutil.Process | None) -> float:
    """Return the CPU time of the server so far, and of the processes of PostgreSQL."""
    processes = [server, *([] if database is None else database.children(recursive=True))]
    return sum(sum(each.cpu_times()[:2]) for each in processes)


def report(kind: str, few: dict[str, Measured], many: dict[str, Measured]) -> Iterator[str]:
    """Return the lines of a table."""
    yield f"| {kind} | CPU, {FEW:,} tasks | CPU, {MANY:,} | usable, {FEW:,} | usable, {MANY:,} |"
    yield "|---|---|---|---|---|"
    for name, one in few.items():
        ten = many[name]
        yield f"| {name} | {one.cpu:.0f} ms | {ten.cpu:.0f} ms | {one.usable:.0f} ms | {ten.usable:.0f} ms |"
