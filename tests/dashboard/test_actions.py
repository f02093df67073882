"""Every form that the dashboard takes: it needs the token of its page, and what destroys something asks first."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit

import pytest
from starlette.routing import Mount, Route

from tests.dashboard.conftest import BASE, Browser
from tests.operations.secrets import SecretStore
from tests.support.builders import submit_one
from windlass.clock import ManualClock, SystemClock
from windlass.core.worker_list import WorkerList, WorkerProcess, encode_workers
from windlass.dashboard import endpoints
from windlass.dashboard.app import dashboard_routes
from windlass.dashboard.pages.table import MODULES
from windlass.operations import crons
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.crons import NewCron
from windlass.server.http.service import Service
from windlass.server.settings import ServerSettings
from windlass.stores.memory import MemoryStore

pytestmark = pytest.mark.anyio

REFUSED = "This form is too old, or not from this page."
LOGIN = "/login"
"""It takes a token in place of a session. `Origin` and `Sec-Fetch-Site` keep other sites from sending it."""
ACTIONS = sorted({action.path for module in MODULES for action in module.actions})
ONE_TASK = "/tasks/{id}/cancel"
"""Cancels a single task, which a retry runs again, so its button works at once."""
MANY_TASKS = "/tasks/bulk"
"""Its form is on a page of its own, which says how many tasks it changes."""
WORDS = ("cancel", "drop", "purge", "remove", "revoke", "stop")
DESTRUCTIVE = [
    path for path in ACTIONS if path.rpartition("/")[2] in WORDS and path != ONE_TASK and "{run}" not in path
]
"""To stop a run over many tasks destroys nothing: those that it has not reached yet stay as they are."""
IDS = {"id": "01a1e1fd-4c42-73de-a2f4-24ee3fbe7468", "group": "0123abcd", "run": "1"}


def posted() -> list[str]:
    """Return the paths of all routes that take a POST."""
    with closing(MemoryStore()) as store:
        [mount] = dashboard_routes(Service(store, ServerSettings()))
    assert isinstance(mount, Mount)
    router = vars(mount.app)["_app"]  # Around it are the error pages.
    found = [route for route in router.routes if isinstance(route, Route)]
    return sorted(route.path for route in found if "POST" in (route.methods or ()))


def test_the_routes_that_take_forms_are_the_actions_and_three_more() -> None:
    assert set(posted()) == {*ACTIONS, LOGIN, "/logout", "/preferences"}


@pytest.mark.parametrize("path", [path for path in posted() if path != LOGIN])
async def test_every_form_needs_the_token_of_a_page_of_its_session(
    browse: Callable[..., Browser], monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    browser, other = browse(), browse()
    await browser.open("/")
    await other.open("/")
    own, foreign = browser.csrf, other.csrf
    address = path.format(**IDS)
    monkeypatch.setattr(endpoints, "_act", lambda *_: pytest.fail("the action ran"))

    refused = [
        await browser.client.post(address, data={"name": "bulk"} | given)
        for given in ({}, {"csrf": ""}, {"csrf": "0" * 40}, {"csrf": foreign})
    ]
    by_address = await browser.client.post(f"{address}?csrf={own}", data={"name": "bulk"})
    monkeypatch.undo()
    accepted = await browser.client.post(address, data={"name": "bulk", "csrf": own})

    assert own != foreign
    for answer in (*refused, by_address):
        assert (answer.status_code, REFUSED in answer.text) == (403, True)
    assert REFUSED not in accepted.text


class Forms(HTMLParser):
    """The forms of a page that are sent with POST: their paths, and whether something folds them away."""

    def __init__(self, page: str, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, bool]] = []
        self._page, self._folds = page, list[bool]()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "details":
            self._folds.append("open" not in given)
        elif tag == "form" and given.get("method") == "post":
            self.found.append((urlsplit(urljoin(self._page, given["action"])).path, any(self._folds)))

    def handle_endtag(self, tag: str) -> None:
        if tag == "details":
            self._folds.pop()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(SystemClock().now())


@pytest.fixture
def planted(store: MemoryStore, clock: ManualClock) -> SecretStore:
    """A store in which there is something to destroy for every action."""
    planted = SecretStore(store)
    cron = NewCron(name="made", handler="mail", schedule="@daily", args={"to": "ann"})
    crons.create(Access(store, clock=clock), cron, Author("ann"))
    submit_one(store, handler="mail", key="later", workflow="unfinished")
    worker = WorkerProcess(number=1, pool="mail", state="busy", since=0)
    store.renew(planted.session, workers=encode_workers(WorkerList(workers=(worker,), stuck=())))
    return planted


@pytest.fixture
def pages(planted: SecretStore) -> list[str]:
    return [
        "/",
        "/tasks",
        f"/tasks/{planted.failed}",
        "/queues",
        "/queues/default",
        "/tenants/default",
        "/workflows/view?name=unfinished",
        "/pool?name=mail",
        "/cron",
        f"/dead/{planted.group}",
        "/settings",
    ]


async def test_what_destroys_something_asks_first(browser: Browser, planted: SecretStore, pages: list[str]) -> None:
    await browser.log_in(planted.token)

    found = [form for page in pages for form in Forms(f"{BASE}{page}", await browser.open(page)).found]

    expected = {path.format(**IDS | {"group": planted.group}) for path in DESTRUCTIVE}
    assert expected <= {path for path, _ in found}, "add a page with this action to the fixture `pages`"
    assert {path for path, folded in found if path in expected and not folded} == set()


async def test_what_changes_many_tasks_says_how_many_first(
    browser: Browser, planted: SecretStore, pages: list[str]
) -> None:
    await browser.log_in(planted.token)

    elsewhere = [
        page for page in pages for path, _ in Forms(page, await browser.open(page)).found if path == MANY_TASKS
    ]
    first = await browser.open(f"{MANY_TASKS}?verb=purge&all=1&q=state%3Afailed")

    assert elsewhere == []
    assert MANY_TASKS in {path for path, _ in Forms(f"{BASE}{MANY_TASKS}", first).found}
    assert "Purge 1 task?" in first
    assert "This cannot be undone." in first
