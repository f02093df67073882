"""Hostile requests to every route, made from a seed: the server answers each with a problem and continues to serve.

Bodies start as valid ones and are damaged: values of wrong types, huge and odd numbers, NUL, surrogates, deep nesting,
duplicate names, truncated and random bytes. Paths and parameters get the same values. `python -m pytest
tests/server/test_fuzz_bodies.py` runs a fixed number of requests; `WINDLASS_FUZZ_SEEDS=1000` runs more of them.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, get_args
from urllib.parse import quote

import httpx
import pytest

from tests.server.conftest import BASE, MANIFEST
from tests.server.test_access import BODIES
from tests.support.builders import GAVE_UP, OOPS, a_task, claim_one, report, submit, submit_one
from windlass.clock import ManualClock
from windlass.core.fingerprint import fingerprint
from windlass.server.app import create_app
from windlass.server.http.routing import Mode, Route
from windlass.server.routes.table import TABLE
from windlass.server.settings import ServerSettings
from windlass.stores.memory import MemoryStore
from windlass.stores.postgres import PostgresStore
from windlass.stores.protocol import Store

pytestmark = pytest.mark.anyio

SEEDS = int(os.environ.get("WINDLASS_FUZZ_SEEDS", "12"))
"""How many rounds over all routes."""
ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 10**30, 0.5, -0.0, 1e-300, 1e308,
    "", " ", "a", "\0", "a\0b", "\n", "\x1b[31m", "é", "\u202e", "😀", "a" * 600, "a" * 70_000, "0", "-1",
    "1e9", "null", "..", "%00", "' OR 1=1 --", "{}", "2020-01-01", "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00", "1000000d", "work", "mail", "daily", "default", "completed", "failed",
    "01a1e1fd-4c42-73de-a2f4-24ee3fbe7468", [], {}, [[]], [None], {"": ""}, {"a": {"$result": "x"}}, {"$result": 7},
)  # fmt: skip


def fields_of(body: Any) -> tuple[str, ...]:
    """Return the names of the fields of a body, or of the items of a list."""
    [item] = get_args(body) or [body]
    return getattr(item, "__struct_fields__", ())


class Fuzzer:
    """Makes hostile values from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._pick = self._random.choice

    def body(self, route: Route) -> bytes:
        """Return the body of a request: damaged JSON, or JSON with damaged values."""
        valid = BODIES.get(route.name, {})
        text = json.dumps(self._damage(valid, fields_of(route.body))).encode(errors="replace")
        match self._random.randrange(12):
            case 0:
                return text[: self._random.randrange(len(text) + 1)]
            case 1:
                return bytes(self._random.randrange(256) for _ in range(self._random.randrange(60)))
            case 2:
                return b"[" * self._pick([1, 63, 64, 65, 2_000]) + text
            case 3:
                return text.replace(b'":', b'": 1, "a": 2, "a":', 1)
            case 4:
                return text.replace(b'"', b'"\\ud800', 1)
            case _:
                return text

    def path(self, route: Route, known: dict[str, Any]) -> str:
        """Return the path and the parameters, often with odd values."""
        places = {place: self._place(known.get(place, "x")) for place in route.path_params}
        names = [] if route.query is None else list(route.query.__struct_fields__)
        asked = {name: self._text() for name in names if self._random.random() < 0.4}
        if "seconds" in names:
            asked["seconds"] = "0"
        return route.path.format(**places) + "?" + "&".join(f"{name}={quote(text)}" for name, text in asked.items())

    def _place(self, known: Any) -> str:
        return quote(str(known) if self._random.random() < 0.7 else self._text()[:300], safe="")

    def _text(self) -> str:
        return str(self._pick(ODD))[:500]

    def _damage(self, value: Any, fields: Sequence[str]) -> Any:
        if isinstance(value, list):
            return [self._damage(each, fields) for each in value] * self._pick([1, 1, 1, 2])
        if not isinstance(value, dict):
            return value if self._random.random() < 0.8 else self._odd()
        found = {name: self._damage(each, ()) for name, each in value.items()}
        for _ in range(self._random.randrange(3)):
            found[self._pick(fields or ("x",))] = self._odd()
        return found

    def _odd(self) -> Any:
        odd = self._pick(ODD)
        return [odd] * self._random.randrange(4) if self._random.random() < 0.2 else odd


@contextmanager
def prepared(store: Store) -> Iterator[dict[str, Any]]:
    """Fill a store with something for most routes; yields what paths may name."""
    store.publish(MANIFEST)
    store.put_control("pool", "daily", "{}", expect=0)
    submit(store, a_task(queue="bulk", workflow="daily", key="first"), a_task(args={"x": 1}))
    report(store, claim_one(store, queue="bulk"), GAVE_UP)
    yield {"id": submit_one(store), "name": "daily", "group": fingerprint(OOPS)}
    store.close()


async def attack(store: Store, known: dict[str, Any]) -> list[str]:
    """Send the requests of all seeds. Returns the answers that say that the server failed."""
    app = create_app(store, ServerSettings(rate=1e9))
    failures: list[str] = []
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url=BASE, timeout=60) as client:
        session = (await client.post("/api/v1/sessions", json={"node": "fuzz"})).json()["session"]
        for seed in range(SEEDS):
            fuzzer = Fuzzer(seed)
            for route in TABLE:
                path = fuzzer.path(route, {**known, "session": session})
                media = "application/x-ndjson" if route.mode is Mode.LINES else "application/json"
                content = fuzzer.body(route) if route.body is not None else None
                headers = {} if content is None else {"Content-Type": media}
                answer = await client.request(route.method, path, content=content, headers=headers)
                if answer.status_code >= 500 or '"internal_error"' in answer.text:
                    failures.append(f"seed {seed}: {route.method} {path} {content!r:.500}: {answer.text:.500}")
        health = await client.get("/readyz")
        listed = await client.get("/api/v1/tasks")
    app.end_streams()
    assert (health.status_code, listed.status_code) == (200, 200)
    return failures


async def test_no_request_makes_the_server_fail() -> None:
    store = MemoryStore(clock=ManualClock())
    with prepared(store) as known:
        assert await attack(store, known) == []


async def test_no_request_makes_a_server_of_postgres_fail(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    with prepared(store) as known:
        assert await attack(store, known) == []


@pytest.mark.parametrize("text", ["\0", "a\0b", str(2**63), str(-(2**63) - 1), "1" * 40])
async def test_values_that_postgres_cannot_store_are_refused(postgres_url: str, text: str) -> None:
    store = PostgresStore(postgres_url)
    app = create_app(store)
    failures: list[str] = []
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=BASE) as client:
        for route in TABLE:
            path = route.path.format(**dict.fromkeys(route.path_params, quote(text, safe="")))
            names = () if route.query is None else route.query.__struct_fields__
            for query in [{}, *({name: text} for name in names)]:
                body = BODIES.get(route.name, {}) if route.body is not None else None
                answer = await client.request(route.method, path, params={**query, "seconds": 0}, json=body)
                if "seconds" not in names:
                    answer = await client.request(route.method, path, params=query, json=body)
                if answer.status_code >= 500:
                    failures.append(f"{route.method} {path} {query}: {answer.text}")
    app.end_streams()
    store.close()

    assert failures == []
