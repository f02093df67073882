"""What people do from the command line stands in the audit log with the deed, or not at all."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cli.conftest import Windlass
from tests.support.builders import in_state, submit_one
from windlass.core.lifecycle import State
from windlass.core.task import TaskId
from windlass.errors import StoreUnavailable
from windlass.stores.protocol import Store
from windlass.stores.sql.coordination import SqlCoordination


def a_failure(store: Store) -> TaskId:
    return in_state(store, State.FAILED)


def a_bug(store: Store) -> str:
    a_failure(store)
    [found] = store.dead_groups().groups
    return found.id


ACTS: list[tuple[Callable[[Store], object], str, str]] = [
    (submit_one, "tasks edit {} --priority 4", "changed"),
    (submit_one, "tasks cancel {}", "cancelled"),
    (submit_one, "tasks cancel handler:work --yes", "cancelled"),
    (a_failure, "tasks retry {}", "retried"),
    (a_failure, "tasks purge handler:work --yes", "purged"),
    (a_bug, "dead retry {} --yes", "retried"),
    (a_bug, "dead drop {} --yes", "dropped"),
    (lambda store: None, "queues pause mail --why down", "paused"),
    (lambda store: None, "queues set mail --weight 3", "configured"),
    (lambda store: None, "cron pause nightly", "paused"),
]


@pytest.mark.parametrize(
    ("prepare", "command", "action"),
    ACTS,
    ids=[" ".join(part for part in act if isinstance(part, str)) for act in ACTS],
)
def test_a_deed_is_written_down_in_the_same_stroke_and_only_if_it_is_one(
    windlass: Windlass,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    prepare: Callable[[Store], object],
    command: str,
    action: str,
) -> None:
    def refuse(*_: object) -> None:
        raise StoreUnavailable("nothing can be written down afterwards")

    monkeypatch.setattr(SqlCoordination, "note", refuse)
    words = [*command.format(prepare(store)).split(), "--by", "ann"]

    done = windlass(*words)
    told = [(entry.action, entry.by) for entry in store.audit()]
    windlass(*words)

    assert done.exit_code == 0, done.output
    assert told == [(action, "ann")]
    assert len(store.audit()) == 1


def test_a_reason_that_cannot_be_written_down_stops_the_deed(windlass: Windlass, store: Store) -> None:
    refused = windlass("queues", "pause", "mail", "--why", "x" * 3_000)

    assert (refused.exit_code, store.queues(), store.audit()) == (2, [], [])
