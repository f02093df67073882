"""Host, Origin and security headers, on every route and method."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from tests.server.conftest import API, Client, Connect, problem
from tests.support.builders import submit_one, task_of
from windlass.core.lifecycle import State
from windlass.operations.caller import Scope
from windlass.server.http.routing import Route
from windlass.server.routes.table import TABLE
from windlass.stores.protocol import Store

pytestmark = pytest.mark.anyio

Token = Callable[..., str]
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW")
EXPECTED = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
"""Written out, so that a weaker value in the server fails a test."""
PATHS = sorted({route.path for route in TABLE} | {f"{API}/openapi.json", "/", "/nothing"})


@pytest.mark.parametrize("method", METHODS)
async def test_a_foreign_host_is_refused_on_every_path_and_method(client: Client, method: str) -> None:
    for path in PATHS:
        for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example:7878", "10.0.0.1", "a b", ""):
            answer = await client.request(method, path, headers={"Host": host})
            assert (answer.status_code, answer.headers["content-type"]) == (403, "application/problem+json"), path


@pytest.mark.parametrize("method", METHODS)
async def test_a_foreign_origin_is_refused_on_every_path_and_method(client: Client, method: str) -> None:
    origins = ("https://evil.example", "null", "http://127.0.0.1:9999", "http://127.0.0.1", "file://", "http://[")
    for path in PATHS:
        for origin in origins:
            answer = await client.request(method, path, headers={"Origin": origin})
            assert answer.status_code == 403, (path, origin)
            assert "access-control-allow-origin" not in answer.headers


async def test_a_request_from_another_site_changes_nothing(client: Client, store: Store) -> None:
    id = submit_one(store)

    by_origin = await client.post(f"{API}/tasks/{id}/cancel", headers={"Origin": "https://evil.example"})
    by_fetch = await client.post(f"{API}/tasks/{id}/cancel", headers={"Sec-Fetch-Site": "cross-site"})
    form = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    by_form = await client.post(f"{API}/tasks/{id}/cancel", headers=form)
    link = await client.get(f"{API}/tasks/{id}", headers=form)
    plain_form = await client.post(f"{API}/tasks", content='{"handler":"work"}', headers={"Content-Type": "text/plain"})

    problem(by_origin, 403, "origin_not_allowed")
    problem(by_fetch, 403, "origin_not_allowed")
    problem(by_form, 403, "origin_not_allowed")
    assert link.status_code == 200
    problem(plain_form, 415, "unsupported_media_type")
    assert task_of(store, id).state is State.RUNNABLE


@pytest.mark.parametrize(
    "host", ["127.0.0.1:7878", "localhost", "localhost:7878", "[::1]:7878", "LOCALHOST", "localhost."]
)
async def test_own_host_names_and_pages_are_served(client: Client, host: str) -> None:
    plain = await client.get("/healthz", headers={"Host": host})
    page = await client.get(
        "/healthz", headers={"Host": host, "Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
    )

    assert (plain.status_code, page.status_code) == (200, 200)


async def test_allowed_host_names_are_served(connect: Connect, store: Store) -> None:
    client = connect(hosts=("Windlass.example",))

    named = await client.get("/healthz", headers={"Host": "windlass.example", "Origin": "https://windlass.example"})

    assert named.status_code == 200
    # Other machines can reach it under such a name, so local requests are no longer trusted.
    problem(await client.get(f"{API}/tasks"), 401, "unauthorized")


async def test_a_public_server_accepts_addresses_but_not_names(connect: Connect) -> None:
    client = connect(host="0.0.0.0")

    assert (await client.get("/healthz", headers={"Host": "192.0.2.7:7878"})).status_code == 200
    problem(await client.get("/healthz", headers={"Host": "evil.example"}), 403, "host_not_allowed")


async def test_every_response_has_the_security_headers(client: Client, store: Store) -> None:
    id = submit_one(store)
    answers = [
        await client.get("/healthz"),
        await client.get(f"{API}/tasks/{id}"),
        await client.get("/nothing"),
        await client.delete(f"{API}/tasks"),
        await client.get("/healthz", headers={"Host": "evil.example"}),
        await client.post(f"{API}/tasks:stream", content=b"{", headers={"Content-Type": "application/x-ndjson"}),
    ]

    for answer in answers:
        assert {name: answer.headers.get(name) for name in EXPECTED} == EXPECTED


@pytest.mark.parametrize("route", TABLE, ids=lambda route: f"{route.method} {route.path}")
async def test_every_route_has_the_security_headers_with_and_without_a_token(
    connect: Connect, store: Store, token: Token, route: Route
) -> None:
    secret = token(Scope.ADMIN)
    names = dict.fromkeys(route.path_params, "01a1e1fd-4c42-73de-a2f4-24ee3fbe7468")
    params = {"seconds": "0"} if route.path.endswith("/events") else None

    for client in (connect(), connect("wdl_wrong"), connect(secret)):
        answer = await client.request(route.method, route.path.format(**names), params=params)

        assert {name: answer.headers.get(name) for name in EXPECTED} == EXPECTED
        assert "server" not in answer.headers
        assert "set-cookie" not in answer.headers, "the API takes tokens only, so no other site can use a browser"


async def test_headers_of_more_than_16_kilobytes_are_refused(client: Client) -> None:
    problem(await client.get("/healthz", headers={"X-Long": "a" * 17_000}), 431, "headers_too_large")


async def test_an_unknown_path_or_method_is_a_problem(client: Client) -> None:
    problem(await client.get("/nothing"), 404, "not_found")
    problem(await client.get(f"{API}/tasks/"), 404, "not_found")
    problem(await client.get(f"{API}/tasks/no-id"), 404, "not_found")
    wrong = await client.delete(f"{API}/tasks")
    problem(wrong, 405, "method_not_allowed")
    assert wrong.headers["allow"] == "GET, POST"


async def test_an_unexpected_error_returns_only_a_log_id(
    connect: Connect, store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> None:
        raise KeyError("/etc/secret/path")

    monkeypatch.setattr(store, "queues", broken)

    with caplog.at_level(logging.ERROR, "windlass.server"):
        found = problem(await connect().get(f"{API}/queues"), 500, "internal_error")

    assert "secret" not in str(found)
    assert "Traceback" not in str(found)
    assert found["id"] in caplog.text
    assert "/etc/secret/path" in caplog.text


async def test_a_wrong_token_is_refused_even_locally(connect: Connect) -> None:
    problem(await connect("wdl_nonsense").get(f"{API}/tasks"), 401, "unauthorized")
