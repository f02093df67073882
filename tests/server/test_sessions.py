"""Workers that speak HTTP: the same leases, fences and policies as a node's."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.server.conftest import API, Client, Connect, problem
from tests.server.running import running
from tests.support.builders import (
    a_session,
    a_task,
    claim_one,
    state_of,
    submit,
    submit_one,
    sweep_until_quiet,
    task_of,
)
from tests.support.processes import until as eventually
from tests.support.tokens import create_token
from windlass.clock import ManualClock
from windlass.core.breaker import BreakerState
from windlass.core.lifecycle import State
from windlass.core.ordering import Queue
from windlass.core.references import reference
from windlass.core.retry import Retry
from windlass.errors import InvalidTask
from windlass.operations import breakers
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.caller import Scope
from windlass.operations.explain import explain
from windlass.stores.memory import MemoryStore
from windlass.stores.postgres import PostgresStore
from windlass.stores.protocol import Store

pytestmark = pytest.mark.anyio

UNKNOWN = "01a1e1fd-4c42-73de-a2f4-24ee3fbe7468"


async def until(holds: Callable[[], bool]) -> None:
    """Wait until the condition holds."""
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.01)


async def opened(client: Client, **given: Any) -> str:
    """Open a session and return its URL."""
    answer = await client.post(f"{API}/sessions", json={"node": "go-1", **given})
    assert answer.status_code == 201, answer.text
    return f"{API}/sessions/{answer.json()['session']}"


async def claimed(client: Client, session: str, **given: Any) -> list[dict[str, Any]]:
    answer = await client.post(f"{session}/claim", json=given)
    assert answer.status_code == 200, answer.text
    return answer.json()["tasks"]


async def settled(client: Client, session: str, *ends: dict[str, Any]) -> list[dict[str, Any]]:
    answer = await client.post(f"{session}/settle", json=list(ends))
    assert answer.status_code == 200, answer.text
    return answer.json()["verdicts"]


def end(order: dict[str, Any], outcome: str = "completed", **more: Any) -> dict[str, Any]:
    return {"task": order["task"], "fence": order["fence"], "outcome": outcome, **more}


def lease_of(order: dict[str, Any]) -> dict[str, Any]:
    return {"task": order["task"], "fence": order["fence"]}


async def test_a_task_runs_from_claim_to_result(client: Client, store: Store) -> None:
    id = submit_one(store, args={"n": 2, "password": "hunter2"}, timeout=timedelta(seconds=9))
    session = await opened(client)

    [order] = await claimed(client, session)
    verdicts = await settled(client, session, end(order, result={"twice": 4}, log="worked"))

    assert (order["task"], order["handler"], order["attempt"]) == (str(id), "work", 1)
    assert (order["args"], order["timeout_seconds"]) == ({"n": 2, "password": "hunter2"}, 9.0)
    assert verdicts == [{"task": str(id), "fence": order["fence"], "state": "completed"}]
    assert (task_of(store, id).result, store.logs(id)[0].text) == ('{"twice":4}', "worked")


async def test_the_retry_policy_of_the_task_decides_after_a_failure(client: Client, store: Store) -> None:
    retry = Retry(retries=1, base=timedelta(seconds=60))
    patient, hasty, last = submit(store, a_task(retry=retry), a_task(retry=retry), a_task(retry=Retry(retries=0)))
    session = await opened(client)
    error = {"kind": "Timeout", "message": "no answer", "traceback": "at main.go:1"}

    first, second, third = await claimed(client, session, limit=3)
    verdicts = await settled(
        client,
        session,
        end(first, "failed", error=error, retry_in="5m"),
        end(second, "failed", error=error, give_up=True),
        end(third, "failed", error=error),
    )

    assert [verdict["state"] for verdict in verdicts] == ["retrying", "failed", "failed"]
    assert task_of(store, patient).due - task_of(store, patient).submitted == pytest.approx(300e6, abs=10)
    assert (task_of(store, hasty).attempts, task_of(store, last).attempts) == (1, 1)
    [attempt] = store.attempts(last)
    assert attempt.error is not None
    assert (attempt.error.kind, attempt.error.traceback) == ("Timeout", "at main.go:1")


async def test_a_released_attempt_does_not_count(client: Client, store: Store) -> None:
    now, later = submit(store, a_task(), a_task())
    session = await opened(client)

    one, two = await claimed(client, session, limit=2)
    await settled(client, session, end(one, "released"), end(two, "released", retry_in=30))

    assert (state_of(store, now), state_of(store, later)) == (State.RUNNABLE, State.SCHEDULED)
    assert (task_of(store, now).attempts, task_of(store, later).attempts) == (0, 0)


async def test_a_stale_report_changes_nothing_and_does_not_affect_others(
    client: Client, store: Store, clock: ManualClock
) -> None:
    lost, kept = submit(store, a_task(), a_task(queue="other"))
    first, second = await opened(client, ttl_seconds=5), await opened(client, ttl_seconds=60)
    [stale] = await claimed(client, first)
    [good] = await claimed(client, second, queues=["other"])
    clock.advance(timedelta(seconds=6))
    sweep_until_quiet(store)
    [again] = await claimed(client, second)

    refused = await settled(client, first, end(stale, result="old"))
    mixed = await settled(client, second, {**end(again), "fence": stale["fence"]}, end(good))

    assert refused[0]["error"]["code"] == "stale_fence"
    assert refused[0]["error"]["status"] == 409
    assert mixed[0]["error"]["code"] == "stale_fence"
    assert mixed[1]["state"] == "completed"
    assert (state_of(store, lost), state_of(store, kept)) == (State.LEASED, State.COMPLETED)
    problem(await client.post(f"{first}/renew"), 410, "session_lost")
    problem(await client.post(f"{first}/claim", json={}), 410, "session_lost")


async def test_a_session_cannot_settle_tasks_of_another_session(client: Client, store: Store) -> None:
    id = submit_one(store)
    mine, theirs = await opened(client), await opened(client)
    [order] = await claimed(client, mine)

    [verdict] = await settled(client, theirs, end(order))

    assert verdict["error"]["code"] == "stale_fence"
    assert state_of(store, id) is State.LEASED


async def test_an_invalid_report_does_not_affect_others(client: Client, store: Store) -> None:
    bad, good = submit(store, a_task(), a_task())
    session = await opened(client)
    one, two = await claimed(client, session, limit=2)

    verdicts = await settled(client, session, end(one, "failed"), end(two, result="x" * 1_000))
    late = await settled(client, session, end(one, result="x" * 300_000), {**end(one), "task": str(UNKNOWN)})

    assert verdicts[0]["error"]["code"] == "invalid_task"
    assert verdicts[1]["state"] == "completed"
    assert [verdict["error"]["code"] for verdict in late] == ["invalid_payload", "stale_fence"]
    assert (state_of(store, bad), state_of(store, good)) == (State.LEASED, State.COMPLETED)


async def test_a_report_can_be_repeated(client: Client, store: Store) -> None:
    submit_one(store)
    session = await opened(client)
    [order] = await claimed(client, session)

    first, second = [await settled(client, session, end(order, result=1)) for _ in range(2)]

    assert first == second


async def test_a_renewal_returns_the_attempts_to_cancel(client: Client, store: Store) -> None:
    id = submit_one(store)
    session = await opened(client)
    [order] = await claimed(client, session)
    quiet = (await client.post(f"{session}/renew")).json()

    store.cancel([id], reason="not wanted")
    renewed = (await client.post(f"{session}/renew")).json()
    [verdict] = await settled(client, session, end(order, result=1))

    assert quiet == {"cancel": []}
    assert renewed == {"cancel": [{"task": str(id), "fence": order["fence"]}]}
    assert verdict["state"] == "cancelled"


async def test_progress_is_stored_and_ended_attempts_are_returned(client: Client, store: Store) -> None:
    id, other = submit(store, a_task(), a_task())
    session = await opened(client)
    one, two = await claimed(client, session, limit=2)
    await settled(client, session, end(two))

    reports = [{"task": each["task"], "fence": each["fence"], "share": 0.5, "message": "half"} for each in (one, two)]
    answer = (await client.post(f"{session}/progress", json=reports)).json()

    assert answer == {"ended": [{"task": str(other), "fence": two["fence"]}]}
    [seen] = store.progress_of([id])
    assert seen is not None
    assert (seen.share, seen.message) == (0.5, "half")


async def test_the_output_of_running_attempts_is_stored_and_ended_attempts_are_returned(
    client: Client, store: Store
) -> None:
    id, other = submit(store, a_task(), a_task())
    session = await opened(client)
    one, two = await claimed(client, session, limit=2)
    await client.post(f"{session}/progress", json=[{**lease_of(one), "share": 0.5}])
    await settled(client, session, end(two))

    reports = [{**lease_of(each), "output": "one\n"} for each in (one, two)]
    answer = (await client.post(f"{session}/progress", json=reports)).json()
    shown = (await client.get(f"{API}/tasks/{id}/logs")).json()
    [kept] = store.progress_of([id])
    both = {**lease_of(one), "output": "x" * 200_000, "message": "more"}
    await client.post(f"{session}/progress", json=[both])

    assert answer == {"ended": [lease_of(two)]}
    assert shown == [{"fence": one["fence"], "text": "one\n", "running": True}]
    assert store.logs(other) == []
    [log], [seen] = store.logs(id), store.progress_of([id])
    assert (log.running, len(log.text) < 66_000) == (True, True)
    assert kept is not None
    assert seen is not None
    assert (kept.share, seen.message) == (0.5, "more"), "a report of output alone leaves the progress as it is"


async def test_closing_a_session_releases_its_leases(client: Client, store: Store) -> None:
    id = submit_one(store)
    session = await opened(client)
    await claimed(client, session)

    answers = [await client.delete(session), await client.delete(session)]

    assert [answer.status_code for answer in answers] == [200, 200]
    assert (state_of(store, id), task_of(store, id).attempts) == (State.RUNNABLE, 0)


async def test_a_waiting_claim_returns_as_soon_as_there_is_work(client: Client, store: Store) -> None:
    session = await opened(client)
    waiting = asyncio.ensure_future(claimed(client, session, wait_seconds=30))
    await until(listens)

    id = submit_one(store)
    [order] = await asyncio.wait_for(waiting, 10)

    assert order["task"] == str(id)


class Counting(MemoryStore):
    """A store that counts claims."""

    claims = 0

    def claim(self, *args: Any, **options: Any) -> Any:
        found = super().claim(*args, **options)
        self.claims += 1
        return found


async def test_each_of_many_waiting_claims_gets_one_task(connect: Connect) -> None:
    store = Counting()
    client = connect(over=store)
    sessions = [await opened(client) for _ in range(20)]
    waiting = [asyncio.ensure_future(claimed(client, each, wait_seconds=30)) for each in sessions]
    await until(lambda: store.claims >= 20)

    ids = submit(store, *[a_task() for _ in range(20)])
    orders = await asyncio.wait_for(asyncio.gather(*waiting), 10)

    assert sorted(order["task"] for [order] in orders) == sorted(map(str, ids))
    assert store.claims < 100


async def test_a_claim_without_work_ends_after_its_wait(client: Client) -> None:
    session = await opened(client)

    assert await claimed(client, session, wait_seconds=0.1) == []
    problem(await client.post(f"{session}/claim", json={"wait_seconds": 31}), 400, "invalid_request")


class Slow(MemoryStore):
    """A store whose claims are slow."""

    asked: asyncio.Event
    loop: asyncio.AbstractEventLoop
    may_go_on: threading.Event

    def claim(self, *args: Any, **options: Any) -> Any:
        found = super().claim(*args, **options)
        self.loop.call_soon_threadsafe(self.asked.set)
        assert self.may_go_on.wait(20)
        return found


async def test_tasks_claimed_for_a_client_that_disconnected_are_released(connect: Connect) -> None:
    store = Slow()
    store.asked, store.loop, store.may_go_on = asyncio.Event(), asyncio.get_running_loop(), threading.Event()
    id = submit_one(store)
    client = connect(over=store)
    session = await opened(client, ttl_seconds=600)
    waiting = asyncio.ensure_future(claimed(client, session, wait_seconds=30))
    await asyncio.wait_for(store.asked.wait(), 20)

    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    held = state_of(store, id)
    store.may_go_on.set()
    await until(lambda: state_of(store, id) is not State.LEASED)

    assert held is State.LEASED
    task = task_of(store, id)
    assert (task.state, task.attempts, task.losses) == (State.RUNNABLE, 0, 0)


async def test_a_worker_gets_only_tasks_it_can_run(client: Client, store: Store) -> None:
    known, unknown, tagged = submit(store, a_task(), a_task(handler="other"), a_task(requires=("gpu",)))
    session = await opened(client, handlers=["work"])

    orders = await claimed(client, session, limit=10)

    assert [order["task"] for order in orders] == [str(known)]
    assert (state_of(store, unknown), state_of(store, tagged)) == (State.RUNNABLE, State.RUNNABLE)
    assert task_of(store, unknown).attempts == 0


async def test_a_worker_has_memory_for_some_tasks(client: Client, store: Store) -> None:
    fits, too_large = submit(store, a_task(memory=1_000), a_task(memory=1_001))
    session = await opened(client, memory=1_000)

    orders = await claimed(client, session, limit=5)

    assert [order["task"] for order in orders] == [str(fits)]
    closed = explain(store, task_of(store, too_large)).closed
    assert closed is not None
    assert "has 1,000 bytes of memory for tasks and the task needs 1,001" in closed.text


async def test_why_considers_the_slots_of_http_workers(client: Client, store: Store) -> None:
    fits, too_large = submit(store, a_task(slots=4), a_task(slots=5))
    await opened(client, slots=4)

    gates = [{gate.name: gate for gate in explain(store, task_of(store, id)).gates} for id in (fits, too_large)]

    assert [found["node"].open for found in gates] == [True, False]
    assert "has 4 slots per worker and the task needs 5" in gates[1]["node"].text


async def test_arguments_contain_the_results_they_refer_to(client: Client, store: Store) -> None:
    [first] = submit(store, a_task(key="a"))
    submit(store, a_task(args={"x": reference(first)}, prerequisites=["a"]))
    session = await opened(client)

    [order] = await claimed(client, session)
    await settled(client, session, end(order, result=[1, 2]))
    [next_] = await claimed(client, session)

    assert next_["args"] == {"x": [1, 2]}


async def test_why_considers_the_queues_of_http_workers(client: Client, store: Store) -> None:
    id = submit_one(store, queue="mail", handler="work")
    before = explain(store, task_of(store, id)).closed

    await opened(client, queues=["mail"], pools={"mail": ["mail"]}, handlers=["work"])
    after = explain(store, task_of(store, id)).closed

    assert before is not None
    assert before.name == "node"
    assert after is None


async def test_nothing_is_claimed_behind_an_open_breaker_and_probes_close_it(
    client: Client, store: Store, clock: ManualClock
) -> None:
    submit(store, *[a_task(downstream="bank") for _ in range(6)])
    session = await opened(client, ttl_seconds=600)
    breakers.hold(Access(store, clock=clock), "bank", BreakerState.OPEN, author=Author("ann"), lasts="10s", create=True)

    shut = await claimed(client, session, limit=6)
    clock.advance(timedelta(seconds=11))
    probes = 0
    while (orders := await claimed(client, session, limit=1)) and probes < 5:
        probes += 1
        await settled(client, session, end(orders[0]))

    assert shut == []
    [bank] = breakers.read_breakers(store, clock.now())
    assert (probes, bank.breaker.state) == (5, BreakerState.CLOSED)


async def test_failures_over_http_open_a_breaker(client: Client, store: Store, clock: ManualClock) -> None:
    submit(store, *[a_task(downstream="bank", retry=Retry(retries=0)) for _ in range(11)])
    session = await opened(client)
    orders = await claimed(client, session, limit=10)

    await settled(client, session, *[end(order, "failed", error={"kind": "Timeout"}) for order in orders])

    [bank] = breakers.read_breakers(store, clock.now())
    assert bank.breaker.state is BreakerState.OPEN
    assert await claimed(client, session) == []
    assert store.audit("breaker/bank")[0].action == "opened"


async def test_a_stale_report_does_not_count_for_the_breaker(client: Client, store: Store) -> None:
    submit(store, *[a_task(downstream="bank", retry=Retry(retries=0)) for _ in range(11)])
    mine, other = await opened(client), await opened(client)
    orders = await claimed(client, mine, limit=11)

    await settled(client, other, *[end(order, "failed", error={"kind": "Timeout"}) for order in orders])

    assert store.controls("breaker") == []


async def test_the_server_runs_the_sweeper_for_its_workers(client: Client, store: Store, clock: ManualClock) -> None:
    id = submit_one(store)
    session = await opened(client, ttl_seconds=5)
    await claimed(client, session)

    clock.advance(timedelta(seconds=6))
    await until(lambda: state_of(store, id) is not State.LEASED)

    assert (state_of(store, id), task_of(store, id).losses) == (State.RUNNABLE, 1)


async def test_submits_are_checked_against_published_handlers(client: Client, store: Store) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    handler = {"name": "double", "queue": "math", "parameters": schema, "options": {"retries": 7, "timeout": "30s"}}

    first = (await client.post(f"{API}/manifest", json={"handlers": [handler]})).json()
    again = (await client.post(f"{API}/manifest", json={"handlers": [handler]})).json()
    refused = await client.post(f"{API}/tasks", json={"handler": "double"})
    taken = await client.post(f"{API}/tasks", json={"handler": "double", "args": {"n": 1}})

    assert (first, again) == ({"changed": ["double"]}, {"changed": []})
    problem(refused, 422, "invalid_task")
    task = claim_one(store, queue="math")
    assert str(task.id) == taken.json()["id"]
    assert (task.rules.retry.retries, task.rules.timeout) == (7, timedelta(seconds=30))
    assert [entry.action for entry in store.audit("manifest")] == ["published"]


async def test_a_worker_says_how_long_an_attempt_ran(client: Client, store: Store, clock: ManualClock) -> None:
    store.configure(Queue(name="default", fair=True))
    submit(store, a_task(), a_task())
    session = await opened(client)
    first, second = await claimed(client, session, limit=2)
    clock.advance(timedelta(seconds=10))

    await settled(client, session, end(first, ran_seconds=1.5))
    measured = store.accounts("default")[0].last_minute
    await settled(client, session, end(second))

    assert measured == 1.5
    assert store.accounts("default")[0].last_minute == 11.5


async def test_published_handlers_declare_keys_of_limits(client: Client, store: Store) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}, "m": {}}, "required": ["n"]}
    closed = {**schema, "additionalProperties": False}
    handler = {"name": "double", "parameters": closed, "options": {"limit": "n:{n}", "max_running": 1, "memory": 5}}
    wrong = {**handler, "options": {"limit": "m:{m}", "max_running": 1}}

    refused = await client.post(f"{API}/manifest", json={"handlers": [wrong]})
    await client.post(f"{API}/manifest", json={"handlers": [handler]})
    await client.post(f"{API}/tasks", json={"handler": "double", "args": {"n": 7}})

    assert "{m} is not a parameter without a default" in problem(refused, 422, "invalid_task")["detail"]
    rules = claim_one(store).rules
    assert (rules.limit, rules.max_running, rules.memory) == ("n:7", 1, 5)


def test_a_waiting_claim_whose_client_disconnects_gets_no_task(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    waits = b'{"wait_seconds": 30}'
    with running(store) as address, httpx.Client(base_url=address, timeout=20) as client:
        gone, here = (client.post(f"{API}/sessions", json={"node": "n"}).json()["session"] for _ in range(2))
        parts = urlsplit(address)
        with socket.create_connection((parts.hostname, parts.port), timeout=20) as connection:
            head = (
                f"POST {API}/sessions/{gone}/claim HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Length: {len(waits)}\r\n"
            )
            connection.sendall(head.encode() + b"Content-Type: application/json\r\n\r\n" + waits)
            eventually(listens, "the claim waits")
        eventually(lambda: not listens(), "no claim waits")

        id = submit_one(store)
        [order] = client.post(f"{API}/sessions/{here}/claim", json={"wait_seconds": 5}).json()["tasks"]
        ended = client.post(f"{API}/sessions/{here}/settle", json=[end(order, result=1)]).json()["verdicts"]
    left = listens()
    result = task_of(store, id).result
    store.close()

    assert (order["task"], ended[0]["state"], result) == (str(id), "completed", "1")
    assert not left


def listens() -> bool:
    return "windlass-claims" in {thread.name for thread in threading.enumerate()}


SESSION_CALLS = (
    ("POST", "claim", {}),
    ("POST", "renew", None),
    ("POST", "progress", []),
    ("POST", "settle", []),
    ("DELETE", "", None),
)


async def call_session(client: Client, session: str, method: str, verb: str, body: Any) -> httpx.Response:
    return await client.request(method, f"{session}/{verb}" if verb else session, json=body)


@pytest.mark.parametrize("call", SESSION_CALLS, ids=lambda call: call[1] or "close")
async def test_only_the_token_that_opened_a_session_can_use_it(
    connect: Connect, store: Store, token: Callable[..., str], call: tuple[str, str, Any]
) -> None:
    mine = connect(token(Scope.WORK, name="mine"))
    others = [connect(token(scope, name=scope)) for scope in (Scope.WORK, Scope.ADMIN)]
    session = await opened(mine)
    nodes = f"{API}/sessions/{a_session(store)}"  # Of a node, which no token may use.
    submit_one(store)
    lease = (await claimed(mine, session))[0]

    for other in others:
        problem(await call_session(other, session, *call), 410, "session_lost")
    for client in (mine, *others):
        problem(await call_session(client, nodes, *call), 410, "session_lost")

    assert [verdict["state"] for verdict in await settled(mine, session, end(lease))] == ["completed"]
    assert (await call_session(mine, session, *call)).status_code == 200


async def test_another_server_knows_the_owner_of_a_session(
    connect: Connect, store: Store, token: Callable[..., str]
) -> None:
    mine, other = token(Scope.WORK, name="mine"), token(Scope.WORK, name="other")
    session = await opened(connect(mine))

    problem(await connect(other).post(f"{session}/renew"), 410, "session_lost")
    assert (await connect(mine).post(f"{session}/renew")).status_code == 200


async def test_a_token_limited_to_a_queue_works_for_that_queue_only(
    connect: Connect, store: Store, token: Callable[..., str]
) -> None:
    mine, theirs = submit(store, a_task(queue="own"), a_task(queue="other"))
    client = connect(token(Scope.WORK, queue="own"))

    for body in ({}, {"queues": ["own", "other"]}, {"queues": ["own"], "pools": {"p": ["other"]}}):
        problem(await client.post(f"{API}/sessions", json={"node": "n", **body}), 403, "forbidden")
    session = await opened(client, queues=["own"])
    asked = await client.post(f"{session}/claim", json={"queues": ["other"], "limit": 9})
    leases = await claimed(client, session, limit=9)

    problem(asked, 403, "forbidden")
    assert [lease["task"] for lease in leases] == [str(mine)]
    assert task_of(store, theirs).state is State.RUNNABLE


def test_a_token_for_workers_cannot_be_limited_to_a_tenant(store: Store) -> None:
    with pytest.raises(InvalidTask, match="serves all tenants"):
        create_token(store, "w", [Scope.WORK], tenant="acme")


async def test_errors_and_output_are_cut_as_those_of_nodes_are(client: Client, store: Store) -> None:
    id = submit_one(store)
    session = await opened(client)
    [lease] = await claimed(client, session)
    error = {"kind": "E", "message": "m" * 60_000, "traceback": "t" * 60_000}

    await settled(client, session, end(lease, "failed", error=error, log="x" * 200_000, give_up=True))

    [attempt] = store.attempts(id)
    [log] = store.logs(id)
    assert attempt.error is not None
    assert len(attempt.error.message) < 5_000
    assert len(attempt.error.traceback) < 17_000
    assert len(log.text) < 66_000
    assert "characters left out" in log.text
