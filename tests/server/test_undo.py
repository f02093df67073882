"""`POST /audit/{number}/undo`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.conftest import API, Client, problem
from tests.server.test_access import Connect, Token
from tests.support.builders import submit_one
from windlass.core.lifecycle import State
from windlass.core.manifest import CronInfo, HandlerInfo, Manifest
from windlass.operations.caller import Scope
from windlass.stores.protocol import Store

pytestmark = pytest.mark.anyio

CHANGES: list[tuple[str, str, Any, str]] = [
    ("POST", "/queues/mail/pause", {"create": True}, "queue/mail"),
    ("PUT", "/queues/mail", {"weight": 3, "create": True}, "queue/mail"),
    ("PUT", "/tenants/acme/weight", {"weight": 3, "create": True}, "tenant/acme"),
    ("POST", "/tenants/acme/pause", {"create": True}, "tenant/acme"),
    ("PUT", "/limits", {"key": "customer:1", "max_running": 1}, "limit/key=customer:1"),
    ("POST", "/breakers/bank/open", {"create": True}, "breaker/bank"),
    ("POST", "/crons/daily/pause", {}, "cron/daily"),
    ("PATCH", "/tasks/{id}", {"priority": 7}, "task/{id}"),
]


@pytest.mark.parametrize(("method", "path", "body", "subject"), CHANGES, ids=[case[1] for case in CHANGES])
async def test_a_change_is_undone_once(
    client: Client, store: Store, method: str, path: str, body: Any, subject: str
) -> None:
    cron = CronInfo(name="daily", handler="work", schedule="0 6 * * *")
    store.publish(Manifest(handlers=(HandlerInfo(name="work"),), crons=(cron,)))
    id = submit_one(store)
    changed = await client.request(method, f"{API}{path.format(id=id)}", json={**body, "why": "a test", "by": "ann"})
    assert changed.status_code == 200, changed.text
    [entry] = (await client.get(f"{API}/audit?limit=1")).json()["entries"]
    assert (entry["subject"], entry["undoable"], entry["undoes"]) == (subject.format(id=id), True, None)

    undone = await client.post(f"{API}/audit/{entry['number']}/undo", json={"why": "wrong", "by": "bob"})

    assert (undone.status_code, undone.json()) == (200, entry)
    [own] = (await client.get(f"{API}/audit?limit=1")).json()["entries"]
    assert (own["action"], own["by"], own["undoes"]) == ("undone", "bob (local)", entry["number"])
    again = await client.post(f"{API}/audit/{entry['number']}/undo", json={})
    assert "already undone by bob (local)" in problem(again, 409, "not_allowed")["detail"]


async def test_a_limited_token_learns_nothing_from_entries_that_it_cannot_undo(
    client: Client, connect: Connect, store: Store, token: Token
) -> None:
    """Neither from one that nobody can undo, nor from one that was undone, nor from one that was changed since."""
    task = submit_one(store, tenant="beta")
    await client.post(f"{API}/tasks/{task}/cancel", json={"why": "a merger"})
    await client.post(f"{API}/tasks:purge", json={"q": "tenant:beta state:cancelled", "why": "a merger"})
    for most in (2, 3):
        set_limit = await client.put(f"{API}/limits", json={"tenant": "beta", "max_running": most, "create": True})
        assert set_limit.is_success, set_limit.text
    await client.post(f"{API}/queues/bulk/pause", json={"create": True, "why": "a merger"})
    [undone, *_] = store.audit(limit=1)
    await client.post(f"{API}/audit/{undone.number}/undo")
    numbers = [entry.number for entry in store.audit(limit=100)]
    assert len(numbers) >= 6

    for team in (connect(token(Scope.OPERATE, tenant="acme")), connect(token(Scope.OPERATE, queue="mail", name="q"))):
        for number in numbers:
            answer = await team.post(f"{API}/audit/{number}/undo")
            found = problem(answer, 404, "unknown_entry")["detail"]
            assert found == f"Unknown audit entry: {number}. `windlass audit ls` lists them."


async def test_a_limited_token_learns_nothing_of_others_from_an_entry_that_it_undoes(
    client: Client, connect: Connect, store: Store, token: Token
) -> None:
    own, other = submit_one(store, tenant="acme"), submit_one(store, tenant="beta")
    body = {"q": "handler:work", "why": "a merger", "by": "operator"}
    cancelled = await client.post(f"{API}/tasks:cancel", json=body)
    assert cancelled.is_success, cancelled.text
    [entry] = store.audit(limit=1)

    answer = await connect(token(Scope.OPERATE, tenant="acme")).post(f"{API}/audit/{entry.number}/undo")

    assert answer.status_code == 200, answer.text
    assert store.get([own, other])[0].state is State.RUNNABLE  # type: ignore[union-attr]
    seen = answer.json()
    assert (seen["number"], seen["text"], seen["by"], seen["data"]) == (entry.number, "restored 1 task", "", {})
    for secret in (str(other), "operator", "merger", "handler:work"):
        assert secret in f"{entry.by} {entry.text} {entry.data}"
        assert secret not in answer.text


async def test_a_limited_token_undoes_what_it_could_have_changed(
    client: Client, connect: Connect, store: Store, token: Token
) -> None:
    for queue in ("mail", "bulk"):
        await client.post(f"{API}/queues/{queue}/pause", json={"create": True})
    bulk, mail = [entry.number for entry in store.audit(limit=2)]
    team = connect(token(Scope.OPERATE, queue="mail"))

    other = await team.post(f"{API}/audit/{bulk}/undo")
    own = await team.post(f"{API}/audit/{mail}/undo")
    missing = await team.post(f"{API}/audit/999/undo")

    assert problem(other, 404, "unknown_entry")["detail"].replace(str(bulk), "N") == problem(
        missing, 404, "unknown_entry"
    )["detail"].replace("999", "N")
    assert own.status_code == 200, own.text
    assert {queue.name: queue.paused for queue in store.queues()} == {"mail": False, "bulk": True}
