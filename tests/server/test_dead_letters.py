from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.server.conftest import API, Client, Connect, problem
from tests.support.builders import GAVE_UP, NO_RETRY, a_task, claim_one, report, run, states_of, submit, task_of
from windlass.core.lifecycle import State
from windlass.core.retry import Error
from windlass.core.settlement import Raised, Returned
from windlass.core.task import TaskId
from windlass.operations.caller import Scope
from windlass.stores.protocol import Store

pytestmark = pytest.mark.anyio

OTHER = Raised(Error(kind="KeyError", message="'to', password=hunter2", traceback="Traceback: elsewhere"), give_up=True)


def failed(store: Store, number: int, outcome: Raised = GAVE_UP, **changes: Any) -> list[TaskId]:
    """Submit tasks that all fail alike; returns them newest first."""
    ids = submit(store, *[a_task(retry=NO_RETRY, **changes) for _ in range(number)])
    for _ in ids:
        run(store, outcome)
    return ids[::-1]


async def test_groups_are_listed_by_size(client: Client, store: Store) -> None:
    failed(store, 1, OTHER, tenant="acme")
    failed(store, 4)

    found = (await client.get(f"{API}/dead")).json()
    one = (await client.get(f"{API}/dead/{found[0]['group'][:6]}")).json()

    assert [(each["error"]["kind"], each["count"], len(each["tasks"])) for each in found] == [
        ("ValueError", 4, 3),
        ("KeyError", 1, 1),
    ]
    assert "hunter2" not in json.dumps(found)
    assert (one["count"], len(one["tasks"]), one["handlers"]) == (4, 4, ["work"])
    assert (await client.get(f"{API}/dead", params={"tenant": "acme"})).json() == found[1:]
    problem(await client.get(f"{API}/dead/ffffffffffff"), 404, "unknown_group")


async def test_a_group_is_read_without_its_tasks(client: Client, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = failed(store, 3)
    [found] = (await client.get(f"{API}/dead")).json()

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("whole tasks were read")

    monkeypatch.setattr(store, "dead_letters", refuse)

    assert (await client.get(f"{API}/dead/{found['group']}")).json()["tasks"] == [str(id) for id in ids]


async def test_a_tenant_sees_and_retries_only_its_own_tasks_of_a_group(
    connect: Connect, store: Store, token: Any
) -> None:
    [mine], [theirs] = failed(store, 1, tenant="acme"), failed(store, 1, tenant="beta")
    client = connect(token(Scope.OPERATE, tenant="acme"))

    [found] = (await client.get(f"{API}/dead")).json()
    answer = (await client.post(f"{API}/dead/{found['group']}/retry")).json()

    assert (found["count"], found["tenants"]) == (1, ["acme"])
    assert answer["retried"] == 1
    assert states_of(store, [mine, theirs]) == [State.RUNNABLE, State.FAILED]


async def test_a_group_is_dropped(client: Client, store: Store) -> None:
    ids = failed(store, 3)
    [found] = (await client.get(f"{API}/dead")).json()

    answer = (await client.post(f"{API}/dead/{found['group']}/drop", json={"why": "old"})).json()

    assert answer == {"group": found["group"], "dropped": 3}
    assert store.get(ids) == [None] * 3
    [entry] = store.audit(f"dead/{found['group']}")
    assert (entry.action, entry.text) == ("dropped", f"dropped {found['group']}, 3 tasks: old")


async def work(store: Store, outcome: Returned | Raised, number: int) -> None:
    """Settle this number of tasks as they become runnable."""
    ended = 0
    while ended < number:
        if any(count.state is State.RUNNABLE and count.tasks for count in store.counts()):
            report(store, claim_one(store), outcome)
            ended += 1
        await asyncio.sleep(0.01)


async def test_the_rest_of_a_group_follows_a_canary_that_succeeds(client: Client, store: Store) -> None:
    ids = failed(store, 13)
    [found] = (await client.get(f"{API}/dead")).json()

    working = asyncio.ensure_future(work(store, Returned(), 11))
    answer = await client.post(
        f"{API}/dead/{found['group']}/retry", json={"canary": True}, headers={"Accept": "application/x-ndjson"}
    )
    await working

    progress = [json.loads(line) for line in answer.text.splitlines()]
    assert [(line["retried"], line["left"], line["fixed"]) for line in progress] == [
        (1, 12, None),
        (11, 2, None),
        (13, 0, True),
    ]
    assert states_of(store, ids).count(State.RUNNABLE) == 2


async def test_nothing_follows_a_canary_that_fails(client: Client, store: Store) -> None:
    ids = failed(store, 5)
    [found] = (await client.get(f"{API}/dead")).json()

    working = asyncio.ensure_future(work(store, GAVE_UP, 1))
    answer = (await client.post(f"{API}/dead/{found['group']}/retry", json={"canary": True})).json()
    await working

    assert (answer["retried"], answer["fixed"], answer["left"]) == (1, False, 4)
    assert "the same bug is back" in answer["text"]
    assert [task_of(store, id).generation for id in ids] == [1, 0, 0, 0, 0]


async def test_patience_is_limited(client: Client, store: Store) -> None:
    failed(store, 1)
    [found] = (await client.get(f"{API}/dead")).json()

    answer = await client.post(f"{API}/dead/{found['group']}/retry", json={"canary": True, "patience": "2h"})

    problem(answer, 422, "invalid_task")


async def test_a_failed_task_is_submitted_again_with_other_arguments(client: Client, store: Store) -> None:
    [id] = failed(store, 1, handler="mail", args={"to": "an", "pin": "1234"})
    path = f"{API}/tasks/{id}/edit-and-retry"

    first = await client.post(path, json={"args": {"to": "ann"}, "why": "a typo"})
    again = await client.post(path, json={"args": {"to": "ann"}})
    wrong = await client.post(path, json={"args": {"to": 7}})
    unknown = await client.post(path, json={"args": {"colour": "red"}})

    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]
    task = claim_one(store)
    assert json.loads(task.args) == {"to": "ann", "pin": "1234"}
    assert states_of(store, [id]) == [State.FAILED]
    assert [entry.action for entry in store.audit(f"task/{id}")] == ["edited"]
    problem(wrong, 422, "invalid_task")
    problem(unknown, 422, "invalid_task")
    problem(await client.post(f"{API}/tasks/{task.id}/edit-and-retry", json={"args": {"to": "b"}}), 409, "not_allowed")
