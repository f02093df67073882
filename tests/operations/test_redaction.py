"""Nothing that an operation returns contains a secret, so that no interface can show one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import islice

import pytest
from msgspec.structs import replace

from tests.operations.registry import find_operations, takes_author
from tests.operations.secrets import ANN, SECRET, SecretStore, leaks
from windlass.clock import SystemClock
from windlass.core.breaker import BreakerState
from windlass.core.lifecycle import State
from windlass.core.limits import Limit
from windlass.core.query import parse
from windlass.core.task import Change
from windlass.events import Events
from windlass.operations import (
    audit,
    breakers,
    bulk_runs,
    crons,
    dead_letters,
    deadlines,
    facets,
    limits,
    manifest,
    nodes,
    pool_history,
    pools,
    queues,
    tasks,
    tenants,
    tokens,
    workflows,
)
from windlass.operations.access import Access
from windlass.operations.argument_fields import get_fields
from windlass.operations.bulk import BulkAction, Verb
from windlass.operations.bulk_runs import BulkRun
from windlass.operations.canary import find_retried, find_run, find_runs, run_canary
from windlass.operations.last_success import compare_with_last_success
from windlass.operations.workflow_graph import Summary
from windlass.stores.memory import MemoryStore
from windlass.stores.protocol import Filter
from windlass.stores.series import Resolution
from windlass.worker.crons import Crons

Read = Callable[[Access, SecretStore], object]


def a_graph(access: Access, _: SecretStore) -> object:
    found = workflows.get(access, "w")
    assert not isinstance(found, Summary)
    return found.steps, [found.view(place, access.now) for place in range(found.tasks)]


def first_steps(access: Access, _: SecretStore) -> object:
    summary = Summary(name="w", tenant="default", groups=workflows.count_groups(access.store, "w", "default"))
    return workflows.find_first(access, summary, [State.FAILED], 10)


def a_canary(access: Access, at: SecretStore) -> object:
    group = dead_letters.get(access, at.group)
    run_canary(access, group, 0.0, ANN, lambda _: None)
    return find_run(access, group)


def a_bulk_run(access: Access) -> str:
    """Write the progress of a bulk action whose filter and error have a secret, and return its id."""
    text, now = f"password={SECRET}", access.now
    run = BulkRun(
        id="run", verb=Verb.CANCEL, q=text, problem=text, by="ann", tenant=None, queue=None, started=now, at=now
    )
    return bulk_runs.save(access.store, run).id


def last_runs(access: Access, _: SecretStore) -> object:
    crons.resume(access, "daily", ANN)
    duty = Crons(access.store, Events(), SystemClock())
    duty.handlers = {handler.name: handler for handler in access.store.handlers()}
    duty.fire(access.store.crons_to_fire(duty.handlers))
    due = access.store.crons_to_fire(duty.handlers)
    duty.fire(replace(due, now=due.now + 24 * 3_600 * 1_000_000))
    found = crons.find_last_runs(access, crons.get_all(access))
    assert [task.handler for task in found.values()] == ["mail"]
    return found


def an_edit(access: Access, at: SecretStore) -> object:
    return dead_letters.preview_edit(access, dead_letters.get(access, at.group), {"password": SECRET})


READS: dict[str, Read] = {
    "audit.each": lambda access, _: list(audit.each(access)),
    "audit.find": lambda access, _: audit.find(access),
    "audit.search": lambda access, _: audit.search(access, text="a"),
    "breakers.get": lambda access, _: breakers.get(access, "bank"),
    "breakers.get_all": lambda access, _: breakers.get_all(access),
    "bulk_runs.get": lambda access, _: bulk_runs.get(access, a_bulk_run(access)),
    "bulk_runs.get_running": lambda access, _: a_bulk_run(access) and bulk_runs.get_running(access),
    "bulk_runs.ask_to_stop": lambda access, _: bulk_runs.ask_to_stop(access, a_bulk_run(access)),
    "canary.find_run": a_canary,
    "canary.find_runs": lambda access, at: a_canary(access, at) and find_runs(access),
    "canary.find_retried": lambda access, at: (a_canary(access, at), find_retried(access, find_runs(access)[at.group])),
    "crons.find_last_runs": last_runs,
    "crons.get": lambda access, _: crons.get(access, "daily"),
    "crons.get_all": lambda access, _: crons.get_all(access),
    "crons.next_times": lambda access, _: crons.next_times(access, "daily", 2),
    "dead_letters.find": lambda access, at: dead_letters.find(access, at.group),
    "dead_letters.get": lambda access, at: dead_letters.get(access, at.group),
    "dead_letters.get_all": lambda access, _: dead_letters.get_all(access),
    "dead_letters.get_ids": lambda access, at: dead_letters.get_ids(access, dead_letters.get(access, at.group)),
    "dead_letters.letters": lambda access, at: dead_letters.letters(access, dead_letters.get(access, at.group)),
    "dead_letters.preview_edit": an_edit,
    "dead_letters.read_groups": lambda access, _: dead_letters.read_groups(access).groups,
    "limits.get": lambda access, _: limits.get(access, Limit(queue="default")),
    "limits.get_all": lambda access, _: limits.get_all(access),
    "manifest.handlers": lambda access, _: manifest.handlers(access),
    "nodes.get": lambda access, at: nodes.get(access, at.session),
    "nodes.get_all": lambda access, _: nodes.get_all(access),
    "dead_letters.find_group": lambda access, at: dead_letters.find_group(access, at.failed),
    "deadlines.find_late": lambda access, _: deadlines.find_late(access, SystemClock().now()),
    "facets.get_facets": lambda access, _: [facets.get_facets(access, parse(q)) for q in ("", "args.n:1 state:failed")],
    "pool_history.read_history": lambda access, _: pool_history.read_history(access, "mail", last=timedelta(hours=1)),
    "queues.get_paused": lambda access, _: queues.get_paused(access),
    "workflows.search": lambda access, _: workflows.search(access),
    "pools.desired": lambda access, _: pools.desired(access, "mail"),
    "pools.desired_all": lambda access, _: pools.desired_all(access),
    "pools.get": lambda access, _: pools.get(access, "mail"),
    "pools.get_all": lambda access, _: pools.get_all(access),
    "pools.history": lambda access, _: pools.history(access, "mail"),
    "queues.get": lambda access, _: queues.get(access, "default"),
    "queues.get_all": lambda access, _: queues.get_all(access),
    "queues.get_waits": lambda access, _: queues.get_waits(access),
    "queues.series": lambda access, _: queues.series(access, "default", Resolution.MINUTE, timedelta(hours=1)),
    "argument_fields.get_fields": lambda access, at: [get_fields(access, id) for id in (at.failed, at.done)],
    "last_success.compare_with_last_success": lambda access, at: compare_with_last_success(access, at.failed),
    "tasks.attempts": lambda access, at: tasks.attempts(access, at.failed),
    "tasks.details": lambda access, at: [tasks.details(access, id) for id in (at.failed, at.done)],
    "tasks.each": lambda access, _: list(islice(tasks.each(access, Filter()), 10)),
    "tasks.find": lambda access, _: tasks.find(access, Filter()),
    "tasks.get": lambda access, at: [tasks.get(access, id) for id in (at.failed, at.done)],
    "tasks.graph": lambda access, at: tasks.graph(access, at.failed),
    "tasks.logs": lambda access, at: tasks.logs(access, at.done),
    "tasks.look_up": lambda access, at: tasks.look_up(access, str(at.failed)[:13]),
    "tasks.progress": lambda access, at: tasks.progress(access, at.failed),
    "tasks.why": lambda access, at: [tasks.why(access, at.failed), str(tasks.why(access, at.failed))],
    "tenants.get": lambda access, _: tenants.get(access, "default"),
    "tenants.get_all": lambda access, _: tenants.get_all(access),
    "tenants.get_all_shares": lambda access, _: tenants.get_all_shares(access),
    "tenants.get_paused": lambda access, _: tenants.get_paused(access),
    "tenants.get_shares": lambda access, _: tenants.get_shares(access, "default"),
    "tenants.get_visible_shares": lambda access, _: tenants.get_visible_shares(access),
    "tokens.get_all": lambda access, _: tokens.get_all(access),
    "workflows.edges": lambda access, _: workflows.edges(access, "w"),
    "workflows.find": lambda access, _: workflows.find(access),
    "workflows.find_first": first_steps,
    "workflows.find_step": lambda access, _: workflows.find_step(access, "w", "a"),
    "workflows.find_tenant": lambda access, _: workflows.find_tenant(access, "w"),
    "workflows.get": a_graph,
    "workflows.page": lambda access, _: workflows.page(access, workflows.get(access, "w"), limit=10),
    "workflows.steps": lambda access, _: workflows.steps(access, "w", limit=10),
}
RESTORED = ("breakers", "bulk", "crons", "limits", "pools", "queues", "tasks", "tenants")
NOT_FOR_PEOPLE = {
    "argument_fields.parse_fields": "what the caller gave",
    "bulk.check_known": "nothing; it only refuses",
    "bulk_runs.drop_old": "nothing; it only removes",
    "cascade.check_cascade": "nothing; it only refuses",
    "tasks.find_stored": "the page with its secrets, which `find` redacts and bulk actions read ids from",
    "tasks.make_successor": "a task to submit, with its secrets",
    "tasks.new_task": "what a caller submits, and gives back to nobody else",
    "workflows.choose_tenant": "a name that the caller gave",
    "tasks.submit": "receipts",
    "tenants.is_known": "yes or no",
    "pool_history.read_load": "numbers",
    "pool_simulation.compare": "numbers and ledgers of what never happened",
    "workflows.find_deadline": "a moment",
    "undo.find_new": "numbers",
    "tasks.restore_cancelled": "nothing; it only writes",
    **{f"{kind}.restore": "nothing; it only writes" for kind in RESTORED},
    "pool_simulation.simulate": "numbers; tested in tests/server/test_pools.py",
}


@pytest.fixture
def access() -> Access:
    return Access(MemoryStore())


@pytest.fixture
def planted(access: Access) -> SecretStore:
    return SecretStore(access.store)


def test_every_read_is_tested() -> None:
    found = {name for name, operation in find_operations().items() if not takes_author(operation)}

    assert found == READS.keys() | NOT_FOR_PEOPLE.keys()


@pytest.mark.parametrize("name", READS)
def test_no_read_returns_a_secret(access: Access, planted: SecretStore, name: str) -> None:
    found = READS[name](access, planted)

    assert found
    assert not leaks(found)


def test_no_action_returns_a_secret(access: Access, planted: SecretStore) -> None:
    done = [
        queues.pause(access, "default", ANN, create=True),
        tenants.pause(access, "default", ANN),
        tenants.set_weight(access, "default", 3, ANN),
        limits.put(access, Limit(queue="default", max_running=1), ANN),
        crons.pause(access, "daily", ANN),
        pools.freeze(access, "mail", author=ANN),
        breakers.hold(access, "bank", BreakerState.OPEN, author=ANN, create=True),
        tasks.retry(access, planted.failed, ANN),
        tasks.change(access, planted.failed, Change(priority=3), ANN),
    ]

    assert all(done)
    assert not leaks(done)
    entries = [entry for entry in access.store.audit() if entry.by == "ann"]
    assert not leaks(entries), "the reason of an action is stored without its secrets"


@pytest.mark.parametrize("text", ["args.password:hunter*", "args.pin:hunter*", f"error~{SECRET}", SECRET])
def test_no_filter_finds_a_task_by_its_secret(access: Access, planted: SecretStore, text: str) -> None:
    filter = Filter(query=parse(text))

    assert tasks.find(access, filter).tasks == []
    assert BulkAction(access, Verb.PURGE, filter, ANN).count() == 0
