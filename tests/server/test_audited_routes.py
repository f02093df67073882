"""Each change over HTTP and its audit entry are one write, and a change fails if its subject changed meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.server.conftest import API, Client, problem
from tests.support.builders import a_session, in_state, submit_one, task_of
from windlass.core.lifecycle import State
from windlass.core.ordering import Queue
from windlass.core.task import Change, SessionId, TaskId
from windlass.core.worker_list import WorkerList, WorkerProcess, encode_workers
from windlass.errors import StoreUnavailable
from windlass.operations.caller import Scope
from windlass.server.routes.table import TABLE
from windlass.stores.memory import MemoryStore
from windlass.stores.protocol import Store
from windlass.wire.fields import Reason

pytestmark = pytest.mark.anyio

Prepare = Callable[[Store], object]


def a_failure(store: Store) -> TaskId:
    return in_state(store, State.FAILED)


def a_bug(store: Store) -> str:
    a_failure(store)
    [found] = store.dead_groups().groups
    return found.id


def a_node(store: Store) -> SessionId:
    session = a_session(store, about='{"pools": {"mail": {"queues": ["mail"]}}}')
    worker = WorkerProcess(number=1, pool="mail", state="idle", since=0)
    store.renew(session, workers=encode_workers(WorkerList(workers=(worker,))))
    return session


ACTS: list[tuple[str, Prepare, str, dict[str, Any], str]] = [
    ("PATCH", submit_one, "/tasks/{}", {"priority": 4}, "changed"),
    ("POST", submit_one, "/tasks/{}/cancel", {"why": "enough"}, "cancelled"),
    ("POST", a_failure, "/tasks/{}/retry", {}, "retried"),
    ("POST", submit_one, "/tasks:cancel", {"q": "handler:work"}, "cancelled"),
    ("POST", a_failure, "/tasks:retry", {"q": "handler:work"}, "retried"),
    ("POST", a_failure, "/tasks:purge", {"q": "handler:work"}, "purged"),
    ("POST", a_bug, "/dead/{}/retry", {}, "retried"),
    ("POST", a_bug, "/dead/{}/drop", {}, "dropped"),
    ("PUT", lambda store: "mail", "/queues/{}", {"weight": 3, "create": True}, "configured"),
    ("POST", lambda store: "mail", "/queues/{}/pause", {"why": "down", "create": True}, "paused"),
    ("PUT", lambda store: "acme", "/tenants/{}/weight", {"weight": 3, "create": True}, "weighted"),
    ("POST", lambda store: "acme", "/tenants/{}/pause", {"why": "noisy", "create": True}, "paused"),
    ("PUT", lambda store: None, "/limits", {"key": "customer:1", "max_running": 1}, "limited"),
    ("POST", lambda store: "daily", "/crons/{}/pause", {"why": "down"}, "paused"),
    ("POST", lambda store: None, "/crons", {"name": "new", "handler": "work", "schedule": "@daily"}, "created"),
    ("POST", lambda store: store.open_workflow("w", sealed=False), "/workflows/w/seal", {}, "sealed"),
    ("POST", a_node, "/nodes/{}/drain", {"why": "new kernel"}, "drained"),
    ("POST", a_node, "/nodes/{}/stop", {"grace": "1m"}, "stopped"),
    ("POST", a_node, "/nodes/{}/workers/1/drain", {"why": "leaks"}, "drained"),
    ("POST", a_node, "/nodes/{}/workers/1/stop", {}, "stopped"),
]


def test_every_route_that_writes_an_audit_entry_takes_an_author_and_a_reason() -> None:
    """Only tokens are managed without a body: they have no route."""
    writing = [
        route
        for route in TABLE
        if route.method != "GET"
        and (route.scope is Scope.OPERATE or route.name in ("submit_workflow", "seal_workflow", "publish_manifest"))
    ]

    assert len(writing) > 20
    for route in writing:
        assert route.body is not None, route.name
        assert issubclass(route.body, Reason), route.name


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/queues/mail", {"weight": 3, "create": True}),
        ("PATCH", "/tasks/{}", {"priority": 4}),
        ("POST", "/workflows", {"name": "w", "sealed": False}),
        ("POST", "/workflows/open/seal", {}),
        ("POST", "/manifest", {"handlers": [{"name": "elsewhere"}]}),
    ],
)
async def test_author_and_reason_are_in_the_audit_log(
    client: Client, store: Store, method: str, path: str, body: dict[str, Any]
) -> None:
    store.open_workflow("open", sealed=False)
    url = f"{API}{path.format(submit_one(store))}"

    await client.request(method, url, json={**body, "why": "too slow", "by": "ann"})

    [entry] = store.audit()
    assert entry.by == "ann (local)"
    assert entry.text.endswith(": too slow")


@pytest.fixture
def no_notes(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make separate audit writes fail, so that only entries written with the change itself succeed."""

    def refuse(entries: object) -> None:
        raise StoreUnavailable("away")

    monkeypatch.setattr(store, "note", refuse)


@pytest.mark.usefixtures("no_notes")
@pytest.mark.parametrize(
    ("method", "prepare", "path", "body", "action"),
    ACTS,
    ids=[" ".join(part for part in act if isinstance(part, str)) for act in ACTS],
)
async def test_a_change_and_its_audit_entry_are_one_write(
    client: Client, store: Store, method: str, prepare: Prepare, path: str, body: dict[str, Any], action: str
) -> None:
    url = f"{API}{path.format(prepare(store))}"

    done = await client.request(method, url, json=body)
    entries = [(entry.action, entry.by) for entry in store.audit()]
    await client.request(method, url, json=body)

    assert done.status_code in (200, 201), done.text
    assert entries == [(action, "local")]
    assert len(store.audit()) == 1


async def test_a_change_between_read_and_write_is_detected(
    client: Client, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = submit_one(store)
    seen = (await client.get(f"{API}/tasks/{id}")).headers["etag"]
    update = store.update

    def overtaken(task: TaskId, change: Change, **given: Any) -> Any:
        update(task, Change(priority=7))
        return update(task, change, **given)

    monkeypatch.setattr(store, "update", overtaken)
    late = await client.patch(f"{API}/tasks/{id}", json={"priority": 1}, headers={"If-Match": seen})
    anyway = await client.patch(f"{API}/tasks/{id}", json={"priority": 2})

    problem(late, 412, "version_conflict")
    assert (anyway.json()["priority"], task_of(store, id).priority) == (2, 2)
    assert [entry.action for entry in store.audit()] == ["changed"]


async def test_two_concurrent_changes_of_a_queue_are_both_kept(
    client: Client, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, others = store.queues, [Queue(name="mail", weight=9)]

    def overtaken() -> list[Queue]:
        found = read()
        while others:
            store.configure(others.pop())
        return found

    monkeypatch.setattr(store, "queues", overtaken)
    await client.post(f"{API}/queues/mail/pause", json={"by": "ann", "create": True})

    assert store.queues() == [Queue(name="mail", weight=9, paused=True, paused_by="ann (local)")]
