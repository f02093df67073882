"""Cursors show nothing, and serve only callers with the same limits."""

from __future__ import annotations

import base64
from collections.abc import Callable

import pytest

from tests.server.conftest import API, Connect, problem
from tests.support.builders import a_task, submit
from windlass.clock import ManualClock
from windlass.operations.access import Access
from windlass.operations.caller import LOCAL, Caller, Scope
from windlass.operations.cursor_seal import CursorKey, CursorSeal
from windlass.stores.memory import MemoryStore
from windlass.stores.protocol import Store
from windlass.stores.read_only import read_only

pytestmark = pytest.mark.anyio

ACME = Caller(name="acme", scopes=frozenset({Scope.READ}), tenant="acme")


def seal(store: Store, caller: Caller = LOCAL) -> CursorSeal:
    return CursorSeal(CursorKey(store), caller)


async def test_a_cursor_shows_neither_the_id_nor_the_time_of_a_task(
    connect: Connect, store: Store, token: Callable[..., str], clock: ManualClock
) -> None:
    ids = submit(store, *(a_task(tenant=tenant) for tenant in ("acme", "acme", "other", "other")))
    client = connect(token(Scope.READ, tenant="acme"))

    after = (await client.get(f"{API}/tasks", params={"limit": 1})).json()["after"]

    plain = base64.urlsafe_b64decode(after + "=" * (-len(after) % 4))
    for secret in [str(clock.now()).encode(), *(str(id).encode() for id in ids), *(id.bytes for id in ids)]:
        assert secret not in plain


async def test_a_cursor_of_another_tenant_or_queue_or_list_is_refused(
    connect: Connect, store: Store, token: Callable[..., str]
) -> None:
    submit(store, *(a_task(tenant=tenant, workflow=name) for tenant in ("acme", "other") for name in "abc"))
    everybody = token(Scope.READ, name="everybody")
    callers = {
        "acme": token(Scope.READ, name="acme", tenant="acme"),
        "other": token(Scope.READ, name="other", tenant="other"),
        "queue": token(Scope.READ, name="queue", queue="default"),
        "all": everybody,
    }
    after = (await connect(callers["acme"]).get(f"{API}/tasks", params={"limit": 1})).json()["after"]
    listed = (await connect(everybody).get(f"{API}/workflows", params={"limit": 1})).json()["next"]

    for name, secret in callers.items():
        answer = await connect(secret).get(f"{API}/tasks", params={"limit": 1, "after": after})
        if name == "acme":
            assert answer.status_code == 200
        else:
            problem(answer, 400, "invalid_cursor")
    problem(await connect(everybody).get(f"{API}/tasks", params={"after": listed}), 400, "invalid_cursor")
    assert (await connect(everybody).get(f"{API}/workflows", params={"after": listed})).status_code == 200


def test_every_change_of_a_cursor_is_noticed() -> None:
    store = MemoryStore()
    text = seal(store, ACME).seal("tasks", b"where a page of tasks ended, in more than one block of bytes")

    changed = [text[:n] + ("A" if text[n] != "A" else "B") + text[n + 1 :] for n in range(len(text))]
    opened = [
        seal(store, ACME).unseal("tasks", each)
        for each in [*changed, text[:-1], text[4:], "", "A", "é", "====", text * 2]
    ]

    # The last letter has bits that do not count.
    assert set(opened) <= {None, b"where a page of tasks ended, in more than one block of bytes"}
    assert opened.count(None) >= len(opened) - 1
    assert seal(store, ACME).unseal("tasks", text) is not None
    assert seal(MemoryStore(), ACME).unseal("tasks", text) is None


def test_servers_of_one_store_share_the_key_and_a_store_that_cannot_be_written_has_one_for_itself() -> None:
    store = MemoryStore()
    text = Access(store).seal.seal("tasks", b"x")
    alone = CursorKey(read_only(MemoryStore()))

    assert Access(store).seal.unseal("tasks", text) == b"x"
    assert CursorSeal(alone, LOCAL).unseal("tasks", CursorSeal(alone, LOCAL).seal("tasks", b"x")) == b"x"
