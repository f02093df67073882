"""The verbs for many tasks: the number first, then the question, then the deed."""

from __future__ import annotations

from typing import Any

import click
import pytest

from tests.cli.conftest import Windlass, read
from tests.support.builders import in_state, state_of, submit_one
from windlass.cli import bulk
from windlass.core.lifecycle import State
from windlass.core.task import TaskId
from windlass.stores.protocol import Filter, Store


@pytest.fixture
def two(store: Store) -> list[TaskId]:
    return [submit_one(store, queue="mail"), submit_one(store, queue="mail")]


def test_without_a_terminal_nothing_is_done_unless_it_is_said(
    windlass: Windlass, store: Store, two: list[TaskId]
) -> None:
    said = windlass("tasks", "cancel", "queue:mail")

    assert (said.exit_code, said.stdout) == (2, "")
    assert "would cancel 2 tasks: say --yes to do it" in said.stderr
    assert [state_of(store, id) for id in two] == [State.RUNNABLE] * 2


def test_a_dry_run_says_the_number_and_does_nothing(windlass: Windlass, store: Store, two: list[TaskId]) -> None:
    said = windlass("tasks", "cancel", "--queue", "mail", "--dry-run")
    programs = read(windlass("tasks", "cancel", "--queue", "mail", "--dry-run", "--json"))

    assert (said.exit_code, said.stderr) == (0, "would cancel 2 tasks; nothing was done\n")
    assert programs == {"cancelled": 0, "matching": 2}
    assert [state_of(store, id) for id in two] == [State.RUNNABLE] * 2


def test_with_yes_it_is_done_and_written_down(windlass: Windlass, store: Store, two: list[TaskId]) -> None:
    said = windlass("tasks", "cancel", "queue:mail", "--yes", "--reason", "wrong list", "--by", "ann")

    assert (said.exit_code, said.stdout) == (0, "cancelled 2 tasks\n")
    [entry] = store.audit("tasks")
    assert (entry.action, entry.text, entry.by) == ("cancelled", "cancelled what matched, 2 tasks: wrong list", "ann")
    assert '"query":"queue:mail"' in entry.data


@pytest.mark.parametrize(("answer", "state"), [(True, State.CANCELLED), (False, State.RUNNABLE)])
def test_on_a_terminal_it_asks(
    monkeypatch: pytest.MonkeyPatch, windlass: Windlass, store: Store, two: list[TaskId], answer: bool, state: State
) -> None:
    asked: list[str] = []

    def confirm(question: str, **_: Any) -> bool:
        asked.append(question)
        return answer

    monkeypatch.setattr(bulk, "is_attended", lambda: True)
    monkeypatch.setattr(click, "confirm", confirm)
    windlass("tasks", "cancel", "queue:mail")

    assert asked == ["cancel 2 tasks?"]
    assert {state_of(store, id) for id in two} == {state}


def test_tasks_named_one_by_one_need_no_question(windlass: Windlass, store: Store, two: list[TaskId]) -> None:
    cancelled = windlass("tasks", "cancel", *map(str, two))
    retried = windlass("tasks", "retry", str(two[0]))
    purged = windlass("tasks", "purge", *map(str, two))

    assert (cancelled.stdout, retried.stdout) == ("cancelled 2 tasks\n", "retried 1 task\n")
    assert purged.stdout == "purged 1 task\n"
    assert [task and task.state for task in store.get(two)] == [State.RUNNABLE, None]


def test_each_verb_takes_only_the_tasks_to_which_it_can_be_done(windlass: Windlass, store: Store) -> None:
    failed = in_state(store, State.FAILED)
    done = in_state(store, State.COMPLETED)
    open_ = submit_one(store)

    def matching(verb: str, *words: str) -> int:
        return read(windlass("tasks", verb, "handler:work", *words, "--dry-run", "--json"))["matching"]

    assert [matching(verb) for verb in ("cancel", "retry", "purge")] == [1, 1, 2]
    assert matching("purge", "--state", "failed") == 1
    assert matching("cancel", "--state", "failed") == 0
    windlass("tasks", "purge", "handler:work", "--yes")
    assert [task is None for task in store.get([failed, done, open_])] == [True, True, False]


def test_a_filter_never_means_everything_by_mistake(windlass: Windlass, store: Store, two: list[TaskId]) -> None:
    assert windlass("tasks", "purge", "--yes").exit_code == 2
    assert windlass("tasks", "cancel", "oops", "--yes").exit_code == 2
    assert len(store.find(Filter(states=frozenset({State.RUNNABLE}))).tasks) == 2


def test_a_count_is_bounded(monkeypatch: pytest.MonkeyPatch, windlass: Windlass, two: list[TaskId]) -> None:
    monkeypatch.setattr(bulk, "MOST_COUNTED", 1)

    assert "would cancel more than 1 task;" in windlass("tasks", "cancel", "queue:mail", "--dry-run").stderr
