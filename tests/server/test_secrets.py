"""A store with a secret in every text: no HTTP response contains it."""

from __future__ import annotations

import pytest

from tests.operations.secrets import SECRET, TEXT, SecretStore
from tests.server.conftest import Client, Connect
from windlass.operations.caller import Scope
from windlass.server.http.routing import Mode, Route
from windlass.server.routes.table import TABLE
from windlass.stores.memory import MemoryStore

pytestmark = pytest.mark.anyio

NAMES = {"queues": "default", "crons": "daily", "pools": "mail", "breakers": "bank", "tenants": "default"}
READS = [route for route in TABLE if route.scope is Scope.READ and route.method == "GET"]
CHANGES = [
    ("/queues/default/pause", {"why": TEXT}),
    ("/tenants/default/pause", {"why": TEXT}),
    ("/limits:remove", {"why": TEXT, "queue": "default"}),
    ("/crons/daily/pause", {"why": TEXT}),
    ("/pools/mail/freeze", {"why": TEXT}),
    ("/breakers/bank/open", {"why": TEXT}),
    ("/tasks/{failed}/cancel", {"why": TEXT}),
    ("/tasks/{failed}/retry", {"why": TEXT}),
    ("/tasks/{failed}/edit-and-retry", {"why": TEXT, "args": {"password": SECRET}}),
    ("/dead/{group}/retry", {"why": TEXT, "canary": True, "patience": "1ms"}),
    ("/workflows/w/retry", {"why": TEXT, "step": "a"}),
]


def named(route: Route) -> str:
    return route.path


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def planted(store: MemoryStore) -> SecretStore:
    return SecretStore(store)


@pytest.fixture
def client(connect: Connect, planted: SecretStore) -> Client:
    return connect(planted.token)


def path_of(route: Route, planted: SecretStore, id: object) -> str:
    resource = route.path.split("/")[3] if route.path.startswith("/api/") else ""
    name = NAMES.get(resource, "w")
    values = {"id": id, "name": name, "session": planted.session, "group": planted.group}
    return route.path.format(**{place: values[place] for place in route.path_params})


@pytest.mark.parametrize("route", READS, ids=named)
async def test_no_read_shows_a_secret(client: Client, planted: SecretStore, route: Route) -> None:
    params = {"seconds": "0.2"} if route.mode is Mode.EVENTS else {}
    ids = [planted.failed, planted.done] if "{id}" in route.path else [planted.failed]

    answers = [await client.get(path_of(route, planted, id), params=params) for id in ids]

    assert [answer.status_code for answer in answers] == [200] * len(ids), [answer.text for answer in answers]
    assert all(answer.content for answer in answers)
    assert [answer.text for answer in answers if SECRET in answer.text] == []


@pytest.mark.parametrize(("path", "body"), CHANGES, ids=[path for path, _ in CHANGES])
async def test_no_change_shows_a_secret(
    client: Client, planted: SecretStore, path: str, body: dict[str, object]
) -> None:
    url = "/api/v1" + path.format(failed=planted.failed, group=planted.group)

    answer = await client.post(url, json=body)
    log = await client.get("/api/v1/audit")

    assert answer.is_success, answer.text
    assert SECRET not in answer.text + log.text
