"""Clients of the chaos run: producers that submit graphs until acknowledged, tenants over HTTP, an operator."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from tests.chaos.app import REMOTE_TROUBLES, TROUBLES
from tests.chaos.cluster import REMOTE_QUEUE
from tests.chaos.history import History, Planned
from tests.chaos.newer_app import app
from tests.support.graphs import load_graph
from tests.support.http_client import HttpClient
from windlass.core.ids import keyed_id
from windlass.core.lifecycle import State
from windlass.core.limits import Limit
from windlass.core.references import reference
from windlass.core.task import TaskId
from windlass.errors import NotAllowed
from windlass.operations import limits, queues
from windlass.operations.access import Access
from windlass.operations.author import Author

QUEUES = ("light", "heavy", REMOTE_QUEUE)
AGAIN_SECONDS = 0.2
MAX_REAL_TASKS = 700
"""Larger graphs of a folder are left out: they would be the whole run."""
URGENT = 9
"""Such a task does not wait behind the steps of graphs."""
OPERATOR = Author("operator", why="chaos")


def produce(history: History, name: str, rng: Random, rate: float, stop: threading.Event) -> None:
    """Submit small graphs, about `rate` tasks per second. Repeat each with the same keys until it is acknowledged."""
    number = 0
    while not stop.is_set():
        number += 1
        workflow = f"{name}-{number}"
        graph = draw_graph(rng, workflow)
        if rng.random() < 0.1:
            graph = [plan_single(rng, workflow, rng.choice(("chaos.call", "chaos.added")))]
        submit_until_acknowledged(history, name, workflow, graph)
        stop.wait(len(graph) / rate)


def submit_until_acknowledged(history: History, name: str, workflow: str, graph: list[Planned]) -> None:
    """Submit a graph, and again until there is an answer; also after the end of the faults."""
    history.plan(graph)
    ids = [each.id for each in graph]
    while history.call(name, "submit", ids, lambda: submit(workflow, graph)) != "ok":
        time.sleep(AGAIN_SECONDS)


def produce_over_http(
    history: History, tenant: str, client: HttpClient, rng: Random, rate: float, stop: threading.Event
) -> None:
    """Submit graphs of one tenant over HTTP in the same way; read, cancel, and try to reach tasks of others."""
    number = 0
    while not stop.is_set():
        number += 1
        workflow = f"{tenant}-{number}"
        graph = draw_graph(rng, workflow, tenant)
        history.plan(graph)
        body = {"name": workflow, "tasks": [as_json(each, graph) for each in graph]}
        ids = [each.id for each in graph]

        def send(body: dict[str, Any] = body) -> list[str]:
            return [receipt["id"] for receipt in client.call("POST", "/workflows", body)["receipts"]]

        while history.call(tenant, "submit", ids, send, tenant=tenant) != "ok":
            time.sleep(AGAIN_SECONDS)
        look_around(history, tenant, client, rng)
        stop.wait(len(graph) / rate)


def look_around(history: History, tenant: str, client: HttpClient, rng: Random) -> None:
    """List tasks, and cancel one that is a tenant's own or that of somebody else, which must be refused."""

    def read() -> list[str]:
        return [task["id"] for task in client.call("GET", "/tasks?limit=20")["tasks"]]

    history.call(tenant, "read", (), read, tenant=tenant)
    known = history.list_latest(50)
    if known and rng.random() < 0.3:
        id = rng.choice(known).id

        def cancel() -> None:
            check_changed(client.call("POST", f"/tasks/{id}/cancel", {})["cancelled"] > 0)

        history.call(tenant, "cancel", [id], cancel, tenant=tenant)


def check_changed(is_changed: bool) -> None:
    """Raise `NotAllowed` if a call found nothing to change: the task had ended, or was not there yet."""
    if not is_changed:
        raise NotAllowed("nothing was changed")


def operate(history: History, rng: Random, stop: threading.Event) -> None:
    """About every second: cancel a task, retry a dead letter, pause a queue or limit one for a while."""
    while not stop.wait(rng.uniform(0.5, 1.5)):
        rng.choice(OPERATIONS)(history, rng)


def cancel_one(history: History, rng: Random) -> None:
    """Cancel one of the latest tasks."""
    known = history.list_latest(50)
    if known:
        id = rng.choice(known).id
        history.call("operator", "cancel", [id], lambda: check_changed(app.handle(id).cancel()))


def retry_one(history: History, rng: Random) -> None:
    """Retry a dead letter."""
    ids = [planned.id for planned in history.list_latest(500)]
    failed: list[TaskId] = []

    def find() -> None:
        failed.extend(task.id for task in app.store.get(ids) if task is not None and task.state is State.FAILED)

    if ids and history.call("operator", "find", (), find) == "ok" and failed:
        id = rng.choice(failed)
        history.call("operator", "retry", [id], lambda: check_changed(app.handle(id).retry()))


def pause_queue(history: History, rng: Random) -> None:
    """Pause a queue for two seconds."""
    queue = rng.choice(QUEUES)
    history.call("operator", "pause", (), lambda: queues.pause(Access(app.store), queue, OPERATOR, lasts="2s"))


def limit_queue(history: History, rng: Random) -> None:
    """Limit how many tasks of a queue run at once, for three seconds."""
    limit = Limit(queue=rng.choice(QUEUES), max_running=2)
    history.call("operator", "limit", (), lambda: limits.put(Access(app.store), limit, OPERATOR, lasts="3s"))


OPERATIONS = (cancel_one, retry_one, pause_queue, limit_queue)


def submit(workflow: str, graph: list[Planned]) -> None:
    """Submit a graph as one workflow, in one transaction."""
    with app.workflow(workflow) as wf:
        steps: list[Any] = []
        for each in graph:
            options = app.handlers[each.handler].using(queue=each.queue, priority=each.priority)
            before = [steps[above] for above in each.above]
            steps.append(wf.add(options, each.number, each.seconds, each.trouble, before, key=each.key))


def as_json(each: Planned, graph: list[Planned]) -> dict[str, Any]:
    """Return a step as a client in any language would write it."""
    before = [reference(graph[above].id) for above in each.above]
    args = {"number": each.number, "seconds": each.seconds, "trouble": each.trouble, "before": before}
    after = [graph[above].key for above in each.above]
    step = {"handler": each.handler, "args": args, "key": each.key, "after": after}
    return {**step, "queue": each.queue, "priority": each.priority}


def draw_graph(rng: Random, workflow: str, tenant: str = "default") -> list[Planned]:
    """Return a chain, a fan-out with its fan-in, or a random graph of up to twelve steps."""
    size = rng.randint(1, 12)
    shape = rng.choice(("chain", "fan", "random"))
    graph: list[Planned] = []
    for position in range(size):
        if position == 0:
            above: tuple[int, ...] = ()
        elif shape == "chain":
            above = (position - 1,)
        elif shape == "fan":
            above = tuple(range(1, position)) if position == size - 1 and size > 2 else (0,)
        else:
            above = tuple(sorted(rng.sample(range(position), min(position, rng.randint(0, 3)))))
        queue = rng.choice(QUEUES)
        troubles = REMOTE_TROUBLES if queue == REMOTE_QUEUE else TROUBLES
        graph.append(
            Planned(
                id=keyed_id(tenant, workflow, f"step-{position}"),
                key=f"step-{position}",
                tenant=tenant,
                number=rng.randint(1, 1000),
                seconds=rng.choice((0.0, 0.01, 0.05, 0.3)),
                trouble=rng.choice(troubles) if rng.random() < 0.08 else "",
                queue=queue,
                priority=rng.randint(0, 3),
                above=above,
            )
        )
    return graph


def plan_single(rng: Random, workflow: str, handler: str, key: str = "only") -> Planned:
    """Return a task that depends on nothing."""
    id = keyed_id("default", workflow, key)
    return Planned(id=id, key=key, handler=handler, number=rng.randint(1, 1000), queue="light", priority=URGENT)


def submit_real_graphs(history: History, folder: Path, rng: Random, stop: threading.Event) -> None:
    """Submit the graphs of a folder that are small enough, one after the other."""
    for path in sorted(folder.glob("*.jsonl.gz")):
        graph = load_graph(path)
        workflow = path.name.partition(".")[0]
        positions = {name: position for position, (name, _) in enumerate(graph)}
        is_in_order = all(positions[above] < positions[name] for name, names in graph for above in names)
        if stop.is_set() or len(graph) > MAX_REAL_TASKS or not is_in_order:
            continue
        planned = [
            Planned(
                id=keyed_id("default", workflow, str(name)),
                key=str(name),
                number=rng.randint(1, 1000),
                queue=rng.choice(QUEUES),
                above=tuple(positions[above] for above in names),
            )
            for name, names in graph
        ]
        submit_until_acknowledged(history, "dags", workflow, planned)


def list_clients(
    history: History, seed: int, address: str, tokens: Mapping[str, str], dags: Path | None, rate: float
) -> list[Callable[[threading.Event], None]]:
    """Return the clients, each a function for a thread, which ends once the event that it gets is set."""
    share = rate / (2 + len(tokens))
    clients = [partial(produce, history, name, Random(f"{seed} {name}"), share) for name in ("p0", "p1")]
    clients += [
        partial(produce_over_http, history, tenant, HttpClient(address, token), Random(f"{seed} {tenant}"), share)
        for tenant, token in tokens.items()
    ]
    clients.append(partial(operate, history, Random(f"{seed} operator")))
    if dags is not None:
        clients.append(partial(submit_real_graphs, history, dags, Random(f"{seed} dags")))
    return clients
