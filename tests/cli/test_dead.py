"""`windlass dead`."""

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
from windlass.operations import canary, dead_letters
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.stores.protocol import Store

BUG = Error(kind="ZeroDivisionError", message="division of 7 by zero", traceback='File "shop/bill.py", line 4, in pay')
GONE = Error(kind="KeyError", message="'total'")
FIRST, SECOND = fingerprint(BUG), fingerprint(GONE)


def fail(store: Store, error: Error = BUG, **task: Any) -> TaskId:
    """Submit a task and fail it with this error."""
    id = submit_one(store, **{"handler": "mail", "args": {"to": "ann", "copies": 0}, **task})
    claim = claim_one(store, queue=task.get("queue", "default"))
    assert claim.id == id
    report(store, claim, Raised(error, give_up=True))
    return id


@pytest.fixture
def run_tasks(store: Store, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Runs tasks whenever the command sleeps: first with these outcomes, then successfully."""
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


def test_without_failed_tasks_a_note_goes_to_standard_error(windlass: Windlass) -> None:
    assert windlass("dead", "ls").stderr == "No task has failed.\n"


def test_a_bug_is_shown_with_its_traceback_and_tasks(windlass: Windlass, store: Store) -> None:
    id = fail(store, args={"to": "ann", "password": "hunter2"})

    output = windlass("dead", "show", FIRST[:4]).stdout

    assert output.startswith(f"{FIRST}  ZeroDivisionError: division of 7 by zero  (1 task)\n  File")
    assert str(id) in output
    assert "hunter2" not in output
    assert read(windlass("dead", "show", FIRST, "--json"))["tasks"] == [str(id)]


def test_an_unknown_group_is_refused(windlass: Windlass, store: Store) -> None:
    fail(store)

    result = windlass("dead", "retry", "0", "--yes")

    assert (result.exit_code, FIRST in result.stderr) == (4, True)


def test_a_retry_covers_all_tasks_of_a_bug_and_no_other(windlass: Windlass, store: Store) -> None:
    mine, other = [fail(store), fail(store)], fail(store, GONE)

    refused = windlass("dead", "retry", FIRST)
    tried = read(windlass("dead", "retry", FIRST, "--dry-run", "--json"))
    done = windlass("dead", "retry", FIRST, "--yes", "--by", "ann")

    assert (refused.exit_code, tried["left"], tried["retried"]) == (2, 2, 0)
    assert done.stdout == "Retried 2 tasks.\n"
    assert [state_of(store, id) for id in mine] == [State.RUNNABLE] * 2
    assert state_of(store, other) is State.FAILED
    assert [entry.by for entry in store.audit(f"dead/{FIRST}")] == ["ann"]


def test_a_successful_canary_retries_all_tasks(
    windlass: Windlass, store: Store, run_tasks: Callable[..., None]
) -> None:
    ids = [fail(store) for _ in range(14)]
    run_tasks()

    result = windlass("dead", "retry", FIRST, "--canary", "--yes")

    assert (result.exit_code, result.stdout) == (0, "Retried 14 tasks; fixed: retried the other 3 too.\n")
    states = [state_of(store, id) for id in ids]
    assert (states.count(State.COMPLETED), states.count(State.RUNNABLE)) == (11, 3)
    assert "retried 1; 13 wait" in result.stderr
    assert [entry.text for entry in store.audit(f"dead/{FIRST}")] == [
        f"retried {FIRST} with a canary, {number}" for number in ("3 tasks", "10 tasks", "1 task")
    ]


def test_a_canary_stops_at_the_same_bug(windlass: Windlass, store: Store, run_tasks: Callable[..., None]) -> None:
    ids = [fail(store) for _ in range(5)]
    run_tasks(Raised(BUG, give_up=True))

    result = windlass("dead", "retry", FIRST, "--canary", "--yes")

    assert result.exit_code == 1
    assert "the same bug is back" in result.stdout
    assert "4 were not retried" in result.stdout
    assert [entry.text for entry in store.audit()] == [f"retried {FIRST} with a canary, 1 task"]
    assert [task_of(store, id).generation for id in ids].count(0) == 4


def test_a_canary_stops_when_a_task_waits_for_a_retry_after_the_same_bug(
    windlass: Windlass, store: Store, run_tasks: Callable[..., None]
) -> None:
    ids = [fail(store) for _ in range(3)]
    run_tasks(Returned(), Raised(BUG))

    result = windlass("dead", "retry", FIRST, "--canary", "--yes")

    assert (result.exit_code, "the same bug is back" in result.stdout) == (1, True)
    assert sorted(state_of(store, id) for id in ids) == [State.COMPLETED, State.COMPLETED, State.RETRYING]


def test_a_canary_stops_at_another_bug(windlass: Windlass, store: Store, run_tasks: Callable[..., None]) -> None:
    fail(store)
    fail(store)
    run_tasks(Raised(GONE, give_up=True))

    result = windlass("dead", "retry", FIRST, "--canary", "--yes")

    assert (result.exit_code, "another problem" in result.stdout) == (1, True)


def test_a_canary_skips_a_task_that_somebody_else_retried(store: Store) -> None:
    for _ in range(3):
        fail(store)
    access = Access(store)
    newest, second, _ = dead_letters.get_ids(access, dead_letters.get(access, FIRST))
    trial = canary.Canary(access, dead_letters.get(access, FIRST), 60.0, Author("ann"))
    store.retry([newest])

    first = trial.step()

    assert first is not None
    assert (first.retried, first.left, task_of(store, second).generation) == (1, 1, 1)


def test_a_canary_of_tasks_that_are_gone_proves_nothing(store: Store) -> None:
    id, access = fail(store), Access(store)
    trial = canary.Canary(access, dead_letters.get(access, FIRST), 60.0, Author("ann"))
    store.purge([id])

    trial.step()
    verdict = trial.step()

    assert verdict is not None
    assert (verdict.retried, verdict.fixed, trial.ended) == (0, False, True)


def test_a_canary_step_has_a_time_limit(windlass: Windlass, store: Store) -> None:
    fail(store)

    result = windlass("dead", "retry", FIRST, "--canary", "--yes", "--patience", "0s")

    assert (result.exit_code, "not all of them ended within 0s" in result.stdout) == (1, True)


def test_an_edit_submits_a_new_task_and_keeps_the_old_one(windlass: Windlass, store: Store) -> None:
    old = fail(store, priority=4, tenant="acme", key="k")

    first = windlass("dead", "edit", str(old)[-8:], "copies:=1", "--by", "ann")
    again = windlass("dead", "edit", str(old), "copies:=1")

    new = task_of(store, TaskId(UUID(first.stdout.strip())))
    assert (new.args, new.priority, new.tenant) == ('{"to":"ann","copies":1}', 4, "acme")
    assert (new.state, state_of(store, old)) == (State.RUNNABLE, State.FAILED)
    assert first.stdout == again.stdout
    assert "No second task was created" in again.stderr
    [entry] = store.audit(f"task/{old}")
    assert (entry.by, str(new.id) in entry.text, str(new.id) in entry.data) == ("ann", True, True)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("copies=1", "copies='1' is not an integer"),
        ("copies:=true", "copies=True is not an integer"),
        ("to:=1", "to=1 is not text"),
        ("copies", "'copies'"),
    ],
)
def test_an_edit_that_does_not_fit_the_handler_is_refused(
    windlass: Windlass, store: Store, change: str, named: str
) -> None:
    old = fail(store)

    result = windlass("dead", "edit", str(old), change)

    assert (result.exit_code, named in result.stderr) == (2, True), result.output


def test_a_task_that_did_not_fail_cannot_be_edited(windlass: Windlass, store: Store) -> None:
    assert windlass("dead", "edit", str(submit_one(store)), "a=b").exit_code == 5


def test_drop_deletes_the_tasks_of_a_bug(windlass: Windlass, store: Store) -> None:
    mine, other = fail(store), fail(store, GONE)

    refused = windlass("dead", "drop", FIRST)
    done = windlass("dead", "drop", FIRST, "--yes")

    assert (refused.exit_code, done.stdout) == (2, "Dropped 1 task.\n")
    assert [task is None for task in store.get([mine, other])] == [True, False]


def test_each_batch_of_a_drop_is_one_audit_entry(
    windlass: Windlass, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "PAGE", 2)
    for _ in range(3):
        fail(store)

    assert windlass("dead", "drop", FIRST, "--yes").stdout == "Dropped 3 tasks.\n"
    assert [entry.text for entry in store.audit()] == [f"dropped {FIRST}, 1 task", f"dropped {FIRST}, 2 tasks"]


def test_an_unknown_group_is_refused_when_no_task_has_failed(windlass: Windlass) -> None:
    result = windlass("dead", "show", "abcd")

    assert (result.exit_code, result.stderr) == (4, "windlass: group='abcd' is unknown. No task has failed.\n")


@pytest.mark.parametrize("flags", [[], ["--canary", "--patience", "1m"]])
def test_a_retry_revives_the_steps_that_were_cancelled_because_of_the_failed_one(
    windlass: Windlass, store: Store, run_tasks: Callable[..., None], flags: list[str]
) -> None:
    failed = submit_one(store, handler="mail", args={"to": "ann"}, workflow="w", key="first")
    then = submit_one(store, handler="mail", args={"to": "ann"}, workflow="w", key="then", prerequisites=("first",))
    report(store, claim_one(store), Raised(BUG, give_up=True))
    assert state_of(store, then) is State.CANCELLED
    run_tasks()

    done = windlass("dead", "retry", FIRST, "--yes", *flags)

    assert done.exit_code == 0, done.output
    if not flags:
        assert done.stdout == "Retried 2 tasks, 1 of them cancelled because of the others.\n"
        assert (state_of(store, failed), state_of(store, then)) == (State.RUNNABLE, State.WAITING)
    else:
        assert state_of(store, failed) is State.COMPLETED
        assert state_of(store, then) in (State.RUNNABLE, State.COMPLETED)
