"""Races between a submit and the opening of its workflow for forward references."""

from __future__ import annotations

import pytest

from tests.mutants.laboratory import COMMIT, Background, Gate, Laboratory
from tests.support.builders import (
    HOUR,
    MINUTE,
    a_task,
    claim_one,
    complete,
    state_of,
    states_of,
    submit_one,
    sweep_until_quiet,
)
from windlass.core.lifecycle import State
from windlass.core.task import TaskId
from windlass.stores.protocol import Receipt
from windlass.stores.sql.store import SqlStore

POSTGRES = pytest.mark.parametrize("dialect", ["postgres"])


@POSTGRES
def test_a_forward_reference_to_a_task_that_is_just_being_submitted_is_filled(laboratory: Laboratory) -> None:
    store = laboratory.open()
    child = refer_to_a_task_that_is_being_submitted(laboratory, store)

    laboratory.clock.advance(HOUR)
    swept = sweep_until_quiet(store)

    assert (swept.missing, swept.healed) == (0, 0)
    assert state_of(store, child) is State.WAITING
    complete(store, claim_one(store))
    assert state_of(store, child) is State.RUNNABLE
    assert laboratory.check() == []


@POSTGRES
def test_a_forward_reference_is_not_ended_while_its_task_is_locked(laboratory: Laboratory) -> None:
    store = laboratory.open()
    child = refer_to_a_task_that_is_being_submitted(laboratory, store)
    bystander = laboratory.connect()
    bystander.execute("SELECT id FROM windlass.task WHERE key = 'parent' FOR UPDATE").fetchall()

    laboratory.clock.advance(HOUR)
    assert store.sweep().missing == 0
    bystander.rollback()
    sweep_until_quiet(store)

    assert state_of(store, child) is State.WAITING
    complete(store, claim_one(store))
    assert state_of(store, child) is State.RUNNABLE


@POSTGRES
def test_a_forward_reference_to_a_task_that_completes_before_it_is_committed_is_resolved_by_the_next_sweep(
    laboratory: Laboratory,
) -> None:
    store = laboratory.open()
    gate, child = refer_to_a_task_that_completes_first(laboratory, store)

    gate.open()
    [receipt] = child.result()
    swept = store.sweep()

    assert (swept.resolved, swept.healed) == (1, 0)
    assert state_of(store, receipt.id) is State.RUNNABLE
    assert laboratory.check() == []


@POSTGRES
def test_a_forward_reference_that_is_committed_in_the_midst_of_a_sweep_is_no_lost_wake_up(
    laboratory: Laboratory,
) -> None:
    store = laboratory.open()
    gate, child = refer_to_a_task_that_completes_first(laboratory, store)
    heal = store._heal

    def commit_first(now: int) -> int:
        gate.open()
        child.result()
        return heal(now)

    laboratory.patch(store, "_heal", commit_first)
    assert store.sweep().healed == 0
    laboratory.patch(store, "_heal", heal)
    swept = store.sweep()

    assert (swept.resolved, swept.healed) == (1, 0)
    assert state_of(store, child.result()[0].id) is State.RUNNABLE


@POSTGRES
def test_a_cycle_through_a_forward_reference_to_a_task_that_is_being_submitted_is_failed(
    laboratory: Laboratory,
) -> None:
    slow, store = laboratory.open(), laboratory.open()
    gate = laboratory.gate(slow, "parents")
    new = a_task(key="parent", workflow="w", prerequisites=["child"])
    parent = laboratory.in_background(lambda: slow.submit([new]))
    gate.await_somebody()
    store.open_workflow("w", forward=HOUR)
    child = submit_one(store, key="child", workflow="w", prerequisites=["parent"])
    gate.open()
    [receipt] = parent.result()

    swept = sweep_until_quiet(store)

    assert (swept.cycles, swept.healed) == (2, 0)
    assert states_of(store, [receipt.id, child]) == [State.FAILED, State.FAILED]


@POSTGRES
def test_a_workflow_is_sealed_though_a_task_that_was_being_submitted_filled_no_forward_reference(
    laboratory: Laboratory,
) -> None:
    store = laboratory.open()
    child = refer_to_a_task_that_is_being_submitted(laboratory, store)

    store.seal_workflow("w")
    complete(store, claim_one(store))

    assert state_of(store, child) is State.RUNNABLE
    assert laboratory.check() == []


def refer_to_a_task_that_is_being_submitted(laboratory: Laboratory, store: SqlStore) -> TaskId:
    """The submit of `parent` begins before its workflow is opened, and ends after `child` refers to it."""
    slow = laboratory.open()
    gate = laboratory.gate(slow, "submit")
    background = laboratory.in_background(lambda: slow.submit([a_task(key="parent", workflow="w")]))
    gate.await_somebody()
    store.open_workflow("w", forward=MINUTE)
    child = submit_one(store, key="child", queue="children", workflow="w", prerequisites=["parent"])
    gate.open()
    background.result()
    return child


def refer_to_a_task_that_completes_first(
    laboratory: Laboratory, store: SqlStore
) -> tuple[Gate, Background[list[Receipt]]]:
    """The submit of `child` cannot see `parent`, which is committed and completed before the gate is opened."""
    slow, referring = laboratory.open(), laboratory.open()
    before_the_insert, before_the_commit = laboratory.gate(slow, "submit"), laboratory.gate(referring, COMMIT)
    parent = laboratory.in_background(lambda: slow.submit([a_task(key="parent", workflow="w")]))
    before_the_insert.await_somebody()
    store.open_workflow("w", forward=HOUR)
    new = a_task(key="child", queue="children", workflow="w", prerequisites=["parent"])
    child = laboratory.in_background(lambda: referring.submit([new]))
    before_the_commit.await_somebody()
    before_the_insert.open()
    parent.result()
    complete(store, claim_one(store))
    laboratory.clock.advance(MINUTE)
    return before_the_commit, child
