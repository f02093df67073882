from __future__ import annotations

from windlass.core.lifecycle import FINAL, INITIAL_STATES, MOVES, QUEUED, UNFINISHED, State


def reachable(start: State) -> set[State]:
    """Every state that moves lead to from here."""
    seen: set[State] = set()
    front = {start}
    while front:
        seen |= front
        front = {there for here in front for there in MOVES[here]} - seen
    return seen


def test_every_state_has_an_entry_and_moves_only_to_states() -> None:
    assert set(MOVES) == set(State)
    assert {there for moves in MOVES.values() for there in moves} <= set(State)


def test_no_move_leads_nowhere() -> None:
    assert all(state not in moves for state, moves in MOVES.items())


def test_nothing_leads_out_of_completed() -> None:
    assert MOVES[State.COMPLETED] == frozenset()


def test_only_a_leased_task_or_a_wait_completes_and_only_a_leased_one_is_retried() -> None:
    into = {end: {state for state, moves in MOVES.items() if end in moves} for end in State}

    assert into[State.COMPLETED] == {State.LEASED, State.SCHEDULED}
    assert into[State.RETRYING] == {State.LEASED}


def test_only_a_runnable_task_is_leased() -> None:
    assert {state for state, moves in MOVES.items() if State.LEASED in moves} == {State.RUNNABLE}


def test_a_bad_end_leads_only_back_to_the_beginning() -> None:
    for state in State:
        if state.ended_badly:
            assert MOVES[state] == {State.RUNNABLE, State.WAITING, State.SCHEDULED}


def test_every_unfinished_task_can_be_cancelled_and_can_expire() -> None:
    for state in UNFINISHED:
        assert {State.CANCELLED, State.EXPIRED} <= MOVES[state]


def test_every_state_is_reached_and_every_unfinished_task_can_come_to_a_good_end() -> None:
    reached = {state for first in INITIAL_STATES for state in reachable(first)}

    assert reached == set(State)
    assert all(State.COMPLETED in reachable(state) for state in UNFINISHED)


def test_no_task_starts_running_or_failed() -> None:
    assert not INITIAL_STATES & {State.LEASED, State.RETRYING, State.FAILED}


def test_the_groups_part_the_states() -> None:
    assert set(FINAL) | UNFINISHED == set(State)
    assert not set(FINAL) & UNFINISHED
    assert {State.LEASED} == UNFINISHED - QUEUED
    assert {state for state in State if state.final} == set(FINAL)
    assert {state for state in State if state.ended_badly} == set(FINAL) - {State.COMPLETED}
