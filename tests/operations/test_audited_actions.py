"""Every action writes its audit entry in the transaction of the change: both are stored, or neither is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.operations.registry import find_operations, takes_author
from tests.support.builders import a_task, in_state, submit, submit_one
from windlass.autoscale.stored_state import POOL
from windlass.core.breaker import BreakerState
from windlass.core.lifecycle import State
from windlass.core.limits import Limit
from windlass.core.manifest import CronInfo, HandlerInfo, Manifest
from windlass.core.task import Change
from windlass.operations import (
    breakers,
    canary,
    crons,
    dead_letters,
    events,
    limits,
    manifest,
    nodes,
    pools,
    queues,
    tasks,
    tenants,
    tokens,
    undo,
    workflows,
)
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.bulk import BulkAction, Verb
from windlass.operations.caller import Scope
from windlass.stores.memory import MemoryStore
from windlass.stores.protocol import Filter, Store
from windlass.stores.sqlite import SQLiteStore
from windlass.stores.sqlite.database import Connection

Run = Callable[[Access, Any], object]
"""Acts on what was prepared."""

ANN = Author("ann", "because")
KINDS = ("breaker", "pool", "order", "overrides", "token", "tenant", "limit")


class Crash(Exception):
    """The process ends before the commit."""


def a_failure(store: Store) -> object:
    return in_state(store, State.FAILED)


def a_task_to_do(store: Store) -> object:
    return submit_one(store)


def a_group(store: Store) -> object:
    a_failure(store)
    [group] = store.dead_groups().groups
    return group


def a_paused_queue(store: Store) -> object:
    return queues.pause(Access(store), "mail", ANN, create=True)


def a_paused_cron(store: Store) -> object:
    return crons.pause(Access(store), "daily", ANN)


A_CRON = crons.NewCron(name="new", handler="work", schedule="every 1h")


def a_created_cron(store: Store) -> object:
    return crons.create(Access(store), A_CRON, Author("bob"))


def a_paused_pool(store: Store) -> object:
    return pools.pause(Access(store), "mail", author=ANN)


def a_node(store: Store) -> object:
    return store.open_session("box-1", about='{"pools": {"mail": {"queues": ["mail"]}}}')


def an_open_breaker(store: Store) -> object:
    return breakers.hold(Access(store), "bank", BreakerState.OPEN, author=ANN, create=True)


def a_paused_tenant(store: Store) -> object:
    return tenants.pause(Access(store), "acme", ANN, create=True)


def a_limit(store: Store) -> object:
    return limits.put(Access(store), Limit(key="k", max_running=1), ANN)


def a_change(store: Store) -> object:
    a_paused_queue(store)
    return store.audit(limit=1)[0].number


def a_token(store: Store) -> object:
    return tokens.create(Access(store), "ci", [Scope.READ], ANN)


def an_open_workflow(store: Store) -> object:
    store.open_workflow("w", sealed=False)
    return submit_one(store, workflow="w", key="first")


def a_failed_step(store: Store) -> object:
    submit(store, a_task(workflow="w", key="first"), a_task(workflow="w", key="then", prerequisites=["first"]))
    return store.cancel([task.id for task in store.find(Filter()).tasks], reason="no")


def nothing(store: Store) -> object:
    return None


def bulk_action(verb: Verb) -> Run:
    def run(access: Access, _: object) -> None:
        action = BulkAction(access, verb, Filter(handler="work"), ANN)
        assert action.count() == 1
        action.run()

    return run


def published(*names: str) -> Manifest:
    return Manifest(handlers=tuple(HandlerInfo(name=name) for name in names))


ACTIONS: dict[str, tuple[Callable[[Store], object], Run, str]] = {
    "tasks.change": (a_task_to_do, lambda access, id: tasks.change(access, id, Change(priority=4), ANN), "changed"),
    "tasks.cancel": (a_task_to_do, lambda access, id: tasks.cancel(access, id, ANN), "cancelled"),
    "tasks.retry": (a_failure, lambda access, id: tasks.retry(access, id, ANN), "retried"),
    "tasks.edit_and_retry": (a_failure, lambda access, id: tasks.edit_and_retry(access, id, {"n": 2}, ANN), "edited"),
    "bulk cancel": (a_task_to_do, bulk_action(Verb.CANCEL), "cancelled"),
    "bulk retry": (a_failure, bulk_action(Verb.RETRY), "retried"),
    "bulk purge": (a_failure, bulk_action(Verb.PURGE), "purged"),
    "queues.change": (
        nothing,
        lambda access, _: queues.change(access, "mail", {"weight": 3}, ANN, create=True),
        "configured",
    ),
    "queues.pause": (nothing, lambda access, _: queues.pause(access, "mail", ANN, create=True), "paused"),
    "queues.resume": (a_paused_queue, lambda access, _: queues.resume(access, "mail", ANN), "resumed"),
    "queues.remove": (a_paused_queue, lambda access, _: queues.remove(access, "mail", ANN), "removed"),
    "tenants.set_weight": (
        a_paused_tenant,
        lambda access, _: tenants.set_weight(access, "acme", 3, ANN),
        "weighted",
    ),
    "tenants.pause": (nothing, lambda access, _: tenants.pause(access, "acme", ANN, create=True), "paused"),
    "tenants.resume": (a_paused_tenant, lambda access, _: tenants.resume(access, "acme", ANN), "resumed"),
    "limits.put": (nothing, lambda access, _: limits.put(access, Limit(key="k", max_running=1), ANN), "limited"),
    "limits.remove": (a_limit, lambda access, _: limits.remove(access, Limit(key="k"), ANN), "removed"),
    "pools.set_size": (nothing, lambda access, _: pools.set_size(access, "mail", 3, author=ANN), "set"),
    "pools.freeze": (nothing, lambda access, _: pools.freeze(access, "mail", author=ANN), "set"),
    "pools.pause": (nothing, lambda access, _: pools.pause(access, "mail", author=ANN), "paused"),
    "pools.resume": (a_paused_pool, lambda access, _: pools.resume(access, "mail", author=ANN), "resumed"),
    "pools.tune": (nothing, lambda access, _: pools.tune(access, "mail", {"wait": 3}, author=ANN), "tuned"),
    "nodes.drain": (a_node, lambda access, _: nodes.drain(access, "box-1", author=ANN), "drained"),
    "nodes.stop": (a_node, lambda access, _: nodes.stop(access, "box-1", author=ANN), "stopped"),
    "events.set_event": (
        nothing,
        lambda access, _: events.set_event(access, "daily", "approved", True, ANN),
        "event set",
    ),
    "breakers.hold": (
        nothing,
        lambda access, _: breakers.hold(access, "bank", BreakerState.OPEN, author=ANN, create=True),
        "held",
    ),
    "breakers.close": (an_open_breaker, lambda access, _: breakers.close(access, "bank", author=ANN), "closed"),
    "breakers.remove": (an_open_breaker, lambda access, _: breakers.remove(access, "bank", author=ANN), "removed"),
    "crons.create": (nothing, lambda access, _: crons.create(access, A_CRON, ANN), "created"),
    "crons.change": (a_created_cron, lambda access, _: crons.change(access, "new", {"priority": 1}, ANN), "changed"),
    "crons.run": (nothing, lambda access, _: crons.run(access, "daily", ANN), "ran"),
    "crons.pause": (nothing, lambda access, _: crons.pause(access, "daily", ANN), "paused"),
    "crons.resume": (a_paused_cron, lambda access, _: crons.resume(access, "daily", ANN), "resumed"),
    "crons.remove": (nothing, lambda access, _: crons.remove(access, "daily", ANN), "removed"),
    "dead_letters.retry": (a_group, lambda access, group: dead_letters.retry(access, group, ANN), "retried"),
    "dead_letters.drop": (a_group, lambda access, group: dead_letters.drop(access, group, ANN), "dropped"),
    "dead_letters.edit": (a_group, lambda access, group: dead_letters.edit(access, group, {"n": 2}, ANN), "edited"),
    "canary.run_canary": (
        a_group,
        lambda access, group: canary.run_canary(access, group, 0.0, ANN, lambda _: None),
        "retried",
    ),
    "tokens.create": (nothing, lambda access, _: tokens.create(access, "ci", [Scope.READ], ANN), "created"),
    "tokens.revoke": (a_token, lambda access, _: tokens.revoke(access, "ci", ANN), "revoked"),
    "workflows.open_unsealed": (
        nothing,
        lambda access, _: workflows.open_unsealed(access, "w", [a_task(workflow="w")], ANN, tenant="default"),
        "opened",
    ),
    "workflows.seal": (an_open_workflow, lambda access, _: workflows.seal(access, "w", ANN), "sealed"),
    "workflows.retry": (a_failed_step, lambda access, _: workflows.retry(access, "w", "first", ANN), "retried"),
    "undo.undo": (a_change, lambda access, number: undo.undo(access, number, ANN), "undone"),
    "manifest.publish": (nothing, lambda access, _: manifest.publish(access, published("new"), ANN), "published"),
}


def test_every_action_is_tested() -> None:
    found = {name for name, operation in find_operations().items() if takes_author(operation)}

    assert found == {name for name in ACTIONS if not name.startswith("bulk ")}


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    store: Store = MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "tasks.db")
    with_things(store)
    yield store
    store.close()


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[SQLiteStore]:
    store = SQLiteStore(tmp_path / "tasks.db")
    with_things(store)
    yield store
    store.close()


def with_things(store: Store) -> None:
    """Publish a handler, a cron and a pool."""
    cron = CronInfo(name="daily", handler="work", schedule="0 6 * * *")
    store.publish(Manifest(handlers=(HandlerInfo(name="work"),), crons=(cron,)))
    store.put_control(POOL, "mail", "{}", expect=0)


def everything(store: Store) -> list[object]:
    """Return all that an action may change, the audit log included."""
    controls = [store.controls(kind) for kind in KINDS]
    return [store.find(Filter()).tasks, store.queues(), store.crons(), store.handlers(), controls, store.audit()]


@pytest.mark.parametrize("name", ACTIONS)
def test_an_action_writes_one_entry_with_author_and_reason(
    store: Store, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    prepare, run, action = ACTIONS[name]
    prepared = prepare(store)
    before = len(store.audit())

    def refuse(_: object) -> None:
        raise AssertionError("an entry was written after the change, in a transaction of its own")

    monkeypatch.setattr(store, "note", refuse)
    run(Access(store), prepared)

    new = store.audit()[: len(store.audit()) - before]
    assert [(entry.action, entry.by) for entry in new] == [(action, "ann")]
    assert "because" in new[0].text


@pytest.mark.parametrize("name", ACTIONS)
def test_an_action_whose_commit_fails_changes_nothing(
    sqlite: SQLiteStore, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    prepare, run, _ = ACTIONS[name]
    prepared = prepare(sqlite)
    before = everything(sqlite)
    execute = Connection.execute

    def crash(self: Connection, statement: str, *args: Any, **scalars: Any) -> None:
        execute(self, statement, *args, **scalars)
        if statement == "note" and args and args[0]:
            raise Crash

    monkeypatch.setattr(Connection, "execute", crash)
    with pytest.raises(Crash):
        run(Access(sqlite), prepared)
    monkeypatch.undo()

    assert everything(sqlite) == before
