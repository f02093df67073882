"""Names that nothing uses are refused, and what nobody needs any more is removed."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Windlass, read
from tests.support.builders import a_session, submit_one
from windlass.core.manifest import HandlerInfo, Manifest
from windlass.stores.protocol import Store

UNKNOWN = "018f0000-0000-7000-8000-000000000000"


@pytest.mark.parametrize("command", ["queues pause mial", "queues set mial --weight 2", "breaker open bnak"])
def test_a_name_that_nothing_uses_needs_create(windlass: Windlass, store: Store, command: str) -> None:
    refused = windlass(*command.split())

    assert refused.exit_code == 4
    assert "--create" in refused.stderr
    assert (store.queues(), store.controls("breaker")) == ([], [])
    assert windlass(*command.split(), "--create").exit_code == 0


@pytest.mark.parametrize(
    "command",
    ["queues resume mial", "breaker close bnak", f"tasks cancel {UNKNOWN}", f"tasks purge {UNKNOWN}"],
)
def test_an_unknown_name_has_exit_status_4_and_nothing_is_written(
    windlass: Windlass, store: Store, command: str
) -> None:
    refused = windlass(*command.split())

    assert (refused.exit_code, refused.stdout) == (4, "")
    assert command.rsplit(maxsplit=1)[-1] in refused.stderr
    assert (store.queues(), store.controls("breaker"), store.audit()) == ([], [], [])


def test_a_queue_of_a_task_a_handler_or_a_live_node_is_known(windlass: Windlass, store: Store) -> None:
    submit_one(store, queue="of-a-task")
    a_session(store, "box-1", about=json.dumps({"queues": ["of-a-node"]}))

    for name in ("of-a-task", "of-a-node", "mail"):  # The handler `mail` has the queue `mail`.
        assert windlass("queues", "pause", name).exit_code == 0, name


def test_a_downstream_that_a_handler_names_is_known(windlass: Windlass, store: Store) -> None:
    handler = HandlerInfo(name="pay", template='{"downstream": "bank"}')
    store.publish(Manifest(handlers=(handler,)))

    assert windlass("breaker", "open", "bank").exit_code == 0


def test_queues_crons_and_breakers_are_removed(windlass: Windlass, store: Store) -> None:
    windlass("queues", "pause", "mail")
    windlass("breaker", "open", "bank", "--create")

    for command in ("queues rm mail", "cron rm nightly", "breaker rm bank"):
        assert windlass(*command.split(), "--why", "gone").exit_code == 0, command

    assert (store.queues(), store.crons(), store.controls("breaker")) == ([], [], [])
    assert [entry.action for entry in store.audit()][:3] == ["removed"] * 3
    assert windlass("cron", "rm", "nightly").exit_code == 4
    assert windlass("breaker", "rm", "bank").exit_code == 4


def test_a_queue_with_unfinished_tasks_is_kept(windlass: Windlass, store: Store) -> None:
    submit_one(store, queue="mail")

    refused = windlass("queues", "rm", "mail")

    assert (refused.exit_code, "1 unfinished task" in refused.stderr) == (5, True)


def test_a_cron_that_no_live_node_has_is_shown_as_such(windlass: Windlass, store: Store) -> None:
    unknown = read(windlass("cron", "ls", "--json"))[0]
    a_session(store, "box-1", about=json.dumps({"queues": ["mail"], "crons": ["other"]}))

    [gone] = read(windlass("cron", "ls", "--json"))
    table = windlass("cron", "ls").stdout
    a_session(store, "box-2", about=json.dumps({"queues": ["mail"], "crons": ["nightly"]}))
    [there] = read(windlass("cron", "ls", "--json"))

    assert (unknown["in_code"], unknown["next"] is None) == (None, False)
    assert (gone["in_code"], gone["next"]) == (False, None)
    assert "not in the code of any live node" in table
    assert (there["in_code"], there["next"] is None) == (True, False)
