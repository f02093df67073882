from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

import pytest

from tests.unit.values import a_stored_task
from windlass.core.breaker import Breaker, BreakerState, advance, force, record
from windlass.core.lifecycle import State
from windlass.core.task import Rules, Task, TaskId
from windlass.core.why import Gate, Prerequisite, Serving, Why, gates

ENDED = TaskId(UUID(int=7))
SECOND = 1_000_000
NOON = 1_794_830_400 * SECOND
OPEN = record(Breaker(), NOON, attempts=10, errors=10, error="TimeoutError")

PAYS = a_stored_task(state=State.RUNNABLE, rules=Rules(downstream="payments"))


def gates_of(task: Task, breakers: Mapping[str, Breaker]) -> dict[str, Gate]:
    found = gates(task, queue=None, prerequisites=(), handlers={"work"}, serving=[Serving("node-1")], breakers=breakers)
    return {gate.name: gate for gate in found}


def test_the_downstream_stands_between_the_queue_and_the_handler() -> None:
    assert [*gates_of(PAYS, {})] == ["prerequisites", "due", "queue", "downstream", "handler", "node", "turn"]


def test_a_task_without_a_downstream_does_not_meet_that_gate() -> None:
    assert "downstream" not in gates_of(a_stored_task(state=State.RUNNABLE), {"payments": OPEN})


@pytest.mark.parametrize(
    "breakers",
    [
        {},
        {"mail": OPEN},
        {"payments": Breaker()},
        {"payments": force(OPEN, NOON, BreakerState.CLOSED, by="ann")},
    ],
)
def test_the_gate_is_open_unless_its_own_breaker_says_otherwise(breakers: Mapping[str, Breaker]) -> None:
    assert gates_of(PAYS, breakers)["downstream"].open


def test_an_open_breaker_says_since_when_until_when_why_and_what_would_help() -> None:
    gate = gates_of(PAYS, {"payments": OPEN})["downstream"]

    assert gate == Gate(
        name="downstream",
        open=False,
        text="payments is open since 12:00:00 UTC until 12:00:30 UTC: 10 attempts in a row failed, "
        "most recently with TimeoutError; then it lets a few probes run",
        fix="windlass breaker close payments",
    )


def test_a_half_open_breaker_holds_tasks_too() -> None:
    gate = gates_of(PAYS, {"payments": advance(OPEN, NOON + 60 * SECOND)})["downstream"]

    assert not gate.open
    assert gate.text.startswith("payments is half-open since 12:00:30 UTC")
    assert gate.text.endswith("; only a few probes may run")


def test_it_is_the_answer_when_nothing_before_it_is_closed() -> None:
    found = gates_of(PAYS, {"payments": force(Breaker(), NOON, BreakerState.OPEN, by="ann", why="maintenance")})
    why = Why(task=PAYS, gates=tuple(found.values()))

    assert why.closed == found["downstream"]
    line = '  ● downstream: payments is held open by ann since 12:00:00 UTC until it is closed by hand: "maintenance"'
    assert line in (str(why))


@pytest.mark.parametrize(
    ("resolved", "text", "fix"),
    [
        (True, "the workflow is not sealed", "seal the workflow"),
        (False, f"{ENDED} ended, which is not processed yet", "keep a node running"),
    ],
)
def test_an_unsealed_workflow_and_an_unprocessed_end_have_different_texts(resolved: bool, text: str, fix: str) -> None:
    waiting = a_stored_task(state=State.WAITING, waiting=1)
    ended = Prerequisite(ENDED, State.COMPLETED, resolved)

    gate = gates(waiting, queue=None, prerequisites=[ended], handlers={"work"}, serving=[])[0]

    assert (gate.open, gate.text) == (False, text)
    assert gate.fix is not None
    assert gate.fix.startswith(fix)


DUE = a_stored_task(state=State.SCHEDULED, due=NOON)


@pytest.mark.parametrize(
    ("serving", "handlers", "gate", "text"),
    [
        ([], {"work"}, "node", "no node is alive"),
        ([Serving("n", handlers=frozenset({"other"}))], {"work"}, "node", "no live node that serves the queue"),
        ([Serving("n", queues=frozenset({"other"}))], {"work"}, "node", "no live node serves the queue"),
        ([Serving("n")], set[str](), "handler", "no node has ever registered the handler work"),
        ([Serving("n")], {"work"}, "sweep", "the next sweep of a node makes it runnable"),
    ],
)
def test_a_task_whose_due_time_has_passed_waits_for_something_else(
    serving: list[Serving], handlers: set[str], gate: str, text: str
) -> None:
    for task in (DUE, a_stored_task(state=State.RETRYING, due=NOON)):
        found = gates(task, queue=None, prerequisites=(), handlers=handlers, serving=serving, now=NOON)

        closed = Why(task=task, gates=found).closed
        assert closed is not None
        assert (closed.name, text in closed.text) == (gate, True), closed


def test_a_label_that_no_node_has_is_named() -> None:
    task = a_stored_task(state=State.SCHEDULED, due=NOON, rules=Rules(requires=("gpu",)))
    serving = [Serving("n", tags=frozenset())]

    closed = Why(
        task=task, gates=gates(task, queue=None, prerequisites=(), handlers={"work"}, serving=serving, now=NOON)
    ).closed

    assert closed is not None
    assert "gpu" in closed.text
    assert closed.fix is not None
    assert "--tag gpu" in closed.fix


def test_a_task_that_is_due_later_waits_for_its_time() -> None:
    found = gates(DUE, queue=None, prerequisites=(), handlers=set(), serving=[], now=NOON - 1)

    closed = Why(task=DUE, gates=found).closed
    assert closed is not None
    assert closed.name == "due"
