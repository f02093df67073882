from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.server.conftest import API, Client, Connect, problem
from tests.support.builders import GAVE_UP, a_task, claim_one, complete, report, states_of, submit_one, task_of
from windlass.clock import ManualClock
from windlass.core.ids import keyed_id
from windlass.core.lifecycle import State
from windlass.operations.caller import Scope
from windlass.stores.protocol import Store

pytestmark = pytest.mark.anyio

CHAIN = [{"handler": "work", "key": "a"}, {"handler": "work", "key": "b", "after": ["a"]}]


async def test_a_workflow_is_submitted_at_once(client: Client, store: Store) -> None:
    body = {"name": "nightly", "tenant": "acme", "tasks": CHAIN}

    first = await client.post(f"{API}/workflows", json=body)
    again = await client.post(f"{API}/workflows", json=body)

    assert first.status_code == 201
    assert [receipt["state"] for receipt in first.json()["receipts"]] == ["runnable", "waiting"]
    assert [receipt["created"] for receipt in again.json()["receipts"]] == [False, False]
    assert {(count.tenant, count.tasks) for count in store.counts()} == {("acme", 1)}


async def test_an_invalid_workflow_is_refused_entirely_and_names_the_task(client: Client, store: Store) -> None:
    bad: list[tuple[dict[str, Any], int, str]] = [
        ({"handler": "unheard-of"}, 422, "unknown_handler"),
        ({"handler": "work", "workflow": "another"}, 400, "invalid_request"),
        ({"handler": "work", "tenant": "beta"}, 400, "invalid_request"),
    ]
    for task, status, code in bad:
        answer = await client.post(f"{API}/workflows", json={"name": "w", "tasks": [*CHAIN, task]})
        assert problem(answer, status, code)["index"] == 2
    cycle = [{"handler": "work", "key": "a", "after": ["b"]}, {"handler": "work", "key": "b", "after": ["a"]}]
    problem(await client.post(f"{API}/workflows", json={"name": "w", "tasks": cycle}), 422, "cycle")

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


async def test_a_key_may_be_named_before_its_task_only_with_forward(client: Client) -> None:
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


async def test_a_workflow_shows_its_graph_and_critical_path(client: Client, store: Store, clock: ManualClock) -> None:
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

    found = (await client.get(f"{API}/workflows")).json()["workflows"]
    few = (await client.get(f"{API}/workflows", params={"limit": "1"})).json()
    rest = (await client.get(f"{API}/workflows", params={"limit": "1", "after": few["next"]})).json()
    of_acme = (await client.get(f"{API}/workflows", params={"tenant": "acme"})).json()["workflows"]

    assert [(each["workflow"], each["tenant"], each["tasks"]) for each in found] == [
        ("new", "acme", {"runnable": 1}),
        ("old", "default", {"waiting": 1, "runnable": 1}),
    ]
    assert (few["workflows"], rest["workflows"], rest["next"]) == (found[:1], found[1:], None)
    problem(await client.get(f"{API}/workflows", params={"after": "bogus"}), 400, "invalid_cursor")
    assert of_acme == found[:1]
    problem(await client.get(f"{API}/workflows/unheard-of"), 404, "unknown_workflow")


async def test_a_refused_first_part_leaves_no_workflow_behind(client: Client, store: Store) -> None:
    body = {"name": "w", "sealed": False, "tasks": [{"handler": "work", "key": "a", "after": ["missing"]}]}

    problem(await client.post(f"{API}/workflows", json=body), 422, "unknown_prerequisite")

    assert store.audit() == []
    assert task_of(store, submit_one(store, workflow="w")).state is State.RUNNABLE


async def test_a_token_of_a_queue_sees_only_workflows_entirely_in_it(
    connect: Connect, store: Store, token: Any
) -> None:
    store.submit([a_task(workflow="w", queue="a"), a_task(workflow="w", queue="b"), a_task(workflow="v", queue="a")])
    client = connect(token(Scope.READ, queue="a"))

    problem(await client.get(f"{API}/workflows/w"), 404, "unknown_workflow")
    problem(await client.get(f"{API}/workflows/w/edges"), 404, "unknown_workflow")
    assert (await client.get(f"{API}/workflows/v")).json()["tasks"] == {"runnable": 1}
    found = (await client.get(f"{API}/workflows")).json()["workflows"]
    assert {each["workflow"]: each["tasks"] for each in found} == {
        "v": {"runnable": 1},
        "w": {"runnable": 1},
    }


async def pages(client: Client, path: str, **params: str) -> list[dict[str, Any]]:
    """Return all pages of a list."""
    found = [(await client.get(path, params=params)).json()]
    while found[-1]["next"] is not None:
        found.append((await client.get(path, params={**params, "after": found[-1]["next"]})).json())
    return found


@pytest.mark.parametrize("most_steps", [100_000, 100])
async def test_a_fan_in_of_1500_has_all_its_edges(
    client: Client, store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, most_steps: int
) -> None:
    monkeypatch.setattr("windlass.operations.workflows.MAX_STEPS", most_steps)
    keys = [f"p{n}" for n in range(1_500)]
    store.submit([a_task(key=key, workflow="w") for key in keys])
    clock.advance(timedelta(seconds=1))
    store.submit([a_task(key="join", workflow="w", prerequisites=keys)])
    session = store.open_session("node")
    claims = store.claim(session, ["default"], 2_000)
    last = max(claims, key=lambda claim: claim.id)
    complete(store, *(claim for claim in claims if claim is not last))
    clock.advance(timedelta(seconds=1))
    complete(store, last)
    join = keyed_id("default", "w", "join")

    found = await pages(client, f"{API}/workflows/w")
    in_order = await pages(client, f"{API}/workflows/w/steps", limit="700")
    listed = await pages(client, f"{API}/workflows/w/edges", limit="1000")

    steps = {step["id"]: step for page in in_order for step in page["steps"]}
    expected = {(str(claim.id), str(join)) for claim in claims}
    assert [len(page["steps"]) for page in in_order] == [700, 700, 101]
    assert steps.keys() == {str(join), *(before for before, _ in expected)}
    assert {(edge["before"], edge["after"]) for page in listed for edge in page["edges"]} == expected
    assert len(steps[str(join)]["prerequisites"]) == 1_500
    assert steps[str(join)]["ready"] == steps[str(last.id)]["ended"]
    if most_steps == 100:
        assert (found[0]["aggregated"], found[0]["steps"], found[0]["critical_steps"]) == (True, [], None)
        assert [(group["state"], group["tasks"]) for group in found[0]["groups"]] == [
            ("completed", 1_500),
            ("runnable", 1),
        ]
    else:
        edges = [(edge["before"], edge["after"]) for page in found for edge in page["edges"]]
        assert (len(edges), set(edges)) == (1_500, expected)
        assert found[0]["critical_path"] == [str(last.id), str(join)]


async def test_a_step_that_is_not_a_cursor_is_refused(client: Client, store: Store) -> None:
    [other] = store.submit([a_task(key="a", workflow="v")])
    store.submit([a_task(key="a", workflow="w")])

    for path in ("w", "w/steps"):
        problem(await client.get(f"{API}/workflows/{path}", params={"after": str(other.id)}), 422, "invalid_task")
    problem(await client.get(f"{API}/workflows/w/edges", params={"after": "bogus"}), 400, "invalid_cursor")
    problem(await client.get(f"{API}/workflows/none/edges"), 404, "unknown_workflow")
    problem(await client.get(f"{API}/workflows/w/edges", params={"tenant": "acme"}), 404, "unknown_workflow")


async def test_a_step_is_retried_with_the_dependents_it_cancelled(client: Client, store: Store) -> None:
    await client.post(f"{API}/workflows", json={"name": "w", "tasks": CHAIN})
    problem(await client.post(f"{API}/workflows/w/retry", json={"step": "a"}), 409, "not_allowed")
    report(store, claim_one(store), GAVE_UP)
    store.sweep()
    ids = [keyed_id("default", "w", key) for key in "ab"]
    before = states_of(store, ids)

    tried = await client.post(f"{API}/workflows/w/retry", json={"step": "a", "dry_run": True})
    done = await client.post(f"{API}/workflows/w/retry", json={"step": str(ids[0]), "why": "fixed"})

    assert before == [State.FAILED, State.CANCELLED]
    assert (tried.json(), done.json()) == ({"retried": 0, "matching": 2}, {"retried": 2, "matching": 2})
    assert states_of(store, ids) == [State.RUNNABLE, State.WAITING]
    [entry] = store.audit("workflow/w")
    assert (entry.action, "fixed" in entry.text) == ("retried", True)
    problem(await client.post(f"{API}/workflows/w/retry", json={"step": "fly"}), 422, "invalid_task")
    problem(await client.post(f"{API}/workflows/none/retry", json={"step": "a"}), 404, "unknown_workflow")


APPROVAL = [
    {"handler": "windlass.event", "args": {"event": "approved", "timeout": "2d"}},
    {"handler": "windlass.sleep", "args": {"for": "1h"}, "key": "cool off", "after": ["event:approved"]},
    {"handler": "work", "key": "ship", "after": ["cool off"]},
]


async def test_a_workflow_waits_for_an_event_that_is_set_once(client: Client, store: Store, clock: ManualClock) -> None:
    submitted = await client.post(f"{API}/workflows", json={"name": "w", "tenant": "acme", "tasks": APPROVAL})
    assert [receipt["state"] for receipt in submitted.json()["receipts"]] == ["scheduled", "waiting", "waiting"]

    first = await client.post(
        f"{API}/workflows/w/events/approved", json={"value": {"n": 1}, "why": "checked", "by": "ada"}
    )
    again = await client.post(f"{API}/workflows/w/events/approved", json={"value": {"n": 1}})
    other = await client.post(f"{API}/workflows/w/events/approved")

    event = str(keyed_id("acme", "w", "event:approved"))
    body = {"workflow": "w", "event": "approved", "task": event, "state": "completed"}
    assert (first.json(), again.json()) == ({**body, "changed": True}, {**body, "changed": False})
    problem(other, 409, "event_conflict")
    [entry] = store.audit("workflow/w")
    assert (entry.action, entry.text) == ("event set", "set event approved of workflow w of acme: checked")
    clock.advance(timedelta(hours=1, seconds=1))
    store.sweep()
    assert task_of(store, keyed_id("acme", "w", "ship")).state is State.RUNNABLE
    shown = (await client.get(f"{API}/workflows/w")).json()["steps"]
    assert {(step["name"], step["state"]) for step in shown} >= {("event:approved", "completed")}


async def test_an_event_is_set_within_the_limits_of_a_token(connect: Connect, store: Store, token: Any) -> None:
    submit, operate = token(Scope.SUBMIT), token(Scope.OPERATE, name="acme", tenant="acme")
    narrow = token(Scope.OPERATE, name="narrow", queue="default")
    path = f"{API}/workflows/w/events/approved"

    problem(await connect(submit).post(path), 403, "forbidden")
    problem(await connect(narrow).post(path), 403, "forbidden")
    problem(await connect(operate).post(path, json={"tenant": "beta"}), 403, "forbidden")
    assert store.counts() == []
    await connect(operate).post(path)

    assert [count.tenant for count in store.counts()] == ["acme"]
    problem(await connect(operate).post(f"{API}/workflows/w/events/no%20name"), 404, "not_found")


async def test_steps_that_wait_are_checked_over_http(client: Client, store: Store) -> None:
    wrong: list[dict[str, Any]] = [
        {"handler": "windlass.event", "args": {}},
        {"handler": "windlass.event", "args": {"event": "a", "for": "1h"}},
        {"handler": "windlass.event", "args": {"event": "a"}, "key": "b"},
        {"handler": "windlass.sleep", "args": {}},
        {"handler": "windlass.sleep", "args": {"for": "1h", "until": "2026-01-01T00:00:00Z"}},
        {"handler": "windlass.sleep", "args": {"until": "tomorrow"}},
    ]
    for task in wrong:
        answer = await client.post(f"{API}/workflows", json={"name": "w", "tasks": [task]})
        problem(answer, 422, "invalid_task")
    problem(await client.post(f"{API}/tasks", json=wrong[0] | {"args": {"event": "a"}}), 422, "invalid_task")

    assert store.counts() == []
