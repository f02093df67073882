from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.values import a_stored_task
from windlass.core.lifecycle import FINAL, MOVES, UNFINISHED, State
from windlass.core.ordering import Queue, Strategy, place
from windlass.core.task import Change
from windlass.core.task_update import update_fields
from windlass.core.times import micros
from windlass.errors import InvalidTask, NotAllowed

NOW = 10**15
SECOND = timedelta(seconds=1)
PLAIN = Queue(name="default")
times = st.none() | st.timedeltas(-SECOND, SECOND)
changes = st.fixed_dictionaries(
    {}, optional={"priority": st.integers(-9, 9), "deadline": times, "expires": times, "at": times}
)


@given(
    fields=changes,
    state=st.sampled_from(sorted(UNFINISHED)),
    strategy=st.sampled_from(Strategy),
    due=st.integers(NOW - 9, NOW + 9),
)
def test_a_change_changes_what_it_names_and_nothing_else(
    fields: dict[str, Any], state: State, strategy: Strategy, due: int
) -> None:
    queue = Queue(name="default", strategy=strategy)
    task = a_stored_task(state=state, priority=3, deadline=NOW + 5, expires=NOW + 6, due=due)

    after = update_fields(task, due, queue, Change(**fields), NOW)

    def instant(field: str, otherwise: int | None) -> int | None:
        if field not in fields:
            return otherwise
        return None if fields[field] is None else NOW + micros(fields[field])

    assert after.priority == fields.get("priority", 3)
    assert after.deadline == instant("deadline", NOW + 5)
    assert after.expires == instant("expires", NOW + 6)
    assert after.due == after.first_due == (instant("at", due) or NOW)
    assert after.place == place(queue, priority=after.priority, deadline=after.deadline, due=after.first_due)
    assert after.state is state or after.state in MOVES[state]
    if "at" not in fields:
        assert after.state is state
    if after.state is State.SCHEDULED and "at" in fields:
        assert after.due > NOW


def test_a_task_that_came_back_keeps_its_place_unless_its_time_is_changed() -> None:
    task = a_stored_task(state=State.RETRYING, due=NOW + 500)

    kept = update_fields(task, NOW - 100, PLAIN, Change(priority=1), NOW)
    moved = update_fields(task, NOW - 100, PLAIN, Change(at=SECOND), NOW)

    assert (kept.due, kept.first_due, kept.place.tie) == (NOW + 500, NOW - 100, NOW - 100)
    assert moved.place.tie == moved.first_due == moved.due == NOW + micros(SECOND)


@pytest.mark.parametrize("state", FINAL)
def test_what_has_ended_stays_as_it_is(state: State) -> None:
    with pytest.raises(NotAllowed, match=state):
        update_fields(a_stored_task(state=state), 0, PLAIN, Change(priority=1), NOW)


@pytest.mark.parametrize("change", [{"priority": 10**7}, {"priority": 0.5}, {"deadline": 7}, {"at": "now"}], ids=str)
def test_a_bad_change_is_refused_by_name(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidTask, match=next(iter(change))):
        update_fields(a_stored_task(), 0, PLAIN, Change(**change), NOW)
