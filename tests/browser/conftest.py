"""Fixtures: one browser for each module, one node and one server for each store."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser

from tests.browser import shop
from tests.browser.site import Site, open_site
from tests.browser.visitor import Visitor
from tests.support.browser import BrowserMissing, find_browser, launch_browser
from tests.support.servers import PostgresServer

SUB_PATH = "/x/y"

Visit = Callable[..., Visitor]


@pytest.fixture(scope="session")
def browser_path() -> str:
    """The path of the browser. Without one, no node is started either."""
    try:
        return find_browser()
    except BrowserMissing as error:
        pytest.skip(f"{error}; install the package `chromium` to run this test")


@pytest.fixture(scope="module")
def browser(browser_path: str) -> Iterator[Browser]:
    """A Chromium. It ends with the module, because no asyncio test can run in this process while it is open."""
    with launch_browser(browser_path) as browser:
        yield browser


@pytest.fixture(scope="session")
def sqlite_site(browser_path: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A dashboard over SQLite, under a sub-path."""
    folder = tmp_path_factory.mktemp("dashboard")
    with open_site(f"sqlite:///{folder}/tasks.db", folder / "site", root_path=SUB_PATH) as site:
        yield site


@pytest.fixture(scope="session")
def postgres_site(
    browser_path: str, postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """A dashboard over PostgreSQL, at the root."""
    name = postgres_server.create_database()
    try:
        with open_site(postgres_server.url(name), tmp_path_factory.mktemp("dashboard") / "site") as site:
            yield site
    finally:
        postgres_server.drop_database(name)


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visit]:
    """Return a factory of visitors. Their tabs are closed after the test."""
    opened: list[Visitor] = []

    def make(site: Site, **options: object) -> Visitor:
        shop.app.use_store(site.store)  # Several sites are open, and handlers submit to the one that is visited.
        opened.append(Visitor(browser, site.address, **options))  # type: ignore[arg-type]
        return opened[-1]

    yield make
    for visitor in opened:
        visitor.close()
