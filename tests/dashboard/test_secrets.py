"""A store with a secret in every text: no page of the dashboard contains it, and every page has strict headers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import urlencode

import pytest

from tests.dashboard.conftest import Browser
from tests.operations.secrets import SECRET, TEXT, SecretStore
from windlass.clock import ManualClock, SystemClock
from windlass.dashboard.pages.table import MODULES
from windlass.operations import bulk_runs
from windlass.operations.bulk import Verb
from windlass.operations.bulk_runs import BulkRun
from windlass.stores.memory import MemoryStore

pytestmark = pytest.mark.anyio

PATHS = sorted({page.path for module in MODULES for page in module.pages})
EDIT = urlencode({"changes": '{"n": 1}'})


def start_purge(at: SecretStore) -> str:
    """Return the id of a long action with a secret in its filter and its error."""
    now = SystemClock().now()
    run = BulkRun(id="1", verb=Verb.PURGE, q=TEXT, by="ann", tenant=None, queue=None, started=now, at=now, problem=TEXT)
    return bulk_runs.save(at.store, run).id


EXAMPLES: Mapping[str, Callable[[SecretStore], list[str]]] = {
    "/tasks/{id}": lambda at: [f"/tasks/{at.failed}", f"/tasks/{at.done}"],
    "/tasks/bulk": lambda at: ["/tasks/bulk?verb=retry&all=1&q=state%3Afailed"],
    "/tasks/bulk/{run}": lambda at: [f"/tasks/bulk/{start_purge(at)}"],
    "/queues/{name}": lambda at: ["/queues/default"],
    "/tenants/{name}": lambda at: ["/tenants/default"],
    "/dead/{group}": lambda at: [f"/dead/{at.group}", f"/dead/{at.group}?{EDIT}"],
    "/pool": lambda at: ["/pool?name=mail"],
    "/workflows/view": lambda at: [
        f"/workflows/view?{urlencode({'name': 'w', 'tenant': 'default', 'show': view})}"
        for view in ("graph", "gantt", "table")
    ],
}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(SystemClock().now())


@pytest.fixture
def planted(store: MemoryStore) -> SecretStore:
    return SecretStore(store)


@pytest.mark.parametrize("path", PATHS)
async def test_no_page_shows_a_secret(browser: Browser, planted: SecretStore, path: str) -> None:
    await browser.log_in(planted.token)
    assert path in EXAMPLES or "{" not in path, f"{path} needs an example"

    for address in EXAMPLES[path](planted) if path in EXAMPLES else [path]:
        text = await browser.open(address)

        assert SECRET not in text, address
        assert planted.token not in text
        assert "</html>" in text
        policy = browser.page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        for name, value in {
            "x-content-type-options": "nosniff",
            "x-frame-options": "DENY",
            "referrer-policy": "same-origin",
            "cache-control": "no-store",
        }.items():
            assert browser.page.headers[name] == value
