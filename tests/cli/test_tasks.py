"""`windlass tasks` and `windlass why`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.cli.conftest import Windlass, lines, read
from tests.support.builders import (
    GAVE_UP,
    MINUTE,
    a_session,
    claim_one,
    complete,
    in_state,
    report,
    state_of,
    submit_one,
    task_of,
)
from windlass.cli import tasks as module
from windlass.clock import ManualClock
from windlass.core.lifecycle import State
from windlass.core.settlement import RELEASED, Settlement
from windlass.core.task import Progress
from windlass.stores.protocol import Store

UNKNOWN = "01a1e1fd-4c42-73de-a2f4-24ee3fbe7468"


def test_tasks_are_listed_with_times_and_ages(windlass: Windlass, store: Store, clock: ManualClock) -> None:
    id = submit_one(store, queue="mail", tenant="acme")
    clock.advance(3 * MINUTE)

    assert windlass("tasks", "ls").stdout.splitlines() == [
        f"{'id':36}  state       handler  queue  tenant  submitted",
        f"{id}  ▸ runnable  work     mail   acme    13:00:00 +01:00 · 3 min ago",
    ]
    assert "07:00:00 -05:00 · 3 min ago" in windlass("tasks", "ls", "--tz", "America/New_York").stdout


def test_a_filter_includes_and_excludes(windlass: Windlass, store: Store) -> None:
    submit_one(store, queue="mail", tenant="acme", args={"order": {"id": 42}})
    submit_one(store, queue="mail", tenant="demo")
    submit_one(store, queue="bulk")

    def tenants(*words: str) -> list[str]:
        return sorted(task["tenant"] for task in lines(windlass("tasks", "ls", "--jsonl", *words)))

    assert tenants("queue:mail") == ["acme", "demo"]
    assert tenants("queue:mail", "-tenant:demo") == ["acme"]
    assert tenants("queue:mail -tenant:demo") == ["acme"]
    assert tenants("args.order.id:42") == ["acme"]
    assert tenants("-handler:work") == []
    assert tenants("-key:x", "--queue", "bulk") == ["default"]


def test_an_invalid_filter_is_refused(windlass: Windlass) -> None:
    result = windlass("tasks", "ls", "stat:failed")

    assert (result.exit_code, "did you mean state?" in result.stderr) == (2, True), result.output


def test_a_list_that_is_cut_is_noted(windlass: Windlass, store: Store) -> None:
    for _ in range(3):
        submit_one(store)

    result = windlass("tasks", "ls", "--limit", "2")

    assert result.stdout.count("\n") == 3
    assert "Only the newest 2 tasks are shown" in result.stderr
    assert windlass("tasks", "ls", "--limit", "3").stderr == ""


def test_a_task_is_shown_with_its_attempts_and_output(windlass: Windlass, store: Store) -> None:
    id = submit_one(store, args={"to": "ann", "password": "hunter2"}, key="k", priority=3)
    claim = claim_one(store)
    store.settle([(claim.lease, Settlement(state=State.COMPLETED, result='{"sent": 1}', log="hello\n"))])

    output = windlass("tasks", "show", str(id)).stdout
    document = read(windlass("tasks", "show", str(id), "--json"))

    assert output.splitlines()[0] == f"✓ completed  work  {id}"
    assert "  priority   3\n" in output
    assert '  result     {"sent":1}\n' in output
    assert "    hello\n" in output
    assert "hunter2" not in output
    assert document["logs"][0]["text"] == "hello\n"
    assert document["args"]["password"] == "[redacted]"


def test_eight_digits_of_an_id_are_enough_to_read_a_task(windlass: Windlass, store: Store) -> None:
    first, second = (str(submit_one(store, key=key)) for key in ("a", "b"))

    by_head, by_tail = windlass("tasks", "show", first[:8]), windlass("tasks", "show", second[-9:].upper())

    assert (first in by_head.stdout, second in by_tail.stdout) == (True, True)
    assert windlass("why", first[-12:]).exit_code == 4
    assert windlass("tasks", "show", "00000000").exit_code == 4
    assert windlass("tasks", "show", first[:7]).exit_code == 2
    assert windlass("tasks", "cancel", first[:8]).exit_code == 2


def test_digits_that_match_several_tasks_are_refused(windlass: Windlass, store: Store) -> None:
    """The ids of tasks without a key that are submitted in one minute have the same first digits."""
    first, second = (str(submit_one(store)) for _ in range(2))

    result = windlass("tasks", "show", first[:8])

    assert (result.exit_code, first in result.stderr, second in result.stderr) == (2, True, True)


def test_the_error_of_an_attempt_is_shown(windlass: Windlass, store: Store) -> None:
    id = in_state(store, State.FAILED)

    output = windlass("tasks", "show", str(id)).stdout

    assert "  attempt 1: failed after 0 s, 13:00:00 +01:00 · now\n    ValueError: oops\n" in output


def test_follow_prints_output_and_progress_until_the_task_ends(
    windlass: Windlass, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = submit_one(store)
    claim = claim_one(store)

    def first() -> None:
        store.progress([Progress(lease=claim.lease, share=0.4, message="page 2")])

    def then() -> None:
        store.settle([(claim.lease, Settlement(state=State.COMPLETED, log="done\n"))])

    steps: list[Callable[[], None]] = [first, lambda: None, then]
    monkeypatch.setattr(module, "sleep", lambda _: steps.pop(0)())
    result = windlass("tasks", "logs", str(id), "-f")

    assert result.stdout == f"  output 1 (fence {claim.lease.fence}):\n    done\n"
    assert result.stderr == "40% page 2\n"
    assert read(windlass("tasks", "logs", str(id), "--json")) == [
        {"fence": claim.lease.fence, "text": "done\n", "running": False}
    ]
    assert windlass("tasks", "logs", str(id), "--jsonl").stdout.count("\n") == 1


def test_follow_prints_each_line_of_a_running_attempt_once(
    windlass: Windlass, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = submit_one(store)
    lost = claim_one(store).lease
    store.record_output([(lost, "seen last")])
    store.settle([(lost, RELEASED)])
    claim = claim_one(store)
    fence = claim.lease.fence
    running = f"  output 2 (fence {fence}, still running):\n"
    shown: list[str] = []

    def show() -> None:
        shown.append(windlass("tasks", "logs", str(id)).stdout)

    steps: list[Callable[[], object]] = [
        lambda: store.record_output([(claim.lease, "one\nt")]),
        show,
        lambda: store.record_output([(claim.lease, "one\ntwo\n")]),
        lambda: store.settle([(claim.lease, Settlement(state=State.COMPLETED, log="one\ntwo\nthree"))]),
    ]
    monkeypatch.setattr(module, "sleep", lambda _: steps.pop(0)())
    followed = windlass("tasks", "logs", str(id), "-f").stdout

    first = f"  output 1 (fence {lost.fence}):\n    seen last\n"
    assert shown == [f"{first}{running}    one\n    t\n"]
    assert followed == f"{first}{running}    one\n    two\n    three\n"


def test_follow_as_json_lines_prints_an_output_again_when_it_has_changed(
    windlass: Windlass, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = submit_one(store)
    lease = claim_one(store).lease
    steps: list[Callable[[], object]] = [
        lambda: store.record_output([(lease, "one\n")]),
        lambda: None,
        lambda: store.settle([(lease, Settlement(state=State.COMPLETED, log="one\ntwo\n"))]),
    ]
    monkeypatch.setattr(module, "sleep", lambda _: steps.pop(0)())

    printed = lines(windlass("tasks", "logs", str(id), "-f", "--jsonl"))

    assert printed == [
        {"fence": lease.fence, "text": "one\n", "running": True},
        {"fence": lease.fence, "text": "one\ntwo\n", "running": False},
    ]


@pytest.mark.parametrize(("state", "status"), [(State.COMPLETED, 0), (State.FAILED, 1), (State.CANCELLED, 1)])
def test_the_exit_status_of_wait_is_that_of_the_task(
    windlass: Windlass, store: Store, state: State, status: int
) -> None:
    id = in_state(store, state)

    result = windlass("tasks", "wait", str(id))

    assert (result.exit_code, state.value in result.stdout) == (status, True)


def test_wait_ends_after_the_timeout(windlass: Windlass, store: Store) -> None:
    id = submit_one(store)

    assert windlass("tasks", "wait", str(id), "--wait-timeout", "0.05s").exit_code == 7


def test_an_unfinished_task_is_changed(windlass: Windlass, store: Store) -> None:
    id = submit_one(store, deadline=MINUTE)

    result = windlass(
        "tasks", "edit", str(id)[-8:], "--priority", "7", "--deadline", "none", "--at", "5m", "--by", "ann"
    )
    task = task_of(store, id)

    assert (result.exit_code, task.priority, task.deadline, task.state) == (0, 7, None, State.SCHEDULED)
    assert task.due - task.submitted == 300_000_000
    assert "due        13:05:00 +01:00 · in 5 min" in result.stdout
    assert [entry.by for entry in store.audit(f"task/{id}")] == ["ann"]


def test_an_ended_task_cannot_be_changed(windlass: Windlass, store: Store) -> None:
    id = in_state(store, State.COMPLETED)

    assert windlass("tasks", "edit", str(id), "--priority", "1").exit_code == 5


@pytest.mark.parametrize(
    ("words", "status", "named"),
    [
        (["edit", UNKNOWN], 2, "Nothing to change"),
        (["edit", UNKNOWN, "--priority", "1"], 4, UNKNOWN),
        (["edit", UNKNOWN, "--at", "none"], 2, "at='none'"),
        (["wait"], 2, "IDS"),
        (["wait", UNKNOWN], 4, UNKNOWN),
        (["logs", "x"], 2, "id='x'"),
        (["cancel", "x"], 2, "id='x'"),
        (["purge"], 2, "--queue"),
        (["cancel", UNKNOWN, "--queue", "a"], 2, "not both"),
        (["ls", "--tz", "Mars"], 2, "tz='Mars'"),
    ],
)
def test_bad_input_is_refused_naming_the_field(windlass: Windlass, words: list[str], status: int, named: str) -> None:
    result = windlass("tasks", *words)

    assert (result.exit_code, named in result.stderr) == (status, True), result.output


def test_the_exit_status_of_why_shows_whether_a_person_must_act(windlass: Windlass, store: Store) -> None:
    """4: only a person can help. 3: the task waits. 0: it runs or did."""
    mail = str(submit_one(store, handler="mail", queue="mail"))
    unknown = str(submit_one(store, handler="nobody"))
    parent = submit_one(store, handler="mail", key="parent", queue="mail")
    waiting = str(submit_one(store, handler="mail", prerequisites=[parent]))
    scheduled = str(submit_one(store, handler="mail", delay=timedelta(hours=1)))

    def status(id: str) -> int:
        return windlass("why", id).exit_code

    assert status(mail) == 4  # No node is running.
    session = a_session(store)
    assert [status(id) for id in (mail, unknown, waiting, scheduled)] == [0, 4, 3, 3]
    windlass("queues", "pause", "mail")
    assert status(mail) == 4
    windlass("queues", "resume", "mail")
    claim = claim_one(store, session, "mail")
    assert status(mail) == 0
    complete(store, claim)
    assert status(mail) == 0
    other = claim_one(store, session, "mail")
    report(store, other, GAVE_UP)
    assert [status(str(other.id)), status(waiting)] == [4, 4]
    assert state_of(store, parent) is State.FAILED
