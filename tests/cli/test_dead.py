"""`windlass dead`: bugs first, tasks second."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from tests.cli.conftest import Windlass, lines, read
from tests.support.builders import HOUR, a_session, claim_one, report, state_of, submit_one, task_of
from windlass.clock import ManualClock
from windlass.core.fingerprint import fingerprint
from windlass.core.lifecycle import State
from windlass.core.retry import Error
from windlass.core.settlement import Outcome, Raised, Returned
from windlass.core.task import TaskId
from windlass.operations import legacy_canary as canary
from windlass.stores.protocol import Store

BUG = Error(kind="ZeroDivisionError", message="division of 7 by zero", traceback='File "shop/bill.py", line 4, in pay')
GONE = Error(kind="KeyError", message="'total'")
FIRST, SECOND = fingerprint(BUG), fingerprint(GONE)


def fail(store: Store, error: Error = BUG, **task: Any) -> TaskId:
    """A task that has failed with this error."""
    id = submit_one(store, **{"handler": "mail", "args": {"to": "ann", "copies": 0}, **task})
    claim = claim_one(store, queue=task.get("queue", "default"))
    assert claim.task.id == id
    report(store, claim, Raised(error, give_up=True))
    return id


@pytest.fixture
def works(store: Store, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Lets tasks run whenever the command sleeps: with these outcomes, then well."""
    session = a_session(store)

    def arrange(*outcomes: Outcome) -> None:
        left = list(outcomes)

        def work(_: float) -> None:
            for claim in store.claim(session, ["default"], 100):
                report(store, claim, left.pop(0) if left else Returned())

        monkeypatch.setattr(canary, "sleep", work)

    return arrange


def test_failed_tasks_are_grouped_by_bug(windlass: Windlass, store: Store, clock: ManualClock) -> None:
    fail(store, tenant="acme")
    clock.advance(2 * HOUR)
    fail(store, Error(kind=BUG.kind, message="division of 12 by zero", traceback=BUG.traceback), tenant="beta")
    fail(store, GONE)

    assert windlass("dead", "ls").stdout.splitlines() == [
        "group     tasks  error                                      handler  tenants     first                      "
        "last",
        f"{FIRST}      2  ZeroDivisionError: division of 12 by zero  mail     acme, beta  13:00:00 +01:00 · 2 h ago"
        "  15:00:00 +01:00 · now",
        f"{SECOND}      1  KeyError: 'total'                          mail     default     15:00:00 +01:00 · now      "
        "15:00:00 +01:00 · now",
    ]
    first, _ = lines(windlass("dead", "ls", "--jsonl"))
    assert (first["group"], first["count"], first["tenants"]) == (FIRST, 2, ["acme", "beta"])
    assert [each["group"] for each in read(windlass("dead", "ls", "--tenant", "default", "--json"))] == [SECOND]


def test_nothing_failed_is_said_on_standard_error(windlass: Windlass) -> None:
    assert windlass("dead", "ls").stderr == "nothing is failed\n"


def test_a_bug_is_shown_with_its_traceback_and_tasks(windlass: Windlass, store: Store) -> None:
    id = fail(store, args={"to": "ann", "password": "hunter2"})

    said = windlass("dead", "show", FIRST[:4]).stdout

    assert said.startswith(f"{FIRST}  ZeroDivisionError: division of 7 by zero  (1 task)\n  File")
    assert str(id) in said
    assert "hunter2" not in said
    assert read(windlass("dead", "show", FIRST, "--json"))["tasks"] == [str(id)]


def test_a_group_that_is_not_there_is_refused(windlass: Windlass, store: Store) -> None:
    fail(store)

    said = windlass("dead", "retry", "0", "--yes")

    assert (said.exit_code, FIRST in said.stderr) == (4, True)


def test_a_bug_is_retried_as_a_whole_and_no_other(windlass: Windlass, store: Store) -> None:
    mine, other = [fail(store), fail(store)], fail(store, GONE)

    refused = windlass("dead", "retry", FIRST)
    tried = read(windlass("dead", "retry", FIRST, "--dry-run", "--json"))
    done = windlass("dead", "retry", FIRST, "--yes", "--by", "ann")

    assert (refused.exit_code, tried["matching"], tried["retried"]) == (2, 2, 0)
    assert done.stdout == "retried 2 tasks\n"
    assert [state_of(store, id) for id in mine] == [State.RUNNABLE] * 2
    assert state_of(store, other) is State.FAILED
    assert [entry.by for entry in store.audit(f"dead/{FIRST}")] == ["ann"]


def test_a_canary_that_lives_lets_all_others_follow(
    windlass: Windlass, store: Store, works: Callable[..., None]
) -> None:
    ids = [fail(store) for _ in range(14)]
    works()

    said = windlass("dead", "retry", FIRST, "--canary", "--yes")

    assert (said.exit_code, said.stdout) == (0, "retried 14 tasks; it is fixed: the other 3 were retried too\n")
    states = [state_of(store, id) for id in ids]
    assert (states.count(State.COMPLETED), states.count(State.RUNNABLE)) == (11, 3)
    assert "retried 1, 13 wait" in said.stderr


def test_a_canary_that_meets_the_same_bug_stops_the_rest(
    windlass: Windlass, store: Store, works: Callable[..., None]
) -> None:
    ids = [fail(store) for _ in range(5)]
    works(Raised(BUG, give_up=True))

    said = windlass("dead", "retry", FIRST, "--canary", "--yes")

    assert said.exit_code == 1
    assert "the same bug is back" in said.stdout
    assert "4 were not retried" in said.stdout
    assert [task_of(store, id).generation for id in ids].count(0) == 4


def test_a_canary_that_waits_for_its_next_attempt_after_the_same_bug_stops_the_rest(
    windlass: Windlass, store: Store, works: Callable[..., None]
) -> None:
    ids = [fail(store) for _ in range(3)]
    works(Returned(), Raised(BUG))

    said = windlass("dead", "retry", FIRST, "--canary", "--yes")

    assert (said.exit_code, "the same bug is back" in said.stdout) == (1, True)
    assert sorted(state_of(store, id) for id in ids) == [State.COMPLETED, State.COMPLETED, State.RETRYING]


def test_a_canary_that_meets_another_bug_stops_too_and_says_so(
    windlass: Windlass, store: Store, works: Callable[..., None]
) -> None:
    fail(store)
    fail(store)
    works(Raised(GONE, give_up=True))

    said = windlass("dead", "retry", FIRST, "--canary", "--yes")

    assert (said.exit_code, "another trouble" in said.stdout) == (1, True)


def test_a_canary_that_does_not_end_is_not_waited_for_without_end(windlass: Windlass, store: Store) -> None:
    fail(store)

    said = windlass("dead", "retry", FIRST, "--canary", "--yes", "--patience", "0s")

    assert (said.exit_code, "not all of them have ended within 0s" in said.stdout) == (1, True)


def test_a_task_is_edited_into_a_new_one_and_kept(windlass: Windlass, store: Store) -> None:
    old = fail(store, priority=4, tenant="acme", key="k")

    first = windlass("dead", "edit", str(old), "copies:=1", "--by", "ann")
    again = windlass("dead", "edit", str(old), "copies:=1")

    new = task_of(store, TaskId(UUID(first.stdout.strip())))
    assert (new.args, new.priority, new.tenant) == ('{"to":"ann","copies":1}', 4, "acme")
    assert (new.state, state_of(store, old)) == (State.RUNNABLE, State.FAILED)
    assert first.stdout == again.stdout
    assert "nothing was made twice" in again.stderr
    [entry] = store.audit(f"task/{old}")
    assert (entry.by, str(new.id) in entry.text, str(new.id) in entry.data) == ("ann", True, True)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("copies=1", "args.copies='1' is not integer"),
        ("copies:=true", "args.copies=True is not integer"),
        ("to:=1", "args.to=1 is not string"),
        ("copies", "'copies'"),
    ],
)
def test_an_edit_that_its_handler_would_not_take_is_refused(
    windlass: Windlass, store: Store, change: str, named: str
) -> None:
    old = fail(store)

    said = windlass("dead", "edit", str(old), change)

    assert (said.exit_code, named in said.stderr) == (2, True), said.output


def test_a_task_that_did_not_fail_is_not_edited(windlass: Windlass, store: Store) -> None:
    assert windlass("dead", "edit", str(submit_one(store)), "a=b").exit_code == 5


def test_a_bug_is_dropped_with_its_tasks(windlass: Windlass, store: Store) -> None:
    mine, other = fail(store), fail(store, GONE)

    refused = windlass("dead", "drop", FIRST)
    done = windlass("dead", "drop", FIRST, "--yes")

    assert (refused.exit_code, done.stdout) == (2, "dropped 1 task\n")
    assert [task is None for task in store.get([mine, other])] == [True, False]
