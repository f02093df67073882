"""What the buttons of the pages Tasks, Task, Workflow, Pool and Lab do. See `actions`."""

from __future__ import annotations

import json
from datetime import timedelta
from urllib.parse import urlencode
from uuid import UUID

import msgspec

from tests.browser import shop
from tests.browser.actions import WHY, check_entry, form, presses
from tests.browser.site import NODE, POOL, Site, start_purge
from tests.browser.visitor import Visitor
from tests.support.processes import until
from windlass.autoscale.observe import NodeReport, PoolReport
from windlass.core.lifecycle import State
from windlass.core.task import SessionId, TaskId
from windlass.core.worker_list import WorkerProcess
from windlass.operations import bulk_runs, nodes, pools, tasks
from windlass.stores.protocol import Filter


def park(site: Site, number: int) -> TaskId:
    """Submit a task into a queue that no node serves."""
    return TaskId(shop.charge.using(queue="parked").enqueue(number).id)


def state(site: Site, id: TaskId) -> State:
    return tasks.get(site.access, id).state


@presses("/tasks/bulk")
def cancel_many(visitor: Visitor, site: Site) -> None:
    """Pick two of three, then cancel the rest through the filter; the page in between says how many."""
    ids = [park(site, number) for number in range(3)]
    visitor.open("tasks?" + urlencode({"q": "queue:parked state:runnable"}))
    for id in ids[:2]:
        visitor.page.check(f"input[value='{id}']")
    assert visitor.page.inner_text("[data-picked]") == "2"
    visitor.press("button[aria-label='Cancel the picked tasks']")
    assert "Cancel 2 tasks?" in visitor.page.inner_text("h1")
    visitor.submit(form("tasks/bulk"), why=WHY)
    assert [state(site, id) for id in ids] == [State.CANCELLED, State.CANCELLED, State.RUNNABLE]
    check_entry(site, "tasks", "cancelled")

    visitor.press("a[aria-label='Cancel all that match']")
    visitor.submit(form("tasks/bulk"), why=WHY)
    assert state(site, ids[2]) is State.CANCELLED
    visitor.open("tasks/bulk?" + urlencode({"verb": "purge", "q": "queue:parked", "all": 1}))
    visitor.submit(form("tasks/bulk"), why=WHY)
    assert site.store.get(ids) == [None] * 3
    check_entry(site, "tasks", "purged")


@presses("/tasks/bulk/{run}/stop")
def stop_purge(visitor: Visitor, site: Site) -> None:
    run = start_purge(site)
    visitor.open(f"tasks/bulk/{run}")
    assert "3,500 of 20,000" in visitor.page.inner_text("main")
    visitor.submit(form("stop"))

    assert bulk_runs.get(site.access, run).stop
    assert "Stopping" in visitor.page.inner_text("main")


@presses("/tasks/{id}/priority")
def set_priority(visitor: Visitor, site: Site) -> None:
    id = park(site, 4)
    visitor.open(f"tasks/{id}")
    visitor.submit(form("priority"), priority="7", why=WHY)

    assert tasks.get(site.access, id).priority == 7
    check_entry(site, f"task/{id}", "changed")


@presses("/tasks/{id}/cancel")
def cancel_task(visitor: Visitor, site: Site) -> None:
    id = park(site, 5)
    visitor.open(f"tasks/{id}")
    visitor.submit(form("cancel"), why=WHY)

    assert state(site, id) is State.CANCELLED
    check_entry(site, f"task/{id}", "cancelled")


@presses("/tasks/{id}/retry")
def retry_task(visitor: Visitor, site: Site) -> None:
    id = park(site, 6)
    site.store.cancel([id], reason="test")
    visitor.open(f"tasks/{id}")
    visitor.submit(form("retry"), why=WHY)

    assert state(site, id) is State.RUNNABLE
    check_entry(site, f"task/{id}", "retried")


@presses("/tasks/{id}/run-now")
def run_now(visitor: Visitor, site: Site) -> None:
    id = TaskId(shop.charge.using(queue="parked", delay="5h").enqueue(7).id)
    visitor.open(f"tasks/{id}")
    visitor.press(f"{form('run-now')} button")

    until(lambda: state(site, id) is State.RUNNABLE, "it is due")
    check_entry(site, f"task/{id}", "changed", "")


@presses("/tasks/{id}/edit")
def edit_task(visitor: Visitor, site: Site) -> None:
    [old] = site.store.find(Filter(states=frozenset([State.FAILED]), handler="render_invoice"), limit=1).tasks
    visitor.open(f"tasks/{old.id}")
    visitor.page.fill(f"{form('edit')} textarea[name=value] >> nth=0", "41")
    visitor.submit(form("edit"), why=WHY)

    [new] = site.store.get([tasks.parse_id(visitor.page.url.rpartition("/")[2])])
    assert new is not None
    assert json.loads(new.args) == {**json.loads(old.args), "order": 41}, "the secret that the form hides is kept"
    check_entry(site, f"task/{old.id}", "edited")
    until(lambda: state(site, new.id) is State.FAILED, "it fails again")


@presses("/workflows/cancel")
def cancel_workflow(visitor: Visitor, site: Site) -> None:
    name = f"to cancel {shop.SCRIPT}"
    with shop.app.workflow(name, tenant="acme") as flow:
        first = flow.add(shop.charge.using(queue="parked"), 1)
        flow.add(shop.pack.using(queue="parked"), 1, first)
    visitor.open("workflows/view?" + urlencode({"name": name, "tenant": "acme"}))
    visitor.submit(form("workflows/cancel"), why=WHY)

    assert {state(site, TaskId(step.id)) for step in flow.steps} == {State.CANCELLED}
    check_entry(site, "tasks", "cancelled")


@presses("/workflows/retry")
def retry_workflow(visitor: Visitor, site: Site) -> None:
    name = f"to cancel {shop.SCRIPT}"
    [first] = site.store.find(Filter(workflow=name, handler="charge"), limit=10).tasks
    visitor.open("workflows/view?" + urlencode({"name": name, "tenant": "acme", "retry": str(first.id)}))
    visitor.submit(form("workflows/retry"), why=WHY)

    assert state(site, first.id) is State.RUNNABLE
    check_entry(site, f"workflow/{name}", "retried")


@presses("/pool/set")
def set_pool(visitor: Visitor, site: Site) -> None:
    visitor.open(f"pool?name={POOL}")
    visitor.submit(form("pool/set"), min="1", max="2", why=WHY)

    override = pools.get(site.access, POOL).override
    assert override is not None
    assert (override.min, override.max) == (1, 2)
    check_entry(site, f"pool/{POOL}", "set")


@presses("/pool/freeze")
def freeze_pool(visitor: Visitor, site: Site) -> None:
    visitor.open(f"pool?name={POOL}")
    visitor.submit(form("pool/freeze"), why=WHY)

    override = pools.get(site.access, POOL).override
    assert override is not None
    assert override.min == override.max
    check_entry(site, f"pool/{POOL}", "set")


@presses("/pool/tune")
def tune_pool(visitor: Visitor, site: Site) -> None:
    visitor.open(f"pool?name={POOL}")
    visitor.submit(form("pool/tune"), wait="3s", why=WHY)

    assert pools.get(site.access, POOL).tuned["wait"] == 3
    check_entry(site, f"pool/{POOL}", "tuned")


@presses("/pool/pause")
def pause_pool(visitor: Visitor, site: Site) -> None:
    visitor.open(f"pool?name={POOL}")
    visitor.submit(form("pool/pause"), why=WHY)

    assert pools.get(site.access, POOL).paused is not None
    check_entry(site, f"pool/{POOL}", "paused")


@presses("/pool/resume")
def resume_pool(visitor: Visitor, site: Site) -> None:
    visitor.open(f"pool?name={POOL}")
    visitor.submit(form("pool/resume"), why=WHY)

    found = pools.get(site.access, POOL)
    assert (found.paused, found.override) == (None, None)
    check_entry(site, f"pool/{POOL}", "resumed")


def list_workers(site: Site) -> dict[int, WorkerProcess]:
    """Return the workers of the node, by number."""
    node = next(node for node in nodes.get_all(site.access) if node.session.node == NODE and not node.session.lost)
    return {worker.number: worker for worker in node.workers.workers}


def worker_form(site: Site, path: str, number: int) -> str:
    session = next(node.id for node in site.store.sessions() if node.node == NODE and not node.lost)
    return form(path, f'tr[data-id="worker-{session}-{number}"]')


@presses("/workers/drain")
def drain_worker(visitor: Visitor, site: Site) -> None:
    size = 2  # Otherwise it might want only the busy one.
    pools.set_size(site.access, POOL, size, author=site.author)
    visitor.open(f"pool?name={POOL}")
    shown: list[int] = []

    def shows_idle_worker() -> bool:
        """Return True if an idle worker is on the page, and the pool has reached its size, so that it will stay."""
        workers = [each for each in list_workers(site).values() if each.state in ("idle", "busy")]  # One may drain.
        idle = [each.number for each in workers if each.state == "idle" and len(workers) == size]
        shown[:] = [one for one in idle if visitor.page.locator(worker_form(site, "workers/drain", one)).count()]
        return bool(shown)

    def asks_one_to_drain() -> bool:
        """Return False if the worker has ended meanwhile: the node may have learned of the size only afterwards."""
        until(shows_idle_worker, "an idle worker is on the page")
        visitor.submit(worker_form(site, "workers/drain", shown[0]), why=WHY)
        if f"has no worker {shown[0]}, or it has ended" not in visitor.page.inner_text("body"):
            return True
        visitor.take_problems("/workers/drain")
        visitor.open(f"pool?name={POOL}")
        return False

    until(asks_one_to_drain, "an idle worker is asked to drain")
    number = shown[0]

    assert f"Worker {number} of {NODE} drains" in visitor.page.inner_text("body")
    until(lambda: number not in list_workers(site), "the worker has exited")
    until(lambda: any(each > number for each in list_workers(site)), "another one was started")
    check_entry(site, f"node/{NODE}", "drained")
    pools.resume(site.access, POOL, author=site.author)


@presses("/workers/stop")
def stop_worker(visitor: Visitor, site: Site) -> None:
    until(lambda: any(each.tasks for each in list_workers(site).values()), "a worker runs a task")
    held = next(each for each in list_workers(site).values() if each.tasks)
    id = TaskId(UUID(held.tasks[0].id))
    visitor.open(f"pool?name={POOL}")
    visitor.submit(worker_form(site, "workers/stop", held.number), why=WHY, grace="0s")

    until(lambda: held.number not in list_workers(site), "the worker was killed")
    task = tasks.get(site.access, id)
    assert (task.crashes, task.losses, task.attempts) == (0, 0, 0), "its task was released"
    check_entry(site, f"node/{NODE}", "stopped")


def open_spare_node(site: Site, name: str) -> SessionId:
    """Open a session that looks like a second node of the pool, so that the real one stays."""
    session = site.store.open_session(name, timedelta(hours=1), about=json.dumps({"pools": {POOL: {"queues": []}}}))
    report = NodeReport(pools={POOL: PoolReport(queues=("orders",))})
    site.store.report(session, msgspec.json.encode(report).decode())
    return session


@presses("/nodes/drain")
def drain_node(visitor: Visitor, site: Site) -> None:
    session = open_spare_node(site, f"spare {shop.SCRIPT}")
    visitor.open(f"pool?name={POOL}")
    visitor.submit(form("nodes/drain", f'tr[data-id="node-{session}"]'), why=WHY)

    until(lambda: f"asked to drain by local: {WHY}" in visitor.page.inner_text("#live_nodes"), "the page shows it")
    request = nodes.get(site.access, session).find_request()
    assert request is not None
    assert (request.verb, request.why) == ("drain", WHY)
    check_entry(site, f"node/spare {shop.SCRIPT}", "drained")
    site.store.close_session(session)


@presses("/nodes/stop")
def stop_node(visitor: Visitor, site: Site) -> None:
    session = open_spare_node(site, "spare")
    visitor.open(f"pool?name={POOL}")
    visitor.submit(form("nodes/stop", f'tr[data-id="node-{session}"]'), why=WHY, grace="30s")

    request = nodes.get(site.access, session).find_request()
    assert request is not None
    assert (request.verb, request.grace) == ("stop", 30.0)
    check_entry(site, "node/spare", "stopped")
    site.store.close_session(session)


@presses("/lab/run")
def run_lab(visitor: Visitor, site: Site) -> None:
    """The lab changes nothing: it replays what was recorded."""
    before = len(site.store.audit(limit=1_000))
    visitor.open("lab")
    visitor.submit(form("lab/run"), max="5")

    assert "run=" in visitor.page.url
    assert "Trial" in visitor.page.inner_text("main")
    assert len([entry for entry in site.store.audit(limit=1_000) if entry.by == "local"]) <= before
