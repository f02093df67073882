from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.server.conftest import API, Client, problem
from tests.support.builders import GAVE_UP, a_task, claim_one, complete, report, submit, submit_one, task_of
from windlass.clock import ManualClock
from windlass.core.lifecycle import State
from windlass.core.settlement import Returned
from windlass.core.task import Progress, Rate, TaskId
from windlass.stores.protocol import Store

pytestmark = pytest.mark.anyio

UNKNOWN = "01a1e1fd-4c42-73de-a2f4-24ee3fbe7468"


async def test_a_task_is_submitted_with_its_handlers_options_and_read_back(client: Client, store: Store) -> None:
    made = await client.post(f"{API}/tasks", json={"handler": "mail", "args": {"to": "ann"}, "key": "k"})
    again = await client.post(f"{API}/tasks", json={"handler": "mail", "args": {"to": "ann"}, "key": "k"})
    read = await client.get(f"{API}/tasks/{made.json()['id']}")

    assert (made.status_code, made.json()["created"], made.json()["state"]) == (201, True, "runnable")
    assert (again.status_code, again.json()["created"]) == (200, False)
    assert again.json()["id"] == made.json()["id"]
    assert (read.json()["queue"], read.json()["priority"], read.json()["args"]) == ("post", 7, {"to": "ann"})
    assert read.json() == {**read.json(), "deadline": None, "result": None, "tenant": "default"}


async def test_the_idempotency_key_is_the_tasks_key_when_it_has_none(client: Client, store: Store) -> None:
    headers = {"Idempotency-Key": "order-7"}

    first = await client.post(f"{API}/tasks", json={"handler": "work"}, headers=headers)
    second = await client.post(f"{API}/tasks", json={"handler": "work"}, headers=headers)
    other = await client.post(f"{API}/tasks", json={"handler": "work", "key": "own"}, headers=headers)

    assert first.json()["id"] == second.json()["id"] != other.json()["id"]
    assert task_of(store, TaskId(UUID(first.json()["id"]))).key == "order-7"


async def test_options_of_the_caller_override_those_of_the_handler(client: Client, store: Store) -> None:
    body = {
        "handler": "mail",
        "args": {"to": "ann"},
        "queue": "fast",
        "priority": 1,
        "deadline": "10m",
        "expires": "2030-01-01T00:00:00Z",
        "delay": 5,
        "retries": 2,
        "max_crashes": 4,
        "timeout": "30s",
        "requires": ["gpu"],
        "raise_prerequisites": False,
        "trace": "00-abc",
        "tenant": "acme",
    }

    made = await client.post(f"{API}/tasks", json=body)

    task = task_of(store, TaskId(UUID(made.json()["id"])))
    assert (task.queue, task.priority, task.tenant, task.state) == ("fast", 1, "acme", State.SCHEDULED)
    assert task.deadline == task.submitted + 600_000_000
    assert (task.rules.retry.retries, task.rules.timeout) == (2, timedelta(seconds=30))
    assert task.rules.max_crashes == 4
    assert (task.rules.requires, task.rules.trace) == (("gpu",), "00-abc")


async def test_the_arguments_of_a_task_fill_in_the_key_of_its_limit(client: Client, store: Store) -> None:
    body = {"handler": "mail", "args": {"to": "ann"}, "limit": "to:{to}", "max_running": 2, "rate": "10/1m"}

    made = await client.post(f"{API}/tasks", json=body)
    refused = await client.post(f"{API}/tasks", json={**body, "limit": "{cc}"})
    secret = await client.post(f"{API}/tasks", json={**body, "args": {"to": "ann", "pin": "1"}, "limit": "{pin}"})
    alone = await client.post(f"{API}/tasks", json={"handler": "mail", "args": {"to": "ann"}, "max_running": 2})

    rules = task_of(store, TaskId(UUID(made.json()["id"]))).rules
    assert (rules.limit, rules.max_running, rules.rate) == ("to:ann", 2, Rate(10, timedelta(minutes=1)))
    assert "pass the argument cc" in problem(refused, 422, "invalid_task")["detail"]
    assert "pin is a secret" in problem(secret, 422, "invalid_task")["detail"]
    assert "need a key" in problem(alone, 422, "invalid_task")["detail"]


async def test_a_deadline_that_cannot_be_made_is_refused(client: Client, store: Store) -> None:
    body = {"handler": "mail", "args": {"to": "ann"}, "admit": "strict"}

    late = await client.post(f"{API}/tasks", json={**body, "deadline": "30s"})
    without = await client.post(f"{API}/tasks", json=body)

    found = problem(late, 409, "deadline_unreachable")
    assert found["queue"] == "post"
    assert "cannot make a deadline in 30.0 s: no worker serves it" in found["detail"]
    assert "needs a deadline" in problem(without, 422, "invalid_task")["detail"]
    assert store.counts() == []


async def test_a_task_is_submitted_to_run_at_most_once(client: Client, store: Store) -> None:
    made = await client.post(f"{API}/tasks", json={"handler": "mail", "args": {"to": "ann"}, "at_most_once": True})
    both = {"handler": "mail", "args": {"to": "ann"}, "at_most_once": True, "retries": 2}
    refused = await client.post(f"{API}/tasks", json=both)

    task = task_of(store, TaskId(UUID(made.json()["id"])))
    assert (task.rules.at_most_once, task.rules.retry.retries, task.rules.max_crashes) == (True, 0, 0)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_task")
    assert "retries=2 and at_most_once=True contradict each other" in refused.json()["detail"]


async def test_a_task_waits_for_others_by_id_and_by_key(client: Client, store: Store) -> None:
    above = str(submit_one(store))
    submit(store, a_task(key="first", workflow="w"))

    made = await client.post(
        f"{API}/tasks", json={"handler": "work", "key": "second", "workflow": "w", "after": [above, "first"]}
    )
    graph = (await client.get(f"{API}/tasks/{made.json()['id']}/graph")).json()

    assert made.json()["state"] == "waiting"
    assert len(graph["prerequisites"]) == 2
    assert above in [each["id"] for each in graph["prerequisites"]]


async def test_a_batch_is_submitted_entirely_or_not_at_all(client: Client, store: Store) -> None:
    good = [{"handler": "work", "key": "a"}, {"handler": "work", "key": "b", "after": ["a"]}]

    refused = await client.post(f"{API}/tasks:batch", json=[*good, {"handler": "mail"}])
    nothing = store.counts()
    taken = await client.post(f"{API}/tasks:batch", json=good)

    assert problem(refused, 422, "invalid_task")["index"] == 2
    assert nothing == []
    assert [receipt["state"] for receipt in taken.json()["receipts"]] == ["runnable", "waiting"]


async def test_tasks_are_found_by_their_fields_in_pages(client: Client, store: Store) -> None:
    ids = [str(id) for id in submit(store, *[a_task(queue="q", tenant="t") for _ in range(5)])]
    submit(store, a_task(queue="other"))

    found: list[str] = []
    after: dict[str, str] = {}
    for _ in range(3):
        page = (await client.get(f"{API}/tasks", params={"queue": "q", "limit": "2", **after})).json()
        found += [task["id"] for task in page["tasks"]]
        after = {"after": page["after"]} if page["after"] else {}

    assert sorted(found) == sorted(ids)
    states = await client.get(f"{API}/tasks", params={"state": ["failed", "expired"]})
    assert states.json() == {"tasks": [], "after": None}


async def test_tasks_are_found_by_the_filter_language(client: Client, store: Store) -> None:
    wanted, _, _ = submit(
        store,
        a_task(queue="mail", args={"order": {"id": 42}}),
        a_task(queue="mail", args={"order": {"id": 43}}),
        a_task(queue="bulk", args={"order": {"id": 42}}),
    )

    by_argument = await client.get(f"{API}/tasks", params={"q": "queue:mail args.order.id:42"})
    none = await client.get(f"{API}/tasks", params={"q": "queue:mail", "queue": "bulk"})

    assert [task["id"] for task in by_argument.json()["tasks"]] == [str(wanted)]
    assert none.json()["tasks"] == []
    assert (
        "colour"
        in problem(await client.get(f"{API}/tasks", params={"q": "colour:red"}), 400, "invalid_filter")["detail"]
    )


async def test_pages_of_a_filter_on_arguments_continue_where_the_last_one_ended(client: Client, store: Store) -> None:
    submit(store, *[a_task(args={"n": n % 2}) for n in range(10)])

    first = (await client.get(f"{API}/tasks", params={"q": "args.n:1", "limit": "3"})).json()
    second = (await client.get(f"{API}/tasks", params={"q": "args.n:1", "limit": "3", "after": first["after"]})).json()

    assert (len(first["tasks"]), len(second["tasks"]), second["after"]) == (3, 2, None)
    assert len({task["id"] for task in first["tasks"] + second["tasks"]}) == 5


@pytest.mark.parametrize(
    "q", ["args.password:hunter*", "args.pin:12*", "hunter2", "1234", "args.deep.token~abc", "error~hunter2"]
)
async def test_a_filter_does_not_match_redacted_values(client: Client, store: Store, q: str) -> None:
    args = {"to": "ann", "pin": "1234", "password": "hunter2", "deep": {"token": "xabcx"}}
    id = submit_one(store, handler="mail", args=args)
    store.cancel([id], reason="postgresql://ann:hunter2@db is away")

    found = await client.get(f"{API}/tasks", params={"q": q})
    left_out = await client.get(f"{API}/tasks", params={"q": f"-{q}"})

    assert found.json()["tasks"] == []
    assert len(left_out.json()["tasks"]) == 1
    assert "hunter2" not in left_out.text
    assert "1234" not in left_out.text.replace(str(id), "")


async def test_a_task_is_changed_only_if_its_etag_matches(client: Client, store: Store) -> None:
    id = submit_one(store)
    seen = (await client.get(f"{API}/tasks/{id}")).headers["etag"]

    changed = await client.patch(f"{API}/tasks/{id}", json={"priority": 9}, headers={"If-Match": seen})
    late = await client.patch(f"{API}/tasks/{id}", json={"priority": 1}, headers={"If-Match": seen})
    fresh = await client.patch(f"{API}/tasks/{id}", json={"at": "1h"}, headers={"If-Match": changed.headers["etag"]})

    assert (changed.status_code, changed.json()["priority"]) == (200, 9)
    problem(late, 412, "version_conflict")
    assert (fresh.json()["state"], fresh.json()["priority"]) == ("scheduled", 9)


async def test_null_removes_a_deadline(client: Client, store: Store) -> None:
    id = submit_one(store, deadline=timedelta(hours=1))

    changed = await client.patch(f"{API}/tasks/{id}", json={"deadline": None})

    assert changed.json()["deadline"] is None


async def test_tasks_are_cancelled_and_retried_with_audit_entries(client: Client, store: Store) -> None:
    id = submit_one(store)

    cancelled = await client.post(f"{API}/tasks/{id}/cancel", json={"why": "a mistake"})
    again = await client.post(f"{API}/tasks/{id}/cancel")
    retried = await client.post(f"{API}/tasks/{id}/retry")

    assert cancelled.json() == {"cancelled": 1, "state": "cancelled"}
    assert again.json() == {"cancelled": 0, "state": "cancelled"}
    assert retried.json() == {"retried": 1, "state": "runnable"}
    log = [(entry.subject, entry.action, entry.by) for entry in store.audit()]
    assert log == [(f"task/{id}", "retried", "local"), (f"task/{id}", "cancelled", "local")]
    assert "a mistake" in store.audit()[1].text


async def test_the_history_of_a_task_can_be_read(client: Client, store: Store, clock: ManualClock) -> None:
    id = submit_one(store, handler="work")
    claim = claim_one(store)
    store.progress([Progress(lease=claim.lease, share=0.5, message="half")])
    clock.advance(timedelta(seconds=2))
    report(store, claim, GAVE_UP)

    [attempt] = (await client.get(f"{API}/tasks/{id}/attempts")).json()
    progress = (await client.get(f"{API}/tasks/{id}/progress")).json()
    logs = (await client.get(f"{API}/tasks/{id}/logs")).json()
    why = (await client.get(f"{API}/tasks/{id}/why")).json()

    assert (attempt["seconds"], attempt["error"]["kind"], attempt["state"]) == (2.0, "ValueError", "failed")
    assert (progress["share"], progress["message"]) == (0.5, "half")
    assert logs == []
    assert (why["state"], why["closed"]) == ("failed", "end")


async def test_a_result_is_shown_as_json(client: Client, store: Store) -> None:
    id = submit_one(store)
    claim = claim_one(store)
    report(store, claim, Returned('{"sent":3}'))

    assert (await client.get(f"{API}/tasks/{id}")).json()["result"] == {"sent": 3}
    assert complete(store, claim)


@pytest.mark.parametrize("action", ["", "/attempts", "/logs", "/progress", "/graph", "/why"])
async def test_every_route_of_an_unknown_task_is_not_found(client: Client, action: str) -> None:
    problem(await client.get(f"{API}/tasks/{UNKNOWN}{action}"), 404, "unknown_task")


@pytest.mark.parametrize(
    ("body", "status", "code", "field"),
    [
        ({}, 400, "invalid_request", "body"),
        ({"handler": "work", "colour": "red"}, 400, "invalid_request", "body"),
        ({"handler": "a b"}, 400, "invalid_request", "handler"),
        ({"handler": "work", "priority": "high"}, 400, "invalid_request", "priority"),
        ({"handler": "work", "priority": 10**9}, 400, "invalid_request", "priority"),
        ({"handler": "unheard-of"}, 422, "unknown_handler", "handler"),
        ({"handler": "mail", "args": {}}, 422, "invalid_task", "args"),
        ({"handler": "mail", "args": {"to": "a", "cc": "b"}}, 422, "invalid_task", "args"),
        ({"handler": "work", "deadline": "soon"}, 422, "invalid_task", "deadline"),
        ({"handler": "work", "at": "2030-01-01T00:00:00"}, 422, "invalid_task", "at"),
        ({"handler": "work", "timeout": -1}, 422, "invalid_task", "timeout"),
        ({"handler": "work", "after": ["nobody"]}, 422, "unknown_prerequisite", "after"),
        ({"handler": "work", "args": {"a": {"$result": UNKNOWN}}}, 400, "invalid_payload", "args"),
        ({"handler": "work", "args": {"a": 2**70}}, 400, "invalid_payload", "a"),
    ],
)
async def test_an_invalid_field_is_named(
    client: Client, store: Store, body: object, status: int, code: str, field: str | None
) -> None:
    found = problem(await client.post(f"{API}/tasks", json=body), status, code)

    assert [each["field"] for each in found.get("errors", [])] == ([] if field is None else [field])
    assert store.counts() == []


async def test_an_unknown_handler_is_accepted_when_unchecked(client: Client) -> None:
    made = await client.post(f"{API}/tasks", params={"unchecked": "true"}, json={"handler": "unheard-of"})

    assert made.status_code == 201


async def test_a_key_with_another_body_is_a_conflict(client: Client) -> None:
    await client.post(f"{API}/tasks", json={"handler": "work", "key": "k"})

    found = problem(
        await client.post(f"{API}/tasks", json={"handler": "work", "key": "k", "queue": "q"}), 409, "key_conflict"
    )

    assert found["keys"] == ["k"]


async def test_a_cycle_is_refused_and_named(client: Client, store: Store) -> None:
    cycle = [{"handler": "work", "key": "a", "after": ["b"]}, {"handler": "work", "key": "b", "after": ["a"]}]

    found = problem(await client.post(f"{API}/tasks:batch", json=cycle), 422, "cycle")

    assert sorted(found["cycle"]) == ["a", "b"]
    assert found["detail"] in ("cycle of prerequisites: a → b → a", "cycle of prerequisites: b → a → b")
    assert found["errors"][0]["field"] == "after"
    assert store.counts() == []


async def test_errors_of_a_batch_name_keys_as_the_caller_wrote_them(client: Client, store: Store) -> None:
    async def refused(*tasks: dict[str, object], status: int = 422, code: str) -> dict[str, Any]:
        body = [{"handler": "work", **task} for task in tasks]
        return problem(await client.post(f"{API}/tasks:batch", json=body), status, code)

    unknown = await refused({"key": "pack", "after": ["charge", UNKNOWN]}, code="unknown_prerequisite")
    twice = await refused({"key": "a"}, {"key": "b"}, {"key": "a"}, code="duplicate_task")
    bad = await refused({"key": "a"}, {"key": "b", "timeout": -1}, code="invalid_task")

    assert unknown["tasks"] == ["charge", UNKNOWN]
    assert unknown["detail"].startswith(f"Unknown prerequisite of 'pack': 'charge', {UNKNOWN}. Submit it first")
    assert unknown["errors"][0]["field"] == "after"
    assert (twice["tasks"], "Duplicate task: 'a'." in twice["detail"]) == (["a"], True)
    assert (bad["index"], bad["errors"][0]["field"]) == (1, "timeout")
    assert store.counts() == []


@pytest.mark.parametrize("query", ["limit=0", "limit=x", "limit=1001", "state=odd", "colour=red", "limit=1&limit=2"])
async def test_an_invalid_query_is_refused(client: Client, query: str) -> None:
    problem(await client.get(f"{API}/tasks?{query}"), 400, "invalid_request")


@pytest.mark.parametrize("after", ["x", "0", "AAAA", "MS4x", "%F0%9F%98%80", "OTk5OTk5OTk5OTk5OTk5OTk5OTk5LjAx"])
async def test_an_invented_cursor_is_refused(client: Client, after: str) -> None:
    problem(await client.get(f"{API}/tasks?after={after}"), 400, "invalid_cursor")


async def test_an_equal_task_is_answered_with_the_queued_one(client: Client, store: Store) -> None:
    body = {"handler": "work", "unique_for": "10m", "unique_key": "user:{x}", "args": {"x": 1}}

    first = await client.post(f"{API}/tasks", json=body)
    second = await client.post(f"{API}/tasks", json={**body, "debounce": 5, "unique_for": 0})
    batch = await client.post(f"{API}/tasks:batch", json=[body, {**body, "args": {"x": 2}}])

    assert (first.status_code, second.status_code) == (201, 200)
    assert second.json() == {"id": first.json()["id"], "created": False, "state": "scheduled"}
    assert [each["created"] for each in batch.json()["receipts"]] == [False, True]
    wrong = await client.post(f"{API}/tasks", json={"handler": "work", "debounce": "5s", "delay": "1m"})
    assert "debounce" in problem(wrong, 422, "invalid_task")["detail"]
