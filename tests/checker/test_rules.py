"""Each rule finds its violation in a recording that was made for it, and nothing in one without."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.checker.__main__ import main
from tests.checker.records import (
    AnyRecord,
    AttemptRow,
    Bounds,
    Choice,
    Effect,
    End,
    Fault,
    Invoke,
    Lost,
    Recording,
    Renewal,
    SessionRow,
    TaskRow,
    Transition,
    write,
)
from tests.checker.report import check
from tests.checker.rules import RULES

A, B = "task-a", "task-b"


def task(id: str = A, **fields: Any) -> TaskRow:
    defaults = {"tenant": "acme", "queue": "default", "handler": "work", "state": "completed", "submitted": 0.5}
    return TaskRow(**{"id": id, "finished": 3.0, "fence": 11, "session": "s1", "attempts": 1, **defaults, **fields})


def attempt(id: str = A, **fields: Any) -> AttemptRow:
    defaults = {"fence": 11, "session": "s1", "started": 1.0, "ended": 3.0, "state": "completed"}
    return AttemptRow(task=id, **{**defaults, **fields})


def effect(id: str = A, **fields: Any) -> Effect:
    return Effect(task=id, **{"fence": 11, "process": "n1/7", "start": 1.5, "end": 2.5, **fields})


def changes(id: str, *steps: tuple[float, str, str], **fields: Any) -> list[Transition]:
    return [
        Transition(
            at=at,
            task=id,
            before=before,
            after=after,
            **{"transaction": number, "fence": 11 if at >= 1.0 else 0, "session": "s1" if at >= 1.0 else "", **fields},
        )
        for number, (at, before, after) in enumerate(steps)
    ]


def call(
    name: str, what: str, *tasks: str, status: Any = "ok", at: float = 0.4, took: float = 0.2, **more: Any
) -> list[AnyRecord]:
    tenant, answer = more.pop("tenant", "acme"), more.pop("answer", ())
    return [
        Invoke(call=name, process="p", what=what, at=at, tenant=tenant, tasks=tasks, **more),
        End(call=name, status=status, at=at + took, tasks=answer),
    ]


def good() -> list[AnyRecord]:
    """A task that was submitted, ran once and completed, and one that waited for it."""
    return [
        *call("c1", "submit", A, B, answer=(A, B)),
        task(A),
        task(B, prerequisites=(A,), submitted=0.5, finished=5.0),
        *changes(A, (0.5, "", "runnable"), (1.0, "runnable", "leased"), (3.0, "leased", "completed")),
        *(
            replaced(change, transaction=0 if not change.before else change.transaction)
            for change in changes(
                B,
                (0.5, "", "waiting"),
                (3.0, "waiting", "runnable"),
                (3.5, "runnable", "leased"),
                (5.0, "leased", "completed"),
            )
        ),
        attempt(A),
        attempt(B, started=3.5, ended=5.0),
        effect(A),
        effect(B, start=4.0, end=4.5),
        SessionRow(id="s1", node="n1"),
        SessionRow(id="s2", node="n2"),
        Renewal(session="s1", at=1.0, until=16.0),
        Choice(at=1.0, queue="default", taken=(3, 2), left=(2, 1)),
    ]


def replaced(record: Any, **fields: Any) -> Any:
    for name, value in fields.items():
        setattr(record, name, value)
    return record


def change(kind: type, id: str = "", **fields: Any) -> Callable[[list[Any]], list[Any]]:
    """Return the good recording with fields of one kind of record changed."""

    def apply(records: list[Any]) -> list[Any]:
        chosen = [
            one
            for one in records
            if isinstance(one, kind) and id in (getattr(one, "task", ""), getattr(one, "id", ""), "")
        ]
        assert chosen, "the planted violation no longer finds its place"
        replaced(chosen[-1], **fields)
        return records

    return apply


def add(*more: AnyRecord) -> Callable[[list[Any]], list[Any]]:
    """Return the good recording with more records."""
    return lambda records: [*records, *more]


def drop(kind: type, id: str) -> Callable[[list[Any]], list[Any]]:
    """Return the good recording without the records of one kind about a task."""
    return lambda records: [
        one
        for one in records
        if not (isinstance(one, kind) and id in (getattr(one, "task", ""), getattr(one, "id", "")))
    ]


def both(*plans: Callable[[list[Any]], list[Any]]) -> Callable[[list[Any]], list[Any]]:
    def apply(records: list[Any]) -> list[Any]:
        for plan in plans:
            records = plan(records)
        return records

    return apply


ENDED = {"state": "failed", "reason": "ValueError"}
PLANTED = [
    ("R1", "an acknowledged task is gone", drop(TaskRow, B)),
    ("R1", "a task never ends", change(TaskRow, B, state="leased")),
    ("R1", "a submit of unknown outcome is there in part", add(*call("c2", "submit", A, "task-c", status="unknown"))),
    ("R1", "a refused submit is there", both(add(*call("c2", "submit", "task-c", status="fail")), add(task("task-c")))),
    ("R1", "a task that nobody submitted", add(task("task-c"))),
    (
        "R2",
        "two sessions have the lease",
        add(*changes("c", (1.0, "runnable", "leased")), *changes("c", (2.0, "leased", "leased"), session="s2")),
    ),
    ("R2", "two attempts overlap", add(attempt(A, fence=12, started=2.0, ended=4.0, state="retrying"))),
    ("R3", "a fence does not grow", add(*changes(A, (4.0, "runnable", "leased")))),
    ("R3", "two attempts have one fence", add(attempt(A, started=3.0, ended=4.0, state="retrying"))),
    ("R3", "an attempt is newer than its task", add(attempt(A, fence=99, started=3.0, ended=4.0, state="retrying"))),
    ("R3", "two processes ran under one fence", add(effect(A, process="n2/9", start=1.6))),
    ("R4", "a task ends twice", add(*changes(A, (4.0, "runnable", "failed")))),
    ("R4", "two attempts complete a task", add(attempt(A, fence=12, started=3.0, ended=4.0))),
    ("R5", "a completed task never ran", drop(Effect, A)),
    ("R5", "a completed task did not run to its end", change(Effect, A, end=None)),
    (
        "R5",
        "a task with at_most_once starts twice",
        both(change(TaskRow, A, at_most_once=True), add(effect(A, fence=9))),
    ),
    ("R6", "a task starts before its prerequisite has ended", change(Effect, B, start=2.0)),
    ("R6", "a task starts after a failure", both(change(Transition, A, after="failed"), change(TaskRow, A, **ENDED))),
    ("R7", "a task becomes ready twice", add(*changes(B, (3.2, "waiting", "runnable")))),
    ("R8", "a wake-up is lost", change(TaskRow, B, state="waiting", finished=None)),
    (
        "R9",
        "a graph in two transactions",
        add(*changes("task-c", (0.5, "", "runnable"), transaction=9), *call("c2", "submit", A, "task-c")),
    ),
    ("R10", "a failure does not spread", change(TaskRow, A, **ENDED)),
    ("R11", "a lease after the cancel", add(*call("c2", "cancel", B, at=3.1))),
    (
        "R11",
        "a start long after the cancel",
        both(add(*call("c2", "cancel", B, at=0.7)), change(Effect, B, start=90.0, end=91.0), drop(Transition, B)),
    ),
    ("R12", "a lease after the expiry", change(TaskRow, B, expires=3.4)),
    (
        "R12",
        "a start long after the expiry",
        both(change(TaskRow, B, expires=3.6), change(Effect, B, start=90.0, end=91.0)),
    ),
    ("R13", "a higher priority is passed over", change(Choice, taken=(3, 0), left=(1,))),
    ("R14", "too many attempts", change(TaskRow, A, attempts=2)),
    ("R14", "an attempt without a record", drop(AttemptRow, A)),
    ("R14", "a delay out of range", add(*changes("task-c", (3.0, "leased", "retrying"), due=99.0, retry=(1.0, 2.0)))),
    ("R15", "a dead letter without a reason", change(TaskRow, A, state="failed")),
    ("R15", "a generation that nobody opened", change(TaskRow, A, generation=1)),
    (
        "R16",
        "a cron fires twice",
        add(*(task(f"t{n}", key=f"cron:tick:2027-01-15T08:00:02+00:00#{n}") for n in range(2))),
    ),
    ("R16", "a cron fires too early", add(task("t", key="cron:tick:2027-01-15T08:00:02+00:00"))),
    (
        "R17",
        "a drained node, of which only its sessions are known, loses a task",
        both(
            lambda records: [one for one in records if not isinstance(one, Transition | Renewal)],
            add(*call("c2", "drain", node="n1", sessions=("s1",), at=4.0)),
            change(AttemptRow, B, error="NodeLost"),
        ),
    ),
    (
        "R17",
        "a drained node keeps a lease",
        both(add(*call("c2", "drain", node="n1", at=4.0)), change(TaskRow, B, state="leased")),
    ),
    (
        "R17",
        "a drained node loses a task",
        both(add(*call("c2", "drain", node="n1", at=4.0)), change(AttemptRow, B, error="NodeLost")),
    ),
    (
        "R18",
        "a slow recovery",
        both(
            add(Fault(kind="kill", node="n1", start=1.1), Bounds(session_ttl=0.5, recovery=0.5)),
            change(TaskRow, A, state="completed"),
        ),
    ),
    ("R18", "a session taken away too early", add(Lost(session="s1", at=9.0))),
    ("R19", "poison that does not fail", change(TaskRow, A, crashes=3)),
    (
        "R19",
        "a crash charged to what had not started",
        both(change(AttemptRow, A, error="WorkerDied", state="runnable"), drop(Effect, A)),
    ),
    ("R20", "an answer with a task of another tenant", add(*call("c2", "read", tenant="zoo", answer=(A,)))),
    ("R20", "a cancel of a task of another tenant", add(*call("c2", "cancel", A, tenant="zoo", at=9.0))),
    (
        "R20",
        "a cancel that was refused and done",
        both(add(*call("c2", "cancel", A, status="fail", at=2.0)), change(TaskRow, A, state="cancelled")),
    ),
    ("R20", "a cancel that nobody asked for", change(TaskRow, A, state="cancelled")),
    ("R21", "a call that hangs", add(*call("c2", "read", took=100.0))),
    ("R22", "a change that does not follow", change(Transition, B, before="scheduled")),
    ("R22", "a task that is not what its record says", change(TaskRow, A, state="failed", reason="?")),
    ("R22", "an attempt that was never granted", change(AttemptRow, A, fence=10)),
    ("R23", "a node fails what it does not know", change(AttemptRow, A, error="UnknownHandler")),
]


def test_a_good_recording_breaks_no_rule() -> None:
    report = check(Recording(good()))

    assert report.findings == []
    assert (report.tasks, report.acknowledged, report.lost, report.double_outcomes) == (2, 2, 0, 0)
    assert (report.runs, report.duplicate_runs) == (2, 0)


@pytest.mark.parametrize(
    ("rule", "plant"), [pytest.param(rule, plant, id=f"{rule} {what}") for rule, what, plant in PLANTED]
)
def test_the_rule_finds(rule: str, plant: Callable[[list[Any]], list[Any]]) -> None:
    recording = Recording(plant(good()))

    assert [*RULES[rule](recording)]


def test_every_rule_has_a_planted_violation() -> None:
    assert {rule for rule, _, _ in PLANTED} == {*RULES} == {f"R{number}" for number in range(1, 24)}


def test_what_is_unknown_is_excused() -> None:
    """A submit without an answer may be there or not; a kill is excused while nobody can sweep."""
    unanswered = Invoke(call="c2", process="p", what="submit", at=1.0, tenant="acme", tasks=("task-c", "task-d"))
    kill = [Fault(kind="kill", node="n1", start=1.1), Fault(kind="outage", start=1.0, end=9.0)]
    bounds = Bounds(session_ttl=0.5, recovery=0.5)

    assert check(Recording([*good(), unanswered])).findings == []
    assert (
        check(Recording([*good(), unanswered, task("task-c", attempts=0), task("task-d", attempts=0)])).findings == []
    )
    assert check(Recording([*good(), *kill, bounds])).findings == []


def a_return(**fields: Any) -> list[AnyRecord]:
    """A completed task that was purged, and created again by an earlier submit of unknown outcome. It runs again."""
    return [
        *call("c1", "submit", A, status="unknown", at=0.1),
        *call("c2", "submit", A),
        *call("c3", "purge", A, at=4.0),
        task(A, **{"submitted": 5.0, "fence": 501, "finished": 8.0, **fields}),
        *changes(A, (0.5, "", "runnable"), (1.0, "runnable", "leased"), (3.0, "leased", "completed")),
        *changes(A, (5.0, "", "runnable"), fence=0, session=""),
        *changes(A, (6.0, "runnable", "leased"), (8.0, "leased", "completed"), fence=501),
        attempt(A, fence=501, started=6.0, ended=8.0),
        effect(A),
        effect(A, fence=501, start=6.5, end=7.5),
    ]


def test_a_task_that_was_purged_and_submitted_again_is_a_new_task() -> None:
    report = check(Recording(a_return(at_most_once=True)))

    assert (report.findings, report.runs, report.duplicate_runs) == ([], 2, 0)


@pytest.mark.parametrize(("fence", "start"), [(11, 1.7), (501, 6.6)])
def test_no_task_of_a_key_that_was_used_again_starts_twice_with_at_most_once(fence: int, start: float) -> None:
    again = effect(A, fence=fence, process="n2/3", start=start)

    assert len([*RULES["R5"](Recording([*a_return(at_most_once=True), again]))]) == 1


def test_a_retry_allows_one_more_start_with_at_most_once() -> None:
    first = [*changes(A, (0.5, "", "runnable"), (1.0, "runnable", "leased"), (2.0, "leased", "failed"))]
    again = [
        *changes(A, (3.0, "failed", "runnable"), generation=1),
        *changes(A, (4.0, "runnable", "leased"), (5.0, "leased", "completed"), fence=12, generation=1),
    ]
    row = task(A, at_most_once=True, generation=1, fence=12)
    once = [effect(A), effect(A, fence=12, start=4.1)]

    assert [*RULES["R5"](Recording([row, *first, *again, *once]))] == []
    assert [*RULES["R5"](Recording([row, *once]))] == []
    assert [*RULES["R5"](Recording([row, *first, *again, effect(A), effect(A, process="n2/3")]))]
    assert [*RULES["R5"](Recording([row, *once, effect(A, fence=13)]))]


@pytest.mark.parametrize(
    ("cancelled", "expected"),
    [
        pytest.param(0.7, ["leased at 1.0", "started 0.600"], id="the first task"),
        pytest.param(4.5, [], id="neither"),
        pytest.param(5.5, ["leased at 6.0", "started 0.800"], id="the second task"),
    ],
)
def test_a_cancel_does_not_bind_a_task_that_was_created_later(cancelled: float, expected: list[str]) -> None:
    cancel = call("c4", "cancel", A, at=cancelled)

    findings = [*RULES["R11"](Recording([*a_return(), *cancel, Bounds(notice=0.5)]))]

    assert len(findings) == len(expected)
    assert all(part in finding for finding, part in zip(findings, expected, strict=True))


def test_the_outcome_of_a_prerequisite_does_not_bind_runs_before_a_purge() -> None:
    """The first task ran because an operator retried it. The one that came back was cancelled with its prerequisite."""
    records = [
        task(B, state="cancelled", finished=0.8),
        *changes(B, (0.5, "", "waiting"), (0.8, "waiting", "cancelled")),
        *a_return(state="cancelled", prerequisites=(B,), fence=0, finished=5.0, attempts=0),
    ]
    back = [one for one in records if not (isinstance(one, Effect | Transition) and one.fence == 501)]
    ran_again: list[AnyRecord] = [*changes(A, (6.0, "runnable", "leased"), fence=501), effect(A, fence=501, start=6.5)]

    assert [*RULES["R6"](Recording(back))] == []
    assert [*RULES["R6"](Recording([*back, *ran_again]))]


def test_a_cancel_before_the_submit_was_answered_is_excused() -> None:
    """The task has a time of submission, but its transaction may not have been committed: nothing was cancelled."""
    late = [*call("c2", "cancel", B, at=0.55)]
    records = [one for one in good() if not (isinstance(one, Transition) and one.task == B)]
    change(Effect, B, start=90.0, end=91.0)(records)

    assert [*RULES["R11"](Recording([*records, *late]))] == []


def a_loss(ended: float, started: float = 1.0) -> list[AnyRecord]:
    """What a database shows of a task that the session s1 of n1 lost, and n2 ran again."""
    return [
        *call("c1", "submit", A),
        task(A, fence=12, losses=1, finished=90.0),
        attempt(A, started=started, ended=ended, state="runnable", error="NodeLost"),
        attempt(A, fence=12, session="s2", started=ended, ended=90.0),
        effect(A, end=None),
        effect(A, fence=12, process="n2/3", start=ended + 0.1, end=89.0),
        SessionRow(id="s1", node="n1"),
        SessionRow(id="s2", node="n2"),
        Bounds(session_ttl=5.0, recovery=2.0, call=90.0),
    ]


KILL = Fault(kind="kill", node="n1", start=2.0, end=6.0, sessions=("s1",))


@pytest.mark.parametrize(
    ("ended", "others", "is_late"),
    [
        pytest.param(8.9, [], False, id="within the session and the bound"),
        pytest.param(9.1, [], True, id="later"),
        pytest.param(21.9, [Fault(kind="outage", start=5.0, end=20.0)], False, id="just after an outage of the store"),
        pytest.param(22.1, [Fault(kind="outage", start=5.0, end=20.0)], True, id="long after that outage"),
        pytest.param(22.0, [Fault(kind="outage", start=10.0, end=20.0)], True, id="an outage that began too late"),
        pytest.param(20.0, [Fault(kind="pause", node="n3", start=1.0, end=20.0)], True, id="one of two others is away"),
        pytest.param(20.0, [Fault(kind="pause", node="n2", start=1.0, end=20.0)], False, id="nobody else is there"),
    ],
)
def test_a_fault_excuses_a_slow_recovery_only_as_long_as_nobody_could_free_the_task(
    ended: float, others: list[Fault], is_late: bool
) -> None:
    third = [SessionRow(id="s3", node="n3")] if any(one.node == "n3" for one in others) else []

    report = check(Recording([*a_loss(ended), KILL, *others, *third]))

    assert [finding.rule for finding in report.findings] == ["R18"] * is_late
    assert [round(one.seconds, 3) for one in report.recoveries] == [round(ended - 2.0, 3)]
    assert "tasks freed after a kill: 1, p50" in str(report)


def test_a_task_that_began_after_a_pause_was_not_lost_because_of_it() -> None:
    pause = Fault(kind="pause", node="n1", start=2.0, end=6.0, sessions=("s1",))

    report = check(Recording([*a_loss(60.0, started=50.0), pause]))

    assert (report.findings, report.recoveries) == ([], ())


def test_without_transitions_the_rules_use_the_store() -> None:
    """As with a real database, of which only the rows are read."""
    rows = [one for one in good() if not isinstance(one, Transition | Renewal | Choice)]

    assert check(Recording(rows)).findings == []
    early = [*rows]
    change(Effect, B, start=2.0)(early)
    assert [finding.rule for finding in check(Recording(early)).findings] == ["R6"]


def test_duplicates_are_counted_and_not_refused() -> None:
    """The first run lost its node and went on: the honest price of at-least-once."""
    records = good()
    change(TaskRow, A, fence=12, losses=1)(records)
    change(AttemptRow, A)(records)
    records = [one for one in records if not (isinstance(one, Transition) and one.task == A)]
    first = attempt(A, fence=10, session="s2", started=0.6, ended=0.9, state="runnable", error="NodeLost")

    report = check(Recording([*records, first, effect(A, fence=10, process="n2/3", start=0.7, end=2.0)]))

    assert report.findings == []
    assert (report.runs, report.duplicate_runs) == (3, 1)
    assert "3 runs of handlers, 1 of them duplicates (33.333%)" in str(report)


def test_the_command_reads_files_and_fails_on_violations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = good()
    write(tmp_path / "history.jsonl", records[:2])
    write(tmp_path / "rest.jsonl", records[2:])
    (tmp_path / "effects.jsonl").write_bytes(b'{"type":"effect","task":"x","fe')  # Its process was killed.

    assert main([str(tmp_path)]) == 0
    assert "2 tasks, 2 acknowledged, 0 lost, 0 with two outcomes" in capsys.readouterr().out

    write(tmp_path / "more.jsonl", [task("task-c")])
    assert main([str(tmp_path)]) == 1
    assert "R1: task task-c" in capsys.readouterr().out

    (tmp_path / "bad.jsonl").write_bytes(b'{"type":"nonsense"}\n')
    with pytest.raises(ValueError, match=r"bad.jsonl:1 is not a record"):
        main([str(tmp_path)])


@pytest.mark.parametrize(("ended", "is_late"), [(13.9, False), (14.1, True)])
def test_a_node_that_is_paused_in_a_transaction_holds_its_locks_until_the_database_ends_it(
    ended: float, is_late: bool
) -> None:
    pause = Fault(kind="pause", node="n1", start=2.0, end=30.0, sessions=("s1",))
    bounds = Bounds(session_ttl=5.0, recovery=2.0, transaction=10.0, call=90.0)

    report = check(Recording([*a_loss(ended), pause, bounds]))

    assert [finding.rule for finding in report.findings] == ["R18"] * is_late


def test_a_drain_of_a_node_without_a_known_session_accuses_no_later_session() -> None:
    drain = call("c2", "drain", node="n1", at=0.5)

    assert check(Recording([*a_loss(60.0, started=50.0), *drain])).findings == []


@pytest.mark.parametrize(
    ("freed", "late", "is_late"),
    [
        pytest.param(9.1, (), True, id="no renewal after the kill"),
        pytest.param(9.1, (Renewal(session="s2", at=4.0, until=9.0),), True, id="a renewal of another session"),
        pytest.param(10.9, (Renewal(session="s1", at=4.0, until=9.0),), False, id="within the bound"),
        pytest.param(11.1, (Renewal(session="s1", at=4.0, until=9.0),), True, id="later"),
        pytest.param(10.9, (Renewal(session="s1", at=11.0, until=16.0),), True, id="a renewal that came too late"),
    ],
)
def test_a_renewal_that_commits_after_the_kill_makes_the_session_last_longer(
    freed: float, late: tuple[Renewal, ...], is_late: bool
) -> None:
    records = [
        *changes(A, (0.5, "", "runnable"), (1.0, "runnable", "leased"), (freed, "leased", "runnable")),
        SessionRow(id="s1", node="n1"),
        SessionRow(id="s2", node="n2"),
        Renewal(session="s1", at=1.0, until=6.0),
        Fault(kind="kill", node="n1", start=2.0, end=3.0),
        Bounds(session_ttl=5.0, recovery=2.0),
    ]

    assert len([*RULES["R18"](Recording([*records, *late]))]) == is_late


@pytest.mark.parametrize(("session", "is_found"), [("s1", False), ("s3", True)])
def test_a_drain_does_not_answer_for_what_the_node_had_before_it_started(session: str, is_found: bool) -> None:
    """The node was drained twice. The call that closed the session of its first start was committed very late."""
    leased = 1.0 if session == "s1" else 3.5
    records = [
        task(A),
        *changes(
            A, (0.5, "", "runnable"), (leased, "runnable", "leased"), (8.0, "leased", "runnable"), session=session
        ),
        SessionRow(id="s1", node="n1"),
        SessionRow(id="s3", node="n1"),
        Renewal(session="s1", at=1.0, until=16.0),
        *call("c1", "drain", node="n1", at=2.0, status="unknown"),
        Renewal(session="s3", at=3.0, until=18.0),
        *call("c2", "drain", node="n1", at=4.0),
    ]

    assert len([*RULES["R17"](Recording(records))]) == is_found


@pytest.mark.parametrize(
    ("retried", "submitted", "status", "is_excused"),
    [
        pytest.param(A, 0.9, "unknown", True, id="a late retry of an indirect prerequisite"),
        pytest.param("task-x", 0.9, "unknown", False, id="a late retry of another task"),
        pytest.param(A, 0.6, "unknown", False, id="a late retry that knew the task and did not name it"),
        pytest.param(A, 0.9, "ok", False, id="a retry that was answered before"),
    ],
)
def test_a_late_retry_reopens_dependents_that_were_submitted_after_it_began(
    retried: str, submitted: float, status: Any, is_excused: bool
) -> None:
    c = "task-c"
    records = [
        *call("c1", "submit", A, B, at=0.1),
        *call("c2", "submit", c, at=submitted - 0.2),
        *call("c3", "retry", retried, at=0.7, took=0.1, status=status),
        *call("c4", "cancel", c, at=1.0),  # It had no effect: the task was cancelled with its prerequisite.
        task(A, generation=1, fence=0),
        task(B, prerequisites=(A,), fence=0),
        task(c, prerequisites=(B,), generation=1),
        *changes(c, (submitted, "", "cancelled"), (2.0, "cancelled", "runnable"), generation=1),
        *changes(c, (3.0, "runnable", "leased"), (4.0, "leased", "completed"), generation=1),
    ]

    findings = [finding for rule in ("R11", "R15") for finding in RULES[rule](Recording(records)) if c in finding]

    assert len(findings) == (0 if is_excused else 2)
