"""The bulk verbs: show the count, ask, then change the tasks."""

from __future__ import annotations

from typing import Any

import click
import pytest

from tests.cli.conftest import Windlass, read
from tests.support.builders import in_state, state_of, submit_one
from windlass.cli import options
from windlass.core.lifecycle import State
from windlass.core.task import TaskId
from windlass.stores.protocol import Filter, Store
from windlass.stores.totals import Total


@pytest.fixture
def two(store: Store) -> list[TaskId]:
    return [submit_one(store, queue="mail"), submit_one(store, queue="mail")]


def test_without_a_terminal_yes_is_required(windlass: Windlass, store: Store, two: list[TaskId]) -> None:
    result = windlass("tasks", "cancel", "queue:mail")

    assert (result.exit_code, result.stdout) == (2, "")
    assert "This would cancel 2 tasks. Add --yes to do it" in result.stderr
    assert [state_of(store, id) for id in two] == [State.RUNNABLE] * 2


def test_a_dry_run_only_counts(windlass: Windlass, store: Store, two: list[TaskId]) -> None:
    result = windlass("tasks", "cancel", "--queue", "mail", "--dry-run")
    document = read(windlass("tasks", "cancel", "--queue", "mail", "--dry-run", "--json"))

    assert (result.exit_code, result.stderr) == (0, "Would cancel 2 tasks. Nothing was done.\n")
    assert document == {"done": 0, "total": 2}
    assert [state_of(store, id) for id in two] == [State.RUNNABLE] * 2


def test_with_yes_the_change_is_made_and_audited(windlass: Windlass, store: Store, two: list[TaskId]) -> None:
    result = windlass("tasks", "cancel", "queue:mail", "--yes", "--why", "wrong list", "--by", "ann")

    assert (result.exit_code, result.stdout) == (0, "Cancelled 2 tasks.\n")
    [entry] = store.audit("tasks")
    assert (entry.action, entry.text, entry.by) == (
        "cancelled",
        "cancelled 2 tasks that matched 'queue:mail': wrong list",
        "ann",
    )
    assert '"query":"queue:mail"' in entry.data


@pytest.mark.parametrize(("answer", "state"), [(True, State.CANCELLED), (False, State.RUNNABLE)])
def test_a_terminal_gets_a_question(
    monkeypatch: pytest.MonkeyPatch, windlass: Windlass, store: Store, two: list[TaskId], answer: bool, state: State
) -> None:
    asked: list[str] = []

    def confirm(question: str, **_: Any) -> bool:
        asked.append(question)
        return answer

    monkeypatch.setattr(options, "is_interactive", lambda: True)
    monkeypatch.setattr(click, "confirm", confirm)
    windlass("tasks", "cancel", "queue:mail")

    assert asked == ["Cancel 2 tasks?"]
    assert {state_of(store, id) for id in two} == {state}


def test_tasks_named_by_id_need_no_question(windlass: Windlass, store: Store, two: list[TaskId]) -> None:
    cancelled = windlass("tasks", "cancel", *map(str, two))
    retried = windlass("tasks", "retry", str(two[0]))
    purged = windlass("tasks", "purge", *map(str, two))

    assert (cancelled.stdout, retried.stdout) == ("Cancelled 2 tasks.\n", "Retried 1 task.\n")
    assert purged.stdout == "Purged 1 task.\n"
    assert [task and task.state for task in store.get(two)] == [State.RUNNABLE, None]


def test_each_verb_affects_only_tasks_in_its_states(windlass: Windlass, store: Store) -> None:
    failed = in_state(store, State.FAILED)
    done = in_state(store, State.COMPLETED)
    open_ = submit_one(store)

    def matching(verb: str, *words: str) -> int:
        return read(windlass("tasks", verb, "handler:work", *words, "--dry-run", "--json"))["total"]

    assert [matching(verb) for verb in ("cancel", "retry", "purge")] == [1, 1, 2]
    assert matching("purge", "--state", "failed") == 1
    assert matching("cancel", "--state", "failed") == 0
    windlass("tasks", "purge", "handler:work", "--yes")
    assert [task is None for task in store.get([failed, done, open_])] == [True, True, False]


def test_an_empty_filter_is_refused(windlass: Windlass, store: Store, two: list[TaskId]) -> None:
    assert windlass("tasks", "purge", "--yes").exit_code == 2
    assert windlass("tasks", "cancel", "oops", "--yes").exit_code == 2
    assert len(store.find(Filter(states=frozenset({State.RUNNABLE}))).tasks) == 2


def test_an_inexact_count_is_a_lower_bound(
    monkeypatch: pytest.MonkeyPatch, windlass: Windlass, store: Store, two: list[TaskId]
) -> None:
    monkeypatch.setattr("windlass.stores.sql.store.SqlStore.count", lambda *_: Total(0, exact=False))

    refused = windlass("tasks", "cancel", "queue:mail")
    done = windlass("tasks", "cancel", "queue:mail", "--yes")

    assert "This would cancel at least 0 tasks. Add --yes" in refused.stderr
    assert done.stdout == "Cancelled 2 tasks.\n"
    assert {state_of(store, id) for id in two} == {State.CANCELLED}


def test_raising_the_epoch_asks_first(windlass: Windlass, store: Store) -> None:
    refused = windlass("db", "raise-epoch")
    rehearsed = windlass("db", "raise-epoch", "--dry-run")

    assert (refused.exit_code, "--yes" in refused.stderr) == (2, True)
    assert (rehearsed.exit_code, rehearsed.stdout) == (0, "")
    assert windlass("db", "raise-epoch", "--yes").stdout == "1\n"
