"""Fixtures: a server over the memory store, called in this process."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.support.tokens import create_token
from windlass.clock import ManualClock
from windlass.core.manifest import CronInfo, HandlerInfo, Manifest
from windlass.operations.caller import Scope
from windlass.server.app import create_app
from windlass.server.http.security_middleware import SecurityMiddleware
from windlass.server.settings import ServerSettings
from windlass.stores.memory import MemoryStore
from windlass.stores.protocol import Store

BASE = "http://127.0.0.1:7878"
API = "/api/v1"

PARAMETERS = {
    "type": "object",
    "properties": {"to": {"type": "string"}, "pin": {"type": "string", "x-secret": True}},
    "required": ["to"],
    "additionalProperties": False,
}
MAIL = HandlerInfo(name="mail", queue="post", parameters=json.dumps(PARAMETERS), template='{"priority":7}')
WORK = HandlerInfo(name="work")
DAILY = CronInfo(name="daily", handler="work", schedule="0 6 * * *", args='{"password":"hunter2"}')
MANIFEST = Manifest(handlers=(MAIL, WORK), crons=(DAILY,))

Client = httpx.AsyncClient
Connect = Callable[..., Client]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> Iterator[MemoryStore]:
    """A store with the handlers `mail` and `work`, and a cron and a pool named `daily`."""
    store = MemoryStore(clock=clock)
    store.publish(MANIFEST)
    store.put_control("pool", "daily", "{}", expect=0)
    yield store
    store.close()


@pytest.fixture
async def connect(store: Store, clock: ManualClock) -> AsyncGenerator[Connect]:
    """Return a factory of clients, each of a server with the given settings, with or without a token."""
    clients: list[Client] = []
    apps: list[SecurityMiddleware] = []

    def make(token: str | None = None, *, over: Store | None = None, **settings: Any) -> Client:
        app = create_app(over or store, ServerSettings(**settings), clock)
        apps.append(app)
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        transport = httpx.ASGITransport(app=app)
        clients.append(httpx.AsyncClient(transport=transport, base_url=BASE, headers=headers))
        return clients[-1]

    yield make
    for app in apps:
        app.end_streams()
    for client in clients:
        await client.aclose()


@pytest.fixture
def client(connect: Connect) -> Client:
    """A local client, while the store has no tokens."""
    return connect()


@pytest.fixture
def token(store: Store, clock: ManualClock) -> Callable[..., str]:
    """Return a factory of tokens."""

    def make(*scopes: Scope, name: str = "", **options: Any) -> str:
        return create_token(store, name or "-".join(scopes), scopes, clock=clock, **options)

    return make


def problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """Check that a response is this problem, and return it."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    found = answer.json()
    assert (found["status"], found["code"]) == (status, code), found
    return found
