from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.server.conftest import API, Client, Connect, problem
from tests.support.builders import a_task, claim_one, complete, states_of, submit_one
from windlass.clock import ManualClock
from windlass.core.ids import keyed_id
from windlass.core.lifecycle import State
from windlass.server.scopes import Scope
from windlass.stores.protocol import Store

pytestmark = pytest.mark.anyio

CHAIN = [{"handler": "work", "key": "a"}, {"handler": "work", "key": "b", "after": ["a"]}]


async def test_a_workflow_is_submitted_whole(client: Client, store: Store) -> None:
    body = {"name": "nightly", "tenant": "acme", "tasks": CHAIN}

    first = await client.post(f"{API}/workflows", json=body)
    again = await client.post(f"{API}/workflows", json=body)

    assert first.status_code == 201
    assert [receipt["state"] for receipt in first.json()["receipts"]] == ["runnable", "waiting"]
    assert [receipt["created"] for receipt in again.json()["receipts"]] == [False, False]
    assert {(count.tenant, count.tasks) for count in store.counts()} == {("acme", 1)}


async def test_a_workflow_is_refused_whole_and_names_the_task(client: Client, store: Store) -> None:
    bad: list[tuple[dict[str, Any], int, str]] = [
        ({"handler": "unheard-of"}, 422, "unknown_handler"),
        ({"handler": "work", "workflow": "another"}, 400, "invalid_request"),
        ({"handler": "work", "tenant": "beta"}, 400, "invalid_request"),
    ]
    for task, status, code in bad:
        answer = await client.post(f"{API}/workflows", json={"name": "w", "tasks": [*CHAIN, task]})
        assert problem(answer, status, code)["index"] == 2
    ring = [{"handler": "work", "key": "a", "after": ["b"]}, {"handler": "work", "key": "b", "after": ["a"]}]
    problem(await client.post(f"{API}/workflows", json={"name": "w", "tasks": ring}), 422, "cycle")

    assert store.counts() == []


async def test_an_unsealed_workflow_grows_and_runs_when_it_is_sealed(client: Client, store: Store) -> None:
    await client.post(f"{API}/workflows", json={"name": "w", "tasks": CHAIN[:1], "sealed": False})
    await client.post(f"{API}/workflows/w/tasks", json={"tasks": CHAIN[1:]})
    ids = [keyed_id("default", "w", key) for key in "ab"]
    before = states_of(store, ids)

    sealed = await client.post(f"{API}/workflows/w/seal")

    assert before == [State.WAITING, State.WAITING]
    assert sealed.json() == {"workflow": "w", "tenant": "default"}
    assert states_of(store, ids) == [State.RUNNABLE, State.WAITING]
    assert store.audit("workflow/w")[0].action == "sealed"
    problem(await client.post(f"{API}/workflows/unheard-of/seal"), 404, "unknown_workflow")


async def test_a_key_may_be_named_ahead_only_where_that_was_opened(client: Client) -> None:
    tasks = [{"handler": "work", "key": "b", "after": ["a"]}]

    refused = await client.post(f"{API}/workflows", json={"name": "w", "tasks": tasks, "sealed": False})
    useless = await client.post(f"{API}/workflows", json={"name": "w", "tasks": [], "forward": "1h"})
    body = {"name": "v", "tasks": tasks, "sealed": False, "forward": "1h"}
    taken = await client.post(f"{API}/workflows", json=body)
    early = await client.post(f"{API}/workflows/v/seal")
    forced = await client.post(f"{API}/workflows/v/seal", json={"missing": True})

    problem(refused, 422, "unknown_prerequisite")
    problem(useless, 400, "invalid_request")
    assert taken.status_code == 201
    problem(early, 409, "not_allowed")
    assert forced.status_code == 200


async def test_a_workflow_shows_its_graph_and_what_decides_its_end(
    client: Client, store: Store, clock: ManualClock
) -> None:
    tasks = [
        {"handler": "work", "key": "slow"},
        {"handler": "work", "key": "quick"},
        {"handler": "work", "key": "end", "after": ["slow", "quick"]},
    ]
    await client.post(f"{API}/workflows", json={"name": "w", "tasks": tasks})
    slow, quick, end = (keyed_id("default", "w", key) for key in ("slow", "quick", "end"))
    first, second = claim_one(store), claim_one(store)
    clock.advance(timedelta(seconds=4))
    complete(store, second)
    clock.advance(timedelta(seconds=6))
    complete(store, first)
    clock.advance(timedelta(seconds=1))
    complete(store, claim_one(store))

    found = (await client.get(f"{API}/workflows/w")).json()

    assert found["critical_path"] == [str(slow), str(end)]
    steps = {step["name"]: step for step in found["steps"]}
    assert {name: step["worked_seconds"] for name, step in steps.items()} == {"slow": 10, "quick": 4, "end": 0}
    assert {name: step["slack_seconds"] for name, step in steps.items()} == {"slow": 0, "quick": 6, "end": 0}
    assert steps["end"]["waited_seconds"] == 1
    assert {(edge["before"], edge["after"]) for edge in found["edges"]} == {
        (str(slow), str(end)),
        (str(quick), str(end)),
    }
    assert (found["tasks"], found["ended"] is None) == ({"completed": 3}, False)


async def test_workflows_are_listed_with_their_counts(client: Client, store: Store, clock: ManualClock) -> None:
    await client.post(f"{API}/workflows", json={"name": "old", "tasks": CHAIN})
    clock.advance(timedelta(seconds=1))
    submit_one(store)
    clock.advance(timedelta(seconds=1))
    store.submit([a_task(workflow="new", tenant="acme")])

    found = (await client.get(f"{API}/workflows")).json()
    few = (await client.get(f"{API}/workflows", params={"limit": "1"})).json()
    of_acme = (await client.get(f"{API}/workflows", params={"tenant": "acme"})).json()

    assert [(each["workflow"], each["tenant"], each["tasks"]) for each in found] == [
        ("new", "acme", {"runnable": 1}),
        ("old", "default", {"waiting": 1, "runnable": 1}),
    ]
    assert [each["workflow"] for each in few] == ["new"]
    assert of_acme == found[:1]
    problem(await client.get(f"{API}/workflows/unheard-of"), 404, "unknown_workflow")


async def test_a_token_of_a_queue_sees_no_workflow_that_is_in_others_too(
    connect: Connect, store: Store, token: Any
) -> None:
    store.submit([a_task(workflow="w", queue="a"), a_task(workflow="w", queue="b"), a_task(workflow="v", queue="a")])
    client = connect(token(Scope.READ, queue="a"))

    problem(await client.get(f"{API}/workflows/w"), 404, "unknown_workflow")
    assert (await client.get(f"{API}/workflows/v")).json()["tasks"] == {"runnable": 1}
    assert {each["workflow"]: each["tasks"] for each in (await client.get(f"{API}/workflows")).json()} == {
        "v": {"runnable": 1},
        "w": {"runnable": 1},
    }
