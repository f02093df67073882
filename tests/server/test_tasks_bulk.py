from __future__ import annotations

import json
from typing import Any

import pytest

from tests.server.conftest import API, Client, Connect, problem
from tests.support.builders import (
    GAVE_UP,
    a_task,
    after,
    all_tasks,
    in_state,
    run,
    states_of,
    submit,
    submit_one,
    task_of,
)
from windlass.core.lifecycle import State
from windlass.operations import bulk
from windlass.operations.caller import Scope
from windlass.stores.protocol import Store

pytestmark = pytest.mark.anyio

LINES = {"Accept": "application/x-ndjson"}


async def lines(client: Client, verb: str, **body: Any) -> list[dict[str, Any]]:
    answer = await client.post(f"{API}/tasks:{verb}", json=body, headers=LINES)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in answer.text.splitlines()]


async def test_the_progress_of_a_purge_is_sent_line_by_line(
    client: Client, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "BATCH", 2)
    wanted = submit(store, *[a_task(queue="mail") for _ in range(5)])
    store.cancel(wanted, reason="a mistake")

    progress = await lines(client, "purge", q="queue:mail", why="a mistake")

    assert progress == [{"done": done, "total": 5} for done in (0, 2, 4, 5)]
    assert store.get(wanted) == [None] * 5
    entries = store.audit("tasks")
    assert [(entry.action, entry.by) for entry in entries] == [("purged", "local")] * 3
    assert [json.loads(entry.data)["total"] for entry in entries] == [1, 2, 2]


@pytest.mark.parametrize("q", ["queue:mail", "queue:mail args.n:1"])
async def test_a_cancel_counts_tasks_that_its_own_cascade_reaches_first(
    client: Client, store: Store, monkeypatch: pytest.MonkeyPatch, q: str
) -> None:
    monkeypatch.setattr(bulk, "BATCH", 2)
    above = [[] if n == 0 else [str(n - 1)] for n in range(5)]
    ids = submit(store, *[after(str(n), *above[n], queue="mail", args={"n": 1}) for n in range(5)])

    progress = await lines(client, "cancel", q=q, why="a mistake")

    assert progress[-1] == {"done": 5, "total": 5}
    assert {task_of(store, id).reason for id in ids} == {"a mistake"}


@pytest.mark.parametrize("q", ["queue:mail", "queue:mail args.n:1"])
async def test_tasks_retried_together_wait_for_each_other(
    client: Client, store: Store, monkeypatch: pytest.MonkeyPatch, q: str
) -> None:
    monkeypatch.setattr(bulk, "BATCH", 2)
    above = [[] if n == 0 else [str(n - 1)] for n in range(5)]
    ids = submit(store, *[after(str(n), *above[n], queue="mail", args={"n": 1}) for n in range(5)])
    store.cancel(ids, reason="a mistake")

    progress = await lines(client, "retry", q=q)

    assert progress[-1] == {"done": 5, "total": 5}
    assert states_of(store, ids) == [State.RUNNABLE] + [State.WAITING] * 4


async def test_a_bulk_change_is_audited_with_its_request(client: Client, store: Store) -> None:
    wanted = submit(store, *[a_task(queue="mail") for _ in range(5)])
    other = submit_one(store)

    progress = await lines(client, "cancel", q="queue:mail", why="a mistake")

    assert progress == [{"done": done, "total": 5} for done in (0, 5)]
    assert {*states_of(store, wanted)} == {State.CANCELLED}
    assert states_of(store, [other]) == [State.RUNNABLE]
    [entry] = store.audit("tasks")
    assert (entry.action, entry.by) == ("cancelled", "local")
    assert entry.text == "cancelled 5 tasks that matched 'queue:mail': a mistake"


async def test_without_lines_only_the_total_is_returned(client: Client, store: Store) -> None:
    submit(store, a_task(queue="mail"), a_task(queue="mail"))

    answer = await client.post(f"{API}/tasks:cancel", json={"q": "queue:mail"})

    assert answer.json() == {"done": 2, "total": 2}
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize("verb", ["cancel", "retry", "purge"])
async def test_a_dry_run_counts_and_does_nothing(client: Client, store: Store, verb: str) -> None:
    in_state(store, State.FAILED)
    submit_one(store)
    before = states_of(store, [task.id for task in all_tasks(store)])

    answer = await client.post(f"{API}/tasks:{verb}", json={"q": "handler:work", "dry_run": True})

    assert answer.json() == {"done": 0, "total": 1}
    assert states_of(store, [task.id for task in all_tasks(store)]) == before
    assert store.audit("tasks") == []


async def test_only_unsuccessful_tasks_are_retried_and_only_finished_ones_purged(client: Client, store: Store) -> None:
    failed = in_state(store, State.FAILED)
    completed = in_state(store, State.COMPLETED)

    retried = (await client.post(f"{API}/tasks:retry", json={"q": "handler:work"})).json()
    purged = (await client.post(f"{API}/tasks:purge", json={"q": "handler:work"})).json()

    assert (retried, purged) == ({"done": 1, "total": 1}, {"done": 1, "total": 1})
    assert store.get([completed]) == [None]
    assert states_of(store, [failed]) == [State.RUNNABLE]
    assert [entry.action for entry in store.audit("tasks")] == ["purged", "retried"]


@pytest.mark.parametrize("q", ["", "   "])
async def test_a_filter_that_matches_everything_is_refused(client: Client, store: Store, q: str) -> None:
    id = submit_one(store)

    answer = await client.post(f"{API}/tasks:cancel", json={"q": q})

    assert answer.status_code == 400
    assert answer.json()["code"] in ("invalid_filter", "invalid_request")
    assert states_of(store, [id]) == [State.RUNNABLE]


async def test_an_invalid_filter_is_refused_even_with_lines(client: Client) -> None:
    answer = await client.post(f"{API}/tasks:cancel", json={"q": "colour:red"}, headers=LINES)

    problem(answer, 400, "invalid_filter")


async def test_bulk_changes_do_not_reveal_secrets(client: Client, store: Store) -> None:
    submit_one(store, args={"password": "hunter2"})

    answer = await client.post(f"{API}/tasks:cancel", json={"q": "args.password:hunter*", "dry_run": True})

    assert answer.json() == {"done": 0, "total": 0}


async def test_a_token_reaches_only_its_own_tasks(connect: Connect, store: Store, token: Any) -> None:
    mine, theirs = submit(store, a_task(tenant="acme"), a_task(tenant="beta"))
    client = connect(token(Scope.OPERATE, tenant="acme"))

    answer = await client.post(f"{API}/tasks:cancel", json={"q": "handler:work"})

    assert answer.json() == {"done": 1, "total": 1}
    assert states_of(store, [mine, theirs]) == [State.CANCELLED, State.RUNNABLE]


async def test_tasks_submitted_meanwhile_are_not_affected(
    client: Client, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "BATCH", 1)
    submit(store, a_task(), a_task())
    for _ in range(2):
        run(store, GAVE_UP)

    progress = await lines(client, "retry", q="state:failed")

    assert progress[-1] == {"done": 2, "total": 2}
