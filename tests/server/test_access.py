"""Access control: every route with no token, with the wrong scope, and as another tenant or queue."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from typing import Any, cast

import httpx
import pytest

from tests.server.conftest import API, Client, Connect, problem
from tests.support.builders import GAVE_UP, OOPS, a_session, a_task, claim_one, report, submit, submit_one, task_of
from tests.support.tokens import create_token, revoke_token
from windlass.clock import ManualClock
from windlass.config import InvalidSettings
from windlass.core.fingerprint import fingerprint
from windlass.core.lifecycle import State
from windlass.operations import tokens as tokens_module
from windlass.operations.caller import Caller, Scope
from windlass.operations.tokens import hash_secret, read_tokens
from windlass.server import app as app_module
from windlass.server.http import service as service_module
from windlass.server.http.rate_limit import RateLimiter
from windlass.server.http.routing import Mode, Route
from windlass.server.http.service import Service
from windlass.server.routes.table import TABLE
from windlass.server.settings import ServerSettings
from windlass.stores.protocol import Store

pytestmark = pytest.mark.anyio

Token = Callable[..., str]
CLOSED = [route for route in TABLE if route.scope is not None]
BODIES: dict[str, Any] = {
    "submit_task": {"handler": "work"},
    "submit_batch": [{"handler": "work"}],
    "submit_workflow": {"name": "daily", "tasks": [{"handler": "work"}]},
    "append_tasks": {"tasks": [{"handler": "work"}]},
    "retry_workflow": {"step": "first"},
    "cancel_tasks": {"q": "queue:nothing"},
    "retry_tasks": {"q": "queue:nothing"},
    "purge_tasks": {"q": "queue:nothing"},
    "edit_and_retry": {"args": {"x": 1}},
    "tune_pool": {"settings": {"wait": 3}},
    "override_pool": {"workers": 1},
    "set_tenant_weight": {"weight": 3},
    "set_limit": {"key": "customer:1", "max_running": 1},
    "remove_limit": {"key": "customer:1"},
    "open_session": {"node": "me"},
    "report_progress": [],
    "settle_tasks": [],
    "set_queue": {"create": True},
    "pause_queue": {"create": True},
    "publish_manifest": {"handlers": [{"name": "elsewhere"}]},
    "create_cron": {"name": "new", "handler": "work", "schedule": "@daily"},
    "change_cron": {"priority": 1},
}
ALSO_SUBMIT = ("create_cron", "change_cron")
"""Routes that submit tasks later, and so need the scope `submit` too."""
REACHED = {
    "edit_and_retry": (409, "not_allowed"),
    "change_cron": (409, "not_allowed"),
    "simulate_pool": (422, "invalid_load"),
    "get_queue": (404, "unknown_queue"),
    "read_series": (404, "unknown_queue"),
    "get_tenant": (404, "unknown_tenant"),
    "set_tenant_weight": (404, "unknown_tenant"),
    "pause_tenant": (404, "unknown_tenant"),
    "resume_tenant": (404, "unknown_tenant"),
    "remove_limit": (404, "unknown_limit"),
    "get_breaker": (404, "unknown_breaker"),
    "open_breaker": (404, "unknown_breaker"),
    "remove_breaker": (404, "unknown_breaker"),
    "close_breaker": (404, "unknown_breaker"),
    "remove_queue": (404, "unknown_queue"),
    "resume_queue": (404, "unknown_queue"),
    "undo_entry": (404, "unknown_entry"),
    # The session is not that of a node with worker processes.
    "drain_node": (422, "invalid_task"),
    "stop_node": (422, "invalid_task"),
    "drain_worker": (422, "invalid_task"),
    "stop_worker": (422, "invalid_task"),
    # The session is that of a node, which no token may use.
    "claim_tasks": (410, "session_lost"),
    "renew_session": (410, "session_lost"),
    "report_progress": (410, "session_lost"),
    "settle_tasks": (410, "session_lost"),
    "close_session": (410, "session_lost"),
}
"""Routes that refuse what these tests have for them, for reasons of their own: then the caller was let in."""
INCLUDED = {
    Scope.SUBMIT: {Scope.SUBMIT},
    Scope.READ: {Scope.READ},
    Scope.OPERATE: {Scope.OPERATE, Scope.READ},
    Scope.WORK: {Scope.WORK},
    Scope.ADMIN: set(Scope),
}


def named(route: Route) -> str:
    return f"{route.method} {route.path}"


class Prepared:
    """A store with data for every route, all of tenant beta and queue bulk, and how to call each route."""

    def __init__(self, store: Store) -> None:
        self.session = a_session(store)
        store.open_workflow("daily", sealed=False)
        submit_one(store, tenant="beta", queue="bulk", workflow="daily", key="first")
        report(store, claim_one(store, queue="bulk"), GAVE_UP)
        self.group = fingerprint(OOPS)

    async def ask(self, client: Client, route: Route, id: object, name: str = "daily") -> httpx.Response:
        """Call a route with valid parameters."""
        places = {
            "id": id,
            "name": name,
            "session": self.session,
            "group": self.group,
            "event": "approved",
            "number": 999,
        }
        path = route.path.format(**{place: places[place] for place in route.path_params})
        if route.mode is Mode.LINES:
            headers = {"Content-Type": "application/x-ndjson"}
            return await client.request(route.method, path, content=b'{"handler":"work"}\n', headers=headers)
        body = BODIES.get(route.name, {}) if route.body is not None else None
        params = {"seconds": "0"} if route.path.endswith("/events") else None
        return await client.request(route.method, path, json=body, params=params)


@pytest.fixture
def prepared(store: Store) -> Prepared:
    return Prepared(store)


@pytest.mark.parametrize("route", CLOSED, ids=named)
async def test_once_there_are_tokens_every_route_needs_one(
    route: Route, connect: Connect, store: Store, token: Token, prepared: Prepared
) -> None:
    token(Scope.ADMIN)
    id = submit_one(store, queue="mail")
    before = (store.counts(), store.queues(), store.audit())

    answers = [
        await prepared.ask(connect(), route, id),
        await prepared.ask(connect("wdl_" + "A" * 43), route, id),
        await prepared.ask(connect(""), route, id),
    ]
    with_cookie = connect()
    with_cookie.cookies.set("session", "anything")
    answers.append(await prepared.ask(with_cookie, route, id))

    for answer in answers:
        assert "[redacted]" not in problem(answer, 401, "unauthorized")["detail"]
        assert answer.headers["www-authenticate"] == "Bearer"
    assert (store.counts(), store.queues(), store.audit()) == before


@pytest.mark.parametrize("scope", Scope)
@pytest.mark.parametrize("route", CLOSED, ids=named)
async def test_a_token_allows_exactly_what_its_scope_says(
    route: Route, scope: Scope, connect: Connect, store: Store, token: Token, prepared: Prepared
) -> None:
    id = submit_one(store, queue="mail")
    client = connect(token(scope))

    answer = await prepared.ask(client, route, id)

    assert route.scope is not None
    if route.scope in INCLUDED[scope] and (route.name not in ALSO_SUBMIT or Scope.SUBMIT in INCLUDED[scope]):
        if route.name in REACHED:
            problem(answer, *REACHED[route.name])
        else:
            assert answer.status_code in (route.status, *route.also), answer.text
    else:
        problem(answer, 403, "forbidden")
        assert task_of(store, id).state is State.RUNNABLE


@pytest.mark.parametrize("route", CLOSED, ids=named)
async def test_a_task_of_another_tenant_looks_like_one_that_does_not_exist(
    route: Route, connect: Connect, store: Store, token: Token, prepared: Prepared
) -> None:
    theirs, missing = submit_one(store, tenant="beta"), "01a1e1fd-4c42-73de-a2f4-24ee3fbe7468"
    client = connect(token(Scope.ADMIN, tenant="acme"))

    other, nothing = await prepared.ask(client, route, theirs), await prepared.ask(client, route, missing)

    if route.name != "create_cron":
        assert other.status_code == nothing.status_code
        assert other.headers.keys() == nothing.headers.keys()
    if "{id}" in route.path:
        problem(other, 404, "unknown_task")
        assert other.text.replace(str(theirs), "ID") == nothing.text.replace(missing, "ID")
    elif route.name in ("get_queue", "get_tenant"):
        problem(other, *REACHED[route.name])
    elif (
        route.unrestricted
        or route.path.startswith(f"{API}/queues/")
        or route.name in ("set_limit", "remove_limit", "open_session")
    ):
        problem(other, 403, "forbidden")
    elif "{session}" in route.path or route.name == "undo_entry":
        problem(other, *REACHED[route.name])
    elif "{group}" in route.path:
        problem(other, 404, "unknown_group")
    elif "/crons/{name}" in route.path:  # It is in the code of an app, which tokens with limits do not see.
        problem(other, 404, "unknown_cron")
    elif route.name == "create_cron":  # The first call has created it.
        problem(nothing, 409, "cron_exists")
    elif route.name in (
        "get_workflow",
        "get_steps",
        "get_edges",
        "stream_workflow_events",
        "seal_workflow",
        "retry_workflow",
    ):
        problem(other, 404, "unknown_workflow")
    else:
        assert other.status_code in (route.status, *route.also), other.text
        assert "beta" not in other.text
    assert str(theirs) not in (other.text if "{id}" not in route.path else "")
    assert task_of(store, theirs).state is State.RUNNABLE


class Recording:
    """A store that records the names of the methods that are called."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.called: list[str] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not callable(found):
            return found

        def call(*given: object, **named: object) -> object:
            self.called.append(name)
            return found(*given, **named)

        return call


@pytest.mark.parametrize("route", [route for route in CLOSED if "{id}" in route.path], ids=named)
async def test_a_task_of_another_tenant_and_one_that_does_not_exist_take_the_same_store_calls(
    route: Route, connect: Connect, store: Store, token: Token, prepared: Prepared
) -> None:
    """So that neither the answer nor the time that it takes shows which of them exists."""
    theirs, missing = submit_one(store, tenant="beta"), "01a1e1fd-4c42-73de-a2f4-24ee3fbe7468"
    recording = Recording(store)
    client = connect(token(Scope.ADMIN, tenant="acme"), over=cast("Store", recording))
    await prepared.ask(client, route, missing)  # reads the tokens, which are then known

    calls: list[list[str]] = []
    for id in (theirs, missing):
        recording.called.clear()
        await prepared.ask(client, route, id)
        calls.append(list(recording.called))

    assert calls[0] == calls[1] != []


@pytest.mark.parametrize("route", CLOSED, ids=named)
async def test_a_task_of_another_queue_looks_like_one_that_does_not_exist(
    route: Route, connect: Connect, store: Store, token: Token, prepared: Prepared
) -> None:
    theirs = submit_one(store, queue="bulk")
    client = connect(token(Scope.ADMIN, queue="default"))

    answer = await prepared.ask(client, route, theirs, name="bulk")

    if "{id}" in route.path:
        problem(answer, 404, "unknown_task")
    elif route.unrestricted or route.name in (
        "seal_workflow",
        "set_workflow_event",
        "retry_workflow",
        "set_limit",
        "remove_limit",
    ):
        problem(answer, 403, "forbidden")
    elif "{session}" in route.path or route.name == "undo_entry":
        problem(answer, *REACHED[route.name])
    elif route.path.startswith(f"{API}/queues/"):
        problem(answer, 404, "unknown_queue")
    elif route.name == "get_tenant":
        problem(answer, 404, "unknown_tenant")
    elif "{group}" in route.path:
        problem(answer, 404, "unknown_group")
    elif "/crons/{name}" in route.path:
        problem(answer, 404, "unknown_cron")
    elif route.name in ("get_workflow", "get_steps", "get_edges", "stream_workflow_events"):
        problem(answer, 404, "unknown_workflow")
    else:
        assert answer.status_code in (route.status, *route.also), answer.text
        assert str(theirs) not in answer.text
        assert "bulk" not in answer.text
    assert task_of(store, theirs).state is State.RUNNABLE


async def test_a_token_of_a_tenant_submits_only_for_it(connect: Connect, store: Store, token: Token) -> None:
    client = connect(token(Scope.SUBMIT, tenant="acme"))

    own = await client.post(f"{API}/tasks", json={"handler": "work"})
    other = await client.post(f"{API}/tasks", json={"handler": "work", "tenant": "beta"})
    batch = await client.post(f"{API}/tasks:batch", json=[{"handler": "work"}, {"handler": "work", "tenant": "beta"}])

    assert own.status_code == 201
    assert problem(other, 403, "forbidden")["errors"][0]["field"] == "tenant"
    assert problem(batch, 403, "forbidden")["index"] == 1
    assert [(count.tenant, count.tasks) for count in store.counts()] == [("acme", 1)]


async def test_a_token_of_a_queue_submits_only_to_it(connect: Connect, token: Token) -> None:
    client = connect(token(Scope.SUBMIT, queue="post"))

    own = await client.post(f"{API}/tasks", json={"handler": "mail", "args": {"to": "ann"}})
    other = await client.post(f"{API}/tasks", json={"handler": "work"})

    assert own.status_code == 201
    problem(other, 403, "forbidden")


async def test_a_token_of_a_queue_learns_only_that_a_key_is_taken(connect: Connect, store: Store, token: Token) -> None:
    theirs = submit_one(store, queue="bulk", key="invoice:7", args={"customer": "beta"})
    client = connect(token(Scope.SUBMIT, queue="default"))

    found = problem(
        await client.post(f"{API}/tasks", json={"handler": "work", "queue": "default", "key": "invoice:7"}),
        409,
        "key_conflict",
    )

    assert not {"bulk", "beta", str(theirs)} & set(str(found).split()), found
    assert found["keys"] == ["invoice:7"]


async def test_a_token_of_a_queue_cannot_stop_a_workflow(connect: Connect, store: Store, token: Token) -> None:
    client = connect(token(Scope.SUBMIT, queue="post"))

    refused = await client.post(f"{API}/workflows", json={"name": "nightly", "sealed": False})

    problem(refused, 403, "forbidden")
    assert task_of(store, submit_one(store, workflow="nightly")).state is State.RUNNABLE


async def test_results_of_another_queue_cannot_be_referenced(connect: Connect, store: Store, token: Token) -> None:
    theirs = str(submit_one(store, queue="bulk"))
    client = connect(token(Scope.SUBMIT, queue="default"))
    body = {"handler": "work", "args": {"x": {"$result": theirs}}, "after": [theirs]}
    lines = json.dumps({"handler": "work"}) + "\n" + json.dumps(body)
    headers = {"Content-Type": "application/x-ndjson"}

    problem(await client.post(f"{API}/tasks", json=body), 422, "unknown_prerequisite")
    problem(await client.post(f"{API}/tasks:batch", json=[body]), 422, "unknown_prerequisite")
    workflow = await client.post(f"{API}/workflows", json={"name": "w", "tasks": [body]})
    problem(workflow, 422, "unknown_prerequisite")
    more = await client.post(f"{API}/workflows/w/tasks", json={"tasks": [body]})
    problem(more, 422, "unknown_prerequisite")
    stream = await client.post(f"{API}/tasks:stream", content=lines, headers=headers)
    receipts = [json.loads(line) for line in stream.text.splitlines()]
    assert [(each.get("error") or {}).get("code") for each in receipts] == [None, "unknown_prerequisite"]


async def test_results_of_another_tenant_cannot_be_referenced(connect: Connect, store: Store, token: Token) -> None:
    theirs = submit_one(store, tenant="beta")
    client = connect(token(Scope.SUBMIT, tenant="acme"))
    body = {"handler": "work", "args": {"x": {"$result": str(theirs)}}}

    alone = await client.post(f"{API}/tasks", json=body)
    waiting = await client.post(f"{API}/tasks", json={**body, "after": [str(theirs)]})

    problem(alone, 400, "invalid_payload")
    problem(waiting, 422, "unknown_prerequisite")


async def test_lists_show_a_tenant_only_its_own_data(connect: Connect, store: Store, token: Token) -> None:
    submit(store, a_task(tenant="acme", queue="q"), a_task(tenant="beta", queue="q"), a_task(tenant="beta", queue="r"))
    client = connect(token(Scope.READ, tenant="acme"))

    listed = (await client.get(f"{API}/tasks")).json()["tasks"]
    asked = (await client.get(f"{API}/tasks", params={"tenant": "beta"})).json()["tasks"]
    by_filter = (await client.get(f"{API}/tasks", params={"q": "tenant:beta"})).json()["tasks"]
    queues = {queue["name"]: queue["tasks"] for queue in (await client.get(f"{API}/queues")).json()}

    assert [task["tenant"] for task in listed] == ["acme"]
    assert (asked, by_filter) == ([], [])
    assert queues == {"q": {"runnable": 1}}


async def test_an_expired_token_is_refused_and_still_counts_as_a_token(
    connect: Connect, clock: ManualClock, token: Token
) -> None:
    client = connect(token(Scope.READ, lasts=timedelta(hours=1)))
    good = await client.get(f"{API}/tasks")

    clock.advance(timedelta(hours=1))

    assert good.status_code == 200
    problem(await client.get(f"{API}/tasks"), 401, "unauthorized")
    problem(await connect().get(f"{API}/tasks"), 401, "unauthorized")


async def test_a_token_expires_after_90_days_unless_its_creator_says_otherwise(
    connect: Connect, clock: ManualClock, token: Token
) -> None:
    usual, lasting = connect(token(Scope.READ)), connect(token(Scope.READ, name="lasting", lasts=None))

    clock.advance(timedelta(days=90) - timedelta(seconds=1))
    before = await usual.get(f"{API}/tasks")
    clock.advance(timedelta(seconds=1))
    after = await usual.get(f"{API}/tasks")

    assert before.status_code == 200
    problem(after, 401, "unauthorized")
    assert (await lasting.get(f"{API}/tasks")).status_code == 200


async def test_a_revoked_token_is_refused(
    connect: Connect, store: Store, token: Token, monkeypatch: pytest.MonkeyPatch
) -> None:
    token(Scope.ADMIN)
    client = connect(token(Scope.READ))
    good = await client.get(f"{API}/tasks")

    monkeypatch.setattr(tokens_module, "REMEMBERED", 0.0)
    gone = (revoke_token(store, "read"), revoke_token(store, "read"))

    assert good.status_code == 200
    assert gone == (True, False)
    problem(await client.get(f"{API}/tasks"), 401, "unauthorized")
    assert [entry.action for entry in store.audit("token/read")] == ["revoked", "created"]


async def test_revoking_the_last_token_does_not_open_the_server(
    connect: Connect, store: Store, token: Token, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens_module, "REMEMBERED", 0.0)
    before = await connect().get(f"{API}/tasks")
    token(Scope.READ)
    assert revoke_token(store, "read")

    answers = [await connect().get(f"{API}/tasks"), await connect().post(f"{API}/queues/default/pause")]

    assert before.status_code == 200
    assert read_tokens(store) == {}
    for answer in answers:
        problem(answer, 401, "unauthorized")


async def test_a_token_of_an_older_version_closes_the_server_when_it_is_revoked(
    connect: Connect, store: Store, token: Token
) -> None:
    token(Scope.READ)
    [marker] = store.controls(tokens_module.CLOSED)
    store.put_control(marker.kind, marker.name, None, expect=marker.version)

    assert revoke_token(store, "read")

    problem(await connect().get(f"{API}/tasks"), 401, "unauthorized")


async def test_a_damaged_token_opens_nothing_and_leaves_the_others_valid(
    connect: Connect, store: Store, token: Token, caplog: pytest.LogCaptureFixture
) -> None:
    good = connect(token(Scope.READ))
    assert store.put_control("token", "damaged", "{", expect=0)
    [marker] = store.controls(tokens_module.CLOSED)
    assert store.put_control(marker.kind, marker.name, None, expect=marker.version)

    answers = await good.get(f"{API}/tasks"), await connect().get(f"{API}/tasks")
    assert revoke_token(store, "read")
    assert revoke_token(store, "damaged")

    assert [answer.status_code for answer in answers] == [200, 401]
    problem(await connect().get(f"{API}/tasks"), 401, "unauthorized")
    assert "token damaged cannot be read" in caplog.text


def test_a_token_has_256_bits_and_only_its_hash_is_stored(store: Store) -> None:
    first, second = (create_token(store, name, [Scope.READ]) for name in ("a", "b"))

    kept = "".join(control.value for control in store.controls("token"))
    assert len(base64.urlsafe_b64decode(first.removeprefix("wdl_") + "=")) == 32
    assert first != second
    assert first not in kept
    assert first.removeprefix("wdl_") not in kept
    assert read_tokens(store)["a"].hash == hash_secret(first)


@pytest.mark.parametrize("text", ["Bearer", "Basic abc", "bearer  ", "Bearer x y", "Bearer \x80"])
async def test_a_malformed_authorization_header_is_refused(connect: Connect, text: str) -> None:
    answer = await connect().get(f"{API}/tasks", headers={"Authorization": text.encode("latin-1")})

    problem(answer, 401, "unauthorized")


async def test_a_caller_above_its_rate_limit_is_refused(connect: Connect, token: Token) -> None:
    client = connect(token(Scope.READ, rate=0.001))

    first = await client.get(f"{API}/queues")
    second = await client.get(f"{API}/queues")

    assert first.status_code == 200
    problem(second, 429, "rate_limited")
    assert int(second.headers["retry-after"]) > 1
    assert (await connect(token(Scope.READ, name="other")).get(f"{API}/queues")).status_code == 200


@pytest.fixture
def services(monkeypatch: pytest.MonkeyPatch) -> list[Service]:
    """Collect what servers are made of. Their rate limiters have a clock that stands still."""
    made: list[Service] = []

    def create(*given: Any) -> Service:
        made.append(Service(*given))
        return made[-1]

    monkeypatch.setattr(app_module, "Service", create)
    monkeypatch.setattr(service_module, "RateLimiter", partial(RateLimiter, clock=lambda: 0.0))
    return made


async def test_by_default_every_token_has_1000_requests_per_second_with_bursts_of_twice_as_many(
    connect: Connect, token: Token, services: list[Service]
) -> None:
    client, other = connect(token(Scope.READ)), token(Scope.READ, name="other")
    [service] = services
    for _ in range(1_999):
        service.rate_limiter.take(Caller(name="read", scopes=frozenset([Scope.READ])))

    last, refused = await client.get(f"{API}/queues"), await client.get(f"{API}/queues")
    served = await client.get(f"{API}/queues", headers={"Authorization": f"Bearer {other}"})

    assert (last.status_code, served.status_code) == (200, 200)
    assert "limited to 1000 requests per second" in problem(refused, 429, "rate_limited")["detail"]


async def test_by_default_every_token_has_1000_requests_at_the_same_time(
    connect: Connect, token: Token, services: list[Service]
) -> None:
    client = connect(token(Scope.READ))
    [service] = services
    caller = Caller(name="read", scopes=frozenset([Scope.READ]))

    with ExitStack() as running:
        for _ in range(999):
            running.enter_context(service.concurrency.running(caller))
        last = await client.get(f"{API}/queues")
        running.enter_context(service.concurrency.running(caller))
        refused = await client.get(f"{API}/queues")

    assert last.status_code == 200
    problem(refused, 429, "too_many_requests")
    assert (await client.get(f"{API}/queues")).status_code == 200


@pytest.mark.parametrize("route", CLOSED, ids=named)
async def test_a_read_only_server_changes_nothing(
    route: Route, connect: Connect, store: Store, prepared: Prepared
) -> None:
    id = submit_one(store)

    answer = await prepared.ask(connect(read_only=True), route, id)

    if route.scope is Scope.READ:
        assert answer.status_code == REACHED.get(route.name, (200, ""))[0]
    else:
        problem(answer, 403, "read_only")


async def test_public_routes_need_no_token(connect: Connect, token: Token) -> None:
    token(Scope.ADMIN)
    client = connect()

    answers = [await client.get(path) for path in ("/healthz", "/readyz", f"{API}/openapi.json")]

    assert [answer.status_code for answer in answers] == [200, 200, 200]


@pytest.mark.parametrize(
    ("settings", "has_tokens", "named"),
    [
        ({"host": "0.0.0.0"}, False, "windlass token create"),
        ({"host": "0.0.0.0"}, True, "--behind-proxy"),
        ({"host": "::"}, True, "--tls-cert"),
        ({"host": "127.0.0.1", "hosts": ("windlass.example",)}, False, "windlass token create"),
        ({"port": 70_000}, True, "port=70000"),
        ({"root_path": "x/"}, True, "root_path"),
        ({"tls_cert": "c"}, True, "tls_key"),
    ],
)
def test_settings_that_expose_the_store_are_refused(settings: dict[str, Any], has_tokens: bool, named: str) -> None:
    with pytest.raises(InvalidSettings, match=named):
        ServerSettings(**settings).check(has_tokens=has_tokens)


@pytest.mark.parametrize(
    ("settings", "has_tokens"),
    [
        ({}, False),
        ({"host": "localhost"}, False),
        ({"host": "::1"}, False),
        ({"host": "0.0.0.0", "behind_proxy": True}, True),
        ({"hosts": ("windlass.example",)}, True),
    ],
)
def test_settings_that_protect_the_store_are_accepted(settings: dict[str, Any], has_tokens: bool) -> None:
    ServerSettings(**settings).check(has_tokens=has_tokens)


async def test_a_server_with_a_secret_of_its_own_asks_for_it_while_there_are_no_tokens(
    connect: Connect, token: Token
) -> None:
    """`windlass up` has one, so that handlers on the same machine do not act as operators."""
    secret = tokens_module.new_secret()
    answers = [await connect(given, secret=secret).get(f"{API}/tasks") for given in (None, "", "wdl_guessed", secret)]
    assert [answer.status_code for answer in answers] == [401, 401, 401, 200]

    operator = token(Scope.READ)

    assert (await connect(secret, secret=secret).get(f"{API}/tasks")).status_code == 401, "it ends with the first token"
    assert (await connect(operator, secret=secret).get(f"{API}/tasks")).status_code == 200
