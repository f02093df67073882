"""Every change from the command line is written in one transaction with its audit entry."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cli.conftest import Windlass
from tests.support.builders import GAVE_UP, a_session, claim_one, in_state, report, submit_one
from windlass.core.lifecycle import State
from windlass.core.task import SessionId, TaskId
from windlass.core.worker_list import WorkerList, WorkerProcess, encode_workers
from windlass.errors import StoreUnavailable
from windlass.stores.protocol import Store
from windlass.stores.sql.coordination import SqlCoordination


def fail_task(store: Store) -> TaskId:
    return in_state(store, State.FAILED)


def fail_group(store: Store) -> str:
    fail_task(store)
    [found] = store.dead_groups().groups
    return found.id


def fail_mail(store: Store) -> TaskId:
    id = submit_one(store, handler="mail", args={"to": "ann"})
    report(store, claim_one(store), GAVE_UP)
    return id


def run_node(store: Store) -> SessionId:
    """Open a node with one worker."""
    session = a_session(store, about='{"pools": {"mail": {"queues": ["mail"]}}}')
    worker = WorkerProcess(number=1, pool="mail", state="idle", since=0)
    store.renew(session, workers=encode_workers(WorkerList(workers=(worker,))))
    return session


CHANGES: list[tuple[Callable[[Store], object], str, str]] = [
    (submit_one, "tasks edit {} --priority 4", "changed"),
    (submit_one, "tasks cancel {}", "cancelled"),
    (submit_one, "tasks cancel handler:work --yes", "cancelled"),
    (fail_task, "tasks retry {}", "retried"),
    (fail_task, "tasks purge handler:work --yes", "purged"),
    (fail_group, "dead retry {} --yes", "retried"),
    (fail_group, "dead drop {} --yes", "dropped"),
    (lambda store: None, "queues pause mail --why down", "paused"),
    (lambda store: None, "queues set mail --weight 3", "configured"),
    (lambda store: None, "tenants weight acme 3 --create", "weighted"),
    (lambda store: None, "tenants pause acme --why noisy --create", "paused"),
    (lambda store: None, "limits set --limit-key customer:7 --max-running 1", "limited"),
    (lambda store: None, "cron pause nightly", "paused"),
    (fail_mail, "dead edit {} copies:=2", "edited"),
    (run_node, "workers drain {} 1 --why leaks", "drained"),
    (run_node, "workers stop {} --whole-node", "stopped"),
    (lambda store: None, "token create ci --scope read", "created"),
]


@pytest.mark.parametrize(
    ("prepare", "command", "action"),
    CHANGES,
    ids=[" ".join(part for part in change if isinstance(part, str)) for change in CHANGES],
)
def test_a_change_and_its_audit_entry_are_written_together(
    windlass: Windlass,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    prepare: Callable[[Store], object],
    command: str,
    action: str,
) -> None:
    def refuse(*_: object) -> None:
        raise StoreUnavailable("a later write fails")

    monkeypatch.setattr(SqlCoordination, "note", refuse)
    words = [*command.format(prepare(store)).split(), "--by", "ann"]

    done = windlass(*words)
    entries = [(entry.action, entry.by) for entry in store.audit()]
    windlass(*words)

    assert done.exit_code == 0, done.output
    assert entries == [(action, "ann")]
    assert len(store.audit()) == 1


@pytest.mark.parametrize(
    ("command", "action"),
    [("cron run nightly", "ran"), ("breaker open bank --create", "held"), ("db raise-epoch --yes", "raised")],
)
def test_every_run_of_a_repeatable_change_is_audited(
    windlass: Windlass, store: Store, command: str, action: str
) -> None:
    for number in (1, 2):
        assert windlass(*command.split(), "--by", "ann", "--why", "a test").exit_code == 0
        entries = [(entry.action, entry.by, "a test" in entry.text) for entry in store.audit()]

        assert entries == [(action, "ann", True)] * number


def test_the_epoch_is_audited_without_a_later_write(
    windlass: Windlass, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(SqlCoordination, "note")

    assert windlass("db", "raise-epoch", "--yes").exit_code == 0
    assert [entry.action for entry in store.audit()] == ["raised"]


def test_a_reason_that_is_too_long_prevents_the_change(windlass: Windlass, store: Store) -> None:
    refused = windlass("queues", "pause", "mail", "--why", "x" * 3_000)

    assert (refused.exit_code, store.queues(), store.audit()) == (2, [], [])
